//! The proxy between real sockets: a client on one side, an upstream that the test plays by hand on the other.

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
async fn an_unreachable_upstream_is_a_502() {
    let bench = bench_with(|config| config.upstream = "http://127.0.0.1:1".into()).await;
    let key = bench.placeholder();
    let response = bench.post(key.expose(), request()).await;
    assert_eq!(response.status().as_u16(), 502);
    let body = read_body(response.into_body(), 1000).await.expect("whole");
    assert_eq!(serde_json::from_slice::<Value>(&body).expect("json")["error"]["type"], "proxy_error");
    let record = bench.ended().await;
    assert_eq!(record.status, None);
    assert!(record.error.is_some_and(|error| error.contains("http://127.0.0.1:1")));
}

#[tokio::test]
async fn only_an_unwritten_request_is_sent_again() {
    let bench = bench().await;
    let key = bench.placeholder();
    let (first, mut arrived) = tokio::join!(bench.post(key.expose(), request()), async {
        let mut arrived = bench.arrived().await;
        arrived.answer_json(&json!({})).await;
        arrived
    });
    read_body(first.into_body(), 100).await.expect("whole");
    // The upstream closes the idle connection: the next request finds that out and takes a fresh one.
    arrived.stream.shutdown().await.expect("closes");
    arrived.hung_up().await;
    let (second, ()) = tokio::join!(bench.post(key.expose(), request()), async {
        bench.arrived().await.answer_json(&json!({})).await;
    });
    assert_eq!(second.status().as_u16(), 200);
    read_body(second.into_body(), 100).await.expect("whole");
    // One that was written and not answered is not repeated.
    let fresh = bench_with(|_| {}).await;
    let key = fresh.placeholder();
    let (third, ()) = tokio::join!(fresh.post(key.expose(), request()), async {
        drop(fresh.arrived().await);
    });
    assert_eq!(third.status().as_u16(), 502);
    let again = tokio::time::timeout(Duration::from_millis(50), fresh.upstream.accept()).await;
    assert!(again.is_err(), "it was sent twice");
}

#[tokio::test]
async fn roles_go_where_their_grant_says() {
    let local = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = local.local_addr().expect("address");
    let bench = bench_with(|config| {
        config.role_targets.push(RoleTarget {
            role: CallerRole::Agent,
            upstream: format!("http://{address}"),
            credential: TargetCredential::None,
        });
    })
    .await;
    let key = bench.placeholder();
    let (response, ()) = tokio::join!(bench.post(key.expose(), request()), async {
        let mut arrived = Arrived::read(local.accept().await.expect("accepts").0).await;
        assert!(!arrived.head.contains("sk-ant") && arrived.header("x-api-key").is_none(), "{}", arrived.head);
        arrived.answer_json(&json!({})).await;
    });
    assert_eq!(response.status().as_u16(), 200);
    read_body(response.into_body(), 100).await.expect("whole");
    assert_eq!(bench.ended().await.upstream, format!("http://{address}"));
}

#[tokio::test]
async fn contradictions_are_refused_at_the_start() {
    let dir = tempfile::tempdir().expect("temp dir");
    let grants = Arc::new(Grants::open(dir.path().join("p.json")).expect("opens"));
    let config = |upstream: &str, role: &str| ProxyConfig {
        bind: "127.0.0.1".into(),
        port: None,
        upstream: upstream.into(),
        role_targets: vec![RoleTarget {
            role: CallerRole::Agent,
            upstream: role.into(),
            credential: TargetCredential::None,
        }],
        audit_path: dir.path().join("a.jsonl"),
        credential: Arc::new(Source(Mutex::new(None))),
        policy: Arc::default(),
        process: Process::fake(["lazy"], &[], dir.path(), Millis(0)),
    };
    for (upstream, role) in
        [("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v2"), ("nonsense", "http://x"), ("http://x", "y")]
    {
        let error = Proxy::start(config(upstream, role), grants.clone()).await.expect_err("refused");
        assert_eq!(error.kind(), Kind::Config, "{upstream} {role}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = taken.local_addr().expect("address").port();
    let config = ProxyConfig { port: Some(port), ..config("http://x", "http://y") };
    assert_eq!(Proxy::start(config, grants).await.expect_err("taken").kind(), Kind::Conflict);
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

/// A TLS server with a certificate for `localhost` and `127.0.0.1`, signed by the authority in `tests/ca.pem`.
fn tls_acceptor() -> tokio_rustls::TlsAcceptor {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let leaf = CertificateDer::from_pem_slice(include_bytes!("tests/leaf.pem")).expect("certificate");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tests/leaf.key")).expect("key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key)
        .expect("they belong together");
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn an_https_upstream_is_reached_only_if_its_certificate_is_trusted() {
    let dir = tempfile::tempdir().expect("temp dir");
    let bundle = dir.path().join("ca.pem");
    std::fs::write(&bundle, include_bytes!("tests/ca.pem")).expect("writes");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = listener.local_addr().expect("address").port();
    let served = tokio::spawn(async move {
        let acceptor = tls_acceptor();
        let mut heads = Vec::new();
        while heads.len() < 2 {
            // A client that does not trust the certificate ends the handshake.
            let Ok(mut stream) = acceptor.accept(listener.accept().await.expect("accepts").0).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"{}") {
                assert_ne!(stream.read_buf(&mut head).await.expect("reads"), 0);
            }
            heads.push(String::from_utf8(head).expect("text"));
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
                .await
                .expect("writes");
            stream.shutdown().await.ok();
        }
        heads
    });
    for (host, env, status) in [
        ("localhost", vec![("SSL_CERT_FILE", bundle.to_str().expect("utf-8"))], 200),
        ("localhost", vec![], 502),
        ("127.0.0.1", vec![("SSL_CERT_FILE", bundle.to_str().expect("utf-8"))], 200),
    ] {
        let bench = bench_with(|config| {
            config.upstream = format!("https://{host}:{port}");
            config.process = Process::fake(["lazy"], &env, dir.path(), Millis(0));
        })
        .await;
        let response = bench.post(bench.placeholder().expose(), json!({})).await;
        assert_eq!(response.status().as_u16(), status, "{host} {env:?}");
    }
    for head in served.await.expect("joins") {
        assert!(head.contains(REAL), "{head}");
    }
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

/// A proxy that judges by the default rules.
async fn policed() -> Bench {
    bench_with(|config| {
        let settings = crate::config::schema::Policy::default();
        config.policy = Arc::new(policy::Policy::from_settings(&settings, Some("/home/u".into())));
    })
    .await
}

fn tool_events(path: &str) -> String {
    let input = json!({ "file_path": path }).to_string();
    [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t0", "name": "Read", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": input}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}),
    ]
    .iter()
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type")))
    .collect()
}

#[tokio::test]
async fn with_rules_text_still_comes_at_once_and_a_call_waits_for_its_end() {
    let bench = policed().await;
    let key = bench.placeholder();
    let client = bench.client.clone();
    let call = tokio::spawn(async move {
        let headers = [("x-api-key", key.expose())];
        client.request(Method::POST, "/v1/messages", &headers, request().to_string()).await.expect("answered")
    });
    let mut arrived = bench.arrived().await;
    arrived.begin_events().await;
    let mut response = call.await.expect("joins");
    arrived.chunk(START).await;
    assert_eq!(next(&mut response).await.expect("more").expect("whole"), START);
    let events = tool_events("src/main.rs");
    let half = events.find("event: content_block_stop").expect("a stop");
    arrived.chunk(&events.as_bytes()[..half]).await;
    let ping = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";
    arrived.chunk(ping).await;
    assert_eq!(next(&mut response).await.expect("more").expect("whole"), &ping[..], "the call is still held");
    arrived.chunk(&events.as_bytes()[half..]).await;
    arrived.write("0\r\n\r\n").await;
    assert_eq!(read_body(response.into_body(), 1 << 20).await.expect("whole"), events);
    let record = bench.ended().await;
    assert_eq!((record.error, record.enforcement, record.unjudged), (None, None, None));
    assert_eq!(record.judged[0].paths, ["src/main.rs"]);
    assert_eq!(record.usage.and_then(|usage| usage.output_tokens), Some(5));
}

#[tokio::test]
async fn a_damaged_call_ends_the_response_and_the_request() {
    let bench = policed().await;
    let key = bench.placeholder();
    let (response, arrived) = tokio::join!(bench.post(key.expose(), request()), async {
        let mut arrived = bench.arrived().await;
        arrived.begin_events().await;
        arrived.chunk(START).await;
        arrived.chunk(tool_events("x").replace("\\\"x\\\"}", "").as_bytes()).await;
        arrived
    });
    let body = read_body(response.into_body(), 1 << 20).await.expect("the end says what happened");
    let body = std::str::from_utf8(&body).expect("text");
    assert!(body.contains("event: error\ndata: ") && !body.contains("t0") && !body.contains("message_delta"), "{body}");
    // The rest of the upstream's response is not waited for.
    arrived.hung_up().await;
    let record = bench.ended().await;
    assert!(record.error.as_deref().is_some_and(|error| error.contains("damaged")), "{record:?}");
    assert!(record.usage_partial && record.judged[0].verdict == gate::Verdict::Damaged, "{record:?}");
}

/// The events of `tool_events` in every encoding that is known, each with its name.
fn encoded(plain: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    use std::io::Write;
    let level = flate2::Compression::default();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    gzip.write_all(plain).expect("encodes");
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
    zlib.write_all(plain).expect("encodes");
    let mut bare = flate2::write::DeflateEncoder::new(Vec::new(), level);
    bare.write_all(plain).expect("encodes");
    vec![
        ("gzip", gzip.finish().expect("encodes")),
        ("deflate", zlib.finish().expect("encodes")),
        ("deflate", bare.finish().expect("encodes")),
        ("zstd", zstd::encode_all(plain, 3).expect("encodes")),
        ("br", brotli_stored(plain)),
    ]
}

/// Brotli without compression: one block of metadata-free, uncompressed bytes, and the end.
fn brotli_stored(plain: &[u8]) -> Vec<u8> {
    assert!((1..=1 << 16).contains(&plain.len()));
    // Window bits 16 (0), not the last, 4 nibbles of length (00), the length less one, uncompressed (1), filled up.
    let length = (plain.len() - 1) as u32;
    let bits: u32 = (length << 4) | (1 << 20);
    let mut out = bits.to_le_bytes()[..3].to_vec();
    out.extend_from_slice(plain);
    // The last block, empty.
    out.push(3);
    out
}

#[tokio::test]
async fn encoded_responses_are_decoded_to_be_judged_and_only_then() {
    for (path, denied) in [("~/.ssh/id_rsa", true), ("src/main.rs", false)] {
        let plain = [START, tool_events(path).as_bytes()].concat();
        for (coding, body) in encoded(&plain) {
            for (bench, judged) in [(policed().await, true), (bench().await, false)] {
                let key = bench.placeholder();
                let (response, ()) = tokio::join!(bench.post(key.expose(), request()), async {
                    let mut arrived = bench.arrived().await;
                    assert_eq!(arrived.header("accept-encoding"), Some("identity"));
                    arrived.write(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: {coding}\r\ntransfer-encoding: chunked\r\n\r\n")).await;
                    for piece in body.chunks(50) {
                        arrived.chunk(piece).await;
                    }
                    arrived.write("0\r\n\r\n").await;
                });
                assert_eq!(response.headers().contains_key("content-encoding"), !judged);
                let got = read_body(response.into_body(), 1 << 20).await.expect("whole");
                match (judged, denied) {
                    (false, _) => assert_eq!(got, body, "{coding}: untouched"),
                    (true, false) => assert_eq!(got, plain, "{coding}"),
                    (true, true) => assert!(String::from_utf8_lossy(&got).contains("lazy proxy blocked"), "{coding}"),
                }
                if judged {
                    let record = bench.ended().await;
                    assert_eq!(record.enforcement.is_some(), denied);
                    assert_eq!(record.usage.and_then(|usage| usage.output_tokens), Some(5), "{coding}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_encoding_that_breaks_off_or_is_not_known_does_not_pass() {
    let plain = [START, tool_events("src/main.rs").as_bytes()].concat();
    for (coding, body) in encoded(&plain).into_iter().chain([("gzip, br", plain.clone()), ("snappy", plain.clone())]) {
        let bench = policed().await;
        let key = bench.placeholder();
        let (response, ()) = tokio::join!(bench.post(key.expose(), request()), async {
            let mut arrived = bench.arrived().await;
            let half = &body[..body.len() - body.len() / 3];
            let head = format!(
                "content-type: text/event-stream\r\ncontent-encoding: {coding}\r\ncontent-length: {}",
                half.len()
            );
            arrived.write(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n")).await;
            arrived.stream.write_all(half).await.ok();
        });
        let status = response.status().as_u16();
        let outcome = read_body(response.into_body(), 1 << 20).await;
        match coding {
            "gzip, br" | "snappy" => assert_eq!(status, 502, "{coding}"),
            _ => assert!(status == 200 && outcome.is_err(), "{coding}: ended as whole"),
        }
    }
}
