//! The conflicts of a merge of the upstream, put to the agent.
//!
//! The merge is in place, made by whoever may move refs; the agent edits, stages and concludes it with `lazy_commit`.
//! Whatever it says, the worktree decides: nothing is unmerged, no merge is under way, and the branch holds the
//! upstream. A merge that is resolved and not concluded is concluded here. Anything else is settled as ever.

use super::fault::{Fault, Then};
use super::launch::{Launcher, Limits, Request};
use super::perform::{Performed, Persistence, millis, perform};
use super::turn::{Attempted, Merged, Turn, listed, short};
use crate::agent::{TurnMode, prompts};
use crate::model::exchange::{Completed, Supervised};

/// How often the agent is asked before the merge is given up.
const ATTEMPTS: u32 = 3;

/// A merge whose conflicts the agent resolved.
#[derive(Debug)]
pub(super) struct Resolved {
    /// HEAD afterwards.
    pub(super) sha: String,
    /// The agent's last answer.
    pub(super) answer: Completed,
}

/// Has the agent resolve the merge of `target` that stopped at `files`; `start` was HEAD before it.
///
/// # Errors
/// When there is no agent to ask, or it did not resolve them: then the merge is settled, and the fault says how.
pub(super) async fn run(
    turn: &mut Turn<'_>,
    (target, branch): (&str, &str),
    files: &[String],
    start: &str,
) -> Result<Resolved, Fault> {
    let launcher = match Launcher::prepare(turn, TurnMode::Work) {
        Ok(launcher) => launcher,
        Err(fault) => {
            let mut settled = turn.conflicting(target, branch, files).await;
            settled.failure.error.push_str(&format!(" The agent could not be asked: {}", fault.failure.error));
            return Err(settled);
        }
    };
    let mut session = turn.head.agent_session_id.clone();
    let mut open = files.to_vec();
    let mut asked = 0;
    let mut why = String::new();
    while asked < ATTEMPTS {
        let name = if session.is_some() { "merge-conflict-resolution-resume" } else { "merge-conflict-resolution" };
        let list = open.iter().map(|file| format!("  - {file}")).collect::<Vec<_>>().join("\n");
        let prompt = prompts::render(name, &[("parent_branch", branch), ("files", &list)])?;
        let request = Request {
            prompt: prompt.clone(),
            system_prompt: turn.head.system_prompt.clone(),
            session_id: session.clone(),
            mode: TurnMode::Work,
            limits: Limits::of(turn, launcher.agent),
        };
        match perform(turn, &launcher, request, Persistence::Once).await {
            Ok(done) => {
                asked += 1;
                session = Some(done.result.session_id.clone()).filter(|id| !id.is_empty());
                if let Some(sha) = concluded(turn, target, start).await? {
                    return Ok(Resolved { sha, answer: answer(turn, done, prompt) });
                }
                why = "it did not conclude the merge".into();
            }
            Err(fault) if fault.then == Then::End => return Err(fault),
            // A conversation that cannot be taken up again is not an attempt.
            Err(_) if session.take().is_some() => {}
            Err(fault) => {
                asked += 1;
                why = fault.failure.error.clone();
            }
        }
        open = match still_open(turn, (target, branch), start).await? {
            Open::Files(files) => files,
            Open::Nothing(sha) => return Ok(Resolved { sha, answer: turn.completed() }),
        };
    }
    let mut fault = turn.conflicting(target, branch, files).await;
    fault.failure.error.push_str(&format!(" The agent was asked {ATTEMPTS} times and did not resolve it: {why}"));
    Err(fault)
}

/// HEAD once it holds the upstream and nothing is half-done; a merge that only lacks its commit gets it.
async fn concluded(turn: &mut Turn<'_>, target: &str, start: &str) -> Result<Option<String>, Fault> {
    if let Some(state) = turn.worktree.merge_state().await? {
        if !state.unmerged_files.is_empty() || !state.merge_in_progress {
            return Ok(None);
        }
        if let Err(error) = turn.hands.commit_merge().await {
            turn.process.err_line(format!("supervisor: the resolved merge cannot be committed: {error}"));
            return Ok(None);
        }
    }
    let head = turn.worktree.head()?;
    let holds = head != start && turn.worktree.repo().is_ancestor(target, &head)?;
    Ok(holds.then_some(head))
}

enum Open {
    Files(Vec<String>),
    Nothing(String),
}

/// What is left to resolve. A merge that somebody rolled back is made again.
async fn still_open(turn: &mut Turn<'_>, (target, branch): (&str, &str), start: &str) -> Result<Open, Fault> {
    if let Some(sha) = concluded(turn, target, start).await? {
        return Ok(Open::Nothing(sha));
    }
    match turn.worktree.merge_state().await? {
        Some(state) if state.merge_in_progress => Ok(Open::Files(state.unmerged_files)),
        _ => match turn.try_merge(target, branch).await? {
            Attempted::Conflicts(files) => Ok(Open::Files(files)),
            Attempted::Merged(Merged::At(sha)) => Ok(Open::Nothing(sha)),
            Attempted::Merged(Merged::UpToDate) => Ok(Open::Nothing(turn.worktree.head()?)),
        },
    }
}

fn answer(turn: &Turn<'_>, done: Performed, prompt: String) -> Completed {
    Completed {
        result: done.result.text,
        session_id: done.result.session_id,
        model_id: done.result.model_id,
        usage: done.usage,
        mcp_tools: done.mcp_tools,
        agent_duration_ms: Some(millis(done.ran)),
        supervised: Some(Supervised { kind: "merge_conflict_resolution".into(), prompt }),
        ..turn.completed()
    }
}

/// The first line of the turn's text.
pub(super) fn headline(branch: &str, target: &str, files: &[String], sha: &str) -> String {
    let count = files.len();
    let noun = if count == 1 { "file" } else { "files" };
    format!(
        "Merged {branch} ({}); {count} conflicting {noun} resolved by the agent: {}. HEAD is now {}.",
        short(target),
        listed(files),
        short(sha)
    )
}
