//! From what a supervisor says to turns, commits and snapshots.

use super::super::{Ctx, lookup};
use crate::model::exchange::{Completed, Failure};
use crate::model::{Actor, By, Commit, CommitStatus, Role, Session, Snapshot, Status, TaskId, Turn, TurnKind};
use crate::store::{Change, Edit, TaskRecord};

/// The first commit of every task branch says nothing about the work.
pub(super) const FIRST_COMMIT: &str = "Initialize task ";

/// The turns of one answered prompt; `sequence` moves past them.
pub(super) fn of_completed(ctx: &Ctx, session: &Session, response: &Completed, sequence: &mut u32) -> Vec<Edit> {
    let now = ctx.process().now();
    let mut edits = Vec::new();
    let mut add = |turn: Turn| edits.push(Edit::new(session.task_id, Change::Turn(Box::new(turn))));
    if let Some(supervised) = &response.supervised {
        let heading = match supervised.kind.as_str() {
            "permission_pushback" => "Permission Violation Review",
            "maintain" => "Maintained Files Review",
            other => other,
        };
        let mut asked =
            Turn::new(session.id, *sequence, Role::Human, format!("## {heading}\n\n{}", supervised.prompt), now);
        asked.actor = Some(Actor::Supervisor);
        asked.kind = TurnKind::Nudge;
        asked.auto_triggered = true;
        add(asked);
        *sequence += 1;
    }
    let spoken_by_supervisor = response.sync.is_some() && response.session_id.is_empty();
    let role = if spoken_by_supervisor { Role::Human } else { Role::Agent };
    let mut turn = Turn::new(session.id, *sequence, role, response.result.clone(), now);
    turn.usage = (!response.usage.is_zero()).then_some(response.usage);
    turn.start_sha = response.start_sha.clone();
    turn.start_sha_work = response.start_sha_work.clone();
    turn.end_sha_work = response.end_sha_work.clone();
    turn.end_sha = response.end_sha.clone();
    turn.merge_conflicts = response.merge_conflicts.clone();
    turn.agent = response.agent.clone();
    turn.model = response.model.clone();
    turn.model_id = response.model_id.clone();
    turn.effort = response.effort.clone();
    turn.mcp_tools = response.mcp_tools.clone();
    turn.violations = response.violations.clone();
    turn.check_exit_code = response.check_exit_code;
    turn.check_output = response.check_output.clone();
    if response.supervised.is_some() {
        turn.kind = TurnKind::Nudge;
    }
    if response.sync.is_some() {
        turn.kind = TurnKind::Sync;
        turn.actor = spoken_by_supervisor.then_some(Actor::Supervisor);
    }
    add(turn);
    *sequence += 1;
    edits
}

/// Makes the turns of an answer to a question.
pub(super) fn mark_ask(edits: &mut [Edit]) {
    for edit in edits {
        if let Change::Turn(turn) = &mut edit.change {
            turn.kind = TurnKind::Ask;
        }
    }
}

/// The turn that says how a command failed.
pub(super) fn of_failure(ctx: &Ctx, session: &Session, failure: &Failure, sequence: u32) -> Turn {
    let heading = match (failure.watchdog_timeout_ms, failure.failure_class) {
        (Some(limit), _) => format!("The agent made no progress for {} s and was ended", limit / 1000),
        (None, Some(class)) => format!("The agent could not go on ({})", class.as_str()),
        (None, None) => "The turn failed".into(),
    };
    let mut text = format!("## {heading}\n\n{}", failure.error);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.trim().is_empty()) {
            text.push_str(&format!("\n\n{name}: {value}"));
        }
    };
    line("Reason", failure.failure_reason.clone().filter(|reason| !failure.error.contains(reason.as_str())));
    line("Attempts", failure.failure_attempts.or(failure.watchdog_attempts).map(|count| count.to_string()));
    line("Phase", Some(failure.phase.clone()));
    line("Exit code", failure.exit_code.map(|code| code.to_string()));
    line("Merge", failure.merge_state.as_ref().map(|state| state.detail.clone()));
    line("Output", failure.stdout_error.clone());
    line("Error output", failure.stderr.clone());
    let mut turn = Turn::new(session.id, sequence, Role::Agent, text, ctx.process().now());
    turn.usage = failure.usage.filter(|usage| !usage.is_zero());
    turn.agent = failure.agent.clone();
    turn.model = failure.model.clone();
    turn.effort = failure.effort.clone();
    turn.start_sha = failure.start_sha.clone();
    turn.end_sha = failure.end_sha.clone();
    turn.agent_had_no_effect = failure.agent_had_no_effect;
    turn
}

/// Commits on the branch that are not recorded yet. What was merged in from the target is the target's.
pub(super) fn new_commits(ctx: &Ctx, record: &TaskRecord) -> Vec<Edit> {
    let Some(session) = &record.session else { return Vec::new() };
    let Ok(Some(tip)) = ctx.repo().branch_sha(&session.git_branch) else { return Vec::new() };
    let from = record.commits.last().map_or(session.git_start_sha.as_str(), |commit| commit.sha.as_str());
    let upstreams = upstreams(ctx, record);
    let beyond = |from: &str| {
        let known: Vec<&str> = upstreams.iter().map(String::as_str).chain([from]).collect();
        ctx.repo().commits_beyond(&known, &tip)
    };
    let found = beyond(from).or_else(|_| beyond(&session.git_start_sha)).unwrap_or_default();
    found
        .into_iter()
        .filter(|commit| !commit.message.starts_with(FIRST_COMMIT))
        .map(|commit| {
            let commit = Commit {
                id: uuid::Uuid::new_v4().to_string(),
                session_id: session.id,
                sha: commit.sha,
                message: commit.message,
                status: CommitStatus::PendingReview,
                timestamp: ctx.process().now(),
            };
            Edit::new(record.task.id, Change::Commit(Box::new(commit)))
        })
        .collect()
}

/// Where the target's branch stands, here and on the remote.
fn upstreams(ctx: &Ctx, record: &TaskRecord) -> Vec<String> {
    let target = ctx.store().row(record.task.id).and_then(|row| lookup::target_branch(ctx, &row).ok());
    let Some(target) = target else { return Vec::new() };
    let refs = [format!("refs/heads/{target}"), format!("refs/remotes/{}/{target}", ctx.remote())];
    refs.iter().filter_map(|name| ctx.repo().resolve(name).ok().flatten()).collect()
}

/// What is uncommitted in the worktree, when anything is.
pub(super) async fn snapshot(ctx: &Ctx, record: &TaskRecord, turn_sequence: u32) -> Option<Edit> {
    let row = ctx.store().row(record.task.id)?;
    let worktree = lookup::worktree(ctx, &row)?;
    let status = worktree.status().await.ok()?;
    if status.is_clean() {
        return None;
    }
    let snapshot = Snapshot {
        id: uuid::Uuid::new_v4().to_string(),
        session_id: record.session.as_ref()?.id,
        turn_sequence,
        uncommitted_diff: worktree.uncommitted_diff().await.unwrap_or_default(),
        git_status: status.entries.join("\n"),
        timestamp: ctx.process().now(),
    };
    Some(Edit::new(record.task.id, Change::Snapshot(Box::new(snapshot))))
}

/// The status edits from one status to another, through working where the table has no direct edge.
pub(in crate::ops) fn to_status(from: Status, to: Status, id: TaskId) -> Vec<Edit> {
    let by: By = Actor::System.into();
    let step = |to| Edit::new(id, Change::Status { to, by: by.clone() });
    if from.require_transition(to, Actor::System).is_ok() {
        return vec![step(to)];
    }
    vec![step(Status::Working), step(to)]
}
