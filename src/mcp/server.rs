//! The loop: one line in, its work on its own, one line out.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::message::{self, INVALID_PARAMS, Incoming, METHOD_NOT_FOUND};
use super::relay::Relay;
use super::{SERVER_KEY, Toolset, catalogue, schema};
use crate::base::text::plural;
use crate::base::{Process, Result, ResultExt};
use crate::proc::lines::{Line, Lines};

/// Revisions negotiated by `initialize`, newest first.
const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The revision without a handshake.
const HANDSHAKE_LESS: &str = "2026-07-28";
/// Bytes of a line from the client.
const LINE_LIMIT: usize = 32 << 20;

/// What the model is told about the server.
const INSTRUCTIONS: &str = include_str!("../../assets/prompts/mcp-server-instructions.md");

/// How long calls under way may still be answered after the client closed its end. What they asked for goes on in the
/// daemon; a wait of hours must not keep this process.
const FAREWELL: Duration = Duration::from_millis(700);

/// Serves until the end of input, and then as long as calls are under way, at most [`FAREWELL`].
pub async fn serve(
    process: &Process,
    relay: Relay,
    toolset: Toolset,
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> Result<()> {
    let (sender, mut replies) = mpsc::unbounded_channel::<Value>();
    let server = Arc::new(Server { relay, toolset, process: process.clone() });
    let mut lines = Lines::with_limit(input, LINE_LIMIT);
    let mut calls: JoinSet<()> = JoinSet::new();
    let mut open = true;
    let mut end = pin!(tokio::time::sleep(Duration::ZERO));
    while open || !calls.is_empty() || !replies.is_empty() {
        tokio::select! {
            line = lines.next(), if open => match line.io_context(|| "cannot read from the client".into())? {
                None => {
                    open = false;
                    end.as_mut().reset(Instant::now() + FAREWELL);
                }
                Some(Line::Whole(line)) => {
                    let (server, sender) = (Arc::clone(&server), sender.clone());
                    calls.spawn(async move { server.take(&line, &sender).await });
                }
                Some(_) => process.err_line("[lazy-mcp] a line was too long and was dropped"),
            },
            Some(reply) = replies.recv() => {
                let mut bytes = reply.to_string().into_bytes();
                bytes.push(b'\n');
                let written = async { output.write_all(&bytes).await?; output.flush().await };
                // A client that closed its end wants no more answers.
                if written.await.is_err() {
                    break;
                }
            }
            () = &mut end, if !open => {
                process.err_line(format!("[lazy-mcp] the client is gone; {} left to the daemon", plural(calls.len(), "call")));
                break;
            }
            Some(ended) = calls.join_next() => {
                if let Err(error) = ended {
                    process.err_line(format!("[lazy-mcp] a call broke: {error}"));
                }
            }
        }
    }
    Ok(())
}

struct Server {
    relay: Relay,
    toolset: Toolset,
    process: Process,
}

impl Server {
    async fn take(&self, line: &[u8], sender: &mpsc::UnboundedSender<Value>) {
        let reply = match Incoming::read(line) {
            Incoming::Nothing => None,
            Incoming::Broken(reply) => reply,
            Incoming::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    let id = params.get("requestId").cloned().unwrap_or_default();
                    self.process
                        .err_line(format!("[lazy-mcp] request {id} was cancelled by the client; it runs to its end"));
                }
                None
            }
            Incoming::Request { id, method, params } => Some(self.answer(&id, &method, params, sender).await),
        };
        if let Some(reply) = reply {
            sender.send(reply).ok();
        }
    }

    async fn answer(&self, id: &Value, method: &str, params: Value, sender: &mpsc::UnboundedSender<Value>) -> Value {
        let newer = method == "server/discover" || revision_of(&params) == Some(HANDSHAKE_LESS);
        let mut reply = self.answered(id, method, params, sender).await;
        if let Some(result) = reply.get_mut("result").and_then(Value::as_object_mut).filter(|_| newer) {
            result.insert("resultType".into(), "complete".into());
            if matches!(method, "server/discover" | "tools/list") {
                // The lists are fixed for the life of this process, and nobody else's.
                result.insert("ttlMs".into(), 0.into());
                result.insert("cacheScope".into(), "private".into());
            }
        }
        reply
    }

    async fn answered(&self, id: &Value, method: &str, params: Value, sender: &mpsc::UnboundedSender<Value>) -> Value {
        match method {
            "initialize" => message::result(id, self.greeting(negotiate(&params))),
            "server/discover" => {
                let mut greeting = self.greeting(HANDSHAKE_LESS);
                greeting["supportedVersions"] = json!([HANDSHAKE_LESS]);
                message::result(id, greeting)
            }
            "ping" => message::result(id, json!({})),
            "tools/list" => message::result(id, json!({ "tools": self.tools() })),
            "tools/call" => self.call(id, params, sender).await,
            other => message::error(id, METHOD_NOT_FOUND, &format!("Method not found: {other}")),
        }
    }

    fn greeting(&self, revision: &str) -> Value {
        json!({
            "protocolVersion": revision,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": SERVER_KEY, "version": env!("CARGO_PKG_VERSION") },
            "instructions": INSTRUCTIONS.trim(),
        })
    }

    fn tools(&self) -> Vec<Value> {
        catalogue::of(self.toolset)
            .into_iter()
            .map(|tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": tool.schema }))
            .collect()
    }

    async fn call(&self, id: &Value, mut params: Value, sender: &mpsc::UnboundedSender<Value>) -> Value {
        let wrong = |message: &str| message::error(id, INVALID_PARAMS, message);
        let Some(name) = params.get("name").and_then(Value::as_str).map(str::to_string) else {
            return wrong("the call names no tool");
        };
        let Some(tool) = catalogue::find(&name) else { return wrong(&format!("Unknown tool: {name}")) };
        let arguments = match params.get_mut("arguments").map(Value::take) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return wrong("the arguments must be an object"),
        };
        if self.toolset == Toolset::Read && tool.access == catalogue::Access::Write {
            return failed(id, &format!("{name} is not available while you answer a question; answer in words"));
        }
        if let Err(error) = schema::validate(&tool.schema, &arguments) {
            return wrong(&format!("Invalid arguments for {name}: {error}"));
        }
        let token = params
            .get("_meta")
            .and_then(|meta| meta.get("progressToken"))
            .filter(|token| token.is_string() || token.is_number());
        let count = AtomicU64::new(0);
        let settled = AtomicBool::new(false);
        let tell = |text: String| {
            let Some(token) = token.filter(|_| !settled.load(Ordering::SeqCst)) else { return };
            let count = count.fetch_add(1, Ordering::SeqCst) + 1;
            sender.send(message::progress(token, count, &text)).ok();
        };
        let called = self.relay.call(&name, &arguments, &tell).await;
        settled.store(true, Ordering::SeqCst);
        match called {
            Ok(value) => {
                let text = match value {
                    Value::String(text) => text,
                    value => serde_json::to_string_pretty(&value).unwrap_or_default(),
                };
                message::result(id, json!({ "content": [{ "type": "text", "text": text }] }))
            }
            Err(error) => failed(id, &error.full_message()),
        }
    }
}

/// The revision that a request of the newer era names.
fn revision_of(params: &Value) -> Option<&str> {
    params.get("_meta")?.get("io.modelcontextprotocol/protocolVersion")?.as_str()
}

/// The client's revision if it is known, else the newest.
fn negotiate(params: &Value) -> &'static str {
    let wanted = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    REVISIONS.into_iter().find(|revision| *revision == wanted).unwrap_or(REVISIONS[0])
}

/// A tool that refused: a result that says so, as the protocol wants it.
fn failed(id: &Value, message: &str) -> Value {
    let text = json!({ "error": message }).to_string();
    message::result(id, json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::base::Millis;
    use crate::rpc::mcp_config::McpConfig;
    use crate::rpc::tokens::Token;

    fn config(target: String) -> McpConfig {
        McpConfig {
            token: Token::random(),
            project_root: "/p".into(),
            task_id: "x".into(),
            target,
            reach: Default::default(),
        }
    }

    async fn talk(toolset: Toolset, lines: &str) -> Vec<Value> {
        let dir = tempfile::tempdir().expect("temp dir");
        let config = config("http://127.0.0.1:1".into());
        let process = Process::fake(["lazy"], &[], dir.path(), Millis(0));
        let (mut reader, writer) = tokio::io::duplex(1 << 20);
        let relay = Relay::new(dir.path().join("none.json"), config);
        serve(&process, relay, toolset, lines.as_bytes(), writer).await.expect("serves");
        let mut text = String::new();
        reader.read_to_string(&mut text).await.expect("reads");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    #[tokio::test]
    async fn the_handshake_negotiates_and_the_newer_era_needs_none() {
        let old = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#;
        assert_eq!(talk(Toolset::Full, old).await[0]["result"]["protocolVersion"], "2024-11-05");
        let odd = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1999-01-01"}}"#;
        assert_eq!(talk(Toolset::Full, odd).await[0]["result"]["protocolVersion"], REVISIONS[0]);
        let new = r#"{"jsonrpc":"2.0","id":"a","method":"server/discover"}"#;
        let discovered = talk(Toolset::Full, new).await;
        assert_eq!(discovered[0]["result"]["supportedVersions"][0], HANDSHAKE_LESS);
        assert_eq!(discovered[0]["result"]["resultType"], "complete");
        let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let list = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{meta}}}"#);
        let listed = talk(Toolset::Full, &list).await;
        assert_eq!(
            (&listed[0]["result"]["resultType"], &listed[0]["result"]["cacheScope"]),
            (&"complete".into(), &"private".into())
        );
        let older = talk(Toolset::Full, r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await;
        assert_eq!(older[0]["result"], json!({}), "the older era gets no new keys");
    }

    #[tokio::test]
    async fn wrong_calls_are_refused_before_anything_happens() {
        let call = |name: &str, arguments: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
            )
        };
        let code = |reply: &[Value]| reply[0]["error"]["code"].as_i64();
        assert_eq!(code(&talk(Toolset::Full, &call("lazy_nope", "{}")).await), Some(INVALID_PARAMS));
        assert_eq!(code(&talk(Toolset::Full, &call("lazy_commit", "{}")).await), Some(INVALID_PARAMS));
        assert_eq!(code(&talk(Toolset::Full, &call("lazy_commit", "[]")).await), Some(INVALID_PARAMS));
        let refused = talk(Toolset::Read, &call("lazy_commit", r#"{"message":"x"}"#)).await;
        assert_eq!(refused[0]["result"]["isError"], true);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_not_outlived_by_its_calls() {
        let dir = tempfile::tempdir().expect("temp dir");
        let daemon = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let relay = Relay::new(
            dir.path().join("none.json"),
            config(format!("http://{}", daemon.local_addr().expect("address"))),
        );
        let process = Process::fake(["lazy"], &[], dir.path(), Millis(0));
        let (mut client, input) = tokio::io::duplex(1 << 16);
        let serving = tokio::spawn(async move {
            serve(&process, relay, Toolset::Full, input, tokio::io::sink()).await.expect("serves");
        });
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lazy_wait","arguments":{"task_id":"x"}}}"#;
        client.write_all(format!("{call}\n").as_bytes()).await.expect("writes");
        let (_held, _) = daemon.accept().await.expect("the call reaches a daemon that never answers");
        drop(client);
        tokio::time::timeout(Duration::from_secs(5), serving).await.expect("it ends").expect("joins");
    }

    #[tokio::test]
    async fn notifications_are_never_answered_and_every_request_is() {
        let lines = [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "",
            "not json",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"resources/list"}"#,
        ];
        let replies = talk(Toolset::Full, &lines.join("\n")).await;
        assert_eq!(replies.len(), 4);
        let list = replies.iter().find(|reply| reply["id"] == 1).expect("answered");
        assert_eq!(list["result"]["tools"].as_array().map(Vec::len), Some(catalogue::all().len()));
    }
}
