//! `make bench`, with an engine: how long a task takes from `lazy start` to its agent's first request of the model, in a
//! warm image, and what the parts of lazy in the container hold in memory.
//!
//! The peer does the same by hand, in the same run and in turns with lazy: `git worktree add`, then `docker run` of the
//! same image with the same Claude Code. In both cases the first connection to the model's address ends the measurement;
//! nobody answers it. `LAZY_BENCH_CONTAINER_RUNS` says how many pairs are measured (8).
//!
//! ```text
//! cargo run --example bench-containers -- target/lazy
//! ```

#[expect(dead_code, reason = "the benchmarks share it, and none uses all of it")]
mod world;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use world::{Result, World, mib, text, verdict};

/// What lazy may take beyond the peer, in percent.
const GOAL_PERCENT: u128 = 25;
/// Supervisor and MCP server together.
const MEMORY_GOAL_KIB: u64 = 16 * 1024;
/// How long anything may take; an image that has to be built first takes longest.
const LIMIT: Duration = Duration::from_secs(900);

fn main() -> Result<()> {
    let lazy = fs::canonicalize(std::env::args_os().nth(1).ok_or("usage: bench-containers <path of lazy>")?)?;
    if !Command::new("docker").arg("info").output().is_ok_and(|output| output.status.success()) {
        println!("docker does not answer: nothing is measured in containers");
        return Ok(());
    }
    let runs = std::env::var("LAZY_BENCH_CONTAINER_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let gateway = gateway()?;
    let model = Model::listen("127.0.0.1")?;
    let outside = Model::listen(&gateway)?;
    let world = World::new(&lazy, &settings(&model.address), |_| Ok(()))?;
    text(&mut world.lazy(&["system", "build"]))?;
    let image = text(Command::new("docker").args(["images", "lazy-runner", "--quiet"]))?;
    let image = image.lines().next().ok_or("there is no image lazy-runner")?.to_string();

    let (mut peer_times, mut lazy_times, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=runs {
        let peer = by_hand(&world, &image, &outside, round)?;
        let (lazy, parts) = by_lazy(&world, &model, round)?;
        if round > 0 {
            peer_times.push(peer);
            lazy_times.push(lazy);
            memory.push(parts);
        }
    }
    let (peer, lazy) = (median(&mut peer_times), median(&mut lazy_times));
    let percent = lazy.as_micros() * 100 / peer.as_micros();
    println!("{:<46} {:>10} {:>8} {:>6}", "to the first request of the model", "median", "ratio", "runs");
    println!("{:<46} {:>10} {:>8} {runs:>6}", "git worktree add and docker run", millis(peer), "1.00x");
    println!(
        "{:<46} {:>10} {:>7}x {runs:>6}  goal 1.{GOAL_PERCENT}x: {}",
        "lazy start",
        millis(lazy),
        format!("{}.{:02}", percent / 100, percent % 100),
        verdict(percent <= 100 + GOAL_PERCENT),
    );
    println!("\n{:<46} {:>10}", "resident memory in the container", "median");
    memory.sort_unstable_by_key(|parts: &Parts| parts.supervisor + parts.mcp);
    let parts = &memory[memory.len() / 2];
    let both = parts.supervisor + parts.mcp;
    println!("{:<46} {:>10}", "first process", mib(parts.init));
    println!("{:<46} {:>10}", "supervisor", mib(parts.supervisor));
    println!("{:<46} {:>10}", "MCP server", mib(parts.mcp));
    println!(
        "{:<46} {:>10}  goal {}: {}",
        "supervisor and MCP server",
        mib(both),
        mib(MEMORY_GOAL_KIB),
        verdict(both <= MEMORY_GOAL_KIB)
    );
    Ok(())
}

/// This machine, as containers of the usual network reach it: the first address of the network where the engine does not
/// say.
fn gateway() -> Result<String> {
    let format = "{{range .IPAM.Config}}{{.Gateway}} {{.Subnet}}{{end}}";
    let told = text(Command::new("docker").args(["network", "inspect", "bridge", "--format", format]))?;
    let mut words = told.split_whitespace();
    let first = words.next().ok_or("docker has no network named bridge")?;
    match first.strip_suffix("/16").and_then(|subnet| subnet.strip_suffix(".0")) {
        Some(start) => Ok(format!("{start}.1")),
        None => Ok(first.to_string()),
    }
}

/// An address at which a model could be: it takes connections and answers none.
struct Model {
    address: String,
    asked: Receiver<Instant>,
}

impl Model {
    fn listen(host: &str) -> Result<Model> {
        let listener = TcpListener::bind((host, 0))?;
        let address = listener.local_addr()?.to_string();
        let (told, asked) = channel();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming().flatten() {
                if told.send(Instant::now()).is_err() {
                    return;
                }
                open.push(stream);
                // Each measurement needs its first connection only; the others may go.
                if open.len() > 64 {
                    open.clear();
                }
            }
        });
        Ok(Model { address, asked })
    }

    /// How long after `begun` the first connection came.
    fn first(&self, begun: Instant) -> Result<Duration> {
        loop {
            let at = self.asked.recv_timeout(LIMIT).map_err(|_| "the model was never asked")?;
            if at >= begun {
                return Ok(at - begun);
            }
        }
    }
}

/// Resident KiB of the processes of lazy's in a container.
struct Parts {
    init: u64,
    supervisor: u64,
    mcp: u64,
}

/// The settings of a project whose tasks run in containers, and whose model is at `address`. The authority that this
/// machine trusts, if it names one, is trusted while the image is built.
fn settings(address: &str) -> String {
    let pem = std::env::var("SSL_CERT_FILE").ok().filter(|pem| Path::new(pem).is_file());
    let trust = pem.map(|pem| format!("[docker]\nca_certificates = {pem:?}\n")).unwrap_or_default();
    format!("[runner]\ntype = \"docker\"\n[proxy]\nupstream = \"http://{address}\"\n{trust}")
}

fn by_hand(world: &World, image: &str, model: &Model, round: usize) -> Result<Duration> {
    let worktree = world.dir().join(format!("hand-{round}"));
    let path = worktree.to_str().ok_or("the temporary directory is not UTF-8")?;
    let begun = Instant::now();
    text(&mut world.tool("git", &["worktree", "add", "--quiet", "-b", &format!("hand-{round}"), path]))?;
    let mount = format!("type=bind,source={path},target={path}");
    let upstream = format!("ANTHROPIC_BASE_URL=http://{}", model.address);
    let container = text(&mut world.tool(
        "docker",
        &[
            "run",
            "--detach",
            "--init",
            "--user",
            "0:0",
            "--workdir",
            path,
            "--mount",
            &mount,
            "--env",
            &upstream,
            "--env",
            "ANTHROPIC_API_KEY=sk-ant-bench-none",
            "--env",
            "IS_SANDBOX=1",
            "--env",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
            image,
            "claude",
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
            "hello",
        ],
    ))?;
    let taken = model.first(begun)?;
    text(&mut world.tool("docker", &["rm", "--force", &container]))?;
    Ok(taken)
}

fn by_lazy(world: &World, model: &Model, round: usize) -> Result<(Duration, Parts)> {
    let code = format!("bench-{round}");
    text(&mut world.lazy(&["create", "--code", &code, "--goal", "Be measured", "--prompt", "hello"]))?;
    let begun = Instant::now();
    text(&mut world.lazy(&["start", &code]))?;
    let taken = model.first(begun)?;
    let containers = text(&mut world.tool("docker", &["ps", "--quiet", "--filter", &format!("name=lazy-{code}-")]))?;
    let parts = parts(world, &containers)?;
    text(&mut world.lazy(&["stop", &code, "--reason", "measured"]))?;
    text(&mut world.lazy(&["close", &code, "--yes", "--reason", "measured", "--accept-dirty-worktree"]))?;
    Ok((taken, parts))
}

fn parts(world: &World, container: &str) -> Result<Parts> {
    let listed = text(&mut world.tool("docker", &["top", container, "-o", "pid,rss,args"]))?;
    let mut parts = Parts { init: 0, supervisor: 0, mcp: 0 };
    for line in listed.lines().filter(|line| line.contains("/lazy-agent ")) {
        let rss: u64 = line.split_whitespace().nth(1).ok_or("docker top says no memory")?.parse()?;
        match line.split("/lazy-agent ").nth(1).and_then(|rest| rest.split(' ').next()) {
            Some("init") => parts.init = rss,
            Some("mcp") => parts.mcp = rss,
            Some("supervise") => parts.supervisor = rss,
            _ => {}
        }
    }
    match parts {
        Parts { init: 0, .. } | Parts { supervisor: 0, .. } | Parts { mcp: 0, .. } => {
            Err(format!("not every part of lazy runs in the container:\n{listed}").into())
        }
        parts => Ok(parts),
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
