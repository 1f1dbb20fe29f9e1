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

/// A task that changed a protected file and was reviewed by a daemon that is killed at `checkpoint`.
fn a_decision_is_carried_out_after_a_crash(checkpoint: &str) {
    let mut world = World::new(
        Agent::Demo,
        json!([
            { "when": { "prompt": "go on" }, "uses": "always", "reply": { "content": [{ "text": "so be it" }] } },
            { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [{ "tool_use": Agent::Demo.write("README.md", "mine\n") }] } },
            { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [commit("take the readme over")] } },
            { "uses": "always", "reply": { "content": [{ "text": "done" }] } },
        ]),
    );
    world.configure(Agent::Demo, "[permissions]\nprotected = [\"README.md\"]\n");
    world.ok(&["daemon", "restart", "--yes"]);
    world.ok(&["create", "--goal", "Take over", "--code", "over", "--prompt", "x"]);
    world.ok(&["start", "over"]);
    assert_eq!(world.settled("over"), "conflict");
    world.ok(&["daemon", "stop", "--yes"]);
    let marker = world.home().join("reached");
    world.set_env("LAZY_CHECKPOINT", checkpoint);
    world.set_env("LAZY_CHECKPOINT_FILE", marker.to_str().expect("utf-8"));
    let mut unblock =
        world.command(&["unblock", "over", "-m", "leave it", "--no-approve-files"]).spawn().expect("starts");
    world.until("the decision", || marker.exists().then_some(()));
    world.kill(world.daemon_pid().expect("a daemon"));
    unblock.wait().expect("ends");
    world.set_env("LAZY_CHECKPOINT", "");
    world.until("the decision is recorded", || (world.status("over") == "blocked").then_some(()));
    assert_eq!(world.git(&["diff", "--stat", "main...lazy/over"]), "", "the file is reverted on the branch");
    let journal = world.show("over")["journal"].to_string();
    assert!(journal.contains("carried out") && journal.contains("README.md"), "{journal}");
    // the agent hears of it with the next feedback
    world.ok(&["unblock", "over", "-m", "go on"]);
    assert_eq!(world.settled("over"), "blocked");
    let turns = world.show("over")["turns"].to_string();
    assert!(turns.contains("were not approved and have been reverted: README.md"), "{turns}");
    world.ok(&["accept", "over", "--yes"]);
}

#[test]
fn a_decision_on_files_survives_a_crash_before_the_revert() {
    a_decision_is_carried_out_after_a_crash("ops.after-decision");
}

#[test]
fn a_decision_on_files_survives_a_crash_after_the_revert() {
    a_decision_is_carried_out_after_a_crash("ops.after-revert");
}

#[test]
fn a_sync_whose_supervisor_is_killed_leaves_no_merge() {
    let mut steps = script(Agent::Demo);
    let silent =
        json!({ "when": { "prompt": "stopped at" }, "uses": "always", "reply": { "content": [{ "text": "No." }] } });
    steps.as_array_mut().expect("steps").insert(0, silent);
    let mut world = World::new(Agent::Demo, steps);
    // a git that hangs when the supervisor rolls the merge back, once
    let (bin, marker) = (world.home().join("bin"), world.home().join("hangs"));
    fs::create_dir_all(&bin).expect("dir");
    let path = std::env::var("PATH").expect("a PATH");
    let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists()).expect("git");
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *' merge --abort '*) [ -e '{0}' ] || {{ touch '{0}'; sleep 600; }};; esac\nexec '{1}' \"$@\"\n",
        marker.display(),
        real.display()
    );
    fs::write(bin.join("git"), text).expect("writes");
    fs::set_permissions(bin.join("git"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    world.set_env("PATH", &format!("{}:{path}", bin.display()));
    world.ok(&["create", "--goal", "Greet people", "--code", "greet", "--prompt", "Write greeting.txt"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked");
    fs::write(world.project.join("greeting.txt"), "good day\n").expect("writes");
    world.git(&["add", "-A"]);
    world.git(&["commit", "--quiet", "-m", "greet in another way"]);
    let mut sync = world.command(&["sync", "greet"]).spawn().expect("starts");
    world.until("the merge conflicts", || marker.exists().then_some(()));
    let worktree = world.project.join(".lazy/worktrees/greet");
    assert!(world.git_at(&worktree, &["status", "--porcelain"]).contains("AA greeting.txt"));
    for pid in world.run_processes() {
        world.kill(pid);
    }
    sync.wait().expect("ends");
    assert_eq!(world.settled("greet"), "blocked");
    assert_eq!(world.git_at(&worktree, &["status", "--porcelain"]), "", "{}", world.logs());
    let journal = world.show("greet")["journal"].to_string();
    assert!(journal.contains("merge-rollback-"), "{journal}");
}

#[test]
fn commits_of_the_upstream_are_not_the_tasks_own() {
    let world = World::new(Agent::Demo, script(Agent::Demo));
    world.ok(&["create", "--goal", "Greet people", "--code", "greet", "--prompt", "Write greeting.txt"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked");
    for n in 1..=3 {
        fs::write(world.project.join("other.txt"), format!("{n}\n")).expect("writes");
        world.git(&["add", "-A"]);
        world.git(&["commit", "--quiet", "-m", &format!("upstream {n}")]);
    }
    world.ok(&["sync", "greet"]);
    let shown = world.show("greet");
    let messages: Vec<&str> =
        shown["commits"].as_array().expect("commits").iter().filter_map(|commit| commit["message"].as_str()).collect();
    assert_eq!(messages, ["Add a greeting", "Merge main"]);
}

#[test]
fn what_stop_suggests_for_a_queued_task_works() {
    let world = World::new(
        Agent::Demo,
        json!([{ "uses": "always", "reply": { "delay_ms": 60000, "content": [{ "text": "late" }] } }]),
    );
    world.configure(Agent::Demo, "[limits]\nmax_concurrent_agents = 1\n");
    world.ok(&["daemon", "restart", "--yes"]);
    for code in ["first", "second"] {
        world.ok(&["create", "--goal", code, "--code", code, "--prompt", "x"]);
        world.ok(&["start", code]);
    }
    assert_eq!(world.status("second"), "queued");
    let said = world.ok(&["stop", "second", "--yes"]);
    assert!(said.contains("lazy start second") && !said.contains("unblock") && !said.contains("resume"), "{said}");
    world.ok(&["start", "second"]);
    assert_eq!(world.status("second"), "queued");
    let said = world.ok(&["stop", "first", "--yes"]);
    assert!(said.contains("lazy resume first"), "{said}");
}
