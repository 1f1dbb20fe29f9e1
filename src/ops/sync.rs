//! `sync`: the upstream is merged into a resting task's branch.

use std::time::Duration;

use super::launch::{self, Effective};
use super::{Caller, Ctx, Narrator, Operation, lookup, prompting};
use crate::base::{Error, Result};
use crate::model::exchange::{Command, Sync};
use crate::model::task::InFlightTurn;
use crate::model::{Status, TaskId, TurnKind};
use crate::rpc::commands::{SyncReport, SyncTask, TaskParams};
use crate::store::{Change, Edit};

/// A clean merge takes seconds, an agent that resolves conflicts longer; a caller is not kept longer than this.
const LIMIT: Duration = Duration::from_secs(30 * 60);

impl Operation for SyncTask {
    async fn run(ctx: &Ctx, caller: &Caller, params: TaskParams, narrator: &Narrator) -> Result<SyncReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "sync")?;
        let id = row.id();
        let upstream = lookup::live_target_branch(ctx, &row)?;
        let mut applied = ctx.store().subscribe();
        let head_before = lookup::head_sha(ctx.repo(), &row);
        {
            let _lock = ctx.lock_task(id).await;
            narrator.phase("looking at the upstream");
            if !launch_sync(ctx, caller, id, &upstream, narrator).await? {
                let task = lookup::brief_now(ctx, id)?;
                return Ok(SyncReport { task, outcome: "up_to_date".into(), upstream, warnings: Vec::new() });
            }
        }
        narrator.phase("merging");
        let deadline = tokio::time::Instant::now() + LIMIT;
        while lookup::by_id(ctx, id)?.task.in_flight_turn.is_some() {
            if tokio::time::timeout_at(deadline, applied.recv()).await.is_err() {
                let task = lookup::brief_now(ctx, id)?;
                return Ok(SyncReport { task, outcome: "sync_launched".into(), upstream, warnings: Vec::new() });
            }
        }
        let row = lookup::by_id(ctx, id)?;
        if lookup::head_sha(ctx.repo(), &row) == head_before {
            let record = lookup::load(ctx, id).await?;
            let told = record.turns.last().map(|turn| turn.content.clone()).unwrap_or_default();
            let why = told.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
            let name = row.task.display_id();
            return Err(Error::conflict(format!("{upstream} could not be merged into task {name}: {why}"))
                .hint(format!("lazy show {name}"))
                .hint(format!("lazy sync {name}    # asks the agent again")));
        }
        // Whoever resolved conflicts says so in the first line of the turn.
        let record = lookup::load(ctx, id).await?;
        let told = record.turns.last().and_then(|turn| turn.content.lines().next()).unwrap_or_default();
        let warnings = if told.contains("resolved by the agent") { vec![told.to_string()] } else { Vec::new() };
        Ok(SyncReport { task: lookup::brief(&row), outcome: "merged".into(), upstream, warnings })
    }
}

/// Launches the merge; false when there is nothing to merge.
async fn launch_sync(ctx: &Ctx, caller: &Caller, id: TaskId, upstream: &str, narrator: &Narrator) -> Result<bool> {
    let row = lookup::by_id(ctx, id)?;
    launch::require_no_turn(&row)?;
    super::unblock::require_resting(ctx, id, "sync")?;
    let record = lookup::load(ctx, id).await?;
    let session = record.require_session()?.clone();
    let upstream_sha =
        ctx.repo().branch_sha(upstream)?.map_or_else(|| ctx.repo().resolve(upstream), |sha| Ok(Some(sha)))?;
    let upstream_sha = upstream_sha.ok_or_else(|| {
        Error::conflict(format!("the upstream branch {upstream} does not exist")).hint("git fetch --all".to_string())
    })?;
    let head = lookup::head_sha(ctx.repo(), &row)
        .ok_or_else(|| Error::conflict(format!("the branch {} does not exist any more", session.git_branch)))?;
    if ctx.repo().is_ancestor(&upstream_sha, &head)? {
        ctx.store().apply(vec![Edit::new(id, Change::PendingSync(0))])?;
        return Ok(false);
    }
    let effective = Effective::of(ctx, &record.task, None, None, ctx.runner_kind(&row))?;
    let head = launch::head(ctx, &record, &effective, upstream, prompting::Variant::Resume)?;
    let now = ctx.process().now();
    let sequence = record.next_sequence();
    let in_flight = InFlightTurn {
        session_id: session.id,
        owner: "sync".into(),
        turn_type: TurnKind::Sync,
        turn_sequence: sequence,
        human_turn_sequence: sequence,
        restore_status: row.status(),
        started_at: now,
        expires_at: now.plus(LIMIT),
    };
    let _slot = ctx.take_slot_always(id);
    ctx.store().apply(vec![
        Edit::new(id, Change::InFlight(Some(Box::new(in_flight)))),
        Edit::new(id, Change::PendingSync(0)),
        Edit::new(id, Change::Status { to: Status::Working, by: caller.by.clone() }),
    ])?;
    let row = lookup::by_id(ctx, id)?;
    let command = Command::Sync(Sync { head, upstream_sha });
    if let Err(error) = launch::launch(ctx, &row, &effective, &command, narrator).await {
        super::reconcile::abandon_in_flight(ctx, id, &format!("the merge could not be launched: {error}")).await?;
        return Err(error);
    }
    Ok(true)
}
