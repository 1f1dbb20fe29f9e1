//! Containers between turns: which ones stay, which ones go, and which ones nobody knows any more.
//!
//! A blocked task keeps its container, so that the next turn starts at once. It goes when it has idled for
//! `[limits] idle_grace_minutes`, or earlier when a queued task that matters as much waits for its slot. Nothing is lost
//! with it: the worktree, the conversation and the store are on this machine.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Ctx, lookup, stop};
use crate::base::Result;
use crate::model::{Status, TaskId};
use crate::runner::Runner;
use crate::runner::engine::is_container;
use crate::store::{Change, Edit, SessionPatch, TaskRow};

/// How long a container that nobody wants may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// Ends the runs of resting tasks that may no longer stay. Failures are logged: the next tick tries again.
pub(super) async fn reap(ctx: &Ctx) {
    let resting: Vec<Arc<TaskRow>> = ctx.store().rows().into_iter().filter(|row| keeps_run(row)).collect();
    if resting.is_empty() {
        return;
    }
    let unwanted = demanded(ctx, &resting);
    for row in resting {
        let wanted = !unwanted.contains(&row.id()) && !idles_too_long(ctx, &row);
        let looked = if wanted { forget_if_gone(ctx, &row).await } else { end(ctx, row.id()).await };
        if let Err(error) = looked {
            tracing::warn!(task = %row.id(), %error, "an idle container cannot be looked after");
        }
    }
}

/// Ends containers of this project's daemon whose task does not want them: it is gone, it has ended, or it has another.
pub(super) async fn sweep(ctx: &Ctx) {
    let used: HashSet<_> = ctx.store().rows().iter().filter_map(|row| row.runner()).collect();
    for kind in
        used.into_iter().chain([ctx.config().runner.kind]).filter(|kind| is_container(*kind)).collect::<HashSet<_>>()
    {
        let Ok(Runner::Engine(runner)) = ctx.runner_of(kind) else { continue };
        if !runner.engine().is_installed() {
            continue;
        }
        let containers = match runner.containers().await {
            Ok(containers) => containers,
            Err(error) => {
                tracing::warn!(%error, "orphaned containers cannot be looked for");
                continue;
            }
        };
        for container in containers {
            let row = container.task.parse::<TaskId>().ok().and_then(|id| ctx.store().row(id));
            let wanted = row.as_ref().is_some_and(|row| {
                let working = row.status() == Status::Working || ctx.is_launching(row.id());
                let named = row.session.as_ref().and_then(|session| session.container_name.as_deref());
                !row.status().is_terminal() && (working || named == Some(container.name.as_str()))
            });
            if wanted {
                continue;
            }
            match runner.engine().end_container(&container.name, GRACE).await {
                Ok(()) => tracing::info!(container = container.name, "an orphaned container is removed"),
                Err(error) => tracing::warn!(container = container.name, %error, "an orphaned container stays"),
            }
        }
    }
}

/// Whether a resting task has a run.
fn keeps_run(row: &TaskRow) -> bool {
    matches!(row.status(), Status::Blocked | Status::Conflict | Status::Submitted)
        && row.session.as_ref().is_some_and(|session| session.container_name.is_some())
}

fn idles_too_long(ctx: &Ctx, row: &TaskRow) -> bool {
    let grace = Duration::from_secs(u64::from(ctx.config().limits.idle_grace_minutes) * 60);
    is_container(ctx.runner_kind(row)) && ctx.process().now().since(row.last_active()) >= grace
}

/// Resting tasks whose slots queued ones need: the least important first, among equals the one that has idled longest.
/// A working task that matters less than a queued one will free its slot to it, which spares a resting one.
fn demanded(ctx: &Ctx, resting: &[Arc<TaskRow>]) -> HashSet<TaskId> {
    let rows = ctx.store().rows();
    let mut queued: Vec<_> = rows.iter().filter(|row| row.status() == Status::Queued).collect();
    queued.sort_by_key(|row| (Reverse(row.task.priority), row.task.created_at));
    let limit = usize::try_from(ctx.config().limits.max_concurrent_agents).unwrap_or(usize::MAX);
    let running = usize::try_from(ctx.running_agents()).unwrap_or(usize::MAX);
    let mut working: Vec<_> =
        rows.iter().filter(|row| row.status() == Status::Working).map(|row| row.task.priority).collect();
    let mut candidates: Vec<_> = resting.iter().collect();
    candidates.sort_by_key(|row| (row.task.priority, row.last_active()));
    let mut ended = HashSet::new();
    for task in queued.iter().skip(limit.saturating_sub(running)) {
        if let Some(at) = working.iter().position(|priority| *priority < task.task.priority) {
            working.swap_remove(at);
            continue;
        }
        let found = candidates.iter().find(|row| row.task.priority <= task.task.priority && !ended.contains(&row.id()));
        if let Some(row) = found {
            ended.insert(row.id());
        }
    }
    ended
}

/// Ends a resting task's run, unless someone is in its container or moves the task.
async fn end(ctx: &Ctx, id: TaskId) -> Result<()> {
    let Some(_lock) = ctx.try_lock_task(id) else { return Ok(()) };
    let row = lookup::by_id(ctx, id)?;
    let Some(task_ref) = row.task.task_ref().filter(|_| keeps_run(&row)) else { return Ok(()) };
    if ctx.runner(&row)?.is_visited(&task_ref.run_name()).await? {
        return Ok(());
    }
    stop::end_run(ctx, id).await?;
    tracing::info!(task = %id, "an idle container is ended");
    ctx.reconcile_now();
    Ok(())
}

/// A container that died between turns gives its slot back.
async fn forget_if_gone(ctx: &Ctx, row: &TaskRow) -> Result<()> {
    let Some(task_ref) = row.task.task_ref() else { return Ok(()) };
    if !is_container(ctx.runner_kind(row)) || ctx.runner(row)?.seems_alive(&task_ref.run_name()).await? {
        return Ok(());
    }
    let Some(_lock) = ctx.try_lock_task(row.id()) else { return Ok(()) };
    if !lookup::by_id(ctx, row.id()).is_ok_and(|row| keeps_run(&row)) {
        return Ok(());
    }
    let patch = SessionPatch { container_name: Some(None), ..SessionPatch::default() };
    ctx.store().apply(vec![Edit::new(row.id(), Change::Session(Box::new(patch)))])
}
