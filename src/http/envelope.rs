//! The heartbeat envelope: how a long call stays alive and tells what it does.
//!
//! A caller that sends `x-lazy-heartbeat` (any value) gets status 200 and NDJSON: `{"lazyEnvelope":1}` at once,
//! `{"progress":event}` when the work narrates, `{"heartbeat":ms,"phase":label}` every 5 s, and as the last line
//! `{"status":real,"body":…}`. The work runs on a task of its own: a caller that hangs up does not stop it. A stream that
//! ends without the last line is [`Kind::Lost`]: the daemon was reached, and the work may have been done.

use std::future::Future;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::body::{Body, channel, read_body};
use crate::base::error::WireError;
use crate::base::text::truncate_chars;
use crate::base::{Error, Kind, Result};

/// The request header that asks for the envelope.
pub const HEADER: &str = "x-lazy-heartbeat";
/// The content type of an enveloped reply.
pub const CONTENT_TYPE: &str = "application/x-ndjson";
/// How often a heartbeat goes out.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// How long a reader waits for any line before it takes the connection for dead: a dozen missed heartbeats.
pub const SILENCE: Duration = Duration::from_secs(60);
/// The longest line a reader accepts, and the longest plain reply.
const LINE_LIMIT: usize = 256 << 20;

/// Whether a request asks for the envelope.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

/// Starts `work` and replies with its envelope. `progress` carries what the work narrates while it runs; an event
/// `{"kind":"phase","state":"start","label":…}` also sets the phase that heartbeats name, and one with another state
/// clears it.
pub fn respond(
    work: impl Future<Output = Result<Value>> + Send + 'static,
    progress: mpsc::UnboundedReceiver<Value>,
    interval: Duration,
) -> Response<Body> {
    let (sender, body) = channel();
    let work = tokio::spawn(work);
    tokio::spawn(async move {
        let result = relay(&sender, work, progress, interval).await;
        sender.send(line(&result)).await.ok();
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}

async fn relay(
    sender: &super::Sender,
    mut work: tokio::task::JoinHandle<Result<Value>>,
    mut progress: mpsc::UnboundedReceiver<Value>,
    interval: Duration,
) -> Value {
    let started = Instant::now();
    let mut phase: Option<String> = None;
    let mut ticks = tokio::time::interval_at(started + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A failed send means that nobody listens: the work goes on, only the telling stops.
    let mut heard = sender.send(line(&json!({"lazyEnvelope": 1}))).await.is_ok();
    let mut narrating = true;
    let outcome = loop {
        let next = tokio::select! {
            biased;
            event = progress.recv(), if narrating => match event {
                Some(event) => {
                    note_phase(&event, &mut phase);
                    json!({ "progress": event })
                }
                None => {
                    narrating = false;
                    continue;
                }
            },
            outcome = &mut work => break outcome,
            _ = ticks.tick() => {
                let elapsed = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                match &phase {
                    Some(phase) => json!({ "heartbeat": elapsed, "phase": phase }),
                    None => json!({ "heartbeat": elapsed }),
                }
            }
        };
        if heard {
            heard = sender.send(line(&next)).await.is_ok();
        }
    };
    // What was narrated in the last moment still precedes the result.
    while let Ok(event) = progress.try_recv() {
        if heard {
            heard = sender.send(line(&json!({ "progress": event }))).await.is_ok();
        }
    }
    let outcome = outcome.unwrap_or_else(|_| Err(Error::internal("the operation failed").hint("lazy daemon logs")));
    match outcome {
        Ok(body) => json!({ "status": 200, "body": body }),
        Err(error) => json!({ "status": error.kind().http_status(), "body": error.to_wire() }),
    }
}

fn note_phase(event: &Value, phase: &mut Option<String>) {
    if event["kind"] != "phase" {
        return;
    }
    match event["state"].as_str() {
        Some("start") => *phase = event["label"].as_str().map(str::to_string),
        Some("progress") => {}
        _ => *phase = None,
    }
}

fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

/// What a reader of the envelope hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The work narrates.
    Progress(Value),
    /// The work goes on.
    Heartbeat {
        /// How long it has run.
        elapsed: Duration,
        /// What it is doing, if it said so.
        phase: Option<String>,
    },
    /// The work ended; nothing follows.
    Done {
        /// The HTTP status the call would have had.
        status: u16,
        /// The body the call would have had; `null` when there was none.
        body: Value,
    },
}

/// Reads an envelope line by line.
#[derive(Debug)]
pub struct Reader<B = Incoming> {
    body: B,
    buffer: BytesMut,
    scanned: usize,
    silence: Duration,
}

impl<B> Reader<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Reads `body`, taking [`SILENCE`] without a line for a dead connection.
    pub fn new(body: B) -> Self {
        Reader { body, buffer: BytesMut::new(), scanned: 0, silence: SILENCE }
    }

    /// The same reader with another patience.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// The next event.
    ///
    /// # Errors
    /// [`Kind::Lost`] when the stream ends, breaks or falls silent before the result; [`Kind::Internal`] when a line is
    /// not of the envelope.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(at) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.scanned + at);
                self.buffer.advance(1);
                self.scanned = 0;
                if let Some(event) = parse(&line)? {
                    return Ok(event);
                }
                continue;
            }
            self.scanned = self.buffer.len();
            if self.scanned > LINE_LIMIT {
                return Err(Error::internal("the daemon sent a line without end"));
            }
            match tokio::time::timeout(self.silence, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Ok(Some(Err(source))) => return Err(lost().caused_by(source)),
                // The last line may lack its end.
                Ok(None) => return parse(&self.buffer.split())?.ok_or_else(lost),
                Err(_) => return Err(lost()),
            }
        }
    }
}

fn lost() -> Error {
    Error::new(Kind::Lost, "the connection to the daemon was lost while it worked; the work may have been done")
        .hint("lazy daemon status")
}

fn parse(line: &[u8]) -> Result<Option<Event>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let foreign = || {
        let text = truncate_chars(&String::from_utf8_lossy(line), 200);
        Error::internal(format!("the daemon sent a line that is not of the envelope: {text}"))
    };
    let Ok(Value::Object(mut object)) = serde_json::from_slice::<Value>(line) else { return Err(foreign()) };
    if let Some(status) = object.get("status").and_then(Value::as_u64) {
        let status = u16::try_from(status).map_err(|_| foreign())?;
        return Ok(Some(Event::Done { status, body: object.remove("body").unwrap_or(Value::Null) }));
    }
    if let Some(event) = object.remove("progress") {
        return Ok(Some(Event::Progress(event)));
    }
    let elapsed = match object.get("heartbeat") {
        Some(elapsed) => elapsed.as_u64().ok_or_else(foreign)?,
        None if object.contains_key("lazyEnvelope") => 0,
        None => return Err(foreign()),
    };
    let phase = object.get("phase").and_then(Value::as_str).map(str::to_string);
    Ok(Some(Event::Heartbeat { elapsed: Duration::from_millis(elapsed), phase }))
}

/// The result of a call, whether its reply is enveloped or plain; `hear` gets every progress event and heartbeat.
///
/// # Errors
/// What the daemon refused, with its kind and hints; [`Kind::Lost`] when the reply never came to its end.
pub async fn answer(response: Response<Incoming>, mut hear: impl FnMut(Event)) -> Result<Value> {
    let enveloped = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with(CONTENT_TYPE));
    if !enveloped {
        let status = response.status().as_u16();
        let bytes = read_body(response.into_body(), LINE_LIMIT).await?;
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            Err(_) if bytes.is_empty() => Value::Null,
            Err(_) => Value::String(String::from_utf8_lossy(&bytes).into_owned()),
        };
        return outcome(status, body);
    }
    let mut reader = Reader::new(response.into_body());
    loop {
        match reader.next().await? {
            Event::Done { status, body } => return outcome(status, body),
            event => hear(event),
        }
    }
}

/// The value a status and body stand for.
///
/// # Errors
/// What the body refuses, when the status is not 2xx.
pub fn outcome(status: u16, body: Value) -> Result<Value> {
    if (200..300).contains(&status) {
        return Ok(body);
    }
    let wire = serde_json::from_value::<WireError>(body.clone()).unwrap_or_else(|_| WireError {
        error: match body {
            Value::Null => format!("the daemon answered HTTP {status}"),
            Value::String(text) => format!("the daemon answered HTTP {status}: {}", truncate_chars(&text, 200)),
            other => format!("the daemon answered HTTP {status}: {}", truncate_chars(&other.to_string(), 200)),
        },
        kind: None,
        hints: Vec::new(),
        details: None,
    });
    Err(Error::from_wire(status, wire))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{empty, full};

    const FAST: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn progress_heartbeats_and_result_arrive_in_order() {
        let (progress, events) = mpsc::unbounded_channel();
        let (go, went) = tokio::sync::oneshot::channel::<()>();
        let phase = json!({"kind": "phase", "state": "start", "label": "merging"});
        progress.send(phase.clone()).expect("open");
        let work = async move {
            went.await.ok();
            progress.send(json!({"kind": "note"})).ok();
            Ok(json!({"x": 1}))
        };
        let mut reader = Reader::new(respond(work, events, FAST).into_body());
        assert_eq!(reader.next().await.expect("preamble"), Event::Heartbeat { elapsed: Duration::ZERO, phase: None });
        assert_eq!(reader.next().await.expect("phase"), Event::Progress(phase));
        let beat = reader.next().await.expect("beat");
        assert!(matches!(&beat, Event::Heartbeat { phase: Some(p), .. } if p == "merging"), "{beat:?}");
        go.send(()).expect("waits");
        let mut rest = Vec::new();
        loop {
            match reader.next().await.expect("goes on") {
                Event::Heartbeat { .. } => {}
                Event::Done { status, body } => {
                    assert_eq!((status, body), (200, json!({"x": 1})));
                    break;
                }
                event => rest.push(event),
            }
        }
        assert_eq!(rest, [Event::Progress(json!({"kind": "note"}))]);
    }

    #[tokio::test]
    async fn a_refusal_keeps_its_kind_and_hints() {
        let (_progress, events) = mpsc::unbounded_channel();
        let work = async { Err(Error::conflict("busy").hint("lazy wait")) };
        let mut reader = Reader::new(respond(work, events, FAST).into_body());
        let done = loop {
            if let Event::Done { status, body } = reader.next().await.expect("goes on") {
                break outcome(status, body);
            }
        };
        let error = done.expect_err("refused");
        assert_eq!((error.kind(), error.hints()), (Kind::Conflict, &["lazy wait".to_string()][..]));
    }

    #[tokio::test]
    async fn a_panic_is_a_result() {
        let (_progress, events) = mpsc::unbounded_channel();
        let mut reader = Reader::new(respond(async { panic!("on purpose") }, events, FAST).into_body());
        let status = loop {
            if let Event::Done { status, .. } = reader.next().await.expect("goes on") {
                break status;
            }
        };
        assert_eq!(status, 500);
    }

    #[tokio::test]
    async fn the_work_goes_on_without_a_listener() {
        let (progress, events) = mpsc::unbounded_channel();
        let (done, finished) = tokio::sync::oneshot::channel();
        let work = async move {
            for _ in 0..100 {
                progress.send(json!({})).ok();
                tokio::task::yield_now().await;
            }
            done.send(()).ok();
            Ok(Value::Null)
        };
        drop(respond(work, events, FAST));
        finished.await.expect("the work ended");
    }

    #[tokio::test]
    async fn a_stream_without_a_result_is_lost() {
        let mut reader = Reader::new(full("{\"lazyEnvelope\":1}\n\n{\"heartbeat\":7}\n"));
        reader.next().await.expect("preamble");
        reader.next().await.expect("beat");
        assert_eq!(reader.next().await.expect_err("cut").kind(), Kind::Lost);
        assert_eq!(Reader::new(empty()).next().await.expect_err("cut").kind(), Kind::Lost);
        let (_sender, silent) = channel();
        let mut reader = Reader::new(silent).with_silence(FAST);
        assert_eq!(reader.next().await.expect_err("silent").kind(), Kind::Lost);
        let mut reader = Reader::new(full("<html>"));
        assert_eq!(reader.next().await.expect_err("foreign").kind(), Kind::Internal);
    }
}
