//! Kills in the middle of a turn: the task still arrives, and nothing is lost.

use serde_json::{Value, json};

use super::world::{Agent, World, claude};

/// A turn whose first request hangs, once.
fn script(agent: Agent) -> Value {
    let tool =
        |name: &str, input: Value| json!({ "tool_use": { "name": format!("mcp__lazy__{name}"), "input": input } });
    json!([
        { "when": { "nth": 0 }, "reply": { "delay_ms": 4000, "content": [{ "tool_use": agent.write("slow.txt", "slow\n") }] } },
        { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [{ "tool_use": agent.write("slow.txt", "slow\n") }] } },
        { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [tool("lazy_commit", json!({ "message": "Be slow" }))] } },
        { "uses": "always", "reply": { "content": [{ "text": "Arrived." }] } },
    ])
}

fn started(agent: Agent) -> World {
    let world = World::new(agent, script(agent));
    world.ok(&["create", "--goal", "Be slow", "--code", "slow", "--prompt", "Write slow.txt"]);
    world.ok(&["start", "slow"]);
    world.until("the model is asked", || {
        world
            .requests()
            .iter()
            .any(|request| request["path"].as_str().is_some_and(|path| path.contains("/v1/messages")))
            .then_some(())
    });
    world
}

fn arrives(world: &World) {
    assert_eq!(world.settled("slow"), "blocked", "{}", world.logs());
    let shown = world.show("slow");
    let turns = shown["turns"].as_array().expect("turns");
    assert!(
        turns.iter().any(|turn| turn["content"].as_str().is_some_and(|text| text.contains("Arrived."))),
        "{turns:#?}"
    );
    assert_eq!(shown["commits"].as_array().expect("commits").len(), 1, "{shown:#}");
    world.ok(&["accept", "slow", "--yes"]);
    assert_eq!(std::fs::read_to_string(world.project.join("slow.txt")).expect("merged"), "slow\n");
}

fn the_daemon_is_killed(agent: Agent) {
    let world = started(agent);
    let pid = world.daemon_pid().expect("a daemon");
    world.kill(pid);
    arrives(&world);
    assert_ne!(world.daemon_pid(), Some(pid), "another daemon took over");
}

fn the_supervisor_is_killed(agent: Agent) {
    let world = started(agent);
    let runs = std::fs::read_dir(world.home().join(".lazy/run")).expect("runs").flatten().map(|entry| entry.path());
    let run = runs.map(|dir| dir.join("lazy-slow.json")).find(|path| path.exists()).expect("the run's file");
    let run = std::fs::read_to_string(run).expect("the run's file");
    let run: Value = serde_json::from_str(&run).expect("JSON");
    world.kill(u32::try_from(run["pid"].as_u64().expect("pid")).expect("fits"));
    arrives(&world);
    let interrupted = world.show("slow");
    let history = world.ok(&["show", "slow", "--json"]);
    assert!(interrupted["session"].is_object() && !history.is_empty());
    assert!(world.run_processes().is_empty(), "the killed supervisor's agent is gone");
}

#[test]
fn a_task_arrives_although_the_daemon_was_killed() {
    the_daemon_is_killed(Agent::Demo);
}

#[test]
fn a_task_arrives_although_the_supervisor_was_killed() {
    the_supervisor_is_killed(Agent::Demo);
}

#[test]
fn claude_code_arrives_although_the_daemon_was_killed() {
    if claude().is_some() {
        the_daemon_is_killed(Agent::Claude);
    }
}

#[test]
fn claude_code_arrives_although_the_supervisor_was_killed() {
    if claude().is_some() {
        the_supervisor_is_killed(Agent::Claude);
    }
}

#[test]
fn a_daemon_that_stops_takes_its_runs_along_and_goes_on_later() {
    let world = started(Agent::Demo);
    world.ok(&["daemon", "stop", "--yes"]);
    assert!(world.run_processes().is_empty(), "runs end with the daemon");
    arrives(&world);
}
