//! `reject` and `close`: a task ends without being merged. Its branch and its history are kept.
//!
//! No open child is left with a parent that has ended: they are a refusal, or on request they merge where the parent
//! would have. What of the parent's work is in their branches is told then: it was turned down, and would come back.

use std::sync::Arc;

use super::{Caller, Ctx, Narrator, Operation, lookup, protecting, raised, reconcile, stop};
use crate::base::{Error, Result};
use crate::git::Worktree;
use crate::model::{CommitStatus, Outcome, Status, Target, TaskId};
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
        end(ctx, caller, &row, ("reject", &params), reason, narrator).await
    }
}

impl Operation for Close {
    async fn run(ctx: &Ctx, caller: &Caller, params: ReasonParams, narrator: &Narrator) -> Result<StatusReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "close")?;
        let reason = raised::require_reason(params.reason.as_deref(), "close")?;
        end(ctx, caller, &row, ("close", &params), reason, narrator).await
    }
}

async fn end(
    ctx: &Ctx,
    caller: &Caller,
    row: &TaskRow,
    (verb, params): (&str, &ReasonParams),
    reason: String,
    narrator: &Narrator,
) -> Result<StatusReport> {
    let id = row.id();
    let _lock = ctx.lock_task(id).await;
    narrator.phase("checking");
    reconcile::unstrand_merge(ctx, id).await?;
    protecting::finish(ctx, id).await?;
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
        && !params.accept_dirty_worktree
    {
        require_clean(&worktree, &row).await?;
    }
    let heir = lookup::heir(ctx, &row);
    let children = open_children(ctx, id);
    if !params.retarget_children {
        require_childless(ctx, &row, &children, &heir, verb)?;
    }
    if let Some(child) = children.iter().find(|child| child.status() == Status::Merging) {
        let child = child.task.display_id();
        return Err(Error::conflict(format!("its child {child} is being merged into task {name}"))
            .hint(format!("lazy show {child}")));
    }
    let mut warnings = carried_work(ctx, &row, &children, &heir);
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
    edits.extend(children.iter().map(|child| retarget(child.id(), &heir)));
    ctx.store().apply(edits)?;
    let mut moved: Vec<TaskId> = children.iter().map(|child| child.id()).collect();
    moved.extend(retarget_latecomers(ctx, id, &heir)?);
    narrator.phase("cleaning up");
    warnings.extend(clean_up(ctx, id, Keep::Branch).await);
    let row = lookup::by_id(ctx, id)?;
    Ok(StatusReport {
        task: lookup::brief(&row),
        previous,
        branch: row.session.as_ref().map(|session| session.git_branch.clone()),
        reason: Some(reason),
        reparented_to: (!moved.is_empty()).then(|| lookup::branch_of(ctx, &heir).unwrap_or_default()),
        reparented: moved.into_iter().map(|id| lookup::brief_now(ctx, id)).collect::<Result<_>>()?,
        warnings,
    })
}

/// The children of a task that have not ended.
pub(super) fn open_children(ctx: &Ctx, id: TaskId) -> Vec<Arc<TaskRow>> {
    ctx.store().children(id).into_iter().filter(|child| !child.status().is_terminal()).collect()
}

/// Sends a child's work elsewhere.
pub(super) fn retarget(child: TaskId, to: &Target) -> Edit {
    Edit::new(child, Change::Task(Box::new(TaskPatch { target: Some(to.clone()), ..TaskPatch::default() })))
}

/// Children made between the look at them and the end of their parent. There can be no more after it: the store takes
/// none below a task that has ended.
pub(super) fn retarget_latecomers(ctx: &Ctx, ended: TaskId, to: &Target) -> Result<Vec<TaskId>> {
    let late: Vec<TaskId> = open_children(ctx, ended).iter().map(|child| child.id()).collect();
    ctx.store().apply(late.iter().map(|child| retarget(*child, to)).collect())?;
    Ok(late)
}

/// Refuses to end a task whose open children would be left with nowhere to merge into.
fn require_childless(ctx: &Ctx, row: &TaskRow, children: &[Arc<TaskRow>], heir: &Target, verb: &str) -> Result<()> {
    if children.is_empty() {
        return Ok(());
    }
    let name = row.task.display_id();
    let listed: Vec<String> =
        children.iter().map(|child| format!("{} ({})", child.task.display_id(), child.status())).collect();
    let count = match children.len() {
        1 => "an open child that merges".to_string(),
        count => format!("{count} open children that merge"),
    };
    let to = lookup::branch_of(ctx, heir).unwrap_or_else(|_| "the task above".into());
    let mut error = Error::conflict(format!("task {name} has {count} into it: {}", listed.join(", ")));
    for child in children.iter().take(3) {
        error = error.hint(format!("lazy close {} --reason '…'", child.task.display_id()));
    }
    let carrying = carried_work(ctx, row, children, heir);
    Err(error.hint(match carrying.is_empty() {
        true => format!("to let them merge into {to} instead: lazy {verb} {name} --reason '…' --retarget-children"),
        false => format!(
            "to let them merge into {to} instead, with the work of {name} that is in their branches: \
             lazy {verb} {name} --reason '…' --retarget-children"
        ),
    }))
}

/// A word for each child whose branch holds commits of this task that the new target has not: its accept brings them.
fn carried_work(ctx: &Ctx, row: &TaskRow, children: &[Arc<TaskRow>], heir: &Target) -> Vec<String> {
    let (Some(session), Ok(to)) = (&row.session, lookup::branch_of(ctx, heir)) else { return Vec::new() };
    let carries = |child: &TaskRow| -> Option<bool> {
        let branch = &child.session.as_ref()?.git_branch;
        let shared = ctx.repo().merge_base(&session.git_branch, branch).ok()??;
        // The empty first commit of a task is no work of it.
        let own = ctx.repo().commits_between(&session.git_start_sha, &shared).ok()?;
        let target = ctx.repo().branch_sha(&to).ok()??;
        Some(own.len() > 1 && !ctx.repo().is_ancestor(&shared, &target).ok()?)
    };
    let name = row.task.display_id();
    let carrying = children.iter().filter(|child| carries(child).unwrap_or_default());
    carrying
        .map(|child| {
            let child = child.task.display_id();
            format!("the branch of {child} holds work of {name}, which the accept of {child} brings into {to}")
        })
        .collect()
}

/// Refuses uncommitted changes and half-done merges, each with what can be done.
pub(super) async fn require_clean(worktree: &Worktree, row: &TaskRow) -> Result<()> {
    let name = row.task.display_id();
    if let Some(state) = worktree.merge_state().await? {
        return Err(Error::conflict(format!("task {name} has an unresolved merge: {}", state.summary))
            .hint(format!("roll it back, with what it holds saved, and merge again: lazy sync {name}"))
            .hint(format!("roll it back, with what it holds saved, and go on: lazy unblock {name} -m '…'"))
            .hint(format!("only roll it back: cd '{}' && git merge --abort", worktree.path().display())));
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
