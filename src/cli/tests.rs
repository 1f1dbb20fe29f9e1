//! The command line as a whole, on a process that is not real.

use std::path::Path;

use super::table::{self, COMMANDS};
use super::*;
use crate::base::Millis;

fn run_in(words: &[&str], cwd: &Path, env: &[(&str, &str)], stdin: &str) -> (Result<u8>, String, String) {
    let line = std::iter::once("lazy").chain(words.iter().copied());
    let process = Process::fake(line, env, cwd, Millis(0)).with_stdin(stdin.as_bytes());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let ended = runtime.block_on(main(&process));
    if let Err(error) = &ended {
        render_error(&process, error);
    }
    let (out, err) = process.captured();
    (ended, out, err)
}

fn lines(words: &[&str]) -> (u8, String, String) {
    let dir = tempfile::tempdir().expect("temp dir");
    let home = dir.path().to_string_lossy().into_owned();
    let (ended, out, err) = run_in(words, dir.path(), &[("HOME", home.as_str())], "");
    (ended.unwrap_or_else(|error| error.kind().exit_code()), out, err)
}

#[test]
fn the_overview_shows_every_command_that_exists() {
    let (code, out, err) = lines(&[]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(lines(&["--help"]).1, out);
    insta::assert_snapshot!("overview", out);
}

#[test]
fn usage_of_a_command_and_of_a_family() {
    insta::assert_snapshot!("usage_unblock", lines(&["unblock", "--help"]).1);
    insta::assert_snapshot!("usage_daemon", lines(&["daemon", "--help"]).1);
    insta::assert_snapshot!("usage_list", lines(&["help", "ls"]).1);
}

#[test]
fn every_command_explains_itself_within_80_columns() {
    for entry in COMMANDS {
        let mut words: Vec<&str> = entry.words.split(' ').collect();
        words.push("-h");
        let (code, out, err) = lines(&words);
        assert_eq!((code, err.as_str()), (0, ""), "{}", entry.words);
        assert!(out.contains(&format!("Usage: lazy {}", entry.words)), "{out}");
        let widest = out.lines().filter(|line| !line.starts_with("  lazy") && !line.starts_with("  eval"));
        for line in widest {
            assert!(line.chars().count() <= 80, "{}: {line}", entry.words);
        }
        let info = (entry.info)();
        assert!(!info.description.is_empty(), "{}", entry.words);
        assert!(info.flags.iter().all(|flag| flag.hidden || !flag.description.is_empty()), "{}", entry.words);
    }
    for topic in table::topics() {
        assert!(!table::description(topic).is_empty(), "{topic}");
    }
}

#[test]
fn a_wrong_line_says_what_is_right_and_ends_with_2() {
    let (code, out, err) = lines(&["strat", "x"]);
    assert_eq!((code, out.as_str()), (2, ""));
    insta::assert_snapshot!("unknown_command", err);
    let (code, _, err) = lines(&["start", "x", "--folow"]);
    assert_eq!(code, 2);
    insta::assert_snapshot!("unknown_flag", err);
    let (code, _, err) = lines(&["create", "--goal", "x", "--effort=hgih"]);
    assert_eq!(code, 2);
    insta::assert_snapshot!("bad_value", err);
    for words in [
        &["show"][..],
        &["list", "--levels", "0"],
        &["list", "--flat", "--tree"],
        &["wait"],
        &["diff", "x", "--turn", "y"],
    ] {
        let (code, out, err) = lines(words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
        assert!(err.starts_with("Error: ") && err.contains("  try: lazy "), "{err}");
    }
}

#[test]
fn versions_and_scripts_need_no_project() {
    assert_eq!(lines(&["--version"]).1, format!("lazy {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        assert_eq!(lines(&["completion", shell]), lines(&["completion", &format!("--{shell}")]));
        assert_eq!(lines(&["completion", shell]).0, 0);
    }
    assert_eq!(lines(&["completion", "tcsh"]).0, 2);
    assert_eq!(lines(&["list", "--ids-only"]), (0, String::new(), String::new()), "a shell that asks starts nothing");
}

#[test]
fn outside_a_project_a_command_refuses_and_says_how_to_go_on() {
    let (code, out, err) = lines(&["list"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.starts_with("Error: ") && err.contains("try: "), "{err}");
}

#[test]
fn without_a_person_nothing_is_asked() {
    for words in [&["create"][..], &["reject", "x"], &["close", "x", "--reason", "r"], &["create", "a", "--goal", "b"]]
    {
        let (code, out, err) = lines(words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(!err.contains("[y/N]") && err.contains("  try: lazy "), "{words:?}: {err}");
    }
    assert_eq!(lines(&["daemon", "kill-stray", "--prune-dirs"]), (0, "No stray daemons.\n".into(), String::new()));
}

#[test]
fn prompts_are_shown_without_a_project() {
    let (code, out, _) = lines(&["show", "lazy-prompt-fix-methodology"]);
    assert_eq!(code, 0);
    assert!(!out.trim().is_empty());
    let (code, _, err) = lines(&["view", "lazy-prompt-fix-methodolgy"]);
    assert_eq!(code, 1);
    assert!(err.contains("lazy show lazy-prompt-fix-methodology"), "{err}");
    let (_, out, _) = lines(&["system", "prompts", "--json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&out).expect("JSON");
    assert!(rows.iter().any(|row| row["code"] == "lazy-prompt-refactor-methodology"));
}
