//! `reject` and `close`: a task ends without being merged. Its branch and its history are kept.

use super::{Caller, Ctx, Narrator, Operation, lookup, raised, reconcile, stop};
use crate::base::{Error, Result};
use crate::git::Worktree;
use crate::model::{CommitStatus, Outcome, Status, TaskId};
use crate::rpc::commands::{Close, ReasonParams, Reject, StatusReport};
use crate::store::{Change, Edit, SessionPatch, TaskPatch, TaskRow};

impl Operation for Reject {
    async fn run(ctx: &Ctx, caller: &Caller, params: ReasonParams, narrator: &Narrator) -> Result<StatusReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "reject")?;
        let name = row.task.display_id();
        if row.session.as_ref().is_none_or(|session| session.ended_at.is_some()) && !row.status().is_terminal() {
            return Err(Error::conflict(format!("task {name} has no work to reject"))
                .hint(format!("lazy close {name} --reason '…'")));
        }
        let reason = raised::require_reason(params.reason.as_deref(), "reject")?;
        end(ctx, caller, &row, reason, params.accept_dirty_worktree, narrator).await
    }
}

impl Operation for Close {
    async fn run(ctx: &Ctx, caller: &Caller, params: ReasonParams, narrator: &Narrator) -> Result<StatusReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "close")?;
        let reason = raised::require_reason(params.reason.as_deref(), "close")?;
        end(ctx, caller, &row, reason, params.accept_dirty_worktree, narrator).await
    }
}

async fn end(
    ctx: &Ctx,
    caller: &Caller,
    row: &TaskRow,
    reason: String,
    accept_dirty: bool,
    narrator: &Narrator,
) -> Result<StatusReport> {
    let id = row.id();
    let _lock = ctx.lock_task(id).await;
    narrator.phase("checking");
    reconcile::unstrand_merge(ctx, id).await?;
    let row = lookup::by_id(ctx, id)?;
    let previous = row.status();
    let name = row.task.display_id();
    match previous {
        status if status.is_terminal() => {
            return Err(Error::conflict(format!("task {name} is already {status}")).hint(format!("lazy reopen {name}")));
        }
        Status::Working => {
            return Err(Error::conflict(format!("task {name} is working")).hint(format!("lazy stop {name}")));
        }
        Status::Pairing | Status::Merging | Status::Zombie => {
            return Err(Error::conflict(format!("task {name} is {previous}")).hint(format!("lazy show {name}")));
        }
        _ => {}
    }
    if let Some(worktree) = lookup::worktree(ctx, &row)
        && !accept_dirty
    {
        require_clean(&worktree, &row).await?;
    }
    let mut edits = vec![
        Edit::new(
            id,
            Change::Task(Box::new(TaskPatch { close_reason: Some(Some(reason.clone())), ..TaskPatch::default() })),
        ),
        Edit::new(id, Change::Status { to: Status::Abandoned, by: caller.by.clone() }),
    ];
    if row.session.as_ref().is_some_and(|session| session.ended_at.is_none()) {
        let patch = SessionPatch { ended: Some((ctx.process().now(), Outcome::Rejected)), ..SessionPatch::default() };
        edits.insert(0, Edit::new(id, Change::Session(Box::new(patch))));
        edits.push(Edit::new(id, Change::CommitsDecided(CommitStatus::Rejected)));
    }
    ctx.store().apply(edits)?;
    narrator.phase("cleaning up");
    let warnings = clean_up(ctx, id, Keep::Branch).await;
    let row = lookup::by_id(ctx, id)?;
    Ok(StatusReport {
        task: lookup::brief(&row),
        previous,
        branch: row.session.as_ref().map(|session| session.git_branch.clone()),
        reason: Some(reason),
        warnings,
    })
}

/// Refuses uncommitted changes and half-done merges, each with what can be done.
pub(super) async fn require_clean(worktree: &Worktree, row: &TaskRow) -> Result<()> {
    let name = row.task.display_id();
    if let Some(state) = worktree.merge_state().await? {
        return Err(Error::conflict(format!("task {name} has an unresolved merge: {}", state.summary))
            .hint(format!("lazy unblock {name} -m 'resolve the merge and conclude it with lazy_commit'"))
            .hint(format!("cd '{}' && git merge --abort", worktree.path().display())));
    }
    let own = row.session.as_ref().map(|session| session.git_branch.clone());
    let checked_out = worktree.branch()?;
    if checked_out != own {
        let own = own.unwrap_or_default();
        return Err(Error::conflict(format!(
            "the worktree of task {name} is on {}, not on the task's branch {own}: commits made there are not part of it",
            checked_out.unwrap_or_else(|| "no branch (detached)".into())
        ))
        .hint(format!("cd '{}' && git log --oneline {own}..HEAD", worktree.path().display()))
        .hint(format!("to take them over: git merge --ff-only there, on {own}; or lazy unblock {name} -m '…'")));
    }
    let status = worktree.status().await?;
    if status.is_clean() {
        return Ok(());
    }
    let shown: Vec<&str> = status.entries.iter().take(10).map(|line| line.trim()).collect();
    Err(Error::conflict(format!("the worktree of task {name} has uncommitted changes: {}", shown.join(", ")))
        .hint(format!("lazy unblock {name} -m 'commit your work'"))
        .hint(format!("cd '{}' && git status", worktree.path().display()))
        .hint("to lose them: --accept-dirty-worktree (reject and close)"))
}

/// Whether the branch stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Branch,
    Nothing,
}

/// Takes down what a finished task no longer needs. Never fails: what could not be removed is told.
pub(super) async fn clean_up(ctx: &Ctx, id: TaskId, keep: Keep) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |what: &str, result: Result<()>| {
        if let Err(error) = result {
            tracing::warn!(task = %id, %error, "cannot {what}");
            warnings.push(format!("cannot {what}: {error}"));
        }
    };
    warn("end the run", stop::end_run(ctx, id).await);
    warn("revoke the task's tokens", ctx.access().revoke(id));
    let Ok(row) = lookup::by_id(ctx, id) else { return warnings };
    if let Some(path) = ctx.worktree_path(&row) {
        warn("remove the worktree", ctx.repo().remove_worktree(&path).await);
    }
    if let (Keep::Nothing, Some(session)) = (keep, &row.session) {
        warn("delete the branch", ctx.repo().delete_branch(&session.git_branch).await);
    }
    warn("remove the mailbox", ctx.mailbox(id).and_then(|mailbox| mailbox.remove()));
    ctx.reconcile_now();
    warnings
}
