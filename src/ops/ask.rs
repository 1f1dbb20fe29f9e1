//! `ask`: a question to the agent of a resting task. Nothing changes: the status before it is the status after it.

use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;

use super::launch::{self, Effective};
use super::notes::require_text;
use super::{Caller, Ctx, Narrator, Operation, lookup, prompting};
use crate::base::{Error, Kind, Result};
use crate::model::exchange::{Command, Work};
use crate::model::task::InFlightTurn;
use crate::model::{Role, Status, TaskId, Turn, TurnKind};
use crate::rpc::commands::{Ask, AskParams, AskReport};
use crate::store::{Change, Edit, SessionPatch};

/// How long an answer may take; the turn itself goes on and is recorded when it comes later.
const LIMIT: Duration = Duration::from_secs(30 * 60);

impl Operation for Ask {
    async fn run(ctx: &Ctx, caller: &Caller, params: AskParams, narrator: &Narrator) -> Result<AskReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "ask")?;
        let question = require_text(&params.message, "the question")?;
        let id = row.id();
        let mut applied = ctx.store().subscribe();
        let answer_sequence = {
            let _lock = ctx.lock_task(id).await;
            narrator.phase("asking");
            launch_ask(ctx, caller, id, &question, &params, narrator).await?
        };
        narrator.phase("waiting for the answer");
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            if let Some(turn) = answer(ctx, id, answer_sequence).await? {
                return report(ctx, id, turn);
            }
            match tokio::time::timeout_at(deadline, applied.recv()).await {
                Ok(Ok(_) | Err(RecvError::Lagged(_))) => {}
                Ok(Err(RecvError::Closed)) => return Err(Error::new(Kind::Canceled, "the daemon is stopping")),
                Err(_) => {
                    let name = row.task.display_id();
                    return Err(Error::new(Kind::Timeout, format!("task {name} has not answered within 30 minutes"))
                        .hint(format!("lazy show {name}"))
                        .hint(format!("lazy stop {name} --reason 'no answer'")));
                }
            }
        }
    }
}

async fn launch_ask(
    ctx: &Ctx,
    caller: &Caller,
    id: TaskId,
    question: &str,
    params: &AskParams,
    narrator: &Narrator,
) -> Result<u32> {
    let row = lookup::by_id(ctx, id)?;
    launch::require_no_turn(&row)?;
    super::unblock::require_resting(ctx, id, "ask")?;
    let record = lookup::load(ctx, id).await?;
    let session = record.require_session()?.clone();
    let name = record.task.display_id();
    if session.agent_session_id.is_none() {
        return Err(Error::conflict(format!("the agent of task {name} has no conversation yet to ask about"))
            .hint(format!("lazy resume {name}")));
    }
    let effective = Effective::of(ctx, &record.task, None, params.effort, ctx.runner_kind(&row))?;
    launch::require_ready(ctx, &effective, &row, narrator).await?;
    let target_branch = lookup::target_branch(ctx, &row)?;
    let head = launch::head(ctx, &record, &effective, &target_branch, prompting::Variant::Ask)?;
    let sequence = record.next_sequence();
    let mut turn = launch::request_turn(ctx, caller, &session, sequence, question, &effective);
    turn.kind = TurnKind::Ask;
    turn.prompt = Some(prompting::as_sent(&head.system_prompt, question));
    let now = ctx.process().now();
    let in_flight = InFlightTurn {
        session_id: session.id,
        owner: "ask".into(),
        turn_type: TurnKind::Ask,
        turn_sequence: sequence + 1,
        human_turn_sequence: sequence,
        restore_status: row.status(),
        started_at: now,
        expires_at: now.plus(LIMIT),
    };
    let reserved = SessionPatch { reserved_turn_sequence: Some(sequence + 1), ..SessionPatch::default() };
    let _slot = ctx.take_slot_always(id);
    ctx.store().apply(vec![
        Edit::new(id, Change::Turn(Box::new(turn))),
        Edit::new(id, Change::InFlight(Some(Box::new(in_flight)))),
        Edit::new(id, Change::Session(Box::new(reserved))),
        Edit::new(id, Change::Status { to: Status::Working, by: caller.by.clone() }),
    ])?;
    let command = Command::Ask(Work {
        head,
        goal: record.task.goal.clone(),
        prompt: question.into(),
        sync_before_work: false,
        sync_after_work: false,
        maintain: Vec::new(),
    });
    let row = lookup::by_id(ctx, id)?;
    if let Err(error) = launch::launch(ctx, &row, &effective, &command, narrator).await {
        super::reconcile::abandon_in_flight(ctx, id, &format!("the question could not be put: {error}")).await?;
        return Err(error);
    }
    Ok(sequence + 1)
}

/// The answer, once it is recorded; an error when the turn ended without one.
async fn answer(ctx: &Ctx, id: TaskId, sequence: u32) -> Result<Option<Turn>> {
    let row = lookup::by_id(ctx, id)?;
    if row.task.in_flight_turn.as_ref().is_some_and(|turn| turn.turn_sequence == sequence) {
        return Ok(None);
    }
    let record = lookup::load(ctx, id).await?;
    let found = record.turns.into_iter().find(|turn| turn.sequence == sequence && turn.role == Role::Agent);
    match found {
        Some(turn) if turn.agent_had_no_effect => {
            Err(Error::unavailable(turn.content).hint(format!("lazy show {}", row.task.display_id())))
        }
        Some(turn) => Ok(Some(turn)),
        None => Err(Error::new(Kind::Canceled, "the question was dropped before it was answered")),
    }
}

fn report(ctx: &Ctx, id: TaskId, turn: Turn) -> Result<AskReport> {
    Ok(AskReport {
        task: lookup::brief_now(ctx, id)?,
        answer: turn.content,
        turn: turn.sequence,
        usage: turn.usage.unwrap_or_default(),
        warnings: Vec::new(),
    })
}
