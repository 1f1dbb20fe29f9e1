//! The upstream of the proxies that are measured: it answers every path from a script, at once, and stamps the events of
//! its streams with the time at which it wrote them.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::Result;

/// The time between two events of a paced stream.
const PACE: Duration = Duration::from_millis(1);
/// Deltas of text in a stream, and parts of the tool call's input after them.
const DELTAS: usize = 20;
const PARTS: usize = 10;

/// What a path asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// A message of about 600 bytes.
    Plain,
    /// A stream of text and one tool call, an event a millisecond; every event has the time as its last field.
    Paced,
    /// The same events at once and without the time.
    Fixed,
    /// The first events of a stream that then stays open.
    Open,
}

impl Script {
    /// The path that asks for it.
    pub const fn path(self) -> &'static str {
        match self {
            Script::Plain => "/v1/messages?script=plain",
            Script::Paced => "/v1/messages?script=paced",
            Script::Fixed => "/v1/messages?script=fixed",
            Script::Open => "/v1/messages?script=open",
        }
    }

    /// The word for it in a request's body.
    pub const fn word(self) -> &'static str {
        match self {
            Script::Plain => "script-plain",
            Script::Paced => "script-paced",
            Script::Fixed => "script-fixed",
            Script::Open => "script-open",
        }
    }

    /// What a request asks for: by its path or, where a proxy makes a path of its own, by the word in its body.
    fn of(head: &str, body: &[u8]) -> Script {
        let all = [Script::Plain, Script::Paced, Script::Fixed, Script::Open];
        let line = head.lines().next().unwrap_or_default();
        let by_path = all.into_iter().find(|script| line.contains(script.path()));
        let has = |word: &str| body.windows(word.len()).any(|part| part == word.as_bytes());
        by_path.or_else(|| all.into_iter().find(|script| has(script.word()))).unwrap_or(Script::Plain)
    }
}

/// Serves until the process ends, in a thread of its own. `clock` is the zero of the stamps.
pub fn serve(clock: Instant) -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            loop {
                let (stream, _) = listener.accept().await?;
                // A connection that ends in the middle is the business of whoever ended it.
                tokio::spawn(async move { converse(stream, clock).await.ok() });
            }
            #[expect(unreachable_code, reason = "names the type of the error")]
            std::io::Result::Ok(())
        })
    });
    Ok(address)
}

/// Answers the requests of one connection.
async fn converse(mut stream: TcpStream, clock: Instant) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut taken: Vec<u8> = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let end = loop {
            if let Some(at) = taken.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut piece).await? {
                0 => return Ok(()),
                count => taken.extend_from_slice(&piece[..count]),
            }
        };
        let head = String::from_utf8_lossy(&taken[..end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let whole = end + length.unwrap_or(0);
        while taken.len() < whole {
            match stream.read(&mut piece).await? {
                0 => return Ok(()),
                count => taken.extend_from_slice(&piece[..count]),
            }
        }
        let script = Script::of(&head, &taken[end..whole]);
        taken.drain(..whole);
        answer(&mut stream, script, clock).await?;
    }
}

async fn answer(stream: &mut TcpStream, script: Script, clock: Instant) -> std::io::Result<()> {
    if script == Script::Plain {
        return stream.write_all(plain().as_bytes()).await;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let events = events();
    match script {
        Script::Plain => Ok(()),
        Script::Paced => {
            for (name, fields) in &events {
                let stamp = clock.elapsed().as_micros();
                write_chunk(stream, &event(name, &format!("{fields},\"t\":{stamp}"))).await?;
                tokio::time::sleep(PACE).await;
            }
            stream.write_all(b"0\r\n\r\n").await
        }
        Script::Fixed => {
            let text: String = events.iter().map(|(name, fields)| event(name, fields)).collect();
            for piece in text.as_bytes().chunks(97) {
                write_chunk(stream, std::str::from_utf8(piece).unwrap_or_default()).await?;
            }
            stream.write_all(b"0\r\n\r\n").await
        }
        Script::Open => {
            for (name, fields) in events.iter().take(DELTAS) {
                write_chunk(stream, &event(name, fields)).await?;
            }
            // Whoever opened it ends it.
            let mut end = [0; 1];
            while stream.read(&mut end).await? > 0 {}
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
    }
}

async fn write_chunk(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
}

fn event(name: &str, fields: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\",{fields}}}\n\n")
}

/// The events of a stream: their names, and their fields but for the type.
fn events() -> Vec<(&'static str, String)> {
    let message = r#""message":{"id":"msg_bench","type":"message","role":"assistant","model":"claude-opus-4-7","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":500,"output_tokens":1}}"#;
    let mut events = vec![
        ("message_start", message.to_string()),
        ("content_block_start", r#""index":0,"content_block":{"type":"text","text":""}"#.to_string()),
    ];
    for _ in 0..DELTAS {
        let delta = r#""index":0,"delta":{"type":"text_delta","text":"What the report counts, and why. "}"#;
        events.push(("content_block_delta", delta.to_string()));
    }
    events.push(("content_block_stop", r#""index":0"#.to_string()));
    let tool = r#""index":1,"content_block":{"type":"tool_use","id":"toolu_bench","name":"Read","input":{}}"#;
    events.push(("content_block_start", tool.to_string()));
    for number in 0..PARTS {
        let part = match number {
            0 => r#"{\"file_path\": \""#.to_string(),
            number if number + 1 == PARTS => r#"md\"}"#.to_string(),
            number => format!("part-{number}."),
        };
        let delta = format!(r#""index":1,"delta":{{"type":"input_json_delta","partial_json":"{part}"}}"#);
        events.push(("content_block_delta", delta));
    }
    events.push(("content_block_stop", r#""index":1"#.to_string()));
    let usage = r#""delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":90}"#;
    events.push(("message_delta", usage.to_string()));
    events.push(("message_stop", r#""of":"bench""#.to_string()));
    events
}

fn plain() -> String {
    let text = "What the report counts, and why. ".repeat(12);
    let body = format!(
        r#"{{"id":"msg_bench","type":"message","role":"assistant","model":"claude-opus-4-7","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":500,"output_tokens":90}}}}"#
    );
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
