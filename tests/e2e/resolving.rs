//! An upstream that conflicts with a task's work: the agent joins the two.

use std::fs;

use serde_json::{Value, json};

use super::world::{Agent, World, claude, engine};

/// A turn that writes one line, and the resolution of what that collides with. A first answer resolves nothing.
fn script(agent: Agent) -> Value {
    let call = |call: Value| json!({ "tool_use": call });
    let shell = |command: &str| match agent {
        Agent::Claude => json!({ "name": "Bash", "input": { "command": command, "description": "stage" } }),
        Agent::Demo => json!({ "name": "bash", "input": { "command": command } }),
    };
    let commit = |message: &str| json!({ "name": "mcp__lazy__lazy_commit", "input": { "message": message } });
    let join = "printf 'ours and theirs\\n' > words.txt && git add words.txt";
    json!([
        { "when": { "prompt": "stopped at", "nth": 0 }, "reply": { "content": [{ "text": "I would rather not." }] } },
        { "when": { "prompt": "stopped at", "nth": 0 }, "uses": "always", "reply": { "content": [call(shell(join))] } },
        { "when": { "prompt": "stopped at", "nth": 1 }, "uses": "always", "reply": { "content": [call(commit("Join both words"))] } },
        { "when": { "prompt": "stopped at", "nth": 2 }, "uses": "always", "reply": { "content": [{ "text": "words.txt: both kept." }] } },
        { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [call(agent.write("words.txt", "ours\n"))] } },
        { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [call(commit("Add a word"))] } },
        { "uses": "always", "reply": { "content": [{ "text": "Done." }] } },
    ])
}

fn joins(world: &World) {
    world.ok(&["create", "--goal", "Add a word", "--code", "words", "--prompt", "Write words.txt"]);
    world.ok(&["start", "words"]);
    assert_eq!(world.settled("words"), "blocked", "{}", world.logs());
    let conversation = world.show("words")["session"]["agent_session_id"].clone();
    fs::write(world.project.join("words.txt"), "theirs\n").expect("writes");
    world.git(&["add", "-A"]);
    world.git(&["commit", "--quiet", "-m", "their word"]);

    let output = world.lazy(&["sync", "words"]);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{}", world.logs());
    assert!(said.contains("1 conflicting file resolved by the agent: words.txt"), "{said}");
    assert_eq!(world.status("words"), "blocked");
    let shown = world.show("words");
    let last = shown["turns"].as_array().and_then(|turns| turns.last()).expect("turns").clone();
    assert!(last["content"].as_str().expect("text").contains("words.txt: both kept."), "{last:#}");
    assert!(last["usage"]["outputTokens"].as_u64().expect("usage") > 0, "{last:#}");
    assert_eq!(shown["session"]["agent_session_id"], conversation, "in the task's own conversation");
    let main = world.git(&["rev-parse", "main"]);
    assert_eq!(world.git(&["merge-base", "main", "lazy/words"]), main, "the upstream is in the branch");
    let worktree = world.project.join(".lazy/worktrees/words");
    assert_eq!(world.git_at(&worktree, &["status", "--porcelain"]), "");
    world.ok(&["accept", "words", "--yes"]);
    assert_eq!(fs::read_to_string(world.project.join("words.txt")).expect("merged"), "ours and theirs\n");
}

#[test]
fn the_demo_agent_resolves_a_conflict_at_its_second_attempt() {
    joins(&World::new(Agent::Demo, script(Agent::Demo)));
}

#[test]
fn claude_code_resolves_a_conflict() {
    if claude().is_some() {
        joins(&World::new(Agent::Claude, script(Agent::Claude)));
    }
}

#[test]
fn a_conflict_is_resolved_in_a_container_where_refs_are_out_of_reach() {
    if !engine("docker") {
        return;
    }
    let world = World::bare("my project", script(Agent::Claude));
    world.configure_engine(Agent::Claude, "docker", "", "");
    joins(&world);
}
