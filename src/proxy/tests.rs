//! The proxy between real sockets: a client on one side, an upstream that the test plays by hand on the other.

mod judged;
mod upstreams;

use std::path::PathBuf;
use std::sync::Mutex;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Response};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::activity::EventKind;
use super::*;
use crate::base::{Millis, Process};
use crate::http::{Client, read_body};
use crate::proxy::grants::Identity;

const REAL: &str = "sk-ant-api03-the-real-one-0123456789";
const OAUTH: &str = "sk-ant-oat01-the-real-token-0123456789";

struct Source(Mutex<Option<Credential>>);

impl CredentialSource for Source {
    fn credential(&self) -> Option<Credential> {
        self.0.lock().expect("lock").clone()
    }
}

struct Bench {
    _dir: tempfile::TempDir,
    audit: PathBuf,
    source: Arc<Source>,
    grants: Arc<Grants>,
    proxy: Proxy,
    client: Client,
    upstream: TcpListener,
}

async fn bench() -> Bench {
    bench_with(|_| {}).await
}

async fn bench_with(change: impl FnOnce(&mut ProxyConfig)) -> Bench {
    let dir = tempfile::tempdir().expect("temp dir");
    let upstream = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let audit = dir.path().join("logs/proxy-audit.jsonl");
    let source = Arc::new(Source(Mutex::new(Some(Credential::new(CredentialVar::ApiKey, REAL)))));
    let grants = Arc::new(Grants::open(dir.path().join("proxy-tokens.json")).expect("opens"));
    let mut config = ProxyConfig {
        bind: "127.0.0.1".into(),
        port: None,
        upstream: format!("http://{}/base/", upstream.local_addr().expect("address")),
        role_targets: Vec::new(),
        audit_path: audit.clone(),
        credential: source.clone(),
        policy: Arc::default(),
        process: Process::fake(["lazy"], &[], dir.path(), Millis(1_700_000_000_000)),
    };
    change(&mut config);
    let proxy = Proxy::start(config, grants.clone()).await.expect("starts");
    let client = Client::new(&format!("http://{}", proxy.address())).expect("client");
    Bench { _dir: dir, audit, source, grants, proxy, client, upstream }
}

/// One request as it arrived at the upstream.
struct Arrived {
    head: String,
    body: Vec<u8>,
    stream: TcpStream,
}

impl Arrived {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    async fn read(mut stream: TcpStream) -> Arrived {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert_ne!(stream.read_buf(&mut bytes).await.expect("reads"), 0, "closed in the head");
        };
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let mut arrived = Arrived { head, body: bytes[end..].to_vec(), stream };
        let length = arrived.header("content-length").map_or(0, |text| text.parse().expect("a number"));
        while arrived.body.len() < length {
            assert_ne!(arrived.stream.read_buf(&mut arrived.body).await.expect("reads"), 0, "closed in the body");
        }
        arrived
    }

    async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("writes");
    }

    /// The head of a chunked event stream.
    async fn begin_events(&mut self) {
        self.write(
            "HTTP/1.1 200 Fine\r\ncontent-type: text/event-stream\r\nx-kept: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await;
    }

    async fn chunk(&mut self, bytes: &[u8]) {
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(bytes);
        framed.extend_from_slice(b"\r\n");
        self.write(framed).await;
    }

    async fn answer_json(&mut self, body: &Value) {
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        self.write(head + &body).await;
    }

    /// Waits until the proxy hangs up.
    async fn hung_up(mut self) {
        let mut rest = Vec::new();
        // A reset says the same as an orderly end.
        self.stream.read_to_end(&mut rest).await.ok();
    }
}

impl Bench {
    async fn arrived(&self) -> Arrived {
        Arrived::read(self.upstream.accept().await.expect("accepts").0).await
    }

    fn placeholder(&self) -> Placeholder {
        let identity = Identity {
            role: CallerRole::Agent,
            task: Some("fix-it"),
            label: "run",
            env_key: "ANTHROPIC_API_KEY",
            worktree: None,
        };
        self.grants.mint(identity, Millis(0)).expect("mints")
    }

    async fn post(&self, key: &str, body: Value) -> Response<Incoming> {
        self.client
            .request(Method::POST, "/v1/messages?beta=true", &[("x-api-key", key)], body.to_string())
            .await
            .expect("answered")
    }

    async fn records(&self) -> Vec<audit::Record> {
        self.proxy.flush().await;
        audit::read(&self.audit, usize::MAX).expect("reads")
    }

    /// Waits for the next request that ended: its record is in the file then.
    async fn ended(&self) -> audit::Record {
        let (ring, mut feed) = self.proxy.activity().subscribe();
        if !ring.iter().any(|event| event.kind == EventKind::Close) {
            while feed.recv().await.expect("open").kind != EventKind::Close {}
        }
        self.records().await.pop().expect("a record")
    }
}

fn request() -> Value {
    json!({"model": "claude-sonnet-4-6", "stream": true, "max_tokens": 10, "tools": [{"name": "Bash"}],
           "messages": [{"role": "user", "content": "hello"}]})
}

async fn next(response: &mut Response<Incoming>) -> Option<Result<Bytes, hyper::Error>> {
    Some(response.body_mut().frame().await?.map(|frame| frame.into_data().unwrap_or_default()))
}

const START: &[u8] = b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":11,\"output_tokens\":1}}}\n\n";
const END: &[u8] = b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n";

#[tokio::test]
async fn a_placeholder_becomes_the_real_credential_and_events_come_at_once() {
    let bench = bench().await;
    let key = bench.placeholder();
    let client = bench.client.clone();
    let call = tokio::spawn(async move {
        let headers = [("x-api-key", key.expose()), ("x-lazy-role", "builder"), ("x-lazy-task-id", "forged")];
        client.request(Method::POST, "/v1/messages?beta=true", &headers, request().to_string()).await.expect("answered")
    });
    let mut arrived = bench.arrived().await;
    assert!(arrived.head.starts_with("POST /base/v1/messages?beta=true HTTP/1.1\r\n"), "{}", arrived.head);
    assert_eq!(arrived.header("x-api-key"), Some(REAL));
    assert_eq!((arrived.header("x-lazy-role"), arrived.header("x-lazy-task-id")), (None, None));
    assert_eq!(arrived.header("host"), Some(bench.upstream.local_addr().expect("address").to_string().as_str()));
    assert_eq!(serde_json::from_slice::<Value>(&arrived.body).expect("json"), request());
    arrived.begin_events().await;
    let mut response = call.await.expect("joins");
    assert_eq!((response.status().as_u16(), &response.headers()["x-kept"]), (200, &"1".parse().expect("value")));
    // The upstream still holds the rest.
    arrived.chunk(START).await;
    assert_eq!(next(&mut response).await.expect("more").expect("whole"), START);
    arrived.chunk(b"event: ping\n").await;
    assert_eq!(next(&mut response).await.expect("more").expect("whole"), &b"event: ping\n"[..]);
    arrived.chunk(b"data: {}\n\n").await;
    arrived.chunk(END).await;
    arrived.write("0\r\n\r\n").await;
    let rest = read_body(response.into_body(), 1 << 20).await.expect("whole");
    assert_eq!(rest, [&b"data: {}\n\n"[..], END].concat());

    let record = bench.ended().await;
    assert_eq!((record.role.as_deref(), record.task_id.as_deref()), (Some("agent"), Some("fix-it")));
    assert_eq!((record.status, record.error.as_deref(), record.seq), (Some(200), None, 1));
    assert_eq!((record.method.as_str(), record.path.as_str()), ("POST", "/v1/messages?beta=true"));
    assert_eq!((record.model.as_deref(), record.tier.as_deref()), (Some("claude-sonnet-4-6"), Some("sonnet")));
    assert_eq!((record.stream, record.ts, record.backend.as_str()), (Some(true), 1_700_000_000_000, "proxy"));
    assert_eq!(record.upstream, format!("http://{}/base", bench.upstream.local_addr().expect("address")));
    let usage = record.usage.expect("usage");
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens), (Some(11), Some(5), None));
    assert_eq!((record.stop_reason.as_deref(), record.usage_partial), (Some("end_turn"), false));
    let shape = record.request_shape.expect("shape");
    assert_eq!(
        (shape.num_messages, shape.tool_names, shape.body_bytes),
        (1, vec!["Bash".into()], request().to_string().len())
    );
    let (ring, _) = bench.proxy.activity().subscribe();
    assert_eq!(ring.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::Open, EventKind::Close]);
    assert_eq!(ring[0].model.as_deref(), Some("claude-sonnet-4-6"));
    assert_eq!(ring[1].end.as_ref().and_then(|end| end.total_tokens), Some(16));
}

#[tokio::test]
async fn the_credential_is_asked_for_each_time_and_keeps_its_form() {
    let bench = bench().await;
    let key = bench.placeholder();
    let played = async {
        let mut arrived = bench.arrived().await;
        assert_eq!((arrived.header("x-api-key"), arrived.header("authorization")), (Some(REAL), None));
        arrived.answer_json(&json!({"usage": {"input_tokens": 3}})).await;
        *bench.source.0.lock().expect("lock") = Some(Credential::new(CredentialVar::OauthToken, OAUTH));
        // The second request comes over the same connection.
        let mut arrived = Arrived::read(arrived.stream).await;
        let bearer = format!("Bearer {OAUTH}");
        assert_eq!((arrived.header("x-api-key"), arrived.header("authorization")), (None, Some(bearer.as_str())));
        arrived.answer_json(&json!({})).await;
        *bench.source.0.lock().expect("lock") = None;
    };
    let called = async {
        for _ in 0..2 {
            let response = bench.post(key.expose(), request()).await;
            read_body(response.into_body(), 100).await.expect("whole");
        }
    };
    tokio::join!(played, called);
    let response = bench.post(key.expose(), request()).await;
    assert_eq!(response.status().as_u16(), 401);
    let body = read_body(response.into_body(), 1000).await.expect("whole");
    let body: Value = serde_json::from_slice(&body).expect("json");
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!("authentication_error")));
    let records = bench.records().await;
    assert_eq!(records.iter().map(|record| record.status).collect::<Vec<_>>(), [Some(200), Some(200), Some(401)]);
    assert_eq!(records[0].usage.and_then(|usage| usage.input_tokens), Some(3));
}

#[tokio::test]
async fn unknown_placeholders_are_refused_and_other_credentials_pass() {
    let bench = bench().await;
    let response = bench.post("sk-ant-api03-lazy-0000", request()).await;
    assert_eq!(response.status().as_u16(), 401);
    let body = String::from_utf8(read_body(response.into_body(), 1000).await.expect("whole").to_vec()).expect("text");
    assert!(body.contains("authentication_error") && body.contains("lazy unblock"), "{body}");
    let record = bench.ended().await;
    assert_eq!((record.status, record.role, record.task_id), (Some(401), None, None));
    assert_eq!(record.error.as_deref(), Some("credential refused: unknown or revoked placeholder"));

    let client = bench.client.clone();
    let call = tokio::spawn(async move {
        let headers = [("authorization", "Bearer of-its-own"), ("x-lazy-role", "builder")];
        client.request(Method::GET, "/v1/models", &headers, "").await.expect("answered").status()
    });
    let mut arrived = bench.arrived().await;
    assert_eq!(arrived.header("authorization"), Some("Bearer of-its-own"));
    assert!(!arrived.head.contains(REAL));
    arrived.answer_json(&json!({})).await;
    assert_eq!(call.await.expect("joins"), 200);
    let record = bench.records().await.pop().expect("a record");
    assert_eq!((record.role.as_deref(), record.request_shape), (Some("builder"), None));
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_upstream() {
    let bench = bench().await;
    let key = bench.placeholder();
    // In the middle of the stream.
    let client = bench.client.clone();
    let secret = key.clone();
    let call = tokio::spawn(async move {
        client.request(Method::POST, "/v1/messages", &[("x-api-key", secret.expose())], request().to_string()).await
    });
    let mut arrived = bench.arrived().await;
    arrived.begin_events().await;
    let mut response = call.await.expect("joins").expect("answered");
    arrived.chunk(START).await;
    next(&mut response).await.expect("more").expect("whole");
    drop(response);
    arrived.hung_up().await;
    let record = bench.ended().await;
    assert_eq!((record.status, record.error.as_deref()), (Some(200), Some("client disconnected")));
    assert_eq!((record.usage.and_then(|usage| usage.input_tokens), record.usage_partial), (Some(11), true));

    // Before the head.
    let client = bench.client.clone();
    let call = tokio::spawn(async move {
        client.request(Method::POST, "/v1/messages", &[("x-api-key", key.expose())], request().to_string()).await
    });
    let arrived = bench.arrived().await;
    call.abort();
    arrived.hung_up().await;
    let (_, mut feed) = bench.proxy.activity().subscribe();
    let mut records = bench.records().await;
    while records.len() < 2 {
        feed.recv().await.expect("open");
        records = bench.records().await;
    }
    assert_eq!((records[1].status, records[1].error.as_deref()), (None, Some("client disconnected")));
    assert_eq!(records[1].model.as_deref(), Some("claude-sonnet-4-6"));
}

#[tokio::test]
async fn a_broken_upstream_is_not_ended_as_whole() {
    let bench = bench().await;
    let key = bench.placeholder();
    for length in ["transfer-encoding: chunked", "content-length: 100000"] {
        let client = bench.client.clone();
        let secret = key.clone();
        let call = tokio::spawn(async move {
            let headers = [("x-api-key", secret.expose())];
            client.request(Method::POST, "/v1/messages", &headers, request().to_string()).await.expect("answered")
        });
        let mut arrived = bench.arrived().await;
        let framed = length.starts_with("transfer");
        arrived.write(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{length}\r\n\r\n")).await;
        if framed {
            arrived.chunk(START).await
        } else {
            arrived.write(START).await
        }
        drop(arrived);
        let mut response = call.await.expect("joins");
        let mut got = Vec::new();
        let broke = loop {
            match next(&mut response).await {
                Some(Ok(bytes)) => got.extend_from_slice(&bytes),
                Some(Err(_)) => break true,
                None => break false,
            }
        };
        assert!(broke, "{length}: a clean end");
        assert_eq!(got, START, "what came before the break is passed on");
    }
    let records = bench.records().await;
    assert_eq!(records.len(), 2);
    for record in records {
        assert!(record.error.as_deref().is_some_and(|error| error.contains("upstream broke off")), "{record:?}");
        assert!(record.usage_partial && record.usage.is_some());
    }
}

#[tokio::test]
async fn large_bodies_pass_whole() {
    let bench = bench().await;
    let key = bench.placeholder();
    // One that is read beside the forwarding, and one that is too long to be read.
    for size in [1 << 20, 33 << 20] {
        let mut body = request();
        body["messages"][0]["content"] = json!("x".repeat(size));
        let (response, ()) = tokio::join!(bench.post(key.expose(), body.clone()), async {
            let mut arrived = bench.arrived().await;
            assert_eq!(serde_json::from_slice::<Value>(&arrived.body).expect("json"), body);
            arrived.answer_json(&json!({"ok": true})).await;
        });
        assert_eq!(response.headers()["content-length"], "11");
        assert_eq!(read_body(response.into_body(), 100).await.expect("whole"), "{\"ok\":true}");
    }
    let records = bench.records().await;
    assert_eq!(records[0].model.as_deref(), Some("claude-sonnet-4-6"));
    assert_eq!((records[1].model.as_deref(), &records[1].request_shape), (None, &None));
}

#[tokio::test]
async fn nothing_secret_is_written_or_told() {
    let bench = bench().await;
    let key = bench.placeholder();
    let secret = key.expose().to_string();
    let (a, b) = (secret.clone(), secret.clone());
    let body = json!({"model": "m", "max_tokens": 5, "tools": [{"name": "Bash"}], "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash",
            "input": {"command": format!("curl -H x-api-key:{a} {REAL}"), "path": format!("/p/{REAL}")}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
            "content": format!("{}ANTHROPIC_API_KEY={b} {REAL}", "x".repeat(230))}]}]});
    let path = format!("/v1/messages?key={REAL}&p={secret}");
    let (response, ()) = tokio::join!(
        async {
            bench
                .client
                .request(Method::POST, &path, &[("x-api-key", &secret)], body.to_string())
                .await
                .expect("answered")
        },
        async { drop(bench.arrived().await) }
    );
    let told = read_body(response.into_body(), 10_000).await.expect("whole");
    let cursor = format!("/_lazy/cursor/{secret}/x");
    let refused = bench.client.request(Method::POST, &cursor, &[], "").await.expect("answered");
    assert_eq!(refused.status().as_u16(), 404);
    let records = bench.records().await;
    assert_eq!(records.len(), 2);
    assert!(records[0].tool_uses[0].command.as_deref().is_some_and(|command| command.starts_with("curl -H")));
    let (ring, _) = bench.proxy.activity().subscribe();
    let written = std::fs::read_to_string(&bench.audit).expect("reads");
    let events = serde_json::to_string(&ring.iter().map(|event| (**event).clone()).collect::<Vec<_>>()).expect("json");
    let debug = format!("{:?} {:?} {:?}", bench.grants, bench.source.credential(), bench.proxy);
    let hex = secret.rsplit('-').next().expect("hex");
    for text in [written, events, debug, String::from_utf8_lossy(&told).into_owned()] {
        for needle in ["the-real-one", "sk-ant-", &hex[..12]] {
            assert!(!text.contains(needle), "{needle} in {text}");
        }
    }
}

#[tokio::test]
async fn stopping_cuts_at_the_deadline_and_writes_the_last_records() {
    let bench = bench().await;
    let key = bench.placeholder();
    let client = bench.client.clone();
    let call = tokio::spawn(async move {
        let headers = [("x-api-key", key.expose())];
        let response =
            client.request(Method::POST, "/v1/messages", &headers, request().to_string()).await.expect("answered");
        read_body(response.into_body(), 1 << 20).await
    });
    let mut arrived = bench.arrived().await;
    arrived.begin_events().await;
    arrived.chunk(START).await;
    let Bench { proxy, audit, _dir, .. } = bench;
    proxy.stop(Duration::from_millis(50)).await;
    assert!(call.await.expect("joins").is_err(), "the stream was cut");
    let records = audit::read(&audit, 10).expect("reads");
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].status, records[0].usage_partial), (Some(200), true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bytes_are_identical_however_they_are_cut(
        body in prop::collection::vec(any::<u8>(), 1..5000),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        events in prop::bool::ANY,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let bench = bench().await;
            let key = bench.placeholder();
            let body = if events { [START, &body, END].concat() } else { body };
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len())).collect();
            cuts.sort_unstable();
            let (response, ()) = tokio::join!(bench.post(key.expose(), request()), async {
                let mut arrived = bench.arrived().await;
                arrived.begin_events().await;
                let mut at = 0;
                for cut in cuts.into_iter().chain([body.len()]) {
                    if cut > at {
                        arrived.chunk(&body[at..cut]).await;
                        at = cut;
                    }
                }
                arrived.write("0\r\n\r\n").await;
            });
            let got = read_body(response.into_body(), 1 << 20).await.expect("whole");
            assert_eq!(got, body);
            assert_eq!(bench.ended().await.error, None);
        });
    }
}
