//! Bad surroundings and agents that misbehave: one clear message each, and nothing lost.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

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

/// A request that the service takes for wrong is refused however often it is sent: the task waits for a person.
#[test]
fn a_request_that_is_refused_again_and_again_parks_the_task() {
    let error = json!({ "status": 400, "type": "invalid_request_error", "message": "tools.3.input_schema: wrong" });
    let world = World::new(Agent::Demo, json!([{ "uses": "always", "reply": { "error": error } }]));
    world.ok(&["create", "--goal", "Refused", "--code", "refused", "--prompt", "x"]);
    world.ok(&["start", "refused"]);
    let status = world.until("the turn ends", || Some(world.status("refused")).filter(|status| status != "working"));
    assert_eq!(status, "blocked", "{}", world.logs());
    let shown = world.show("refused");
    let said = shown["turns"].as_array().expect("turns").last().expect("a turn")["content"]
        .as_str()
        .expect("text")
        .to_string();
    assert!(said.contains("refused the request in every attempt") && said.contains("tools.3.input_schema"), "{said}");
    assert_eq!(
        world.requests().iter().filter(|request| request.to_string().contains("/v1/messages")).count(),
        3,
        "after the ladder"
    );
}

/// What was written stands somewhere when the daemon goes before it has stored it.
#[test]
fn a_text_survives_a_daemon_that_dies_before_it_is_stored() {
    let mut world = World::new(Agent::Demo, script(Agent::Demo));
    world.ok(&["create", "--goal", "Note", "--code", "note", "--prompt", "x"]);
    let recovery = world.project.join(".lazy/recovery");
    let marker = world.home().join("reached");
    for (words, stdin) in [
        (&["create", "--goal", "Again", "--prompt", "my long words"][..], ""),
        (&["create", "--goal", "Again"][..], "my long words\n"),
    ] {
        world.set_env("LAZY_CHECKPOINT", "");
        world.ok(&["daemon", "stop", "--yes"]);
        world.set_env("LAZY_CHECKPOINT", "store.before-intent");
        world.set_env("LAZY_CHECKPOINT_FILE", marker.to_str().expect("utf-8"));
        world.ok(&["daemon", "start"]);
        let mut command = world.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut pipe = child.stdin.take().expect("piped");
        pipe.write_all(stdin.as_bytes()).expect("writes");
        drop(pipe);
        world.until("the call arrives", || marker.exists().then_some(()));
        world.kill(world.daemon_pid().expect("a daemon"));
        let output = child.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        let path = said.lines().find_map(|line| line.trim().strip_prefix("What you wrote stands in ")).expect(&said);
        assert!(fs::read_to_string(path).expect("the text").ends_with("my long words"), "{words:?}");
        fs::remove_file(path).expect("removes");
        fs::remove_file(&marker).expect("removes");
    }
    world.set_env("LAZY_CHECKPOINT", "");
    let output = world.ok(&["comment", "note", "-m", "arrives"]);
    assert!(output.contains("Comment"), "{output}");
    assert!(!recovery.exists() || fs::read_dir(&recovery).expect("lists").count() == 0);
}

/// A record that cannot be read is told where people look, and never makes a name mean another task.
#[test]
fn damaged_records_are_told_and_do_not_lend_their_names() {
    let world = World::new(Agent::Demo, no_steps());
    world.ok(&["create", "--goal", "Whole", "--prompt", "x"]);
    let rows: serde_json::Value = serde_json::from_str(&world.ok(&["list", "--json"])).expect("JSON");
    let id = rows[0]["id"].as_str().expect("id").to_string();
    // A code that is also the beginning of the other task's id.
    let code = id.get(..3).expect("digits").to_string();
    world.ok(&["create", "--goal", "Torn", "--code", &code, "--prompt", "x"]);
    world.ok(&["daemon", "stop", "--yes"]);
    let torn = world.store_task(&code).join("task.json");
    fs::write(&torn, "{").expect("writes");
    let output = world.lazy(&["list"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("1 record of the task store cannot be read"), "{said}");
    assert_eq!(said.matches("cannot be read").count(), 1, "one line: {said}");
    let rows: serde_json::Value = serde_json::from_str(&world.ok(&["list", "--json"])).expect("JSON");
    assert!(rows[1]["damaged"].as_str().expect("a row for it").contains("task.json"), "{rows}");
    let output = world.lazy(&["status", &id]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be read"));
    let status: serde_json::Value = serde_json::from_str(&world.ok(&["status", &id, "--json"])).expect("JSON");
    assert_eq!(status["damaged"].as_array().expect("a list").len(), 1);
    let said = world.refused(&["close", &code, "--yes", "--reason", "not this one"]);
    assert!(said.contains("may be the code of") && said.contains("lazy doctor"), "{said}");
    assert_eq!(world.status(&id), "backlog");
}

/// Files that never end are refused by name, wherever one can be named.
#[test]
fn a_file_without_end_is_refused_by_name() {
    let mut world = World::new(Agent::Demo, no_steps());
    world.ok(&["create", "--goal", "Note", "--code", "note", "--prompt", "x"]);
    let fifo = world.home().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    for path in [fifo.to_str().expect("utf-8"), "/dev/zero"] {
        let said = world.refused(&["unblock", "note", "--file", path]);
        assert!(said.contains(path) && said.contains("not a regular file"), "{said}");
        world.set_env("LAZY_CONFIG", path);
        let said = world.refused(&["config", "check"]);
        assert!(said.contains(path) && said.contains("not a regular file"), "{said}");
        world.set_env("LAZY_CONFIG", "");
    }
    let mut command = world.command(&["comment", "note"]);
    let endless = command.stdin(fs::File::open("/dev/zero").expect("opens")).output().expect("ends");
    let said = String::from_utf8_lossy(&endless.stderr).into_owned();
    assert!(!endless.status.success() && said.contains("more than 1 MiB"), "{said}");
    world.ok(&["daemon", "stop", "--yes"]);
    fs::remove_file(world.project.join("lazy.toml")).expect("removes");
    fs::rename(&fifo, world.project.join("lazy.toml")).expect("renames");
    for words in [&["list"][..], &["config", "check"], &["daemon", "start"], &["init", "--non-interactive"]] {
        let said = world.refused(words);
        assert!(said.contains("lazy.toml is a FIFO"), "{words:?}: {said}");
    }
    assert_eq!(world.lazy(&["doctor"]).status.code(), Some(1), "doctor says it and ends");
}

/// Commands that meet a daemon while it is replaced find the next one.
#[test]
fn no_command_fails_while_the_daemon_is_replaced() {
    let world = World::new(Agent::Demo, no_steps());
    world.ok(&["create", "--goal", "Note", "--code", "note", "--prompt", "x"]);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4)
            .map(|number| {
                let (world, done) = (&world, &done);
                scope.spawn(move || {
                    let mut calls = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        world.ok(&["journal", "note", "-m", &format!("entry {number}/{calls}")]);
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        let restarts: Vec<_> = (0..4).map(|_| world.lazy(&["daemon", "restart", "--yes"])).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for output in restarts {
            assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), world.logs());
        }
        let calls: usize = asking.into_iter().map(|thread| thread.join().expect("no command failed")).sum();
        let entries = world.show("note")["journal"].as_array().expect("entries").len();
        assert_eq!(entries, calls, "each call was carried out once");
    });
}
