//! A client of stdio MCP servers: starts those of the configuration file and lends their tools to the model.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::options::Options;
use super::tools::Answer;
use crate::base::{Error, Kind, Process, Result, json as json_files};
use crate::proc::lines::{Line, Lines};
use crate::proc::{Cmd, GRACE, Running, spawn_piped};

/// The newest protocol revision this client speaks.
const PROTOCOL: &str = "2025-06-18";

/// How long a server may take to start and list its tools.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long a call may take: waiting for other tasks is a call.
const CALL_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// How long a server may take to end once its input is closed.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// The tools of all servers of the configuration.
#[derive(Default)]
pub struct McpTools {
    states: Vec<(String, &'static str)>,
    servers: Vec<Server>,
    tools: Vec<Tool>,
}

struct Server {
    running: Running,
    connection: Mutex<Connection>,
}

struct Tool {
    /// `mcp__<server>__<name>`.
    full_name: String,
    name: String,
    server: usize,
    definition: Value,
}

#[derive(Deserialize)]
struct Config {
    #[serde(rename = "mcpServers", default)]
    servers: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl McpTools {
    /// Starts the servers of `--mcp-config`. One that does not start is reported as `failed` and has no tools.
    ///
    /// # Errors
    /// The file is missing or does not parse.
    pub async fn start(process: &Process, options: &Options) -> Result<McpTools> {
        let Some(path) = &options.mcp_config else { return Ok(McpTools::default()) };
        let config: Config = json_files::load(path)?.ok_or_else(|| {
            Error::new(Kind::NotFound, format!("the MCP configuration {} does not exist", path.display()))
        })?;
        let mut all = McpTools::default();
        for (name, entry) in &config.servers {
            let started = timeout(START_LIMIT, start_server(process, options, entry)).await;
            let started = started.unwrap_or_else(|_| Err(Error::new(Kind::Timeout, "it did not answer in time")));
            match started {
                Ok((server, listed)) => {
                    let at = all.servers.len();
                    all.tools.extend(listed.into_iter().filter_map(|tool| Tool::read(name, at, &tool)));
                    all.servers.push(server);
                    all.states.push((name.clone(), "connected"));
                }
                Err(error) => {
                    process.err_line(format!("MCP server {name} did not start: {}", error.full_message()));
                    all.states.push((name.clone(), "failed"));
                }
            }
        }
        Ok(all)
    }

    /// Name and state of each server.
    pub fn servers(&self) -> &[(String, &'static str)] {
        &self.states
    }

    /// The tools' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.full_name.as_str())
    }

    /// The tools' definitions.
    pub fn definitions(&self) -> impl Iterator<Item = Value> + '_ {
        self.tools.iter().map(|tool| tool.definition.clone())
    }

    /// Runs a call; `None` when no server has the tool.
    pub async fn call(&self, full_name: &str, input: &Value) -> Option<Answer> {
        let tool = self.tools.iter().find(|tool| tool.full_name == full_name)?;
        let mut connection = self.servers[tool.server].connection.lock().await;
        let params = json!({"name": tool.name, "arguments": input});
        let answered = timeout(CALL_LIMIT, connection.request("tools/call", params)).await;
        Some(match answered {
            Ok(Ok(result)) => answer(&result),
            Ok(Err(error)) => Answer::refused(error.full_message()),
            Err(_) => Answer::refused("the MCP server did not answer within a day"),
        })
    }

    /// Ends the servers: their input is closed, and what is left after a moment is ended.
    pub async fn stop(self) {
        for server in self.servers {
            drop(server.connection);
            let mut running = server.running;
            if timeout(STOP_LIMIT, running.wait()).await.is_err() {
                running.terminate(GRACE).await.ok();
            }
        }
    }
}

impl Tool {
    fn read(server_name: &str, server: usize, listed: &Value) -> Option<Tool> {
        let name = listed["name"].as_str()?.to_string();
        let full_name = format!("mcp__{server_name}__{name}");
        let schema =
            if listed["inputSchema"].is_object() { listed["inputSchema"].clone() } else { json!({"type": "object"}) };
        let description = listed["description"].as_str().unwrap_or_default();
        let definition = json!({"name": full_name, "description": description, "input_schema": schema});
        Some(Tool { full_name, name, server, definition })
    }
}

async fn start_server(process: &Process, options: &Options, entry: &Entry) -> Result<(Server, Vec<Value>)> {
    let mut cmd = Cmd::new(&entry.command).args(&entry.args).env_of(process).cwd(&options.worktree).stdin_open();
    for (name, value) in &entry.env {
        cmd = cmd.env(name, value);
    }
    let mut running = spawn_piped(cmd)?;
    let piped = |what: &str| Error::internal(format!("the MCP server has no {what}"));
    if let Some(mut stderr) = running.take_stderr() {
        // Its talk goes nowhere, but must be read: a full pipe would stop it.
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while matches!(stderr.read(&mut buffer).await, Ok(1..)) {}
        });
    }
    let stdin = running.take_stdin().ok_or_else(|| piped("standard input"))?;
    let stdout = running.take_stdout().ok_or_else(|| piped("standard output"))?;
    let mut connection = Connection { stdin, lines: Lines::new(stdout), last_id: 0 };
    let client = json!({"name": "lazy-demo-agent", "version": env!("CARGO_PKG_VERSION")});
    let hello = json!({"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client});
    connection.request("initialize", hello).await?;
    connection.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
    let mut tools = Vec::new();
    let mut params = json!({});
    loop {
        let page = connection.request("tools/list", params).await?;
        tools.extend(page["tools"].as_array().into_iter().flatten().cloned());
        match page["nextCursor"].as_str() {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return Ok((Server { running, connection: Mutex::new(connection) }, tools)),
        }
    }
}

/// JSON-RPC over the server's standard streams, one message a line, one request at a time.
struct Connection {
    stdin: ChildStdin,
    lines: Lines<ChildStdout>,
    last_id: u64,
}

impl Connection {
    async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})).await?;
        loop {
            let line =
                self.lines.next().await.map_err(|source| Error::io("cannot read from the MCP server", source))?;
            let Some(line) = line else {
                return Err(Error::new(Kind::Lost, "the MCP server ended"));
            };
            let Line::Whole(line) = line else {
                return Err(Error::new(Kind::Lost, "an answer of the MCP server is too long"));
            };
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            if message["method"].is_string() {
                self.answer_server(&message).await?;
            } else if message["id"].as_u64() == Some(self.last_id) {
                return match message.get("error") {
                    Some(error) => Err(Error::new(
                        Kind::Invalid,
                        error["message"].as_str().unwrap_or("the MCP server refused without a reason").to_string(),
                    )),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    /// Requests of the server: a ping is answered, anything else is not supported. Notifications need no answer.
    async fn answer_server(&mut self, message: &Value) -> Result<()> {
        let Some(id) = message.get("id") else { return Ok(()) };
        let answer = match message["method"].as_str() {
            Some("ping") => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "not supported"}}),
        };
        self.write(&answer).await
    }

    async fn write(&mut self, message: &Value) -> Result<()> {
        let doing = |source| Error::io("cannot write to the MCP server", source);
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.map_err(doing)?;
        self.stdin.flush().await.map_err(doing)
    }
}

/// The blocks of a result in the form the model reads; what it cannot read becomes text.
fn answer(result: &Value) -> Answer {
    let blocks: Vec<Value> = result["content"].as_array().into_iter().flatten().map(block).collect();
    let content = if blocks.is_empty() { Value::from("(no output)") } else { Value::from(blocks) };
    Answer { content, is_error: result["isError"].as_bool().unwrap_or(false) }
}

fn block(block: &Value) -> Value {
    match block["type"].as_str() {
        Some("text") => json!({"type": "text", "text": block["text"]}),
        Some("image") => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": block["mimeType"], "data": block["data"]},
        }),
        _ => json!({"type": "text", "text": block.to_string()}),
    }
}
