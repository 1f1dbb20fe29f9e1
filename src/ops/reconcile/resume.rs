//! Automatic resumes: a fast lane for the first interruptions, a slow one for stubborn tasks, and neither for a task
//! that a person stopped.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::unblock::{Auto, resume};
use super::super::{Caller, Ctx, Narrator, lookup};
use super::{journal, response, runs};
use crate::base::{Millis, Result, json};
use crate::model::{Session, Status, TaskId, violations};
use crate::store::{Change, Edit, TaskRecord, TaskRow};

/// Interruptions in a row after which the fast lane ends.
const FAST_LANE: u32 = 3;
const META_ATTEMPTS: &str = "slow_lane_attempts";
const META_LAST_ATTEMPT: &str = "slow_lane_last_attempt_at";
const META_EXHAUSTED: &str = "slow_lane_exhausted";

/// `<data>/auto-resume-queue.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueFile {
    last_auto_resume_at: Option<Millis>,
}

/// Which lane lets a task go on now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Fast,
    Slow,
}

/// An interrupted task: a response that came late, or a resume whose time has come.
pub(super) async fn look_at_interrupted(ctx: &Ctx, id: TaskId) -> Result<()> {
    let Some(_lock) = ctx.try_lock_task(id) else { return Ok(()) };
    if response::settle(ctx, id).await? {
        return Ok(());
    }
    let row = lookup::by_id(ctx, id)?;
    if row.status() != Status::Interrupted || !ctx.config().daemon.auto_resume {
        return Ok(());
    }
    let now = ctx.process().now();
    let queue_path = ctx.project().data_dir.join("auto-resume-queue.json");
    let last = json::load::<QueueFile>(&queue_path).ok().flatten().and_then(|file| file.last_auto_resume_at);
    let Some(lane) = lane(ctx, &row, now, last) else { return Ok(()) };
    let record = lookup::load(ctx, id).await?;
    if !violations::pending(&record.turns).is_empty() || lookup::worktree(ctx, &row).is_none() {
        return Ok(());
    }
    if ctx.running_agents() >= ctx.config().limits.max_concurrent_agents {
        return Ok(());
    }
    if lane == Lane::Slow {
        ctx.store().apply(slow_attempt(ctx, &row, now))?;
    }
    let caller = Caller::system();
    let resumed = resume(ctx, &caller, id, None, None, Auto::Yes, &Narrator::silent()).await;
    if !interrupted_by_daemon(&row) {
        json::save(&queue_path, &QueueFile { last_auto_resume_at: Some(now) })?;
    }
    match resumed {
        Ok(_) => {
            tracing::info!(task = %id, "resumed");
            Ok(())
        }
        Err(error) => {
            let entry = journal(ctx, id, &caller, &format!("An automatic resume failed: {error}"));
            ctx.store().apply(vec![Edit::new(id, Change::Journal(Box::new(entry)))])?;
            Err(error)
        }
    }
}

/// Edits that forget the slow lane: the task made a healthy turn.
pub(super) fn forget_slow_lane(record: &TaskRecord) -> Vec<Edit> {
    [META_ATTEMPTS, META_LAST_ATTEMPT, META_EXHAUSTED]
        .into_iter()
        .filter(|key| record.task.meta(key).is_some())
        .map(|key| Edit::new(record.task.id, Change::Meta(key.into(), None)))
        .collect()
}

fn interrupted_by_daemon(row: &TaskRow) -> bool {
    let reason = row.session.as_ref().and_then(|session| session.interrupt_reason.as_deref());
    reason.is_some_and(|reason| reason.starts_with(runs::DAEMON_STOPPED))
}

fn lane(ctx: &Ctx, row: &TaskRow, now: Millis, last_resume: Option<Millis>) -> Option<Lane> {
    let session: &Session = row.session.as_ref()?;
    if session.ended_at.is_some() || session.user_stopped {
        return None;
    }
    if interrupted_by_daemon(row) {
        return Some(Lane::Fast);
    }
    let limits = &ctx.config().daemon;
    let minutes = |count: u32| Duration::from_secs(u64::from(count) * 60);
    let gap_over = last_resume.is_none_or(|last| now.since(last) >= minutes(limits.auto_resume_gap_minutes));
    if !gap_over {
        return None;
    }
    if session.consecutive_interruptions < FAST_LANE {
        return Some(Lane::Fast);
    }
    if row.task.meta(META_EXHAUSTED).is_some() {
        return None;
    }
    let last_attempt = row.task.meta(META_LAST_ATTEMPT).and_then(|text| text.parse().ok()).map(Millis);
    let since = last_attempt.or(session.interrupt_at)?;
    (now.since(since) >= minutes(limits.auto_resume_interval_minutes)).then_some(Lane::Slow)
}

fn slow_attempt(ctx: &Ctx, row: &TaskRow, now: Millis) -> Vec<Edit> {
    let attempts = row.task.meta(META_ATTEMPTS).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0) + 1;
    let set = |key: &str, value: String| Edit::new(row.id(), Change::Meta(key.into(), Some(value)));
    let mut edits = vec![set(META_ATTEMPTS, attempts.to_string()), set(META_LAST_ATTEMPT, now.0.to_string())];
    if attempts >= ctx.config().daemon.auto_resume_max_attempts {
        edits.push(set(META_EXHAUSTED, "1".into()));
    }
    edits
}
