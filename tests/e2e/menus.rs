//! Menus on a terminal, and the refusals that stand in their place elsewhere.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::world::{Agent, World, part};

/// Runs the program on a terminal of its own and types `keys`; whether it succeeded, and all that stood on the screen.
fn on_a_terminal(world: &World, words: &str, keys: &str) -> (bool, String) {
    let plain = world.command(&[]);
    let mut script = Command::new("script");
    script.args(["-qec", &format!("'{}' {words}", env!("CARGO_BIN_EXE_lazy")), "/dev/null"]);
    script.current_dir(&world.project).env_clear();
    script
        .envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .env("TERM", "dumb")
        .env("SHELL", "/bin/sh");
    let mut child =
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("script runs");
    let mut typed = child.stdin.take().expect("piped");
    typed.write_all(keys.as_bytes()).expect("types");
    // Held open: the end of the keys would be the end of the terminal.
    let output = child.wait_with_output().expect("ends");
    drop(typed);
    (output.status.success(), String::from_utf8_lossy(&output.stdout).replace('\r', ""))
}

#[test]
fn a_name_that_fits_several_tasks_is_a_menu_on_a_terminal() {
    if !part("script") {
        return;
    }
    let world = World::new(Agent::Demo, json!([{ "uses": "always", "reply": { "content": [{ "text": "done" }] } }]));
    // Seventeen ids share a first digit somewhere.
    for number in 0..17 {
        world.ok(&["create", "--goal", &format!("Number {number}"), "--prompt", "x"]);
    }
    let rows: Value = serde_json::from_str(&world.ok(&["list", "--json"])).expect("JSON");
    let mut by_digit: HashMap<char, Vec<&Value>> = HashMap::new();
    for row in rows.as_array().expect("rows") {
        let digit = row["id"].as_str().and_then(|id| id.chars().next()).expect("an id");
        by_digit.entry(digit).or_default().push(row);
    }
    let (digit, fitting) = by_digit.iter().find(|(_, rows)| rows.len() > 1).expect("two share a digit");
    let second = fitting[1]["goal"].as_str().expect("goal");

    let said = world.refused(&["show", &digit.to_string()]);
    for row in fitting {
        assert!(
            said.contains(&row["id"].as_str().expect("id")[..8]) && said.contains(row["goal"].as_str().expect("goal")),
            "{said}"
        );
    }
    let (good, screen) = on_a_terminal(&world, &format!("show {digit}"), "9999\n2\n");
    assert!(good && screen.contains("which one?") && screen.contains("is none of them"), "{screen}");
    assert!(screen.contains(&format!("Goal:         {second}")) || screen.contains(second), "{screen}");
    assert!(screen.contains("--- Prompt ---"), "the chosen task is shown: {screen}");

    // Asked once, though the command looks at the task before it changes it.
    let (good, screen) = on_a_terminal(&world, &format!("close {digit} --reason enough"), "2\n");
    assert!(good && screen.matches("which one?").count() == 1, "{screen}");
    assert_eq!(world.status(fitting[1]["id"].as_str().expect("id")), "abandoned", "{screen}");
}

#[test]
fn a_command_without_a_task_offers_those_it_can_be_about() {
    if !part("script") {
        return;
    }
    let world = World::new(Agent::Demo, json!([{ "uses": "always", "reply": { "content": [{ "text": "done" }] } }]));
    let (good, screen) = on_a_terminal(&world, "unblock", "");
    assert!(!good && screen.contains("no task waits for you"), "{screen}");
    world.ok(&["create", "--goal", "Waits", "--code", "waits", "--prompt", "x"]);
    world.ok(&["create", "--goal", "Rests", "--code", "rests", "--prompt", "x"]);
    world.ok(&["start", "waits"]);
    assert_eq!(world.settled("waits"), "blocked");
    let (good, screen) = on_a_terminal(&world, "show", "2\n");
    assert!(
        good && screen.contains("Waits") && screen.contains("Rests") && screen.contains("--- Prompt ---"),
        "{screen}"
    );
    let (good, screen) = on_a_terminal(&world, "unblock -m 'go on'", "1\n");
    assert!(good && screen.contains("Task waits unblocked") && !screen.contains("Rests"), "{screen}");
    assert_eq!(world.settled("waits"), "blocked");
    let (good, screen) = on_a_terminal(&world, "accept --yes", "\n");
    assert!(!good && screen.contains("no task was chosen"), "{screen}");
    let (good, screen) = on_a_terminal(&world, "accept --yes", "1\n");
    assert!(good && screen.contains("Task waits accepted"), "{screen}");
    for words in ["show", "unblock", "accept"] {
        let said = world.refused(&[words]);
        assert!(said.contains("needs <"), "{said}");
    }
}
