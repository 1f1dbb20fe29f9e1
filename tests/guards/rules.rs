//! Sizes, printing, spawning, the process's globals.

use super::{bare_lines, sources};

/// Lines of a file without its tests.
const LIMIT: usize = 500;

fn offenders(exempt: &[&str], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources() {
        if exempt.iter().any(|place| source.path.starts_with(place)) {
            continue;
        }
        for (number, line) in bare_lines(&source.code) {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                found.push(format!("src/{}:{number}: {word}", source.path));
            }
        }
    }
    found
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn no_file_is_longer_than_the_limit() {
    let long: Vec<String> = sources()
        .iter()
        .map(|source| (source.code.lines().count(), &source.path))
        .filter(|(lines, _)| *lines > LIMIT)
        .map(|(lines, path)| format!("src/{path}: {lines} lines"))
        .collect();
    assert_none("files over 500 lines, each a place to split along its meaning", &long);
}

#[test]
fn only_the_process_prints() {
    let words = [
        "println!(",
        "eprintln!(",
        "print!(",
        "eprint!(",
        "io::stdout()",
        "io::stderr()",
        "std::io::stdout",
        "std::io::stderr",
    ];
    assert_none(
        "printing outside base/process.rs",
        &offenders(&["base/process.rs", "base/log.rs", "mcp/mod.rs"], &words),
    );
}

#[test]
fn only_proc_spawns() {
    let words = ["process::Command::new", "std::process::Command", "tokio::process::Command", "process::Command"];
    assert_none("spawning outside proc/", &offenders(&["proc/"], &words));
}

#[test]
fn the_environment_comes_from_the_process_value() {
    let words = ["env::var(", "env::var_os(", "env::vars", "env::current_dir", "env::set_var", "env::args"];
    assert_none("globals of the process outside base/process.rs", &offenders(&["base/process.rs"], &words));
}

#[test]
fn nothing_is_left_unfinished_or_allowed() {
    let words = ["todo!(", "unimplemented!(", "dbg!(", "#[allow(", "#![allow(", "#[ignore"];
    assert_none("marks of unfinished work", &offenders(&[], &words));
}

#[test]
fn every_room_says_what_it_is() {
    let silent: Vec<String> = sources()
        .iter()
        .filter(|source| !source.code.starts_with("//! "))
        .map(|source| format!("src/{}", source.path))
        .collect();
    assert_none("files without a module doc", &silent);
}
