//! Bad surroundings and agents that misbehave: one clear message each, and nothing lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use super::life::script;
use super::world::{Agent, World};

const INIT: [&str; 2] = ["init", "--non-interactive"];

fn no_steps() -> serde_json::Value {
    json!([{ "uses": "always", "reply": { "content": [{ "text": "done" }] } }])
}

#[test]
fn outside_of_a_repository_everything_says_so() {
    let mut world = World::bare("plain", no_steps());
    fs::remove_dir_all(world.project.join(".git")).expect("no repository any more");
    for words in [&INIT[..], &["list"], &["create", "--goal", "x"]] {
        let text = world.refused(words);
        assert!(text.contains("git"), "{words:?}: {text}");
    }
    world.project = world.project.join("..").join("plain");
    assert!(world.refused(&["status", "x"]).contains("git"));
}

#[test]
fn a_repository_without_commits_is_told_how_to_make_one() {
    let world = World::bare("empty", no_steps());
    fs::remove_dir_all(world.project.join(".git")).expect("removed");
    world.git(&["init", "--quiet", "--initial-branch=main"]);
    let text = world.refused(&INIT);
    assert!(text.contains("commit"), "{text}");
    assert!(
        !world.project.join(".lazy").exists() && !world.project.join("lazy.toml").exists(),
        "nothing is left behind"
    );
}

#[test]
fn a_project_that_was_not_set_up_names_init() {
    let world = World::bare("fresh", no_steps());
    assert!(world.refused(&["list"]).contains("lazy init"));
    world.ok(&INIT);
    let again = world.ok(&INIT);
    assert!(again.to_lowercase().contains("already"), "{again}");
}

fn lives_from(world: &World, name: &str) {
    world.ok(&["create", "--goal", "Greet people", "--code", name, "--prompt", "Write greeting.txt"]);
    world.ok(&["start", name]);
    assert_eq!(world.settled(name), "blocked", "{}", world.logs());
    world.ok(&["accept", name, "--yes"]);
    assert_eq!(world.status(name), "complete");
}

#[test]
fn a_detached_head_does_not_matter() {
    let world = World::new(Agent::Demo, script(Agent::Demo));
    world.git(&["checkout", "--quiet", "--detach"]);
    lives_from(&world, "detached");
    assert!(world.git(&["show", "main:greeting.txt"]).contains("hello"));
    assert!(!world.project.join("greeting.txt").exists(), "the detached checkout stays where it was");
}

#[test]
fn a_linked_worktree_belongs_to_its_project() {
    let mut world = World::new(Agent::Demo, script(Agent::Demo));
    world.git(&["worktree", "add", "--quiet", "../beside", "-b", "beside"]);
    let main = world.project.clone();
    world.project = main.join("../beside").canonicalize().expect("the worktree");
    world.ok(&["create", "--goal", "From beside", "--code", "beside", "--prompt", "Write greeting.txt"]);
    world.project = main;
    assert!(world.ok(&["list"]).contains("beside"), "both see one project");
}

#[test]
fn a_submodule_is_a_project_of_its_own() {
    let mut world = World::bare("inner", script(Agent::Demo));
    let outer = world.project.join("../outer");
    fs::create_dir_all(&outer).expect("outer");
    world.git_at(&outer, &["init", "--quiet", "--initial-branch=main"]);
    let inner = world.project.display().to_string();
    world.git_at(&outer, &["-c", "protocol.file.allow=always", "submodule", "add", "--quiet", &inner, "sub"]);
    world.git_at(&outer, &["commit", "--quiet", "-m", "with a submodule"]);
    world.project = outer.join("sub").canonicalize().expect("the submodule");
    world.git(&["checkout", "--quiet", "main"]);
    world.ok(&INIT);
    world.configure(Agent::Demo, "");
    lives_from(&world, "sub");
    assert!(world.project.join("greeting.txt").exists());
}

#[test]
fn a_branch_in_the_way_is_named() {
    let world = World::new(Agent::Demo, no_steps());
    world.git(&["branch", "lazy"]);
    world.ok(&["create", "--goal", "Clash", "--code", "clash", "--prompt", "x"]);
    let text = world.refused(&["start", "clash"]);
    assert!(text.contains("lazy") && text.contains("branch"), "{text}");
    assert_eq!(world.status("clash"), "backlog");
    world.git(&["branch", "-m", "lazy", "out-of-the-way"]);
    world.ok(&["start", "clash"]);
    assert_eq!(world.settled("clash"), "blocked");
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let world = World::new(Agent::Demo, no_steps());
    world.ok(&["list"]);
    let first = world.daemon_pid().expect("a daemon");
    let text = world.refused(&["daemon", "start", "--foreground"]);
    assert!(text.contains(&first.to_string()), "{text}");
    world.ok(&["list"]);
    assert_eq!(world.daemon_pid(), Some(first));
    assert!(world.ok(&["daemon", "status"]).contains("running"));
}

#[test]
fn ten_commands_at_once_start_one_daemon() {
    let world = World::new(Agent::Demo, no_steps());
    world.ok(&["daemon", "stop", "--yes"]);
    let children: Vec<_> = (0..10)
        .map(|_| {
            world
                .command(&["list", "--json"])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .expect("starts")
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_torn_record_harms_only_its_task() {
    let world = World::new(Agent::Demo, no_steps());
    world.ok(&["create", "--goal", "Whole", "--code", "whole", "--prompt", "x"]);
    world.ok(&["create", "--goal", "Torn", "--code", "torn", "--prompt", "x"]);
    let id = world.show("torn")["id"].as_str().expect("id").to_string();
    world.ok(&["daemon", "stop", "--yes"]);
    let file = world.project.join("../store/tasks").join(&id).join("task.json");
    let text = fs::read_to_string(&file).expect("reads");
    fs::write(&file, &text[..text.len() / 2]).expect("tears");
    assert!(world.ok(&["list"]).contains("whole"));
    let said = world.refused(&["show", &id]);
    assert!(said.contains("task.json"), "{said}");
    assert_eq!(fs::read_to_string(&file).expect("reads").len(), text.len() / 2, "never overwritten");
    let doctor = world.lazy(&["doctor"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("task.json"), "doctor names it");
}

#[test]
fn a_configuration_that_does_not_parse_stops_the_daemon_with_its_line() {
    let world = World::new(Agent::Demo, no_steps());
    world.ok(&["daemon", "stop", "--yes"]);
    fs::write(world.project.join("lazy.toml"), "[agent]\nagent_id = \"demo\"\n[agent]\n").expect("writes");
    let text = world.refused(&["list"]);
    assert!(text.contains("lazy.toml") && text.contains('3'), "{text}");
}

#[test]
fn a_missing_credential_is_told_before_anything_starts() {
    let mut world = World::new(Agent::Demo, no_steps());
    world.ok(&["daemon", "stop", "--yes"]);
    world.set_env("ANTHROPIC_API_KEY", " ");
    let text = world.refused(&["list"]);
    assert!(text.contains("ANTHROPIC_API_KEY") && text.contains("CLAUDE_CODE_OAUTH_TOKEN"), "{text}");
    assert!(world.daemon_pid().is_none(), "a refused start leaves no pid file");
}

/// A world in which `claude` is a shell script.
fn with_fake_claude(body: &str, more: &str) -> World {
    let mut world = World::new(Agent::Claude, no_steps());
    let bin = world.home().join("bin");
    fs::create_dir_all(&bin).expect("bin");
    let script = bin.join("claude");
    fs::write(&script, format!("#!/bin/sh\ncat > /dev/null\n{body}\n")).expect("script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    world.set_env("PATH", &format!("{}:{}", bin.display(), std::env::var("PATH").expect("PATH")));
    world.configure(Agent::Claude, more);
    world.ok(&["daemon", "stop", "--yes"]);
    world.ok(&["create", "--goal", "Odd", "--code", "odd", "--prompt", "x"]);
    world.ok(&["start", "odd"]);
    world
}

const INIT_LINE: &str = r#"{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","tools":["mcp__lazy__lazy_commit"]}"#;

/// What the task says of its failed turn.
fn failed_turn(world: &World) -> String {
    world.until("a failed turn", || {
        let shown = world.show("odd");
        let turns = shown["turns"].as_array()?.clone();
        let last = turns.iter().rev().find(|turn| turn["role"] == "agent")?;
        last["content"].as_str().map(str::to_string)
    })
}

#[test]
fn an_agent_that_prints_garbage_ends_in_a_told_failure() {
    let world = with_fake_claude("head -c 100000 /dev/urandom; exit 0", "");
    let said = failed_turn(&world);
    assert!(said.contains("failed") || said.contains("could not"), "{said}");
    assert!(["interrupted", "working"].contains(&world.status("odd").as_str()));
}

#[test]
fn an_agent_whose_credential_is_refused_parks_the_task_at_once() {
    let world = with_fake_claude("echo 'API Error: 401 invalid api key' >&2; exit 1", "");
    assert_eq!(world.settled("odd"), "blocked");
    assert!(failed_turn(&world).contains("fatal_auth"));
}

#[test]
fn an_agent_that_never_exits_is_ended_by_the_watchdog() {
    let world = with_fake_claude(&format!("echo '{INIT_LINE}'\nexec sleep 1000"), "");
    // The limit is read at the next start of a turn; set it and put the turn again.
    world.ok(&["stop", "odd", "--yes", "--reason", "set a limit"]);
    assert!(world.run_processes().is_empty(), "the sleeper is gone");
    let text = fs::read_to_string(world.project.join("lazy.toml")).expect("reads");
    let text = text.replace("[agent]\n", "[agent]\nwatchdog_output_timeout_ms = 400\n");
    fs::write(world.project.join("lazy.toml"), text).expect("writes");
    world.ok(&["daemon", "restart", "--yes"]);
    world.ok(&["resume", "odd"]);
    let said = world.until("the watchdog", || Some(failed_turn(&world)).filter(|text| text.contains("no progress")));
    assert!(said.contains("Attempts: 3"), "{said}");
}

#[test]
fn a_line_of_64_mib_does_not_stop_a_turn() {
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"Survived.","session_id":"11111111-1111-4111-8111-111111111111","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let world = with_fake_claude(
        &format!("echo '{INIT_LINE}'\nhead -c 68000000 /dev/zero | tr '\\0' 'x'\necho\necho '{result}'"),
        "",
    );
    assert_eq!(world.settled("odd"), "blocked");
    assert!(failed_turn(&world).contains("Survived."));
}

#[test]
fn a_full_disk_loses_nothing() {
    let world = World::new(Agent::Demo, no_steps());
    let Some(small) = SmallDisk::mount(&world.home().join("small")) else { return };
    let text = fs::read_to_string(world.project.join("lazy.toml")).expect("reads");
    let store = small.0.join("store");
    let text = text.lines().map(|line| match line.starts_with("external_path") {
        true => format!("external_path = \"{}\"", store.display()),
        false => line.to_string(),
    });
    fs::write(world.project.join("lazy.toml"), text.collect::<Vec<_>>().join("\n")).expect("writes");
    world.ok(&["daemon", "restart", "--yes"]);
    world.ok(&["create", "--goal", "Before", "--code", "before", "--prompt", "x"]);
    let filler = small.0.join("filler");
    fs::write(&filler, vec![0_u8; 16 << 20]).ok();
    let refusal = world.until("the disk is full", || {
        let output = world.lazy(&["create", "--goal", &"long ".repeat(2000), "--prompt", &"text ".repeat(20_000)]);
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
    });
    assert!(refusal.contains("disk space") || refusal.contains("No space"), "{refusal}");
    fs::remove_file(&filler).expect("frees");
    world.ok(&["create", "--goal", "After", "--code", "after", "--prompt", "x"]);
    world.ok(&["daemon", "restart", "--yes"]);
    let list = world.ok(&["list"]);
    assert!(list.contains("before") && list.contains("after"), "{list}");
}

/// A file system of two megabytes, where this user may mount one.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        fs::create_dir_all(at).expect("mount point");
        let mounted =
            std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(at).output();
        let done = mounted.is_ok_and(|output| output.status.success());
        if !done {
            eprintln!("skipped: this user may not mount a small file system");
        }
        done.then(|| SmallDisk(at.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg("-l").arg(&self.0).output().ok();
    }
}
