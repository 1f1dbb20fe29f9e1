//! The policy of tool calls, as clients meet it: the official libraries, the real Claude Code, the built-in agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::world::{Agent, World, claude};

/// A reply with a thought, a text, two calls that are denied and one that is allowed.
fn mixed(secret: Value, allowed: Value) -> Value {
    json!({ "content": [
        { "thinking": "I want three things." },
        { "text": "I look around." },
        { "tool_use": secret },
        { "tool_use": { "name": "mcp__claude_ai_gmail_send", "input": { "to": "é" } } },
        { "tool_use": allowed },
    ] })
}

fn read(path: &str) -> Value {
    json!({ "name": "Read", "input": { "file_path": path } })
}

/// A part that `.ci/run` installs below `target/parts`, or where a variable says.
fn part(variable: &str, default: &str, probe: &str, what: &str) -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/parts").join(default);
    let found = std::env::var_os(variable).map_or_else(default, PathBuf::from);
    if found.join(probe).exists() {
        return Some(found);
    }
    let text = format!("{what} is not at {} (set {variable})", found.display());
    assert!(std::env::var_os("LAZY_REQUIRE_PARTS").is_none(), "{text}");
    eprintln!("skipped: {text}");
    None
}

/// Runs a client against a proxy whose model answers twice with a mixed reply; both messages must be right.
fn an_official_client_reads_a_denial(client: &mut Command) {
    let reply = mixed(read("~/.ssh/id_rsa"), read("README.md"));
    let world = World::bare("my project", json!([{ "reply": reply }, { "reply": reply }]));
    world.ok(&["init", "--non-interactive"]);
    world.configure(Agent::Demo, "");
    world.ok(&["daemon", "start"]);
    let status: Value = serde_json::from_str(&world.ok(&["daemon", "status", "--json"])).expect("JSON");
    let address = find(&status, "proxy").and_then(|proxy| proxy["address"].as_str()).expect("an address").to_string();
    let output = client.arg(&address).output().expect("the client runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}\n{}", world.logs());
    let told: Value = serde_json::from_str(&out).expect("JSON");
    for message in [&told["streamed"], &told["whole"]] {
        let blocks = message["content"].as_array().expect("blocks");
        let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().expect("a type")).collect();
        assert_eq!(kinds, ["thinking", "text", "text", "text", "tool_use"], "{message:#}");
        assert!(blocks[0]["signature"].as_str().expect("signed").starts_with("demo-"), "{message:#}");
        for (at, rule) in [(2, "\"Read\" (secret-path-read)"), (3, "(connector-deny-default)")] {
            let text = blocks[at]["text"].as_str().expect("text");
            assert!(text.starts_with("⛔ lazy proxy blocked tool ") && text.contains(rule), "{text}");
        }
        assert_eq!(blocks[4]["input"], json!({ "file_path": "README.md" }));
        assert_eq!(message["stop_reason"], "tool_use");
        assert!(message["usage"]["output_tokens"].as_u64().expect("usage") > 0);
    }
    let count = |kind: &str| told["events"].as_array().expect("events").iter().filter(|event| *event == kind).count();
    assert_eq!((count("content_block_start"), count("content_block_stop"), count("message_stop")), (5, 5, 1));
    world.ok(&["daemon", "stop", "--yes"]);
    let denied: Vec<usize> =
        world.audit().iter().filter_map(|record| record["enforcement"].as_array().map(Vec::len)).collect();
    assert_eq!(denied, [2, 2]);
}

/// The first value of that name, at any depth.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(name).or_else(|| fields.values().find_map(|value| find(value, name))),
        _ => None,
    }
}

#[test]
fn the_official_typescript_library_reads_a_denial() {
    let what = "npm @anthropic-ai/sdk";
    let Some(modules) = part("LAZY_SDK_NPM", "npm/node_modules", "@anthropic-ai/sdk", what) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/sdk/drive.cjs");
    an_official_client_reads_a_denial(Command::new("node").env("NODE_PATH", modules).arg(script));
}

#[test]
fn the_official_python_library_reads_a_denial() {
    let Some(venv) = part("LAZY_SDK_PYTHON", "py", "bin/python", "PyPI anthropic (a venv)") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/sdk/drive.py");
    an_official_client_reads_a_denial(Command::new(venv.join("bin/python")).arg(script));
}

/// A task whose agent asks for a key, a connector and a file: two are denied, the turn goes on.
fn a_turn_goes_on_after_denials(agent: Agent) {
    let call = |path: &str| match agent {
        Agent::Claude => read(path),
        Agent::Demo => json!({ "name": "read_file", "input": { "path": path } }),
    };
    let readme = match agent {
        Agent::Claude => "{{worktree}}/README.md",
        Agent::Demo => "README.md",
    };
    let steps = json!([
        { "when": { "nth": 0 }, "uses": "always", "reply": mixed(call("~/.ssh/id_rsa"), call(readme)) },
        { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [{ "text": "I read what I may." }] } },
    ]);
    let world = World::new(agent, steps);
    fs::create_dir_all(world.home().join(".ssh")).expect("makes");
    fs::write(world.home().join(".ssh/id_rsa"), "the key of this test").expect("writes");
    world.ok(&["create", "--goal", "Look around", "--code", "look", "--prompt", "Read things"]);
    world.ok(&["start", "look"]);
    assert_eq!(world.settled("look"), "blocked", "{}", world.logs());

    let requests = world.requests();
    let mut main = requests.iter().filter(|request| request["body"]["tools"].as_array().is_some_and(|t| !t.is_empty()));
    let last = main.next_back().expect("a request")["body"]["messages"].as_array().expect("messages").clone();
    let text = Value::from(last.clone()).to_string();
    assert!(!text.contains("the key of this test"), "{text}");
    let all: Vec<&Value> = last.iter().filter_map(|message| message["content"].as_array()).flatten().collect();
    let calls: Vec<&Value> = all.iter().copied().filter(|block| block["type"] == "tool_use").collect();
    assert_eq!(calls.len(), 1, "{calls:#?}");
    let why: Vec<&str> = all
        .iter()
        .filter_map(|block| block["text"].as_str())
        .filter(|text| text.starts_with("⛔ lazy proxy blocked tool"))
        .collect();
    assert_eq!(why.len(), 2, "{why:#?}");
    let results: Vec<String> =
        all.iter().filter(|block| block["type"] == "tool_result").map(|block| block.to_string()).collect();
    assert!(results.len() == 1 && results[0].contains("It greets"), "{results:#?}");
    let shown = world.show("look");
    assert!(shown["turns"][1]["content"].as_str().expect("text").contains("I read what I may."), "{shown:#}");

    world.ok(&["daemon", "stop", "--yes"]);
    let record = world.audit().into_iter().find(|record| record["enforcement"].is_array()).expect("a denial");
    let rules: Vec<&str> = record["enforcement"]
        .as_array()
        .expect("denials")
        .iter()
        .filter_map(|denial| denial["rule"].as_str())
        .collect();
    assert_eq!(rules, ["secret-path-read", "connector-deny-default"]);
    let judged = record["judged"].as_array().expect("verdicts");
    let verdicts: Vec<&str> = judged.iter().filter_map(|call| call["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["deny", "deny", "allow"]);
    let normal =
        judged[2]["paths"].as_array().expect("paths").last().expect("a path").as_str().expect("text").to_string();
    assert!(normal.ends_with("/worktrees/look/README.md"), "seen from the worktree: {normal}");

    let replay: Value = serde_json::from_str(&world.ok(&["policy", "replay", "--last", "1h", "--json"])).expect("JSON");
    assert_eq!((replay["denied"].as_array().map(Vec::len), &replay["calls"]), (Some(2), &json!(3)), "{replay:#}");
    world.configure(
        agent,
        "[proxy.policy]\ndeny_path_globs = [\"**/README.md\"]\nconnector_allowlist = [\"mcp__claude_ai_gmail_send\"]",
    );
    let replay = world.ok(&["policy", "replay"]);
    assert!(replay.contains("passed then") && replay.contains("2 of 3 calls"), "{replay}");
}

#[test]
fn a_turn_of_the_built_in_agent_goes_on_after_denials() {
    a_turn_goes_on_after_denials(Agent::Demo);
}

#[test]
fn a_turn_of_claude_code_goes_on_after_denials() {
    if claude().is_some() {
        a_turn_goes_on_after_denials(Agent::Claude);
    }
}

#[test]
fn a_check_explains_the_verdict_without_a_daemon() {
    let world = World::new(Agent::Demo, json!([]));
    let asked = |tool: &str, input: &str| {
        let output = world.lazy(&["policy", "check", "--tool", tool, "--input", input, "--json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), answer)
    };
    let (code, answer) = asked("Read", r#"{"file_path":"~/.ssh/id_rsa"}"#);
    assert_eq!((code, &answer["allowed"]), (Some(1), &json!(false)));
    assert_eq!(
        (&answer["denial"]["rule"], &answer["denial"]["pattern"]),
        (&json!("secret-path-read"), &json!("**/.ssh/**"))
    );
    assert_eq!(answer["paths"][0]["normal"], json!(world.home().join(".ssh/id_rsa")));
    std::os::unix::fs::symlink("/root/.ssh", world.project.join("notes")).expect("links");
    assert_eq!(asked("Read", r#"{"file_path":"notes/id_rsa"}"#).0, Some(1), "a link in the worktree");
    assert_eq!(asked("Read", r#"{"file_path":"README.md"}"#).0, Some(0));
    let text = world.lazy(&["policy", "check", "--tool", "mcp__claude_ai_gmail_send"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("connector-deny-default"));
    assert!(world.refused(&["policy", "check", "--tool", "Read", "--input", "[]"]).contains("no JSON object"));
    assert!(world.daemon_pid().is_none(), "nothing was started");
}
