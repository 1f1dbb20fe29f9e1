//! Runs that ended, and runs that are to end.

use std::time::Duration;

use super::super::{Caller, Ctx, lookup, stop};
use super::{response, turns};
use crate::base::Result;
use crate::model::{Role, Status, TaskId, Turn, TurnKind};
use crate::runner::RunState;
use crate::store::{Change, Edit, Interruption, SessionPatch, TaskRow};

/// Why a run ended with the daemon; a task interrupted for it is resumed at once.
pub(super) const DAEMON_STOPPED: &str = "the daemon was stopped";

/// Lines of a dead run's log that are kept.
const LOG_LINES: usize = 50;

/// A working task: its response, its live run, or what is left of a dead one.
pub(super) async fn look_at_working(ctx: &Ctx, id: TaskId) -> Result<()> {
    if ctx.is_launching(id) {
        return Ok(());
    }
    let Some(_lock) = ctx.try_lock_task(id) else { return Ok(()) };
    let row = lookup::by_id(ctx, id)?;
    if row.status() != Status::Working || ctx.is_launching(id) {
        return Ok(());
    }
    // The run first, then the mailbox: a run that ends writes its response before it does.
    let dead = is_dead(ctx, &row).await;
    if response::settle(ctx, id).await? || !dead {
        return Ok(());
    }
    interrupt(ctx, &row, "the run ended without a response").await
}

/// Whether nothing lives that could still answer. What cannot be asked counts as alive.
pub(super) async fn is_dead(ctx: &Ctx, row: &TaskRow) -> bool {
    let Some(task_ref) = row.task.task_ref() else { return false };
    let Ok(runner) = ctx.runner(row) else { return false };
    matches!(runner.state(&task_ref.run_name()).await, Ok(RunState::Exited { .. } | RunState::Gone))
}

/// Records that a run ended without a response, ends what it left behind, and keeps the commits it made.
async fn interrupt(ctx: &Ctx, row: &TaskRow, reason: &str) -> Result<()> {
    let id = row.id();
    let run = row.task.task_ref().map(|task_ref| task_ref.run_name()).unwrap_or_default();
    let runner = ctx.runner(row)?;
    let (exit_code, special) = match runner.state(&run).await? {
        RunState::Exited { code, reason } => (code, reason),
        _ => (None, None),
    };
    let reason = special.as_deref().unwrap_or(reason);
    let logs = runner.logs(&run, LOG_LINES).await;
    runner.stop(&run, Duration::from_secs(2)).await?;
    stop::free_worktree(ctx, row).await;
    if row.task.in_flight_turn.is_some() {
        return abandon_in_flight(ctx, id, reason).await;
    }
    let record = lookup::load(ctx, id).await?;
    let mut edits = turns::new_commits(ctx, &record);
    let interruption =
        Interruption { reason: reason.into(), exit_code, logs: Some(logs).filter(|logs| !logs.is_empty()) };
    let by_daemon = reason.starts_with(DAEMON_STOPPED);
    let patch = SessionPatch {
        // Not a crash: the count of crashes starts again.
        interruptions_reset: by_daemon && !record.session.as_ref().is_some_and(|session| session.user_stopped),
        interrupted: Some(interruption),
        container_name: Some(None),
        ..SessionPatch::default()
    };
    edits.push(Edit::new(id, Change::Session(Box::new(patch))));
    edits.push(Edit::new(id, Change::Status { to: Status::Interrupted, by: Caller::system().by }));
    ctx.store().apply(edits)?;
    ctx.mailbox(id)?.clear_status()?;
    tracing::info!(task = %id, reason, "interrupted");
    ctx.reconcile_now();
    Ok(())
}

/// A turn someone waits for will not be answered: the task goes back to where it stood.
pub(crate) async fn abandon_in_flight(ctx: &Ctx, id: TaskId, reason: &str) -> Result<()> {
    let record = lookup::load(ctx, id).await?;
    let Some(in_flight) = record.task.in_flight_turn.clone() else { return Ok(()) };
    let recovered = if in_flight.turn_type == TurnKind::Sync { roll_back(ctx, id).await } else { None };
    let mut turn = Turn::new(
        in_flight.session_id,
        in_flight.turn_sequence,
        Role::Agent,
        format!("Not answered: {reason}"),
        ctx.process().now(),
    );
    turn.kind = in_flight.turn_type;
    turn.agent_had_no_effect = true;
    let mut edits = vec![
        Edit::new(id, Change::Turn(Box::new(turn))),
        Edit::new(id, Change::InFlight(None)),
        Edit::new(
            id,
            Change::Session(Box::new(SessionPatch { container_name: Some(None), ..SessionPatch::default() })),
        ),
    ];
    edits.extend(recovered);
    edits.extend(turns::to_status(record.task.status, in_flight.restore_status, id));
    ctx.store().apply(edits)?;
    ctx.mailbox(id)?.clear_status()
}

/// Takes the worktree out of the merge that a sync left when its supervisor was killed; the run has ended. What it held
/// is saved, and the journal says where.
async fn roll_back(ctx: &Ctx, id: TaskId) -> Option<Edit> {
    let row = lookup::by_id(ctx, id).ok()?;
    let worktree = lookup::worktree(ctx, &row)?;
    match worktree.recover(&worktree, "sync", ctx.process().now()).await {
        Ok(found) => response::recovery(ctx, id, found.as_ref()),
        Err(error) => {
            tracing::warn!(task = %id, %error, "a merge that was cut short could not be rolled back");
            let text = format!("A merge that was cut short could not be rolled back: {}", error.full_message());
            let entry = super::journal(ctx, id, &Caller::system(), &text);
            Some(Edit::new(id, Change::Journal(Box::new(entry))))
        }
    }
}

/// Ends the runs of the previous daemon, which look for the proxy where it no longer is.
pub(super) async fn end_previous_generation(ctx: &Ctx) {
    end_working(ctx, "the daemon was stopped and came back elsewhere").await;
}

/// Ends every run that does not outlive the daemon.
pub(super) async fn end_all(ctx: &Ctx) {
    end_working(ctx, DAEMON_STOPPED).await;
}

async fn end_working(ctx: &Ctx, reason: &str) {
    let stays = |row: &TaskRow| ctx.runner(row).is_ok_and(|runner| runner.keeps_warm());
    let working: Vec<_> =
        ctx.store().rows().into_iter().filter(|row| row.status() == Status::Working && !stays(row)).collect();
    let ends = working.iter().map(|row| async move {
        let id = row.id();
        let _lock = ctx.lock_task(id).await;
        let row = lookup::by_id(ctx, id)?;
        if row.status() != Status::Working {
            return Ok(());
        }
        stop::end_run(ctx, id).await?;
        if response::settle(ctx, id).await? {
            return Ok(());
        }
        let row = lookup::by_id(ctx, id)?;
        interrupt(ctx, &row, reason).await
    });
    for ended in futures_util::future::join_all(ends).await {
        if let Err::<(), crate::base::Error>(error) = ended {
            tracing::warn!(%error, "a run could not be ended");
        }
    }
}
