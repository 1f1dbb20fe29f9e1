//! `make bench-proxy`: what it adds to a request and to each event of a stream, how many requests it passes, and what
//! an open stream holds in memory. Beside the upstream itself and nginx as a plain reverse proxy, and beside mitmproxy and
//! LiteLLM where they are installed; all in one run and in turns, through the same client, over connections that are kept.
//!
//! Times are of the wall clock, from the request's first byte until the first byte of the response's body; what a proxy
//! *adds* is its percentile less that of the upstream itself. An event's delay is counted from the stamp that the upstream
//! wrote into it; of a tool's block, which is judged as a whole, the delay of its last event counts.
//! `LAZY_BENCH_REQUESTS` says how many requests are timed for each row (1000).
//!
//! ```text
//! cargo run --example bench-proxy -- target/lazy
//! ```

mod client;
mod peers;
mod upstream;
#[path = "../world.rs"]
#[expect(dead_code, reason = "the benchmarks share it, and none uses all of it")]
mod world;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;

use client::{Client, Outcome, prompt};
use peers::Peer;
use upstream::Script;
use world::{Result, mib, settled, verdict};

/// Bytes of a small and of a large request.
const SMALL: usize = 2 << 10;
const LARGE: usize = 256 << 10;
/// Connections that ask at the same time, and how often each proxy is asked for how long.
const CONNECTIONS: usize = 64;
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(2);
/// Streams that are open at the same time.
const STREAMS: usize = 200;
/// Streams whose events are timed.
const PACED: usize = 40;

/// Microseconds that a proxy may add to the first byte of a small request: median and 99th percentile.
const ADDED_GOAL: (u64, u64) = (100, 1000);
/// What lazy passes of nginx's requests, in percent.
const REQUESTS_GOAL: u64 = 50;
/// Bytes of memory for one open stream.
const STREAM_GOAL: u64 = 64 << 10;

fn main() -> Result<()> {
    let lazy = fs::canonicalize(std::env::args_os().nth(1).ok_or("usage: bench-proxy <path of lazy>")?)?;
    let count = std::env::var("LAZY_BENCH_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000).max(100);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&lazy, count))
}

async fn measure(lazy: &Path, count: usize) -> Result<()> {
    let clock = Instant::now();
    let upstream = upstream::serve(clock)?;
    let dir = tempfile::Builder::new().prefix("lazy-bench-").tempdir()?;
    let mut peers = vec![Peer::direct(upstream)];
    peers.extend(Peer::nginx(dir.path(), upstream)?);
    peers.extend(Peer::mitmproxy(dir.path(), upstream)?);
    peers.extend(Peer::litellm(dir.path(), upstream)?);
    peers.push(Peer::lazy(lazy, upstream)?);
    for (name, program) in [("nginx", "nginx"), ("mitmproxy", "mitmdump"), ("LiteLLM", "litellm")] {
        if !peers.iter().any(|peer| peer.name == name) {
            println!("{name} is not installed ({program}): nothing is measured beside it");
        }
    }

    same_bytes(&peers).await?;
    streams(&peers).await?;
    first_bytes(&peers, "first byte, 2 KiB", SMALL, count, Some(ADDED_GOAL)).await?;
    first_bytes(&peers, "first byte, 256 KiB", LARGE, count / 4, None).await?;
    events(&peers, clock).await?;
    requests(&peers).await
}

/// A stream that nothing is denied in is the same, byte for byte, through every proxy.
async fn same_bytes(peers: &[Peer]) -> Result<()> {
    let mut expected: Option<Vec<u8>> = None;
    for peer in peers.iter().filter(|peer| peer.name != "LiteLLM") {
        let body = prompt(Script::Fixed, SMALL);
        let outcome = Client::connect(peer.address, &peer.key).await?.exchange(Script::Fixed, body).await?;
        if expected.get_or_insert_with(|| outcome.body.clone()) != &outcome.body {
            return Err(format!("{} changes the bytes of a stream", peer.name).into());
        }
    }
    Ok(())
}

/// The time to the first byte, each proxy in turn.
async fn first_bytes(peers: &[Peer], what: &str, length: usize, count: usize, goal: Option<(u64, u64)>) -> Result<()> {
    let body = prompt(Script::Plain, length);
    let mut clients = Vec::new();
    for peer in peers {
        clients.push((peer, Client::connect(peer.address, &peer.key).await?, Vec::new()));
    }
    for round in 0..count + count / 10 {
        for (_, client, times) in &mut clients {
            let outcome = client.exchange(Script::Plain, body.clone()).await?;
            if round >= count / 10 {
                times.push(micros(outcome.first));
            }
        }
    }
    println!("\n{what:<24} {:>9} {:>9} {:>9} {:>9} {:>6}", "p50 µs", "p99 µs", "+p50", "+p99", "runs");
    let mut base = None;
    for (peer, _, times) in &mut clients {
        let (middle, late) = (percentile(times, 50), percentile(times, 99));
        let (base_middle, base_late) = *base.get_or_insert((middle, late));
        let (more, more_late) = (middle.saturating_sub(base_middle), late.saturating_sub(base_late));
        let verdict = goal.filter(|_| peer.name == "lazy").map(|goal| {
            format!("at most {} and {}: {}", goal.0, goal.1, verdict(more <= goal.0 && more_late <= goal.1))
        });
        let (name, runs, verdict) = (peer.name, times.len(), verdict.unwrap_or_default());
        println!("{name:<24} {middle:>9} {late:>9} {more:>9} {more_late:>9} {runs:>6}  {verdict}");
    }
    Ok(())
}

/// How late each event of a stream arrives.
async fn events(peers: &[Peer], clock: Instant) -> Result<()> {
    let body = prompt(Script::Paced, SMALL);
    let mut clients = Vec::new();
    for peer in peers.iter().filter(|peer| peer.name != "LiteLLM") {
        clients.push((peer.name, Client::connect(peer.address, &peer.key).await?, Vec::new(), Vec::new()));
    }
    for _ in 0..PACED {
        for (_, client, text, tool) in &mut clients {
            let outcome = client.exchange(Script::Paced, body.clone()).await?;
            delays(&outcome, clock, text, tool)?;
        }
    }
    println!(
        "\n{:<24} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "delay of an event", "p50 µs", "p99 µs", "tool p50", "tool p99", "runs"
    );
    for (name, _, text, tool) in &mut clients {
        let (middle, late) = (percentile(text, 50), percentile(text, 99));
        let (tool_middle, tool_late, runs) = (percentile(tool, 50), percentile(tool, 99), text.len());
        println!("{name:<24} {middle:>9} {late:>9} {tool_middle:>9} {tool_late:>9} {runs:>6}");
    }
    Ok(())
}

/// The delays of a stream's events: those that may pass at once, and the last one of the tool's block.
fn delays(outcome: &Outcome, clock: Instant, text: &mut Vec<u64>, tool: &mut Vec<u64>) -> Result<()> {
    let body = std::str::from_utf8(&outcome.body)?;
    let (mut at, mut seen) = (0, 0);
    for event in body.split_inclusive("\n\n") {
        at += event.len();
        let stamp = event.rsplit_once("\"t\":").and_then(|(_, rest)| rest.split('}').next()).ok_or("no stamp")?;
        let there = outcome.arrivals.iter().find(|(length, _)| *length >= at).ok_or("an event did not arrive")?.1;
        let delay = micros(there - clock).saturating_sub(stamp.parse()?);
        match (event.contains("\"index\":1"), event.contains("content_block_stop")) {
            (true, true) => tool.push(delay),
            (true, false) => {}
            (false, _) => text.push(delay),
        }
        seen += 1;
    }
    if seen < 20 { Err(format!("the stream has {seen} events").into()) } else { Ok(()) }
}

/// How many requests pass in a second, over many connections.
async fn requests(peers: &[Peer]) -> Result<()> {
    let body = prompt(Script::Plain, SMALL);
    let mut rates: Vec<Vec<u64>> = vec![Vec::new(); peers.len()];
    for _ in 0..ROUNDS {
        for (peer, rates) in peers.iter().zip(&mut rates) {
            rates.push(rate(peer, &body).await?);
        }
    }
    let rates: Vec<u64> = rates.iter_mut().map(|rates| percentile(rates, 50)).collect();
    let nginx = peers.iter().position(|peer| peer.name == "nginx").map(|at| rates[at]);
    println!("\n{:<24} {:>9} {:>9}", format!("{CONNECTIONS} connections"), "per s", "of nginx");
    for (peer, rate) in peers.iter().zip(&rates) {
        let share = nginx.map(|nginx| rate * 100 / nginx.max(1));
        let verdict = share
            .filter(|_| peer.name == "lazy")
            .map(|share| format!("at least {REQUESTS_GOAL}%: {}", verdict(share >= REQUESTS_GOAL)));
        let (name, share) = (peer.name, share.map(|share| format!("{share}%")).unwrap_or_default());
        println!("{name:<24} {rate:>9} {share:>9}  {}", verdict.unwrap_or_default());
    }
    Ok(())
}

/// The requests of a second.
async fn rate(peer: &Peer, body: &Bytes) -> Result<u64> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::connect(peer.address, &peer.key).await?);
    }
    let begun = Instant::now();
    let asking: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let body = body.clone();
            tokio::spawn(async move {
                let mut count = 0u64;
                while begun.elapsed() < ROUND {
                    client.exchange(Script::Plain, body.clone()).await.map_err(|error| error.to_string())?;
                    count += 1;
                }
                std::result::Result::<u64, String>::Ok(count)
            })
        })
        .collect();
    let mut count = 0;
    for asking in asking {
        count += asking.await??;
    }
    Ok(count * 1000 / u64::try_from(begun.elapsed().as_millis())?)
}

/// What open streams hold in memory: the growth of a proxy that has answered before, by many streams. Nothing moves on
/// the open ones, so that this thread may wait for the memory to settle.
async fn streams(peers: &[Peer]) -> Result<()> {
    println!("\n{:<24} {:>9} {:>9} {:>9}", format!("{STREAMS} open streams"), "before", "with", "each");
    let body = prompt(Script::Open, SMALL);
    // The upstream itself has no process of its own.
    for peer in peers.iter().filter(|peer| peer.name != "direct") {
        let warm = prompt(Script::Plain, SMALL);
        let mut client = Client::connect(peer.address, &peer.key).await?;
        for _ in 0..20 {
            client.exchange(Script::Plain, warm.clone()).await?;
        }
        let pids = peer.processes()?;
        let before = settled(&pids)?;
        let mut open = Vec::new();
        for _ in 0..STREAMS {
            let mut client = Client::connect(peer.address, &peer.key).await?;
            let mut response = client.send(Script::Open, body.clone()).await?;
            response.body_mut().frame().await.ok_or("a stream ended")??;
            open.push((client, response));
        }
        let with = settled(&pids)?;
        let each = with.saturating_sub(before) * 1024 / STREAMS as u64;
        let verdict = match peer.name {
            "lazy" => format!("under {} KiB: {}", STREAM_GOAL / 1024, verdict(each < STREAM_GOAL)),
            _ => String::new(),
        };
        let kib = |bytes: u64| format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024);
        let name = peer.name;
        println!("{name:<24} {:>9} {:>9} {:>9}  {verdict}", mib(before), mib(with), kib(each));
    }
    Ok(())
}

/// The value that this share of the values does not exceed.
fn percentile(values: &mut [u64], percent: usize) -> u64 {
    values.sort_unstable();
    values.get((values.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
