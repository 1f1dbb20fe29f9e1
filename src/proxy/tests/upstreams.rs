//! Where a request goes, and what an upstream must be for it to go there.

use super::*;

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

/// A TLS server with a certificate for `localhost` and `127.0.0.1`, signed by the authority in `tests/ca.pem`.
fn tls_acceptor() -> tokio_rustls::TlsAcceptor {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let leaf = CertificateDer::from_pem_slice(include_bytes!("leaf.pem")).expect("certificate");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("leaf.key")).expect("key");
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
    std::fs::write(&bundle, include_bytes!("ca.pem")).expect("writes");
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
