//! The sandbox posture, with the real Claude Code and the real operating system sandbox.

use serde_json::json;

use super::world::{Agent, World, claude, part};

#[test]
fn the_sandbox_refuses_what_lies_outside() {
    if claude().is_none() || !part("bwrap") || !part("socat") {
        return;
    }
    let world_before = tempfile::tempdir().expect("temp dir");
    let outside = world_before.path().join("outside.txt");
    let bash = |command: String| json!({ "tool_use": { "name": "Bash", "input": { "command": command, "description": "try" } } });
    let read = |path: String| json!({ "tool_use": { "name": "Read", "input": { "file_path": path } } });
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("address").port();
    let world = World::new(
        Agent::Claude,
        json!([
            { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [bash(format!("echo escaped > '{}'; echo inside > inside.txt", outside.display()))] } },
            { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [bash(format!("(echo > /dev/tcp/127.0.0.1/{port}) && echo CONNECTED"))] } },
            { "when": { "nth": 2 }, "uses": "always", "reply": { "content": [read("{{worktree}}/../../../../home/.ssh/id_rsa".into())] } },
            { "uses": "always", "reply": { "content": [{ "text": "tried" }] } },
        ]),
    );
    std::fs::create_dir_all(world.home().join(".ssh")).expect("ssh");
    std::fs::write(world.home().join(".ssh/id_rsa"), "VERY PRIVATE").expect("key");
    world.configure_posture(Agent::Claude, "sandbox", "");
    world.ok(&["daemon", "restart", "--yes"]);
    world.ok(&["create", "--goal", "Escape", "--code", "escape", "--prompt", "x"]);
    world.ok(&["start", "escape"]);
    assert_eq!(world.settled("escape"), "blocked", "{}", world.logs());
    assert!(world.project.join(".lazy/worktrees/escape/inside.txt").exists(), "the shell works inside of it");
    assert!(!outside.exists(), "a Bash write outside of the worktree went through");
    let told = world.requests().iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("tool_result"), "the tools ran: {told}");
    assert!(!told.contains("VERY PRIVATE"), "a denied file was read");
    listener.set_nonblocking(true).expect("non-blocking");
    assert!(listener.accept().is_err(), "a connection left the sandbox");
    assert!(world.ok(&["show", "escape"]).contains("sandbox"), "the posture is shown");
}
