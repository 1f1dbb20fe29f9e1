//! Checks of the project's daemon from outside: its state directory, and what it said if it was asked.

use super::{Check, DaemonFacts};
use crate::base::{Process, files, text};
use crate::config::Project;
use crate::rpc::StateDir;

pub(super) fn checks(process: &Process, project: &Project, facts: Option<&DaemonFacts>) -> Vec<Check> {
    const LABEL: &str = "Daemon health";
    let state = match StateDir::for_project(process, &project.root) {
        Ok(state) => state,
        Err(error) => return vec![Check::error(LABEL, &error)],
    };
    let Some(facts) = facts else { return vec![unanswered(LABEL, &state)] };
    let mut checks = vec![Check::ok(LABEL, format!("process {} on port {}", facts.pid, facts.port))];
    let current = env!("CARGO_PKG_VERSION");
    let other_bytes = facts.binaries.as_ref().is_some_and(|(running, ours)| running != ours);
    const CODE: &str = "Daemon runs current code";
    checks.push(match (facts.version == current, other_bytes) {
        (true, false) => Check::ok(CODE, format!("version {current}")),
        (true, true) => {
            Check::warn(CODE, format!("it runs another build of version {current}")).hint("lazy daemon restart")
        }
        (false, _) => Check::warn(CODE, format!("it runs version {}, this is {current}", facts.version))
            .hint("lazy daemon restart"),
    });
    checks
}

fn unanswered(label: &str, state: &StateDir) -> Check {
    if state.is_daemon_running() {
        let pid = state.pid().map_or("unknown".into(), |pid| pid.to_string());
        return Check::fail(
            label,
            format!("a daemon (process {pid}) holds {} but did not answer", state.path().display()),
        )
        .hint("lazy daemon restart");
    }
    match files::read_line_optional(&state.startup_error_path()) {
        Some(why) => {
            let why = text::truncate_chars(&text::one_line(&why), 300);
            Check::fail(label, format!("not running; its last start failed: {why}")).hint("lazy daemon logs")
        }
        None => Check::ok(label, "not running; the next command starts it"),
    }
}
