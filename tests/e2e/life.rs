//! One task from `init` to `accept`, and the refusals on the way.

use serde_json::{Value, json};

use super::world::{Agent, REAL_KEY, World, claude};

/// A turn that writes a file and commits it, a second one after feedback, and an answer to a question.
pub fn script(agent: Agent) -> Value {
    let say = |text: &str| json!({ "text": text });
    let call = |call: Value| json!({ "tool_use": call });
    let tool = |name: &str, input: Value| json!({ "name": format!("mcp__lazy__{name}"), "input": input });
    json!([
        { "when": { "prompt": "What did you do?" }, "uses": "always", "reply": { "content": [say("I wrote greeting.txt and committed it.")] } },
        { "when": { "prompt": "Make it louder", "nth": 0 }, "uses": "always", "reply": { "content": [call(agent.write("greeting.txt", "HELLO\n"))] } },
        { "when": { "prompt": "Make it louder", "nth": 1 }, "uses": "always", "reply": { "content": [call(tool("lazy_commit", json!({ "message": "Greet louder" })))] } },
        { "when": { "prompt": "Make it louder", "nth": 2 }, "uses": "always", "reply": { "content": [say("It is louder now.")] } },
        { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [say("I write the greeting."), call(agent.write("greeting.txt", "hello\n"))] } },
        { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [call(tool("lazy_update_progress", json!({ "message": "committing" })))] } },
        { "when": { "nth": 2 }, "uses": "always", "reply": { "content": [call(tool("lazy_commit", json!({ "message": "Add a greeting" })))] } },
        { "when": { "nth": 3 }, "uses": "always", "reply": { "content": [call(tool("lazy_raise", json!({ "blocking": false, "content": "Should it greet in other languages?" })))] } },
        { "when": { "nth": 4 }, "uses": "always", "reply": { "content": [say("Added greeting.txt and committed it.")] } },
    ])
}

fn whole_life(agent: Agent) {
    let world = World::new(agent, script(agent));
    let created = world.ok(&["create", "--goal", "Greet people", "--code", "greet", "--prompt", "Write greeting.txt"]);
    assert!(created.contains("greet"), "{created}");
    let main_before = world.git(&["rev-parse", "main"]);

    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked");
    let shown = world.show("greet");
    let turns = shown["turns"].as_array().expect("turns");
    assert_eq!(turns.len(), 2, "{turns:#?}");
    assert!(turns[1]["content"].as_str().expect("text").contains("Added greeting.txt"), "{turns:#?}");
    assert!(turns[1]["usage"]["outputTokens"].as_u64().expect("usage") > 0);
    assert_eq!(shown["commits"].as_array().expect("commits").len(), 1);
    assert_eq!(shown["commits"][0]["message"], "Add a greeting");
    assert_eq!(shown["raised_items"][0]["blocking"], false);
    let conversation = shown["session"]["agent_session_id"].clone();
    assert!(conversation.is_string(), "{shown:#}");
    assert!(world.ok(&["diff", "greet", "--full"]).contains("+hello"));

    world.ok(&["unblock", "greet", "--message", "Make it louder"]);
    assert_eq!(world.settled("greet"), "blocked");
    let shown = world.show("greet");
    assert_eq!(shown["session"]["agent_session_id"], conversation, "the same conversation is resumed");
    assert_eq!(shown["commits"].as_array().expect("commits").len(), 2);
    assert!(world.ok(&["diff", "greet", "--full"]).contains("+HELLO"));

    let answer = world.ok(&["ask", "greet", "-m", "What did you do?"]);
    assert!(answer.contains("I wrote greeting.txt"), "{answer}");
    assert_eq!(world.status("greet"), "blocked", "a question changes nothing");

    world.ok(&["accept", "greet", "--yes"]);
    assert_eq!(world.status("greet"), "complete");
    assert_eq!(world.git(&["rev-list", "--count", &format!("{main_before}..main")]), "1", "one squash commit");
    assert_eq!(std::fs::read_to_string(world.project.join("greeting.txt")).expect("merged"), "HELLO\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "", "the checkout follows its branch");
    assert!(world.git(&["branch", "--list", "lazy/*"]).is_empty(), "the task's branch is gone");
    let again = world.ok(&["accept", "greet", "--yes"]);
    assert!(again.contains("already"), "{again}");

    let audit = world.audit();
    let of_task = audit.iter().filter(|record| record["role"] == "agent" && record["taskId"] == "greet");
    assert!(of_task.count() >= 8, "{audit:#?}");
    assert!(!audit.iter().any(|record| record.to_string().contains(REAL_KEY)));
    let reached = world.requests();
    assert!(reached.iter().any(|request| request.to_string().contains(REAL_KEY)), "the real credential goes out");
}

#[test]
fn the_demo_agent_takes_a_task_from_init_to_accept() {
    whole_life(Agent::Demo);
}

#[test]
fn claude_code_takes_a_task_from_init_to_accept() {
    if claude().is_some() {
        whole_life(Agent::Claude);
    }
}

#[test]
fn the_agent_sees_only_a_placeholder() {
    let agent = Agent::Demo;
    let world = World::new(
        agent,
        json!([{ "reply": { "delay_ms": 3000, "content": [{ "text": "done" }] }, "uses": "always" }]),
    );
    world.ok(&["create", "--goal", "Look", "--code", "look", "--prompt", "Look around"]);
    world.ok(&["start", "look"]);
    let pids = world.until("the agent runs", || {
        let pids = world.run_processes();
        (pids.len() >= 2).then_some(pids)
    });
    for pid in pids {
        for place in ["environ", "cmdline"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{place}")).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            assert!(!text.contains(REAL_KEY), "/proc/{pid}/{place} holds the real credential");
        }
    }
    assert_eq!(world.settled("look"), "blocked");
}

#[test]
fn a_dirty_checkout_is_never_touched() {
    let agent = Agent::Demo;
    let world = World::new(agent, script(agent));
    world.ok(&["create", "--goal", "Greet people", "--code", "greet", "--prompt", "Write greeting.txt"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked");
    std::fs::write(world.project.join("README.md"), "my own unfinished words\n").expect("writes");
    std::fs::write(world.project.join("staged.txt"), "staged\n").expect("writes");
    world.git(&["add", "staged.txt"]);
    let before = world.git(&["status", "--porcelain"]);
    world.ok(&["accept", "greet", "--yes"]);
    assert_eq!(world.git(&["status", "--porcelain"]), before);
    assert_eq!(std::fs::read_to_string(world.project.join("README.md")).expect("reads"), "my own unfinished words\n");
}

#[test]
fn work_in_the_way_of_a_merge_refuses_the_accept_and_stays() {
    let agent = Agent::Demo;
    let world = World::new(agent, script(agent));
    world.ok(&["create", "--goal", "Greet people", "--code", "greet", "--prompt", "Write greeting.txt"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked");
    std::fs::write(world.project.join("greeting.txt"), "mine\n").expect("writes");
    let before = world.git(&["rev-parse", "main"]);
    let refusal = world.refused(&["accept", "greet", "--yes"]);
    assert!(refusal.contains("greeting.txt"), "{refusal}");
    assert_eq!(world.git(&["rev-parse", "main"]), before);
    assert_eq!(std::fs::read_to_string(world.project.join("greeting.txt")).expect("reads"), "mine\n");
    assert_eq!(world.status("greet"), "blocked");
}

#[test]
fn a_task_can_be_stopped_resumed_rejected_and_reopened() {
    let agent = Agent::Demo;
    let slow = json!([
        { "when": { "nth": 0 }, "reply": { "delay_ms": 60000, "content": [{ "text": "too late" }] } },
        { "uses": "always", "reply": { "content": [{ "text": "done" }] } },
    ]);
    let world = World::new(agent, slow);
    world.ok(&["create", "--goal", "Slow", "--code", "slow", "--prompt", "Take your time"]);
    world.ok(&["start", "slow"]);
    world.until("the model is asked", || (!world.requests().is_empty()).then_some(()));
    world.ok(&["stop", "slow", "--reason", "changed my mind", "--yes"]);
    assert_eq!(world.status("slow"), "blocked");
    assert!(world.run_processes().is_empty(), "nothing of the run is left");
    assert!(world.ok(&["list"]).contains("[STOPPED]"));

    world.ok(&["resume", "slow"]);
    assert_eq!(world.settled("slow"), "blocked");
    world.ok(&["reject", "slow", "--reason", "not wanted", "--yes"]);
    assert_eq!(world.status("slow"), "abandoned");
    assert!(!world.git(&["branch", "--list", "lazy/slow"]).is_empty(), "the branch is kept");
    world.refused(&["unblock", "slow", "-m", "x"]);
    world.ok(&["reopen", "slow"]);
    assert_eq!(world.status("slow"), "blocked");
}
