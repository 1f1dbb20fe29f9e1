//! The host runner's posture: the settings that make the agent's own sandbox refuse what it should not touch.
//!
//! The agent's shell runs inside the operating system's sandbox (`failIfUnavailable`: never silently without), its file
//! tools are held by deny rules. The list of domains is a convenience, not a wall.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::config::Config;
use crate::config::schema::PermissionMode;

/// Paths below the home that neither tools nor shell may read, nor tools write.
const SENSITIVE: [&str; 10] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".config/gh",
    ".config/glab",
    ".bashrc",
    ".zshrc",
    ".profile",
    ".claude",
    ".claude.json",
];

/// Who the posture is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// A task's agent: never asks.
    Task,
    /// An interactive builder that a person watches and answers.
    WatchedBuilder,
}

/// The `--settings` value.
pub fn settings(config: &Config, home: &Path, session: Session) -> Value {
    let runner = &config.runner;
    let mut read: Vec<PathBuf> = SENSITIVE.iter().map(|path| home.join(path)).collect();
    let mut write = read.clone();
    read.extend(runner.sandbox_deny_read.iter().map(|path| absolute(path, home)));
    write.extend(runner.sandbox_deny_write.iter().map(|path| absolute(path, home)));
    if session == Session::Task {
        // The daemon's state holds every identity's token; the scratch area belongs to builders.
        for path in [home.join(".lazy/daemon"), home.join(".lazy/scratch")] {
            read.push(path.clone());
            write.push(path);
        }
    }
    let mut sandbox = json!({
        "enabled": true,
        "autoAllowBashIfSandboxed": true,
        "failIfUnavailable": true,
        "allowUnsandboxedCommands": session == Session::WatchedBuilder,
        "network": { "allowedDomains": runner.sandbox_allowed_domains },
        "filesystem": { "denyRead": texts(&read) },
    });
    if runner.sandbox_allow_weaker_nested {
        sandbox["enableWeakerNestedSandbox"] = Value::Bool(true);
    }
    json!({ "sandbox": sandbox, "permissions": { "deny": deny_rules(&read, &write) } })
}

/// In words, for `lazy show` and `lazy doctor`.
pub fn posture(config: &Config, agent_id: &str) -> String {
    match (config.runner.permission_mode, agent_id) {
        (PermissionMode::Bypass, _) => "host process, no walls (permission_mode = bypass)".into(),
        (PermissionMode::Sandbox, "claude-code") => {
            "host process, the agent's own sandbox around its shell and deny rules for its file tools".into()
        }
        (PermissionMode::Sandbox, _) => "host process, no walls (this agent has no sandbox of its own)".into(),
    }
}

fn absolute(path: &str, home: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => home.join(path),
    }
}

fn texts(paths: &[PathBuf]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for path in paths {
        let text = path.to_string_lossy().into_owned();
        if !out.contains(&text) {
            out.push(text);
        }
    }
    out
}

/// Two rules for each path and tool: the path itself and everything below it. The double slash makes it absolute.
fn deny_rules(read: &[PathBuf], write: &[PathBuf]) -> Vec<String> {
    let mut rules = Vec::new();
    for (tool, paths) in [("Read", read), ("Write", write), ("Edit", write)] {
        for path in texts(paths) {
            rules.push(format!("{tool}(/{path})"));
            rules.push(format!("{tool}(/{path}/**)"));
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_not_read_the_daemons_state() {
        let mut config = Config::default();
        config.runner.sandbox_deny_read = vec!["~/notes".into(), "/srv/secret".into()];
        let settings = settings(&config, Path::new("/home/u"), Session::Task);
        let deny: Vec<&str> =
            settings["permissions"]["deny"].as_array().expect("list").iter().filter_map(Value::as_str).collect();
        for rule in [
            "Read(//home/u/.ssh/**)",
            "Edit(//home/u/.claude.json)",
            "Read(//home/u/.lazy/daemon/**)",
            "Read(//home/u/notes)",
            "Read(//srv/secret/**)",
        ] {
            assert!(deny.contains(&rule), "{rule} is missing");
        }
        assert!(!deny.contains(&"Write(//srv/secret)"));
        assert_eq!(settings["sandbox"]["allowUnsandboxedCommands"], Value::Bool(false));
        assert_eq!(settings["sandbox"]["failIfUnavailable"], Value::Bool(true));
        assert!(settings["sandbox"].get("enableWeakerNestedSandbox").is_none());
    }
}
