//! Reconciling: responses, crashes and signals become [`Edit`]s.
//!
//! A tick looks at every task that is not at rest, each under its lifecycle lock and each apart from the others: a
//! failure is logged and the next one is looked at. What it finds is decided by what is on disk alone, so a daemon that
//! died in the middle of anything is taken up by the next.
//!
//! | found | done |
//! | --- | --- |
//! | a response | recorded once (by command id), then consumed |
//! | a dead run without one | interrupted, with its log |
//! | an interrupted task | resumed, within the lanes of [`resume`] |
//! | a decision on protected files, half-done | carried out |
//! | a merge nobody is making | completed if the target has it, else undone |
//! | a container that idles too long, or that no task wants | ended, see [`warm`] |
//! | a queued task and a free slot | started |

mod merging;
mod response;
mod resume;
mod runs;
mod turns;
mod warm;

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::{Caller, Ctx, Narrator, lookup};
use crate::base::Result;
use crate::model::{JournalEntry, Status, TaskId};
use crate::rpc::commands::StartParams;
use crate::runner::engine::is_container;
use crate::store::{Applied, Change, Edit};

pub(super) use merging::{accept_tag, unstrand_merge};
pub(super) use response::settle;
pub(super) use runs::abandon_in_flight;
pub(super) use turns::to_status;

/// How often the mailboxes of working tasks are looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// Once, before the first tick: what the previous daemon left.
pub async fn first(ctx: &Ctx) -> Result<()> {
    if !ctx.access().kept_proxy_address() {
        runs::end_previous_generation(ctx).await;
    }
    for row in ctx.store().rows() {
        let done = row.status().is_terminal();
        let left = row.session.as_ref().is_some_and(|session| session.container_name.is_some())
            || ctx.worktree_path(&row).is_some_and(|path| path.exists())
            || ctx.mailbox(row.id()).is_ok_and(|mailbox| mailbox.dir().exists())
            || (row.status() == Status::Complete && lookup::head_sha(ctx.repo(), &row).is_some());
        if done && left {
            let keep = match row.status() {
                Status::Complete => super::finish::Keep::Nothing,
                _ => super::finish::Keep::Branch,
            };
            super::finish::clean_up(ctx, row.id(), keep).await;
        }
    }
    warm::sweep(ctx).await;
    Ok(())
}

/// One look at everything that is not at rest.
pub async fn tick(ctx: &Ctx) -> Result<()> {
    for row in ctx.store().rows() {
        let id = row.id();
        let looked = match row.status() {
            Status::Working => runs::look_at_working(ctx, id).await,
            Status::Interrupted => resume::look_at_interrupted(ctx, id).await,
            Status::Merging => look_at_merging(ctx, id).await,
            _ if super::protecting::is_half_done(&row.task) => look_at_deciding(ctx, id).await,
            _ => Ok(()),
        };
        if let Err(error) = looked {
            tracing::warn!(task = %id, %error, "cannot reconcile this task");
        }
    }
    warm::reap(ctx).await;
    drain_queue(ctx).await;
    Ok(())
}

/// Asks for a tick as soon as a working task has something to say. Runs until it is dropped.
///
/// Which tasks work is followed from what the store applies, so that a look costs nothing for the others, however many
/// there are.
pub async fn watch(ctx: &Ctx) {
    let mut applied = ctx.store().subscribe();
    let mut working = working(ctx);
    loop {
        if working.is_empty() {
            match applied.recv().await {
                Ok(list) => follow(&list, &mut working),
                Err(RecvError::Lagged(_)) => working = self::working(ctx),
                Err(RecvError::Closed) => return,
            }
            continue;
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
        loop {
            match applied.try_recv() {
                Ok(list) => follow(&list, &mut working),
                Err(TryRecvError::Lagged(_)) => working = self::working(ctx),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        for id in working.iter().filter(|id| !ctx.is_launching(**id)) {
            if ctx.mailbox(*id).is_ok_and(|mailbox| mailbox.has_response()) || died(ctx, *id).await {
                ctx.reconcile_now();
                break;
            }
        }
    }
}

/// Whether a task's run is dead, where that costs nothing to ask. An engine is only asked by the ticks.
async fn died(ctx: &Ctx, id: TaskId) -> bool {
    let Some(row) = ctx.store().row(id) else { return false };
    !is_container(ctx.runner_kind(&row)) && runs::is_dead(ctx, &row).await
}

/// The tasks that work now.
fn working(ctx: &Ctx) -> HashSet<TaskId> {
    ctx.store().rows().iter().filter(|row| row.status() == Status::Working).map(|row| row.id()).collect()
}

fn follow(list: &Applied, working: &mut HashSet<TaskId>) {
    for task in list.tasks() {
        match list.new_status(task) {
            Some(Status::Working) => drop(working.insert(task)),
            Some(_) => drop(working.remove(&task)),
            None => {}
        }
    }
}

/// The daemon ends: runs are ended with it, and their tasks go on when it comes back.
pub async fn shutdown(ctx: &Ctx) {
    runs::end_all(ctx).await;
}

/// A journal entry of a caller.
pub(super) fn journal(ctx: &Ctx, task: TaskId, caller: &Caller, content: &str) -> JournalEntry {
    JournalEntry {
        id: uuid::Uuid::new_v4().to_string(),
        task_id: task,
        content: content.into(),
        created_at: ctx.process().now(),
        actor: Some(caller.by.actor),
        actor_email: caller.by.actor_email.clone(),
        actor_name: caller.by.actor_name.clone(),
    }
}

async fn look_at_merging(ctx: &Ctx, id: TaskId) -> Result<()> {
    match ctx.try_lock_task(id) {
        Some(_lock) => unstrand_merge(ctx, id).await,
        None => Ok(()),
    }
}

async fn look_at_deciding(ctx: &Ctx, id: TaskId) -> Result<()> {
    match ctx.try_lock_task(id) {
        Some(_lock) => super::protecting::finish(ctx, id).await,
        None => Ok(()),
    }
}

/// Starts queued tasks while there are free slots: highest priority first, oldest first among equals.
async fn drain_queue(ctx: &Ctx) {
    let mut queued: Vec<_> = ctx.store().rows().into_iter().filter(|row| row.status() == Status::Queued).collect();
    queued.sort_by_key(|row| (std::cmp::Reverse(row.task.priority), row.task.created_at));
    for row in queued {
        if ctx.running_agents() >= ctx.config().limits.max_concurrent_agents {
            return;
        }
        let id = row.id();
        let Some(_lock) = ctx.try_lock_task(id) else { continue };
        let caller = Caller::system();
        if let Err(error) = super::start::start(ctx, &caller, id, &StartParams::default(), &Narrator::silent()).await {
            tracing::warn!(task = %id, %error, "a queued task could not be started");
            let still_queued = lookup::by_id(ctx, id).is_ok_and(|row| row.status() == Status::Queued);
            let mut edits = vec![Edit::new(
                id,
                Change::Journal(Box::new(journal(
                    ctx,
                    id,
                    &caller,
                    &format!("Could not be started from the queue: {error}"),
                ))),
            )];
            if still_queued {
                edits.push(Edit::new(id, Change::Status { to: Status::Backlog, by: caller.by.clone() }));
            }
            if let Err(error) = ctx.store().apply(edits) {
                tracing::error!(task = %id, %error, "cannot record why a queued task did not start");
            }
        }
    }
}
