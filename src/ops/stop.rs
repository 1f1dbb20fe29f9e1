//! `stop`: a working task is parked; nothing resumes it until a person does.

use std::time::Duration;

use super::notes::require_text;
use super::{Caller, Ctx, Narrator, Operation, lookup, reconcile};
use crate::base::{Error, Result};
use crate::model::{Status, TaskId, violations};
use crate::rpc::commands::{ReasonParams, StatusReport, Stop};
use crate::store::{Change, Edit, SessionPatch, TaskRow};

/// How long the agent may take to end.
const GRACE: Duration = Duration::from_secs(10);

impl Operation for Stop {
    async fn run(ctx: &Ctx, caller: &Caller, params: ReasonParams, narrator: &Narrator) -> Result<StatusReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "stop")?;
        let reason = require_text(params.reason.as_deref().unwrap_or("Stopping to change direction"), "the reason")?;
        let id = row.id();
        let _lock = ctx.lock_task(id).await;
        let row = lookup::by_id(ctx, id)?;
        let previous = row.status();
        let name = row.task.display_id();
        match previous {
            Status::Working => {}
            Status::Queued => {
                ctx.store()
                    .apply(vec![Edit::new(id, Change::Status { to: Status::Backlog, by: caller.by.clone() })])?;
                return report(ctx, id, previous, reason);
            }
            Status::Interrupted => {
                // Interrupted tasks resume by themselves; stopping one parks it.
                return park(ctx, caller, id, previous, reason).await;
            }
            status => {
                let hint = match status {
                    Status::Backlog => format!("lazy start {name}"),
                    status if status.waits_for_review() => format!("lazy unblock {name} -m '…'"),
                    _ => format!("lazy show {name}"),
                };
                return Err(Error::conflict(format!("task {name} is not working: it is {status}")).hint(hint));
            }
        }
        narrator.phase("stopping the agent");
        end_run(ctx, id).await?;
        // A response may have been written before the end came; it is kept as the turn it is.
        reconcile::settle(ctx, id).await?;
        if lookup::by_id(ctx, id)?.task.in_flight_turn.is_some() {
            reconcile::abandon_in_flight(ctx, id, &format!("stopped: {reason}")).await?;
            return report(ctx, id, previous, reason);
        }
        park(ctx, caller, id, previous, reason).await
    }
}

/// Ends a task's run and forgets it.
pub(super) async fn end_run(ctx: &Ctx, id: TaskId) -> Result<()> {
    let row = lookup::by_id(ctx, id)?;
    let Some(task_ref) = row.task.task_ref() else { return Ok(()) };
    if row.session.is_none() {
        return Ok(());
    }
    let runner = ctx.runner(&row)?;
    runner.stop(&task_ref.run_name(), GRACE).await?;
    free_worktree(ctx, &row).await;
    let patch = SessionPatch { container_name: Some(None), ..SessionPatch::default() };
    ctx.store().apply(vec![Edit::new(id, Change::Session(Box::new(patch)))])
}

/// Takes away the locks that a git of the ended run left in the worktree.
pub(super) async fn free_worktree(ctx: &Ctx, row: &TaskRow) {
    if let Some(worktree) = lookup::worktree(ctx, row)
        && let Err(error) = worktree.clear_locks_of_ended_run().await
    {
        tracing::warn!(task = %row.id(), %error, "a lock that the ended run left cannot be removed");
    }
}

async fn park(ctx: &Ctx, caller: &Caller, id: TaskId, previous: Status, reason: String) -> Result<StatusReport> {
    let record = lookup::load(ctx, id).await?;
    let to = violations::resting_status(&record.turns);
    let row = lookup::by_id(ctx, id)?;
    let mut edits = Vec::new();
    if !row.status().waits_for_review() {
        edits.push(Edit::new(id, Change::Status { to, by: caller.by.clone() }));
    }
    let patch = SessionPatch { user_stopped: Some(true), ..SessionPatch::default() };
    edits.push(Edit::new(id, Change::Session(Box::new(patch))));
    edits.push(Edit::new(
        id,
        Change::Journal(Box::new(reconcile::journal(ctx, id, caller, &format!("Stopped: {reason}")))),
    ));
    ctx.store().apply(edits)?;
    ctx.mailbox(id)?.clear_status()?;
    report(ctx, id, previous, reason)
}

fn report(ctx: &Ctx, id: TaskId, previous: Status, reason: String) -> Result<StatusReport> {
    let row = lookup::by_id(ctx, id)?;
    Ok(StatusReport {
        task: lookup::brief(&row),
        previous,
        branch: row.session.as_ref().map(|session| session.git_branch.clone()),
        reason: Some(reason),
        reparented: Vec::new(),
        reparented_to: None,
        warnings: Vec::new(),
    })
}
