//! Faults that were found once, each with what lost work or misled.

use std::fs;

use serde_json::{Value, json};

use super::life::script;
use super::world::{Agent, World};

fn tool(name: &str, input: Value) -> Value {
    json!({ "tool_use": { "name": name, "input": input } })
}

fn commit(message: &str) -> Value {
    tool("mcp__lazy__lazy_commit", json!({ "message": message }))
}

#[test]
fn a_crash_in_the_accept_of_a_reopened_task_keeps_the_new_work() {
    let mut world = World::new(Agent::Demo, script(Agent::Demo));
    world.ok(&["create", "--goal", "Greet people", "--code", "greet", "--prompt", "Write greeting.txt"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked");
    world.ok(&["accept", "greet", "--yes"]);
    world.ok(&["reopen", "greet", "--reason", "louder"]);
    world.ok(&["unblock", "greet", "--message", "Make it louder"]);
    assert_eq!(world.settled("greet"), "blocked");
    world.ok(&["daemon", "stop", "--yes"]);

    let marker = world.home().join("reached");
    world.set_env("LAZY_CHECKPOINT", "ops.after-merging");
    world.set_env("LAZY_CHECKPOINT_FILE", marker.to_str().expect("utf-8"));
    let mut accept = world.command(&["accept", "greet", "--yes"]).spawn().expect("starts");
    world.until("the merge begins", || marker.exists().then_some(()));
    world.kill(world.daemon_pid().expect("a daemon"));
    accept.wait().expect("ends");
    world.set_env("LAZY_CHECKPOINT", "");
    let status = world.settled("greet");
    assert_eq!(status, "blocked", "the first merge is not taken for the second\n{}", world.logs());
    world.ok(&["accept", "greet", "--yes"]);
    assert_eq!(fs::read_to_string(world.project.join("greeting.txt")).expect("merged"), "HELLO\n");
}

#[test]
fn a_code_cannot_pose_as_the_id_of_another_task() {
    let world = World::new(Agent::Demo, script(Agent::Demo));
    world.ok(&["create", "--goal", "Uncoded", "--prompt", "x"]);
    let rows: Value = serde_json::from_str(&world.ok(&["list", "--json"])).expect("JSON");
    let id = rows[0]["id"].as_str().expect("id").to_string();
    let said = world.refused(&["create", "--goal", "Posing", "--code", &id[..8], "--prompt", "x"]);
    assert!(said.contains("id of another task"), "{said}");
    world.refused(&["create", "--goal", "Posing", "--code", &id, "--prompt", "x"]);
}

#[test]
fn work_on_another_branch_is_not_accepted_as_nothing() {
    let world = World::new(
        Agent::Demo,
        json!([
            { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [tool("bash", json!({ "command":
                "git checkout -q --detach && echo lost > lost.txt && git add lost.txt && git commit -qm lost" }))] } },
            { "uses": "always", "reply": { "content": [{ "text": "done" }] } },
        ]),
    );
    world.ok(&["create", "--goal", "Stray", "--code", "stray", "--prompt", "x"]);
    world.ok(&["start", "stray"]);
    assert_eq!(world.settled("stray"), "blocked");
    let said = world.refused(&["accept", "stray", "--yes"]);
    assert!(said.contains("not on the task's branch"), "{said}");
    assert!(world.project.join(".lazy/worktrees/stray/lost.txt").exists(), "nothing was removed");
}

#[test]
fn a_turn_that_was_stopped_does_not_slip_a_protected_file_through() {
    let world = World::new(
        Agent::Demo,
        json!([
            { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [{ "tool_use": Agent::Demo.write("README.md", "mine\n") }] } },
            { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [commit("take the readme over")] } },
            { "uses": "always", "reply": { "delay_ms": 60000, "content": [{ "text": "done" }] } },
        ]),
    );
    world.configure(Agent::Demo, "[permissions]\nprotected = [\"README.md\"]\n");
    world.ok(&["daemon", "restart", "--yes"]);
    world.ok(&["create", "--goal", "Take over", "--code", "over", "--prompt", "x"]);
    world.ok(&["start", "over"]);
    world.until("the commit", || {
        let commits = world.show("over")["commits"].as_array().map_or(0, Vec::len);
        (commits > 0).then_some(())
    });
    world.ok(&["stop", "over", "--reason", "enough", "--yes"]);
    assert_eq!(world.status("over"), "blocked");
    let said = world.refused(&["accept", "over", "--yes"]);
    assert!(said.contains("README.md"), "{said}");
    world.ok(&["accept", "over", "--yes", "--approve-file", "README.md"]);
}

#[test]
fn two_projects_do_not_share_a_store() {
    let mut world = World::new(Agent::Demo, script(Agent::Demo));
    world.ok(&["create", "--goal", "Of the first", "--code", "first", "--prompt", "x"]);
    world.ok(&["daemon", "stop", "--yes"]);
    let settings = fs::read_to_string(world.project.join("lazy.toml")).expect("reads");
    let first = world.project.clone();
    world.project = first.join("../second");
    fs::create_dir_all(&world.project).expect("second");
    world.git(&["init", "--quiet", "--initial-branch=main"]);
    fs::write(world.project.join("lazy.toml"), settings).expect("writes");
    world.git(&["add", "-A"]);
    world.git(&["commit", "--quiet", "-m", "first"]);
    let said = world.refused(&["list"]);
    assert!(said.contains("belongs to the project") && said.contains("external_path"), "{said}");
    world.project = first;
    assert!(world.ok(&["list"]).contains("first"));
}
