use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::testing::{World, send};
use crate::rpc::client::header_text;
use crate::rpc::state_dir::DaemonStatus;
use crate::rpc::tokens::Token;

fn message(body: &Value) -> &str {
    body["error"].as_str().expect("an error body")
}

#[tokio::test]
async fn status_needs_no_token_and_tells_no_secret() {
    let world = World::new().await;
    let (code, body) = send(&world.base, Method::GET, "/daemon/status", &[], "").await;
    assert_eq!(code, 200);
    assert!(!body.to_string().contains(world.shared.expose()));
    let status: DaemonStatus = serde_json::from_value(body).expect("the client's type");
    assert_eq!(status.project_root, world.root);
    assert_eq!((status.agents.running, status.agents.limit), (2, 4));
    assert_eq!(status.pid, std::process::id());
}

#[tokio::test]
async fn a_command_is_run_in_the_name_of_its_caller() {
    let world = World::new().await;
    let (code, body) = world.rpc("echo", r#"{"actor":"builder","task":"a"}"#).await;
    assert_eq!((code, &body["by"]["actor"], &body["params"]), (200, &json!("builder"), &json!({"task": "a"})));
    let (code, body) = world.rpc("echo", "").await;
    assert_eq!((code, &body["by"]["actor"], &body["params"]), (200, &json!("human"), &json!({})));
}

#[tokio::test]
async fn what_does_not_parse_does_nothing() {
    let world = World::new().await;
    for body in ["{", "[]", "\"a\"", "null", r#"{"actor":"root"}"#, r#"{"actor":7}"#] {
        assert_eq!(world.rpc("echo", body).await.0, 400, "{body}");
    }
    let (code, body) = world.rpc("ecko", "{}").await;
    assert_eq!(code, 404);
    assert!(body.to_string().contains("did you mean echo?"), "{body}");
    let (code, body) = send(&world.base, Method::GET, "/rpc/echo", &[], "").await;
    assert_eq!((code, message(&body)), (400, "/rpc/echo takes POST, not GET"));
    for path in ["/", "/rpc", "/api/tasks", "/mcp/a", "/rpc/a/b"] {
        let (code, body) = send(&world.base, Method::POST, path, &[], "").await;
        assert_eq!((code, &body["kind"]), (404, &json!("not_found")), "{path}");
    }
    assert_eq!(world.ran(), 0);
}

#[tokio::test]
async fn tokens_open_their_own_surface_only() {
    let world = World::new().await;
    let root = Some(world.root.as_str());
    for path in ["/rpc/echo", "/daemon/shutdown", "/mcp/fix/lazy_list"] {
        assert_eq!(world.post(path, &Token::random(), root, "{}").await.0, 401, "{path}");
        assert_eq!(send(&world.base, Method::POST, path, &[], "{}").await.0, 401, "{path}");
    }
    let (code, body) = world.post("/rpc/echo", &world.task_token, root, "{}").await;
    assert_eq!(code, 401);
    assert!(message(&body).contains("/mcp"), "{body}");
    assert_eq!(world.post("/daemon/shutdown", &world.task_token, root, "{}").await.0, 401);
    assert_eq!(world.post("/mcp/fix/lazy_list", &world.shared, root, "{}").await.0, 401);
    assert_eq!(world.ran(), 0);
}

#[tokio::test]
async fn a_request_for_another_project_is_refused_by_name() {
    let world = World::new().await;
    for (path, token) in [("/rpc/echo", &world.shared), ("/mcp/fix/lazy_list", &world.task_token)] {
        let (code, body) = world.post(path, token, None, "{}").await;
        assert_eq!(code, 400);
        assert!(body.to_string().contains("x-lazy-project"), "{body}");
        let (code, body) = world.post(path, token, Some("/srv/other"), "{}").await;
        assert_eq!(code, 400);
        assert!(message(&body).contains(&world.root) && message(&body).contains("/srv/other"), "{body}");
    }
    let (code, body) = world.post("/rpc/echo", &Token::random(), Some("/srv/other"), "{}").await;
    assert_eq!(code, 401);
    assert!(message(&body).contains(&world.root) && message(&body).contains("/srv/other"), "{body}");
    assert_eq!(world.post("/daemon/shutdown", &world.shared, Some("/srv/other"), "").await.0, 400);
    std::fs::remove_dir(&world.root).expect("the project goes");
    assert_eq!(world.rpc("echo", "{}").await.0, 400);
    assert_eq!(world.ran(), 0);
    drop(world.dir);
}

#[tokio::test]
async fn a_tool_runs_as_the_task_of_the_token() {
    let world = World::new().await;
    for segment in ["fix", &world.task.to_string(), &world.task.short()] {
        let (code, body) = world.mcp(segment, "lazy_commit", r#"{"arguments":{"message":"m"}}"#).await;
        assert_eq!((code, &body["result"]["task"]), (200, &json!(world.task)), "{body}");
        assert_eq!(body["result"]["arguments"], json!({"message": "m"}));
    }
    assert_eq!(world.mcp("fix", "lazy_list", "").await.0, 200);
    let ran = world.ran();
    for segment in ["other", "_", "nobody"] {
        let (code, body) = world.mcp(segment, "lazy_list", "").await;
        assert_eq!(code, 403);
        assert!(message(&body).contains("fix") && message(&body).contains(segment), "{body}");
    }
    let (code, body) = world.mcp(world.task_token.expose(), "lazy_list", "").await;
    assert_eq!(code, 400);
    assert!(message(&body).contains("Authorization") && !message(&body).contains(world.task_token.expose()), "{body}");
    for (tool, body, expected) in [
        ("lazy_commit", r#"{"message":"m"}"#, 400),
        ("lazy_commit", r#"{"arguments":{}}"#, 400),
        ("lazy_commit", r#"{"arguments":{"message":7}}"#, 400),
        ("lazy_commit", r#"{"arguments":{"massage":"m"}}"#, 400),
        ("lazy_commit", r#"{"arguments":[]}"#, 400),
        ("lazy_commit", "[", 400),
        ("lazy_comit", r#"{"arguments":{"message":"m"}}"#, 404),
    ] {
        assert_eq!(world.mcp("fix", tool, body).await.0, expected, "{tool} {body}");
    }
    world.tokens.revoke_task(world.task).expect("revokes");
    assert_eq!(world.mcp("fix", "lazy_list", "").await.0, 401);
    assert_eq!(world.ran(), ran);
}

#[tokio::test]
async fn an_error_keeps_its_status_in_both_forms() {
    let world = World::new().await;
    let (code, body) = world.rpc("refuse", "{}").await;
    assert_eq!((code, message(&body), &body["hints"][0]), (409, "not now", &json!("lazy list")));
    assert_eq!(body["details"]["why"], "because");
    let (bearer, project) = (format!("Bearer {}", world.shared.expose()), header_text(&world.root));
    let headers = [("authorization", bearer.as_str()), ("x-lazy-project", project.as_str()), ("x-lazy-heartbeat", "1")];
    let (code, lines) = send(&world.base, Method::POST, "/rpc/refuse", &headers, "{}").await;
    assert_eq!(code, 200);
    let lines = lines.as_array().expect("lines");
    assert_eq!(lines.first(), Some(&json!({"lazyEnvelope": 1})));
    let last = lines.last().expect("a last line");
    assert_eq!((&last["status"], &last["body"]), (&json!(409), &body));
    // What is refused before it runs is not framed.
    assert_eq!(send(&world.base, Method::POST, "/rpc/none", &headers, "{}").await.0, 404);
}

#[tokio::test]
async fn a_panic_is_an_answer_and_not_the_end() {
    let world = World::new().await;
    assert_eq!(world.rpc("panic", "{}").await.0, 500);
    assert_eq!(world.rpc("echo", "{}").await.0, 200);
}

#[tokio::test]
async fn a_long_call_shows_that_it_lives() {
    let world = World::new().await;
    let (bearer, project) = (format!("Bearer {}", world.shared.expose()), header_text(&world.root));
    let headers = [("authorization", bearer.as_str()), ("x-lazy-project", project.as_str()), ("x-lazy-heartbeat", "1")];
    let release = async {
        world.seen.begun.notified().await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        world.seen.go.0.add_permits(1);
    };
    let ((code, lines), ()) = tokio::join!(send(&world.base, Method::POST, "/rpc/slow", &headers, "{}"), release);
    assert_eq!(code, 200);
    let lines = lines.as_array().expect("lines");
    assert!(lines.iter().any(|line| line["progress"]["label"] == "being slow"), "{lines:?}");
    assert!(lines.iter().any(|line| line["heartbeat"].is_u64() && line["phase"] == "being slow"), "{lines:?}");
    assert_eq!(lines.last(), Some(&json!({"status": 200, "body": "done"})));
}

/// Sends a call and hangs up once it runs.
async fn hang_up(world: &World, heartbeat: &str) {
    let address = world.server.address();
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let request = format!(
        "POST /rpc/slow HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nx-lazy-project: {}\r\n{heartbeat}content-length: 2\r\n\r\n{{}}",
        world.shared.expose(),
        header_text(&world.root)
    );
    stream.write_all(request.as_bytes()).await.expect("sends");
    world.seen.begun.notified().await;
    drop(stream);
}

#[tokio::test]
async fn a_caller_that_hangs_up_cancels_nothing() {
    let world = World::new().await;
    hang_up(&world, "").await;
    hang_up(&world, "x-lazy-heartbeat: 1\r\n").await;
    world.seen.go.0.add_permits(2);
    // The drain waits for work whose caller is gone; it would cut it after the hour.
    world.server.drain(Duration::from_secs(3600)).await;
    assert_eq!(world.seen.finished.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_drain_lets_work_end_and_waiting_stop() {
    let world = World::new().await;
    let both = async {
        tokio::join!(world.rpc("slow", "{}"), async {
            world.seen.begun.notified().await;
            world.rpc("wait", "{}").await
        })
    };
    let ending = async {
        while world.ran() < 2 {
            tokio::task::yield_now().await;
        }
        world.drain.begin(Duration::from_secs(3600));
        world.seen.go.0.add_permits(1);
    };
    let ((slow, waited), ()) = tokio::join!(both, ending);
    assert_eq!(slow, (200, json!("done")));
    assert_eq!(waited.0, 503);
    assert!(message(&waited.1).contains("ending"), "{waited:?}");
    let address = world.server.address();
    world.server.drained().await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn shutdown_answers_first() {
    let world = World::new().await;
    let (code, body) = world.post("/daemon/shutdown", &world.shared, None, "").await;
    assert_eq!((code, &body["ok"]), (200, &json!(true)));
    world.end.notified().await;
}

#[tokio::test]
async fn half_a_request_and_garbage_harm_nobody() {
    let world = World::new().await;
    let address = world.server.address();
    let mut half = TcpStream::connect(address).await.expect("connects");
    half.write_all(b"POST /rpc/echo HTTP/1.1\r\nauthorization: Bea").await.expect("sends");
    let mut garbage = TcpStream::connect(address).await.expect("connects");
    garbage.write_all(b"\x16\x03\x01\x00\xff\xfe\r\n\r\n").await.expect("sends");
    let mut answer = Vec::new();
    garbage.read_to_end(&mut answer).await.ok();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    assert_eq!(world.rpc("echo", "{}").await.0, 200);
    assert_eq!(world.ran(), 1);
}

#[tokio::test]
async fn a_body_on_its_way_does_not_hold_up_the_end() {
    let world = World::new().await;
    let address = world.server.address();
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let request = format!(
        "POST /rpc/echo HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nx-lazy-project: {}\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n{{",
        world.shared.expose(),
        header_text(&world.root)
    );
    stream.write_all(request.as_bytes()).await.expect("sends");
    let mut first = [0; 25];
    stream.read_exact(&mut first).await.expect("it has begun to read the body");
    assert!(first.starts_with(b"HTTP/1.1 100"));
    world.server.drain(Duration::from_secs(3600)).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.contains("503"), "{answer}");
    assert_eq!(world.seen.ran.load(Ordering::SeqCst), 0);
}
