//! `wait`: until one of several tasks stops working.

use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;

use crate::base::{Error, Kind, Result};
use crate::model::{Status, TaskId};
use crate::ops::{Caller, Ctx, Narrator, Operation, lookup};
use crate::rpc::commands::{Wait, WaitLine, WaitParams, WaitReport};

/// Seconds a wait lasts at most.
const LIMIT: u64 = 600;

impl Operation for Wait {
    async fn run(ctx: &Ctx, caller: &Caller, params: WaitParams, narrator: &Narrator) -> Result<WaitReport> {
        let ids = targets(ctx, caller, &params)?;
        if ids.is_empty() {
            return Ok(WaitReport::default());
        }
        let mut applied = ctx.store().subscribe();
        narrator.phase("waiting");
        let seconds = params.timeout.unwrap_or(LIMIT).min(LIMIT);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds);
        loop {
            if let Some(winner) = first_settled(ctx, &ids)? {
                return report(ctx, &ids, Some(winner)).await;
            }
            match tokio::time::timeout_at(deadline, applied.recv()).await {
                Ok(Ok(_) | Err(RecvError::Lagged(_))) => {}
                Ok(Err(RecvError::Closed)) => return Err(Error::new(Kind::Canceled, "the daemon is stopping")),
                Err(_) => return report(ctx, &ids, None).await,
            }
        }
    }
}

fn targets(ctx: &Ctx, caller: &Caller, params: &WaitParams) -> Result<Vec<TaskId>> {
    if params.next {
        if !params.tasks.is_empty() {
            return Err(Error::invalid("name tasks or ask for the next one, not both"));
        }
        let working = ctx.store().rows().into_iter().filter(|row| row.status() == Status::Working);
        return Ok(working.map(|row| row.id()).filter(|id| caller.own_task() != Some(*id)).collect());
    }
    if params.tasks.is_empty() || params.tasks.iter().any(|name| name.trim().is_empty()) {
        return Err(Error::invalid("no task to wait for was named").hint("lazy wait <task>").hint("lazy wait --next"));
    }
    let mut ids = Vec::new();
    for name in &params.tasks {
        let id = lookup::row(ctx, caller, name)?.id();
        if caller.own_task() == Some(id) {
            return Err(Error::invalid("an agent cannot wait for its own task: it would wait for itself"));
        }
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// Still on its way: working, or waiting for a slot, or being merged.
fn is_pending(status: Status) -> bool {
    matches!(status, Status::Working | Status::Queued | Status::Merging | Status::Zombie)
}

fn first_settled(ctx: &Ctx, ids: &[TaskId]) -> Result<Option<TaskId>> {
    for id in ids {
        if !is_pending(lookup::by_id(ctx, *id)?.status()) {
            return Ok(Some(*id));
        }
    }
    Ok(None)
}

async fn report(ctx: &Ctx, ids: &[TaskId], winner: Option<TaskId>) -> Result<WaitReport> {
    let mut report = WaitReport { timed_out: winner.is_none(), ..WaitReport::default() };
    for id in ids {
        let row = lookup::by_id(ctx, *id)?;
        let line = WaitLine { task_id: *id, display_id: row.task.display_id(), status: row.status() };
        if is_pending(row.status()) {
            report.pending.push(line.clone());
        }
        report.tasks.push(line);
        if winner == Some(*id) {
            report.task_id = Some(*id);
            report.display_id = Some(row.task.display_id());
            report.status = Some(row.status());
            let merged = row.task.meta(crate::model::task::META_MERGE_SHA).map(str::to_string);
            report.head_sha = merged.or_else(|| lookup::head_sha(ctx.repo(), &row));
            report.merge_state = lookup::merge_note(ctx, &row).await;
        }
    }
    Ok(report)
}
