use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::agent::{Agent, AgentTurn, McpServer, RunFailure, StreamEvent, TurnMode};
use crate::base::{Kind, Millis};
use crate::model::Effort;
use crate::model::exchange::FailureClass;

/// What the scripted model says next.
enum Say {
    Text(&'static str),
    Call(&'static str, Value),
    Status(u16, Value),
    /// The first half of an answer, then nothing.
    Broken,
}

/// A model that says what it was told to and remembers what it was asked.
struct Model {
    address: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Model {
    async fn start(script: Vec<Say>) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        tokio::spawn(async move {
            let mut script = VecDeque::from(script);
            let mut count = 0;
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = Vec::new();
                let (head, body) = loop {
                    let mut buffer = [0; 4096];
                    let read = stream.read(&mut buffer).await.expect("reads");
                    bytes.extend_from_slice(&buffer[..read]);
                    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
                    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                    let length =
                        head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
                    if bytes.len() >= end + 4 + length.unwrap_or(0) {
                        break (head, bytes[end + 4..].to_vec());
                    }
                };
                log.lock().expect("lock").push((head, serde_json::from_slice(&body).expect("a JSON request")));
                count += 1;
                let answer =
                    script.pop_front().map_or_else(|| sse(count, &Say::Text("script over")), |say| sse(count, &say));
                stream.write_all(answer.as_bytes()).await.expect("answers");
            }
        });
        Model { address, asked }
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().expect("lock").clone()
    }
}

fn sse(count: u32, say: &Say) -> String {
    let block = match say {
        Say::Status(status, body) => {
            let body = body.to_string();
            return format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        }
        Say::Text(text) => [json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text})],
        Say::Call(name, input) => [
            json!({"type": "tool_use", "id": format!("toolu_{count}"), "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
        ],
        Say::Broken => [json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": "half"})],
    };
    let [start, delta] = block;
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": format!("msg_{count}"), "model": "scripted", "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
    ];
    if !matches!(say, Say::Broken) {
        events.push(
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        );
        events.push(json!({"type": "message_stop"}));
    }
    let body: String = events.iter().map(|event| format!("event: x\ndata: {event}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{body}")
}

/// A worktree with what a turn needs.
struct Place {
    dir: tempfile::TempDir,
    turn: AgentTurn,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("temp dir");
        let sandbox = dir.path().join(".lazy-task-sandbox");
        let turn = AgentTurn {
            worktree: dir.path().to_path_buf(),
            prompt: String::new(),
            system_prompt: "be careful".into(),
            session_id: None,
            model: Some("scripted".into()),
            effort: Some(Effort::Low),
            mode: TurnMode::Work,
            extra_args: Vec::new(),
            mcp_config: sandbox.join("mcp.json"),
            sandbox,
        };
        Place { dir, turn }
    }

    /// An MCP server in shell: it answers by the number of the request, and says once what it was called with.
    fn with_server(self, script: &str) -> Place {
        let server = McpServer {
            command: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: vec![("GREETING".into(), "hello from lazy".into())],
        };
        Agent::Demo.write_mcp_config(&self.turn, &server).expect("writes");
        self
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a turn with the arguments the supervisor would give: exit code and lines.
    async fn run(&self, model: &Model, prompt: &str) -> Result<(u8, Vec<Value>)> {
        let path = std::env::var("PATH").expect("PATH");
        let env = [
            ("ANTHROPIC_BASE_URL", model.address.as_str()),
            ("ANTHROPIC_API_KEY", "sk-placeholder"),
            ("PATH", path.as_str()),
        ];
        let process = Process::fake(["lazy"], &env, self.path(), Millis(0));
        let options = Options::parse(&process, &Agent::Demo.args(&self.turn))?;
        let code = turn(&process, &options, prompt).await?;
        let lines = process.captured().0.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
        Ok((code, lines))
    }
}

const SERVER: &str = r#"
while read -r line; do
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"lazy_status","description":"d","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*)
      echo 'noise that is no message'
      echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
      echo '{"jsonrpc":"2.0","id":"s1","method":"ping"}'
      read -r pong
      case "$pong" in *'"result":{}'*) ;; *) exit 9 ;; esac
      printf '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$GREETING" ;;
  esac
done
"#;

fn result_of(lines: &[Value]) -> &Value {
    let last = lines.last().expect("a last line");
    assert_eq!(last["type"], "result");
    last
}

#[tokio::test]
async fn a_turn_edits_files_calls_lazy_and_reads_as_a_run_of_claude_code() {
    let place = Place::new().with_server(SERVER);
    let model = Model::start(vec![
        Say::Call("write_file", json!({"path": "src/a.txt", "content": "one two"})),
        Say::Call("edit_file", json!({"path": "src/a.txt", "old": "two", "new": "three"})),
        Say::Call("bash", json!({"command": "cat src/a.txt; echo ${ANTHROPIC_API_KEY:-no key}; exit 3"})),
        Say::Call("mcp__lazy__lazy_status", json!({})),
        Say::Text("All done."),
    ])
    .await;
    let (code, lines) = place.run(&model, "-- please").await.expect("runs");
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_to_string(place.path().join("src/a.txt")).expect("written"), "one three");

    let raw: Vec<Vec<u8>> = lines.iter().map(|line| line.to_string().into_bytes()).collect();
    let events: Vec<StreamEvent> = raw.iter().map(|line| Agent::Demo.parse_line(line)).collect();
    assert_eq!(events[0].mcp_summary().as_deref(), Some("lazy=connected tools=1"));
    let StreamEvent::SessionStart { session_id, tools, .. } = &events[0] else { panic!("{:?}", events[0]) };
    assert_eq!(tools.as_ref().map(Vec::len), Some(5));
    assert_eq!(
        events[1],
        StreamEvent::ToolStart { id: "toolu_1".into(), name: "write_file".into(), summary: "src/a.txt".into() }
    );
    assert_eq!(events[2], StreamEvent::ToolEnd { id: "toolu_1".into() });
    let result = Agent::Demo.result(raw.last().map(Vec::as_slice), b"").expect("usable");
    assert_eq!((result.text.as_str(), &result.session_id), ("All done.", session_id));
    assert_eq!(result.model_id.as_deref(), Some("scripted"));
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (50, 25));

    let bash = lines.iter().find(|line| line["message"]["content"][0]["tool_use_id"] == "toolu_3").expect("answered");
    assert_eq!(bash["message"]["content"][0]["content"], "Exit code 3\none threeno key\n");
    assert_eq!(bash["message"]["content"][0]["is_error"], true);
    let status = lines.iter().find(|line| line["message"]["content"][0]["tool_use_id"] == "toolu_4").expect("answered");
    assert_eq!(status["message"]["content"][0]["content"][0]["text"], "hello from lazy");

    let asked = model.asked();
    let (head, body) = &asked[0];
    assert!(head.starts_with("post /v1/messages") && head.contains("x-api-key: sk-placeholder"), "{head}");
    assert!(body["system"].as_str().expect("text").ends_with("\n\nbe careful"));
    assert_eq!(body["messages"][0]["content"][0]["text"], "-- please");
    assert_eq!(asked.last().expect("the last").1["messages"].as_array().map(Vec::len), Some(9));
}

#[tokio::test]
async fn a_resumed_turn_carries_the_conversation() {
    let mut place = Place::new();
    place.turn.mcp_config = place.path().join("none.json");
    std::fs::write(&place.turn.mcp_config, "{}").expect("an empty configuration");
    let model = Model::start(vec![Say::Text("first"), Say::Text("second")]).await;
    let (_, lines) = place.run(&model, "one").await.expect("runs");
    let id = result_of(&lines)["session_id"].as_str().expect("an id").to_string();
    place.turn.session_id = Some(id.clone());
    let (code, lines) = place.run(&model, "two").await.expect("runs");
    assert_eq!((code, result_of(&lines)["session_id"].as_str()), (0, Some(id.as_str())));
    let texts: Vec<Value> = model.asked()[1].1["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| message["content"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["one", "first", "two"]);

    place.turn.session_id = Some("11111111-2222-3333-4444-555555555555".into());
    let error = place.run(&model, "three").await.expect_err("unknown");
    let failure = RunFailure { exit_code: Some(1), stderr: error.to_string(), ..RunFailure::default() };
    assert!(Agent::Demo.is_session_not_found(&failure));
}

#[tokio::test]
async fn a_read_only_turn_has_no_tool_that_writes() {
    let mut place = Place::new().with_server(SERVER);
    place.turn.mode = TurnMode::ReadOnly;
    std::fs::write(place.path().join("a"), "1\n2\n3\n").expect("a file");
    let model = Model::start(vec![
        Say::Call("write_file", json!({"path": "b", "content": "x"})),
        Say::Call("bash", json!({"command": "touch b"})),
        Say::Call("read_file", json!({"path": "a", "offset": 2, "limit": 1})),
        Say::Text("answer"),
    ])
    .await;
    let (code, lines) = place.run(&model, "q").await.expect("runs");
    assert_eq!(code, 0);
    assert_eq!(lines[0]["tools"], json!(["read_file", "mcp__lazy__lazy_status"]));
    let answers: Vec<&Value> =
        lines.iter().filter(|line| line["type"] == "user").map(|line| &line["message"]["content"][0]).collect();
    assert!(answers[0]["content"].as_str().expect("text").starts_with("there is no tool write_file"));
    assert_eq!(answers[1]["is_error"], true);
    assert_eq!(answers[2]["content"], "2\n");
    assert!(!place.path().join("b").exists());
}

#[tokio::test]
async fn refusals_of_the_model_become_classes() {
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let cases = [
        (Say::Status(401, error("authentication_error", "invalid x-api-key")), FailureClass::FatalAuth),
        (Say::Status(429, error("rate_limit_error", "slow down")), FailureClass::TransientOverload),
        (Say::Status(529, error("overloaded_error", "Overloaded")), FailureClass::TransientOverload),
        (Say::Status(500, json!("oops")), FailureClass::TransientNetwork),
        (Say::Status(404, error("not_found_error", "model: x")), FailureClass::FatalConfig),
        (Say::Broken, FailureClass::TransientNetwork),
    ];
    for (say, class) in cases {
        let place = Place::new().with_server(SERVER);
        let model = Model::start(vec![say]).await;
        let (code, lines) = place.run(&model, "go").await.expect("runs");
        let line = result_of(&lines).to_string();
        assert_eq!((code, result_of(&lines)["is_error"].as_bool()), (1, Some(true)));
        let failure = RunFailure {
            exit_code: Some(1),
            stdout_error: Agent::Demo.stdout_error(Some(line.as_bytes()), b""),
            ..RunFailure::default()
        };
        assert_eq!(Agent::Demo.classify(&failure).class, class, "{line}");
        assert_eq!(model.asked().len(), 1, "nothing is asked twice");
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let place = Place::new().with_server(SERVER);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let (_, lines) = place.run(&Model { address, asked: Arc::default() }, "go").await.expect("runs");
    let failure =
        RunFailure { stdout_error: result_of(&lines)["result"].as_str().map(str::to_string), ..Default::default() };
    assert_eq!(Agent::Demo.classify(&failure).class, FailureClass::TransientUnreachable, "{failure:?}");
}

#[tokio::test]
async fn a_server_that_does_not_start_is_told_as_failed() {
    for script in
        ["exit 1", "echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"no\"}}'; cat >/dev/null"]
    {
        let place = Place::new().with_server(script);
        let model = Model::start(vec![Say::Text("alone")]).await;
        let (_, lines) = place.run(&model, "go").await.expect("runs");
        assert_eq!(lines[0]["mcp_servers"], json!([{"name": "lazy", "status": "failed"}]));
        let event = Agent::Demo.parse_line(lines[0].to_string().as_bytes());
        assert_eq!(event.lazy_tools(), crate::agent::ToolsVerdict::Missing);
    }
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_the_call_only() {
    let dying = SERVER.replace("echo 'noise that is no message'", "exit 0");
    let place = Place::new().with_server(&dying);
    let model = Model::start(vec![Say::Call("mcp__lazy__lazy_status", json!({})), Say::Text("lost it")]).await;
    let (code, lines) = place.run(&model, "go").await.expect("runs");
    assert_eq!((code, result_of(&lines)["result"].as_str()), (0, Some("lost it")));
    let answer = lines.iter().find(|line| line["type"] == "user").expect("answered");
    assert_eq!(answer["message"]["content"][0]["content"], "the MCP server ended");
}

#[tokio::test]
async fn file_and_command_mistakes_are_answers() {
    let place = Place::new().with_server(SERVER);
    std::fs::write(place.path().join("twice"), "aa").expect("a file");
    std::fs::write(place.path().join("binary"), [0xff, 0xfe]).expect("a file");
    let calls = [
        ("read_file", json!({"path": "../x"}), "outside the worktree"),
        ("read_file", json!({"path": "missing"}), "cannot read missing"),
        ("read_file", json!({"path": "binary"}), "not UTF-8"),
        ("read_file", json!({}), "\"path\" is missing"),
        ("edit_file", json!({"path": "twice", "old": "a", "new": "b"}), "2 times"),
        ("edit_file", json!({"path": "twice", "old": "z", "new": "b"}), "does not stand"),
        ("write_file", json!({"path": ".git/config", "content": "x"}), "belongs to git"),
        ("bash", json!({"command": "sleep 60", "timeout_ms": 50}), "took too long"),
        ("nonsense", json!({}), "there is no tool nonsense"),
    ];
    let script = calls.iter().map(|(name, input, _)| Say::Call(name, input.clone())).collect();
    let model = Model::start(script).await;
    let (code, lines) = place.run(&model, "go").await.expect("runs");
    assert_eq!((code, result_of(&lines)["result"].as_str()), (0, Some("script over")));
    let answers = lines.iter().filter(|line| line["type"] == "user").map(|line| &line["message"]["content"][0]);
    for ((_, input, wanted), answer) in calls.iter().zip(answers) {
        assert!(answer["content"].as_str().expect("text").contains(wanted), "{input}: {answer}");
        assert_eq!(answer["is_error"], true);
    }
}

#[tokio::test]
async fn what_cannot_begin_says_why() {
    let place = Place::new();
    let model = Model::start(Vec::new()).await;
    assert_eq!(place.run(&model, " \n").await.expect_err("empty").kind(), Kind::Invalid);
    let missing = place.run(&model, "go").await.expect_err("no configuration");
    assert!(missing.message().contains("mcp.json"), "{missing}");
    let process = Process::fake(["lazy"], &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")], place.path(), Millis(0));
    let error = run(&process, &["--nonsense".into()]).await.expect_err("unknown option");
    assert_eq!(error.kind(), Kind::Usage);
    let options = Options::parse(&process, &[]).expect("options");
    let error = turn(&process, &options, "go").await.expect_err("no credential");
    let failure = RunFailure { stderr: error.to_string(), ..RunFailure::default() };
    assert_eq!(Agent::Demo.classify(&failure).class, FailureClass::FatalAuth);
    let process = Process::fake(["lazy"], &[], place.path(), Millis(0));
    assert!(turn(&process, &options, "go").await.expect_err("no address").message().contains("ANTHROPIC_BASE_URL"));
    assert!(model.asked().is_empty());
}
