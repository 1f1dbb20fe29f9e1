//! Tasks in real containers: the same life as on the host, and what only containers have.

use std::process::Command;

use serde_json::{Value, json};

use super::life::script;
use super::world::{Agent, REAL_KEY, World, engine};

/// A project whose tasks run in containers of `engine`; removes what is left of them in the end.
struct Contained {
    world: World,
    engine: &'static str,
}

impl Contained {
    fn new(engine: &'static str, agent: Agent, runner: &str, more: &str, steps: Value) -> Contained {
        let world = World::bare("my project", steps);
        world.configure_engine(agent, engine, runner, more);
        Contained { world, engine }
    }

    fn engine(&self, words: &[&str]) -> String {
        let output = Command::new(self.engine).args(words).output().expect("the engine runs");
        assert!(output.status.success(), "{} {words:?}: {}", self.engine, String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }

    /// The containers of this project, also those that ended.
    fn containers(&self) -> Vec<String> {
        let root = self.world.project.canonicalize().expect("the project");
        let filter = format!("label=lazy.project={}", root.display());
        let listed = self.engine(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter]);
        listed.lines().map(str::to_string).collect()
    }

    fn only_container(&self) -> String {
        let containers = self.containers();
        assert_eq!(containers.len(), 1, "{containers:?}");
        containers[0].clone()
    }

    fn inspect(&self, container: &str, format: &str) -> String {
        self.engine(&["inspect", "--format", format, container])
    }

    fn asked(&self, count: usize) {
        self.world.until("the model is asked", || {
            let asked = self
                .world
                .requests()
                .iter()
                .filter(|request| request["path"].as_str().is_some_and(|path| path.starts_with("/v1/messages")))
                .count();
            (asked >= count).then_some(())
        });
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for container in self.containers() {
                let output = Command::new(self.engine).args(["logs", "--tail", "40", &container]).output();
                eprintln!("--- container {container}\n{output:?}");
            }
        }
        self.world.command(&["daemon", "stop", "--yes"]).output().ok();
        for container in self.containers() {
            Command::new(self.engine).args(["rm", "--force", "--volumes", &container]).output().ok();
        }
    }
}

/// A turn that writes and commits after a first request that hangs, once.
fn slow(agent: Agent) -> Value {
    let commit = json!({ "tool_use": { "name": "mcp__lazy__lazy_commit", "input": { "message": "Be slow" } } });
    json!([
        { "when": { "nth": 0 }, "reply": { "delay_ms": 5000, "content": [{ "tool_use": agent.write("slow.txt", "slow\n") }] } },
        { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [{ "tool_use": agent.write("slow.txt", "slow\n") }] } },
        { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [commit] } },
        { "uses": "always", "reply": { "content": [{ "text": "Arrived." }] } },
    ])
}

fn whole_life(name: &'static str, agent: Agent, runner: &str) {
    if !engine(name) {
        return;
    }
    let case = Contained::new(name, agent, runner, "", script(agent));
    let world = &case.world;
    world.ok(&["create", "--goal", "Greet people", "--code", "greet", "--prompt", "Write greeting.txt"]);
    let main_before = world.git(&["rev-parse", "main"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked", "{}", world.show("greet"));
    let container = case.only_container();
    let shown = world.show("greet");
    assert_eq!(shown["commits"].as_array().expect("commits").len(), 1, "{shown:#}");
    assert_eq!(case.inspect(&container, "{{.State.Running}}"), "true", "the container stays");
    let conversation = shown["session"]["agent_session_id"].clone();

    // What the engine tells of it holds a placeholder at most.
    let told = case.inspect(&container, "{{json .}}");
    assert!(!told.contains(REAL_KEY), "the real credential is in the container");
    assert!(!case.inspect(&container, "{{json .Args}}").contains("lazy-proxy"), "a credential is on the argv");

    world.ok(&["unblock", "greet", "--message", "Make it louder"]);
    assert_eq!(world.settled("greet"), "blocked", "{}", world.show("greet"));
    assert_eq!(case.only_container(), container, "the warm container is used again");
    assert_eq!(world.show("greet")["session"]["agent_session_id"], conversation, "the same conversation is resumed");
    let answer = world.ok(&["ask", "greet", "-m", "What did you do?"]);
    assert!(answer.contains("I wrote greeting.txt"), "{answer}");

    let worktree = world.project.join(".lazy/worktrees/greet");
    let foreign = Command::new("find")
        .arg(&worktree)
        .args(["!", "-uid", &rustix::process::geteuid().as_raw().to_string()])
        .output()
        .expect("find runs");
    assert!(foreign.stdout.is_empty(), "not ours: {}", String::from_utf8_lossy(&foreign.stdout));

    world.ok(&["accept", "greet", "--yes"]);
    assert_eq!(world.git(&["rev-list", "--count", &format!("{main_before}..main")]), "1", "one squash commit");
    assert_eq!(std::fs::read_to_string(world.project.join("greeting.txt")).expect("merged"), "HELLO\n");
    assert!(case.containers().is_empty(), "the container goes with the task");
}

#[test]
fn claude_code_in_docker_takes_a_task_to_accept() {
    whole_life("docker", Agent::Claude, "");
}

#[test]
fn claude_code_in_podman_takes_a_task_to_accept() {
    whole_life("podman", Agent::Claude, "");
}

#[test]
fn claude_code_without_a_network_takes_a_task_to_accept() {
    whole_life("docker", Agent::Claude, "network = \"proxy-only\"");
    whole_life("podman", Agent::Demo, "network = \"proxy-only\"");
}

fn the_daemon_is_replaced_in_mid_turn(name: &'static str, end: impl Fn(&World)) {
    if !engine(name) {
        return;
    }
    let case = Contained::new(name, Agent::Claude, "", "", slow(Agent::Claude));
    let world = &case.world;
    world.ok(&["create", "--goal", "Be slow", "--code", "slow", "--prompt", "Write slow.txt"]);
    world.ok(&["start", "slow"]);
    case.asked(1);
    let container = case.only_container();
    end(world);
    assert_eq!(world.settled("slow"), "blocked", "{}", world.show("slow"));
    assert_eq!(case.only_container(), container, "nothing was launched again");
    let shown = world.show("slow");
    assert_eq!(shown["commits"].as_array().expect("commits").len(), 1, "{shown:#}");
    assert_eq!(shown["session"]["consecutive_interruptions"], 0, "{shown:#}");
}

#[test]
fn a_restart_of_the_daemon_does_not_cost_a_turn() {
    for name in ["docker", "podman"] {
        the_daemon_is_replaced_in_mid_turn(name, |world| {
            world.ok(&["daemon", "restart", "--yes"]);
        });
    }
}

#[test]
fn a_killed_daemon_does_not_cost_a_turn() {
    the_daemon_is_replaced_in_mid_turn("docker", |world| {
        world.kill(world.daemon_pid().expect("a daemon"));
        std::thread::sleep(std::time::Duration::from_secs(2));
        world.ok(&["list"]);
    });
}

#[test]
fn a_container_that_is_killed_is_noticed_and_the_turn_made_again() {
    if !engine("docker") {
        return;
    }
    let case = Contained::new("docker", Agent::Claude, "", "", slow(Agent::Claude));
    let world = &case.world;
    world.ok(&["create", "--goal", "Be slow", "--code", "slow", "--prompt", "Write slow.txt"]);
    world.ok(&["start", "slow"]);
    case.asked(1);
    let container = case.only_container();
    case.engine(&["kill", &container]);
    assert_eq!(world.settled("slow"), "blocked", "{}", world.show("slow"));
    assert_ne!(case.only_container(), container, "in another container");
    assert_eq!(world.show("slow")["commits"].as_array().expect("commits").len(), 1);
}

#[test]
fn a_stop_takes_the_container_and_the_next_turn_gets_another() {
    if !engine("docker") {
        return;
    }
    let case = Contained::new("docker", Agent::Demo, "", "", slow(Agent::Demo));
    let world = &case.world;
    world.ok(&["create", "--goal", "Be slow", "--code", "slow", "--prompt", "Write slow.txt"]);
    world.ok(&["start", "slow"]);
    case.asked(1);
    world.ok(&["stop", "slow", "--reason", "changed my mind"]);
    assert!(case.containers().is_empty());
    assert_eq!(world.status("slow"), "blocked");
    world.ok(&["unblock", "slow", "--message", "Go on"]);
    assert_eq!(world.settled("slow"), "blocked");
    assert!(world.project.join(".lazy/worktrees/slow/slow.txt").exists());
}

#[test]
fn what_nobody_wants_any_more_is_swept_and_what_idles_is_reaped() {
    if !engine("docker") {
        return;
    }
    let case = Contained::new("docker", Agent::Demo, "", "[limits]\nidle_grace_minutes = 0\n", script(Agent::Demo));
    let world = &case.world;
    world.ok(&["create", "--goal", "Greet people", "--code", "greet", "--prompt", "Write greeting.txt"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked");
    world.until("the idle container is ended", || case.containers().is_empty().then_some(()));
    world.until("the slot is free", || world.show("greet")["session"]["container_name"].is_null().then_some(()));

    // An idle shell starts it again, and keeps it while someone is in it.
    let shell = world.command(&["shell", "greet", "--container"]).stdin(std::process::Stdio::piped()).spawn();
    let mut shell = shell.expect("the shell starts");
    world.until("someone is in it", || {
        let container = case.containers().first().cloned()?;
        (case.inspect(&container, "{{len .ExecIDs}}") != "0").then_some(())
    });
    std::thread::sleep(std::time::Duration::from_secs(7));
    let container = case.only_container();
    let owner = case.inspect(&container, "{{index .Config.Labels \"lazy.owner\"}}");
    let image = case.inspect(&container, "{{.Image}}");
    drop(shell.stdin.take());
    assert!(shell.wait().expect("the shell ends").success());

    world.ok(&["daemon", "stop", "--yes"]);
    let (owner, task) = (format!("lazy.owner={owner}"), "lazy.task=aaaaaaaa-0000-4000-8000-000000000001");
    let root = format!("lazy.project={}", world.project.canonicalize().expect("the project").display());
    let orphan = case.engine(&[
        "run",
        "--detach",
        "--label",
        &owner,
        "--label",
        "lazy.kind=task",
        "--label",
        task,
        "--label",
        &root,
        "--entrypoint",
        "sleep",
        &image,
        "600",
    ]);
    world.ok(&["list"]);
    world.until("the orphan is removed", || (!case.containers().contains(&orphan)).then_some(()));
}

#[test]
fn refs_are_out_of_reach_and_secrets_are_not_there() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/verify-container-git-containment.sh");
    for name in ["docker", "podman"] {
        if !engine(name) {
            continue;
        }
        let mut command = Command::new(script);
        command.arg(name).env("LAZY", env!("CARGO_BIN_EXE_lazy"));
        if let Some(pem) = std::env::var_os("SSL_CERT_FILE") {
            command.env("LAZY_CA", pem);
        }
        let output = command.output().expect("the script runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.lines().filter(|line| line.ends_with("(ok)")).count() > 40, "{said}");
    }
}
