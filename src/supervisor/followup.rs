//! What the supervisor asks the agent after its work: about protected files, and about files to keep up to date. Each
//! is one more prompt in the conversation of the work, tried once; that it fails never fails the turn.

use std::time::Duration;

use globset::{GlobBuilder, GlobSetBuilder};

use super::fault::{Fault, Then};
use super::launch::{Launcher, Limits, Request};
use super::perform::{Persistence, millis, perform};
use super::turn::Turn;
use crate::agent::{TurnMode, prompts};
use crate::base::{Error, Result};
use crate::git::SANDBOX_DIR;
use crate::model::Violation;
use crate::model::exchange::{Completed, Maintain, Supervised, TurnTag};

/// A follow-up that completes no step for this long is ended.
const WATCHDOG: Duration = Duration::from_secs(600);

/// What a follow-up is asked with.
#[derive(Debug)]
pub(super) struct FollowUp {
    kind: &'static str,
    prompt: String,
}

/// The question about protected files.
pub(super) fn pushback(violations: &[Violation]) -> Result<FollowUp> {
    let files = violations.iter().map(|violation| format!("  - {}", violation.file)).collect::<Vec<_>>().join("\n");
    let count = violations.len().to_string();
    let prompt = prompts::render("permission-pushback", &[("count", &count), ("files", &files)])?;
    Ok(FollowUp { kind: "permission_pushback", prompt })
}

/// The question about groups of files that the work left alone.
pub(super) fn maintain(groups: &[&Maintain]) -> Result<FollowUp> {
    let count = groups.len().to_string();
    let entries = entries(groups.iter().copied());
    let prompt = prompts::render("maintain-followup", &[("count", &count), ("entries", &entries)])?;
    Ok(FollowUp { kind: "maintain", prompt })
}

/// What is said before the work about files to keep up to date; empty when there are none.
pub(super) fn maintain_context(groups: &[Maintain]) -> Result<String> {
    match groups {
        [] => Ok(String::new()),
        groups => prompts::render("maintain-context", &[("entries", &entries(groups.iter()))]),
    }
}

/// The groups none of whose files are among the changed ones. Nothing changed: none.
pub(super) fn untouched<'a>(groups: &'a [Maintain], changed: &[String]) -> Result<Vec<&'a Maintain>> {
    let changed: Vec<&String> = changed.iter().filter(|path| !path.starts_with(SANDBOX_DIR)).collect();
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    let mut left = Vec::new();
    for group in groups {
        let matcher = matcher(&group.pattern)?;
        if !changed.iter().any(|path| matcher.is_match(path.as_str())) {
            left.push(group);
        }
    }
    Ok(left)
}

/// Asks, in the conversation `session`. The answer covers the commits made meanwhile; a failure is told in its text.
pub(super) async fn ask(
    turn: &mut Turn<'_>,
    launcher: &Launcher,
    system_prompt: &str,
    session: &str,
    follow_up: FollowUp,
) -> std::result::Result<Completed, Fault> {
    let limits = Limits::of(turn, launcher.agent);
    let request = Request {
        prompt: follow_up.prompt.clone(),
        system_prompt: system_prompt.to_string(),
        session_id: Some(session.to_string()),
        mode: TurnMode::Work,
        limits: Limits { watchdog: Some(limits.watchdog.unwrap_or(WATCHDOG)), ..limits },
    };
    let start = turn.worktree.head()?;
    let mut completed = turn.completed();
    match perform(turn, launcher, request, Persistence::Once).await {
        Ok(done) => {
            completed.result = done.result.text;
            completed.session_id = done.result.session_id;
            completed.model_id = done.result.model_id;
            completed.usage = done.usage;
            completed.mcp_tools = done.mcp_tools;
            completed.agent_duration_ms = Some(millis(done.ran));
        }
        Err(fault) if fault.then == Then::End => return Err(fault),
        Err(fault) => {
            completed.result = format!("The agent could not be asked: {}", fault.failure.error);
            completed.session_id = session.to_string();
            completed.usage = fault.failure.usage.unwrap_or_default();
        }
    }
    let end = turn.worktree.head()?;
    if end != start {
        turn.tag(TurnTag::PostWork, &end).await;
    }
    (completed.start_sha_work, completed.end_sha_work) = (Some(start), Some(end));
    completed.supervised = Some(Supervised { kind: follow_up.kind.into(), prompt: follow_up.prompt });
    Ok(completed)
}

fn entries<'a>(groups: impl Iterator<Item = &'a Maintain>) -> String {
    let entry = |group: &Maintain| format!("- {} ({}): {}", group.title, group.pattern, group.instructions);
    groups.map(entry).collect::<Vec<_>>().join("\n")
}

/// As protected patterns read: without a `/` a name in any directory, and a directory means all below it.
fn matcher(pattern: &str) -> Result<globset::GlobSet> {
    let trimmed = pattern.trim().trim_start_matches("./").trim_end_matches('/');
    let body = trimmed.trim_start_matches('/');
    let body = if trimmed.contains('/') { body.to_string() } else { format!("**/{body}") };
    let mut set = GlobSetBuilder::new();
    let bad =
        |source: globset::Error| Error::invalid(format!("{pattern:?} is not a pattern for files: {}", source.kind()));
    for form in [body.clone(), format!("{body}/**")] {
        set.add(GlobBuilder::new(&form).literal_separator(true).build().map_err(bad)?);
    }
    set.build().map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(pattern: &str) -> Maintain {
        Maintain { title: "Docs".into(), pattern: pattern.into(), instructions: "keep".into() }
    }

    #[test]
    fn a_group_is_untouched_when_no_changed_file_matches() {
        let groups = [group("docs/**"), group("CHANGELOG.md"), group("docs")];
        let changed = |paths: &[&str]| paths.iter().map(|path| path.to_string()).collect::<Vec<_>>();
        let left = |paths: &[&str]| -> Vec<String> {
            untouched(&groups, &changed(paths)).expect("globs").iter().map(|g| g.pattern.clone()).collect()
        };
        assert_eq!(left(&["src/a.rs"]), ["docs/**", "CHANGELOG.md", "docs"]);
        assert_eq!(left(&["docs/a/b.md"]), ["CHANGELOG.md"]);
        assert_eq!(left(&["sub/CHANGELOG.md"]), ["docs/**", "docs"]);
        assert!(left(&[]).is_empty());
        assert!(left(&[".lazy-task-sandbox/x"]).is_empty());
        assert!(untouched(&[group("a[")], &changed(&["x"])).is_err());
    }

    #[test]
    fn the_questions_name_the_files() {
        let violation = Violation {
            file: "Makefile".into(),
            base_sha: "0".repeat(40),
            status: crate::model::ViolationStatus::Pending,
        };
        assert!(pushback(&[violation]).expect("renders").prompt.contains("  - Makefile"));
        assert!(maintain(&[&group("docs/**")]).expect("renders").prompt.contains("- Docs (docs/**): keep"));
        assert!(maintain_context(&[group("docs/**")]).expect("renders").contains("- Docs (docs/**): keep"));
        assert_eq!(maintain_context(&[]).expect("renders"), "");
    }
}
