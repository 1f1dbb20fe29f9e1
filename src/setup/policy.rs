//! What the project's rules say to a tool call: one that is asked about, or those that the audit trail tells of.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::base::{Error, Process, Result};
use crate::config::project::Project;
use crate::config::schema;
use crate::proxy::audit;
use crate::proxy::policy::{Arguments, Denial, Forms, Need, Place, Policy, Replay, replay, touched};

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCheck {
    /// The tool.
    pub tool: String,
    /// Whether the rules let it pass.
    pub allowed: bool,
    /// Whether `[proxy.policy] enforce` is on: otherwise the rules are only asked, never obeyed.
    pub enforced: bool,
    /// Whether a rule has to look at the input of this tool at all.
    pub looks_at_input: bool,
    /// Each path of the call: as written, and how the rules see it.
    pub paths: Vec<PathForms>,
    /// The verdict, when it is denied.
    pub denial: Option<Denial>,
}

/// A path of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathForms {
    /// As it stands in the call.
    pub written: String,
    /// Put straight, links in the worktree followed.
    pub normal: String,
    /// Every form that is judged.
    pub forms: Vec<String>,
}

/// Asks the rules of `settings` about a call of `tool` with `input`, a JSON object, by an agent that works in `worktree`.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] when the input is no JSON object.
pub fn policy_check(
    process: &Process,
    settings: &schema::Policy,
    tool: &str,
    input: &str,
    worktree: PathBuf,
) -> Result<PolicyCheck> {
    let home = process.home().ok();
    let place = Place { worktree: Some(worktree), home: home.clone() };
    let policy = Policy::from_settings(settings, home).enforced();
    let arguments = Arguments::read(input.as_bytes()).map_err(|_| {
        Error::invalid("the input is no JSON object")
            .hint(format!("lazy policy check --tool {tool} --input '{{\"file_path\":\"~/.ssh/id_rsa\"}}'"))
    })?;
    let touched = touched(tool, &arguments);
    let paths = touched.iter().filter_map(|path| path.text().map(str::to_string)).map(|written| {
        let forms = Forms::of(&written, &place);
        PathForms { normal: forms.normal().to_string(), forms: forms.iter().map(str::to_string).collect(), written }
    });
    let denial = policy.judge(tool, &arguments, &place);
    Ok(PolicyCheck {
        tool: tool.to_string(),
        allowed: denial.is_none(),
        enforced: settings.enforce,
        looks_at_input: policy.need(tool) == Need::Input,
        paths: paths.collect(),
        denial,
    })
}

/// Asks the rules of `settings` about every call in the project's audit trail that is not older than `last`.
///
/// # Errors
/// [`crate::base::Kind::Io`] when the trail is there and cannot be read.
pub fn policy_replay(
    process: &Process,
    project: &Project,
    settings: &schema::Policy,
    last: Option<Duration>,
) -> Result<Replay> {
    let home = process.home().ok();
    let policy = Policy::from_settings(settings, home.clone()).enforced();
    let mut records = audit::read(&project.data_dir.join("logs/proxy-audit.jsonl"), usize::MAX)?;
    if let Some(last) = last {
        let now = process.now().0;
        let last = i64::try_from(last.as_millis()).unwrap_or(i64::MAX);
        records.retain(|record| record.ts >= now.saturating_sub(last));
    }
    Ok(replay(&records, &policy, |record| {
        let task = record.task_id.as_deref().filter(|task| !task.contains('/') && !task.starts_with('.'));
        let worktree = task.map(|task| project.data_dir.join("worktrees").join(task));
        Place { worktree, home: home.clone() }
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::{Kind, Millis};

    fn process(dir: &Path, now: i64) -> Process {
        Process::fake(["lazy"], &[("HOME", "/home/u")], dir, Millis(now))
    }

    #[test]
    fn a_check_explains_itself_also_when_nothing_is_enforced() {
        let dir = tempfile::tempdir().expect("temp dir");
        let settings = schema::Policy { enforce: false, ..schema::Policy::default() };
        let process = process(dir.path(), 0);
        let asked = |tool: &str, input: &str| policy_check(&process, &settings, tool, input, "/w".into());
        let check = asked("Read", r#"{"file_path":"~/.ssh/id_rsa"}"#).expect("an object");
        assert!(!check.allowed && !check.enforced && check.looks_at_input);
        assert_eq!(check.paths[0].normal, "/home/u/.ssh/id_rsa");
        assert_eq!(check.denial.and_then(|denial| denial.pattern).as_deref(), Some("**/.ssh/**"));
        let check = asked("Bash", r#"{"command":"ls"}"#).expect("an object");
        assert!(check.allowed && !check.looks_at_input && check.paths.is_empty());
        assert_eq!(asked("Read", "[]").expect_err("no object").kind(), Kind::Invalid);
    }

    #[test]
    fn a_replay_reads_the_trail() {
        let dir = tempfile::tempdir().expect("temp dir");
        let project = Project { root: dir.path().into(), data_dir: dir.path().join(".lazy"), name: "p".into() };
        let settings = schema::Policy::default();
        let process = process(dir.path(), 10_000_000);
        let empty = policy_replay(&process, &project, &settings, None).expect("no trail yet");
        assert_eq!(empty, Replay::default());
        std::fs::create_dir_all(dir.path().join(".lazy/logs")).expect("makes");
        let line = |ts: i64, path: &str| {
            format!(
                r#"{{"id":"r{ts}","ts":{ts},"taskId":"fix","judged":[{{"toolUseId":"t{ts}","name":"Read","verdict":"allow","paths":["{path}"]}}]}}"#
            )
        };
        let lines =
            [line(1, "/old/.env"), line(9_000_000, "src/x"), "torn".into(), line(9_500_000, "../.env")].join("\n");
        std::fs::write(dir.path().join(".lazy/logs/proxy-audit.jsonl"), lines).expect("writes");
        let recent = policy_replay(&process, &project, &settings, Some(Duration::from_secs(3600))).expect("reads");
        assert_eq!((recent.requests, recent.calls, recent.denied.len()), (2, 2, 1));
        assert_eq!(recent.denied[0].record, "r9500000");
        assert_eq!(policy_replay(&process, &project, &settings, None).expect("reads").denied.len(), 2);
    }
}
