//! Surroundings and texts that misled once: what is said is true, and what is shown is what is there.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::world::{Agent, World};

fn done() -> Value {
    json!([{ "uses": "always", "reply": { "content": [{ "text": "done" }] } }])
}

#[test]
fn a_directory_that_is_gone_hinders_only_what_needs_it() {
    let world = World::bare("plain", done());
    let there = |words: &str| {
        let script = format!("mkdir gone && cd gone && rmdir ../gone && exec '{}' {words}", env!("CARGO_BIN_EXE_lazy"));
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(&world.project).env("HOME", world.home());
        command.stdin(Stdio::null()).output().expect("sh runs")
    };
    for words in ["--version", "--help", "-V", "create --help", "help start", ""] {
        let output = there(words);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty());
    }
    for words in ["list", "daemon start --foreground", "supervise --protocol-dir x --worktree y"] {
        let output = there(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("the current directory does not exist"), "{words}: {said}");
    }
}

#[test]
fn an_answer_that_does_not_get_out_claims_nothing_untrue() {
    let world = World::new(Agent::Demo, done());
    let mut command = world.command(&["create", "--goal", "Made", "--code", "made", "--prompt", "x"]);
    let full = fs::File::options().write(true).open("/dev/full").expect("opens");
    let output = command.stdout(full).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("could not be written to standard output"), "{said}");
    assert!(!said.contains("nothing was half-written") && said.contains("may have been done"), "{said}");
    assert_eq!(world.status("made"), "backlog", "it was made");
}

#[test]
fn a_credential_that_was_not_copied_whole_is_refused_at_the_gate() {
    let mut world = World::new(Agent::Demo, done());
    for (value, what) in
        [("sk-ant-secret-1\n", "white space around it"), ("sk-ant\u{7}secret-1", "a control character")]
    {
        world.set_env("ANTHROPIC_API_KEY", value);
        for words in [&["list"][..], &["daemon", "start"], &["daemon", "start", "--foreground"]] {
            let said = world.refused(words);
            assert!(said.contains("ANTHROPIC_API_KEY") && said.contains(what), "{words:?}: {said}");
            assert!(!said.contains("secret-1"), "{said}");
        }
    }
    assert_eq!(world.state_dir(), None, "nothing was made for it");
}

#[test]
fn a_daemon_for_nothing_leaves_nothing() {
    let world = World::bare("plain", done());
    let no_repository = world.home();
    for path in ["/nope", no_repository.to_str().expect("utf-8"), world.project.to_str().expect("utf-8")] {
        for words in [
            &["daemon", "start", "--project", path][..],
            &["daemon", "restart", "--project", path, "--yes"],
            &["daemon", "start", "--foreground", "--project", path],
        ] {
            world.refused(words);
            assert_eq!(world.state_dir(), None, "{words:?}");
        }
    }
}

#[test]
fn what_agents_and_people_wrote_cannot_move_the_cursor() {
    let evil = "\u{1b}[2Jgone\u{1b}]0;title\u{7} \u{9b}31m \u{202e}reversed";
    let world = World::new(
        Agent::Demo,
        json!([
            { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [{ "tool_use": { "name": "bash", "input":
                { "command": format!("printf '%s' '{evil}' > file.txt; git add -A; git -c user.name=x -c user.email=x@y commit -qm '{evil}'; touch 'left-{evil}'") } } }] } },
            { "uses": "always", "reply": { "content": [{ "text": evil }] } },
        ]),
    );
    let goal = format!("Goal {evil}");
    world.ok(&["create", "--goal", &goal, "--code", "evil", "--prompt", evil]);
    world.ok(&["start", "evil"]);
    assert_eq!(world.settled("evil"), "blocked");
    world.ok(&["comment", "evil", "-m", evil]);
    world.ok(&["journal", "evil", "-m", evil]);
    for words in [
        &["list"][..],
        &["list", "--flat"],
        &["blocked"],
        &["show", "evil"],
        &["show", "evil", "--full"],
        &["view", "evil"],
        &["status", "evil"],
        &["wait", "evil"],
        &["watch", "evil"],
        &["diff", "evil"],
        &["journal", "evil"],
        &["search", "gone"],
        &["raised"],
        &["daemon", "logs"],
        &["show", evil],
        &["close", "evil", "--yes", "--reason", evil],
        &["close", "evil", "--yes", "--reason", evil, "--accept-dirty-worktree"],
        &["reopen", "evil"],
    ] {
        let output = world.lazy(words);
        for text in [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)] {
            let bad = text.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
            assert_eq!(bad, None, "{words:?}: {text:?}");
        }
    }
    let shown = world.ok(&["show", "evil", "--full"]);
    assert!(shown.contains("\\u001b[2Jgone") && shown.contains("\\u202ereversed"), "it is seen: {shown}");
    let patch = world.ok(&["diff", "evil", "--full"]);
    assert!(patch.contains("\u{1b}[2Jgone"), "a patch in a pipe has every byte");
    let told: Value = serde_json::from_str(&world.ok(&["show", "evil", "--json"])).expect("JSON stays JSON");
    assert!(told.to_string().contains("reversed"));
}

#[test]
fn a_daemon_that_has_stopped_is_gone() {
    let world = World::new(Agent::Demo, done());
    for _ in 0..5 {
        world.ok(&["daemon", "start"]);
        let pid = world.daemon_pid().expect("a daemon");
        world.ok(&["daemon", "stop", "--yes"]);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).chars().next();
        assert!(matches!(state, None | Some('Z' | 'X')), "the process is still there: {stat}");
    }
}

#[test]
fn two_repositories_of_one_name_get_stores_of_their_own() {
    let mut world = World::bare("shop", done());
    world.ok(&["init", "--non-interactive"]);
    let first = world.project.clone();
    world.project = world.home().join("elsewhere/shop");
    fs::create_dir_all(&world.project).expect("directory");
    world.git(&["init", "--quiet", "--initial-branch=main"]);
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
    world.ok(&["init", "--non-interactive"]);
    let config = fs::read_to_string(world.project.join("lazy.toml")).expect("reads");
    assert!(config.contains(".lazy/shop-2\""), "{config}");
    world.ok(&["create", "--goal", "Of the second", "--prompt", "x"]);
    world.ok(&["daemon", "stop", "--yes"]);
    world.project = first;
    assert!(!world.ok(&["list"]).contains("Of the second"));
}
