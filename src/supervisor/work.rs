//! A working turn: start and unblock.
//!
//! Roll back a half-done merge; merge the upstream in if asked to; let the agent work; look at the protected files and
//! at those to keep up to date, with one question each; run the project's check; merge the upstream in if asked to.

use super::fault::Fault;
use super::launch::{Launcher, Limits, Request};
use super::perform::{Performed, Persistence, millis, perform};
use super::turn::{Handoff, Merged, Turn};
use super::{check, followup, handoff};
use crate::agent::TurnMode;
use crate::base::checkpoint;
use crate::git::MergeOutcome;
use crate::model::Violation;
use crate::model::exchange::{Completed, Phase, TurnTag, Work};

/// The answers of a working turn: the work's own, then one for each follow-up.
pub(super) async fn run(turn: &mut Turn<'_>, work: &Work) -> Result<Vec<Completed>, Fault> {
    turn.reporter.phase(Phase::ReadingCommand);
    turn.recover().await?;
    let start = turn.begin()?;
    let start_work = if work.sync_before_work { sync_before(turn, &start).await? } else { start.clone() };
    let launcher = Launcher::prepare(turn, TurnMode::Work)?;
    handoff::clear(&turn.sandbox)?;
    turn.notes.handoff = Handoff::Ours;
    let mut answers = worked(turn, work, &launcher, &start_work)
        .await
        .map_err(|fault| fault.context("the work phase failed").in_phase(Phase::Work.as_str()))?;
    turn.reporter.phase(Phase::WritingResponse);
    let end = turn.worktree.head()?;
    if let Some(first) = answers.first_mut() {
        first.start_sha = Some(start);
        first.end_sha = Some(end);
        first.worktree_recovery = turn.notes.recovery.clone();
        first.agent_handoff = handoff::collect(&turn.sandbox);
    }
    Ok(answers)
}

/// From the agent's start to the last merge.
async fn worked(turn: &mut Turn<'_>, work: &Work, launcher: &Launcher, start: &str) -> Result<Vec<Completed>, Fault> {
    turn.reporter.phase(Phase::Work);
    let context = followup::maintain_context(&work.maintain)?;
    let system_prompt = join(&turn.head.system_prompt, &context);
    let request = Request {
        prompt: work.prompt.clone(),
        system_prompt: system_prompt.clone(),
        session_id: turn.head.agent_session_id.clone(),
        mode: TurnMode::Work,
        limits: Limits::of(turn, launcher.agent),
    };
    let done = perform(turn, launcher, request, Persistence::Ladder).await?;
    let end = turn.worktree.head()?;
    turn.reporter.shas(|status| status.post_work_sha = Some(end.clone()));
    turn.reporter.phase(Phase::WorkDone);
    checkpoint::reach("supervisor.work-done");
    turn.tag(TurnTag::PostWork, &end).await;
    let mut session = done.result.session_id.clone();
    let mut answers = vec![answered(turn, done, start, &end)];

    let violations = scan(turn, start).await?;
    if !violations.is_empty() {
        turn.reporter.phase(Phase::PermissionPushback);
        let question = followup::pushback(&violations)?;
        let mut answer = followup::ask(turn, launcher, &system_prompt, &session, question).await?;
        answer.violations = Some(scan(turn, start).await?);
        session = answer.session_id.clone();
        answers.push(answer);
        turn.reporter.phase(Phase::PermissionPushbackDone);
    }
    let head = turn.worktree.head()?;
    let changed = turn.worktree.repo().changed_files(start, &head).await?;
    let mut changed: Vec<String> = changed.into_iter().map(|file| file.path).collect();
    if let Some(own) = own_paths(turn, &head).await? {
        changed.retain(|path| own.contains(path));
    }
    let left = followup::untouched(&work.maintain, &changed)?;
    if !left.is_empty() {
        let question = followup::maintain(&left)?;
        answers.push(followup::ask(turn, launcher, &system_prompt, &session, question).await?);
    }
    if let Some(command) = turn.head.post_turn_check.clone() {
        turn.reporter.phase(Phase::PostTurnCheck);
        let (code, output) = check::run(turn, &command, turn.head.post_turn_timeout).await?;
        answers[0].check_exit_code = Some(code);
        answers[0].check_output = Some(output);
        turn.reporter.phase(Phase::PostTurnCheckDone);
    }
    if work.sync_after_work {
        sync_after(turn, &mut answers[0]).await;
    }
    Ok(answers)
}

fn answered(turn: &Turn<'_>, done: Performed, start: &str, end: &str) -> Completed {
    Completed {
        result: done.result.text,
        session_id: done.result.session_id,
        model_id: done.result.model_id,
        usage: done.usage,
        mcp_tools: done.mcp_tools,
        agent_duration_ms: Some(millis(done.ran)),
        start_sha_work: Some(start.to_string()),
        end_sha_work: Some(end.to_string()),
        ..turn.completed()
    }
}

/// Merges the upstream in before the work and returns HEAD after it.
async fn sync_before(turn: &mut Turn<'_>, start: &str) -> Result<String, Fault> {
    let Some(branch) = turn.head.parent_branch.clone() else { return Ok(start.to_string()) };
    turn.reporter.phase(Phase::MergeAndFix);
    let phase = Phase::MergeAndFix.as_str();
    let target = upstream(turn, &branch).map_err(|fault| fault.in_phase(phase))?;
    turn.reporter.shas(|status| status.upstream_merge_sha = Some(target.clone()));
    let head = match turn.merge(&target, &branch).await.map_err(|fault| fault.in_phase(phase))? {
        Merged::UpToDate => start.to_string(),
        Merged::At(sha) => {
            turn.tag(TurnTag::PostMerge, &sha).await;
            sha
        }
    };
    turn.reporter.shas(|status| status.post_merge_sha = Some(head.clone()));
    turn.reporter.phase(Phase::MergeAndFixDone);
    Ok(head)
}

/// Merges the upstream in after the work. Conflicts are recorded and rolled back; nothing here fails the turn.
async fn sync_after(turn: &mut Turn<'_>, answer: &mut Completed) {
    let Some(branch) = turn.head.parent_branch.clone() else { return };
    turn.reporter.phase(Phase::PostTurnSync);
    let merged = match upstream(turn, &branch) {
        Ok(target) => turn.hands.merge(&target, &branch).await,
        Err(fault) => {
            tracing::warn!(error = fault.failure.error, "the upstream is not merged in after the turn");
            return;
        }
    };
    match merged {
        Ok(MergeOutcome::UpToDate | MergeOutcome::Merged { .. }) => {}
        Ok(MergeOutcome::Conflicts { files }) => {
            answer.merge_conflicts = turn.conflict_record(&files, &branch);
            let settled = turn.settle().await;
            turn.process.err_line(format!("supervisor: {branch} conflicts after the turn. {}", settled.detail));
        }
        Err(error) => {
            let settled = turn.settle().await;
            turn.process.err_line(format!("supervisor: {branch} is not merged in: {error}. {}", settled.detail));
        }
    }
    turn.reporter.phase(Phase::PostTurnSyncDone);
}

fn upstream(turn: &Turn<'_>, branch: &str) -> Result<String, Fault> {
    turn.worktree.repo().resolve(branch)?.ok_or_else(|| Fault::new(format!("the upstream {branch} does not exist")))
}

/// The protected files changed since `start`.
async fn scan(turn: &Turn<'_>, start: &str) -> Result<Vec<Violation>, Fault> {
    if turn.head.protected_patterns.is_empty() {
        return Ok(Vec::new());
    }
    let repo = turn.worktree.repo();
    let head = turn.worktree.head()?;
    let fork = match &turn.head.parent_branch {
        Some(branch) => repo.resolve(branch)?.map(|sha| repo.merge_base(&sha, &head)).transpose()?.flatten(),
        None => None,
    };
    let branch_point = fork.or_else(|| turn.head.branch_point_sha.clone()).unwrap_or_else(|| start.to_string());
    let mut found = turn.worktree.violations(&turn.head.protected_patterns, start, &head, &branch_point).await?;
    if !found.is_empty()
        && let Some(own) = own_paths(turn, &head).await?
    {
        found.retain(|violation| own.contains(&violation.file));
    }
    Ok(found)
}

/// The paths that the task itself changed; what an agent merged in from the upstream is not its doing. `None` when the
/// upstream is not known here.
async fn own_paths(turn: &Turn<'_>, head: &str) -> Result<Option<Vec<String>>, Fault> {
    let repo = turn.worktree.repo();
    let upstream = turn.head.parent_branch.as_ref().map(|branch| repo.resolve(branch)).transpose()?.flatten();
    match upstream {
        Some(upstream) => Ok(Some(repo.own_paths(&upstream, head).await?)),
        None => Ok(None),
    }
}

fn join(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (_, true) => first.to_string(),
        (true, _) => second.to_string(),
        _ => format!("{first}\n\n{second}"),
    }
}
