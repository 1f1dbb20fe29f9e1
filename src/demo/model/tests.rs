use std::ffi::OsString;

use hyper::{Method, Response, body::Incoming};
use serde_json::{Value, json};

use super::*;
use crate::http::{Client, read_body};

async fn start(scenario: Scenario) -> (ModelServer, Client) {
    let server = serve(bind_window("127.0.0.1", 0, 1).await.expect("binds"), scenario).expect("serves");
    let client = Client::new(&format!("http://{}", server.address())).expect("client");
    (server, client)
}

async fn ask(client: &Client, body: &Value) -> Response<Incoming> {
    let headers = [("x-api-key", "k-1"), ("content-type", "application/json")];
    client.request(Method::POST, "/v1/messages?beta=true", &headers, body.to_string()).await.expect("answered")
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(read_body(response.into_body(), 1 << 20).await.expect("whole").to_vec()).expect("text")
}

fn main_request(prompt: &str) -> Value {
    json!({"model": "claude-opus-4-7", "max_tokens": 100, "tools": [{"name": "Bash"}],
           "messages": [{"role": "user", "content": prompt}]})
}

#[tokio::test]
async fn steps_are_played_in_order_and_side_traffic_uses_none() {
    let script = Scenario::of([Reply::text("one"), Reply::text("two")]);
    let (server, client) = start(script).await;
    let side = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]});
    let mut ids = Vec::new();
    for (request, want) in [
        (&side, "ok"),
        (&main_request("go"), "one"),
        (&side, "ok"),
        (&main_request("go"), "two"),
        (&main_request("go"), "The script has no further step for this request."),
    ] {
        let message: Value = serde_json::from_str(&text(ask(&client, request).await).await).expect("json");
        assert_eq!(message["content"][0]["text"], want);
        ids.push(message["id"].to_string());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5, "each message has an id of its own");
    assert!(server.unplayed().is_empty());
    let requests = server.requests();
    assert_eq!(requests.iter().map(|request| request.step).collect::<Vec<_>>(), [None, Some(0), None, Some(1), None]);
    assert_eq!(requests[0].header("x-api-key"), Some("k-1"));
    let listed = client.request(Method::GET, "/__requests", &[], "").await.expect("answered");
    let listed: Vec<Received> = serde_json::from_str(&text(listed).await).expect("json");
    assert_eq!(listed, requests);
}

#[tokio::test]
async fn streams_errors_raw_bodies_and_breaks() {
    let error = ErrorReply {
        status: 529,
        kind: "overloaded_error".into(),
        message: "busy".into(),
        retry_after: Some("3".into()),
    };
    let raw = RawReply { status: Some(418), content_type: Some("text/plain".into()), body: "teapot".into() };
    let script = Scenario::of([
        Reply::text("streamed"),
        Reply { error: Some(error), ..Reply::default() },
        Reply { raw: Some(raw), ..Reply::default() },
        Reply { drop_after: Some(3), ..Reply::text("never ends") },
        Reply { drop_after: Some(0), ..Reply::text("plain") },
    ]);
    let (_server, client) = start(script).await;
    let mut streamed = main_request("go");
    streamed["stream"] = json!(true);
    let stream = text(ask(&client, &streamed).await).await;
    assert!(
        stream.starts_with("event: message_start\n") && stream.ends_with("{\"type\":\"message_stop\"}\n\n"),
        "{stream}"
    );
    let refused = ask(&client, &streamed).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (529, &"3".parse().expect("value")));
    assert!(text(refused).await.contains("overloaded_error"));
    let raw = ask(&client, &streamed).await;
    assert_eq!((raw.status().as_u16(), text(raw).await.as_str()), (418, "teapot"));
    let broken = ask(&client, &streamed).await;
    assert!(read_body(broken.into_body(), 1 << 20).await.is_err(), "a break is not an end");
    let broken = ask(&client, &main_request("go")).await;
    assert!(read_body(broken.into_body(), 1 << 20).await.is_err(), "a break is not an end");
}

#[tokio::test]
async fn the_small_endpoints_answer() {
    let (_server, client) = start(Scenario::default()).await;
    for (method, path, status) in [
        (Method::GET, "/v1/models", 200),
        (Method::HEAD, "/", 200),
        (Method::POST, "/v1/messages/count_tokens", 200),
        (Method::GET, "/nothing", 404),
    ] {
        let response = client.request(method, path, &[], "{}").await.expect("answered");
        assert_eq!(response.status().as_u16(), status, "{path}");
    }
}

/// Plays a turn against a scenario: the calls that were made, and the last text.
fn turn(scenario: &Scenario, tools: &[&str], history: &mut Vec<Value>, prompt: &str) -> (Vec<String>, String) {
    history.push(json!({"role": "user", "content": prompt}));
    let mut calls = Vec::new();
    for _ in 0..20 {
        let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name })).collect();
        let request = json!({"tools": tools, "system": "Working directory: /w", "messages": history});
        let facts = facts::Facts::of(&request);
        let step = scenario.steps.iter().find(|step| facts.fit(&step.when)).expect("a step fits");
        let message = reply::message(&step.reply, &facts, 0);
        history.push(json!({"role": "assistant", "content": message["content"]}));
        let blocks = message["content"].as_array().expect("blocks");
        let Some(call) = blocks.iter().find(|block| block["type"] == "tool_use") else {
            return (calls, blocks[0]["text"].to_string());
        };
        calls.push(call["name"].as_str().expect("name").to_string());
        history.push(
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "done"}]}),
        );
    }
    panic!("the turn does not end");
}

#[test]
fn the_built_in_scenario_works_with_both_agents() {
    let scenario = Scenario::built_in();
    assert!(scenario.steps.iter().all(|step| step.uses == Uses::Always), "a turn can be played again after a crash");
    let lazy = ["mcp__lazy__lazy_update_progress", "mcp__lazy__lazy_commit"];
    for (own, edit) in [(["Read", "Write", "Bash"], "Bash"), (["read_file", "write_file", "bash"], "bash")] {
        let tools: Vec<&str> = own.into_iter().chain(lazy).collect();
        let mut history = Vec::new();
        let (calls, summary) = turn(&scenario, &tools, &mut history, "write a greeting");
        assert_eq!(calls, [own[0], own[1], lazy[0], lazy[1]]);
        assert!(summary.contains("Summary"));
        let (answer_calls, answer) = turn(&scenario, &own, &mut history.clone(), "what did you do?");
        assert!(answer_calls.is_empty() && answer.contains("answering your question"), "{answer}");
        let (calls, summary) = turn(&scenario, &tools, &mut history, "add a line");
        assert_eq!(calls, [own[0], edit, lazy[0], lazy[1]]);
        assert!(summary.contains("feedback"));
    }
}

#[test]
fn files_and_words_are_checked() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("s.toml");
    std::fs::write(&path, "[[steps]]\nreply = { content = [{ text = \"hi\" }] }\n").expect("writes");
    assert_eq!(Scenario::load(&path).expect("reads").steps[0].reply, Reply::text("hi"));
    std::fs::write(&path, "[[steps]]\nrelpy = 1\n").expect("writes");
    assert!(Scenario::load(&path).expect_err("refused").to_string().contains("s.toml"));
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let parsed = Options::parse(&words(&["--port", "81", "--scenario", "x"])).expect("parses");
    assert_eq!(parsed, Options { scenario: Some("x".into()), port: 81 });
    for bad in [&["--port"][..], &["--port", "x"], &["--what"]] {
        assert!(Options::parse(&words(bad)).is_err(), "{bad:?}");
    }
}
