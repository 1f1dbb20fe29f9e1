//! Changes of the session, and the turns that move it.

use super::apply::{Touched, require_same_task, stamp};
use super::change::SessionPatch;
use super::event::Effect;
use super::layout::Part;
use super::record::TaskRecord;
use crate::base::{Error, Millis, Result};
use crate::model::{Role, Session, Turn};

/// Lines of a run's log that an interruption keeps.
const INTERRUPT_LOG_LINES: usize = 50;

/// The session begins.
pub(super) fn start(record: &mut TaskRecord, mut session: Session, now: Millis) -> Result<Touched> {
    require_same_task(record.task.id, session.task_id, "session")?;
    if record.session.as_ref().is_some_and(|session| session.ended_at.is_none()) {
        let name = record.task.display_id();
        return Err(Error::conflict(format!("task {name} has a session that has not ended"))
            .hint(format!("lazy unblock {name}"))
            .hint(format!("lazy show {name}")));
    }
    stamp(&mut session.started_at, now);
    record.session = Some(session);
    Ok(Touched::new(&[Part::Session], Effect::SessionStarted))
}

/// Fields of the session change.
pub(super) fn patch(record: &mut TaskRecord, patch: SessionPatch, now: Millis) -> Result<Touched> {
    record.require_session()?;
    let Some(session) = record.session.as_mut() else { return Ok(Touched::NOTHING) };
    let before = session.clone();
    let SessionPatch {
        agent_id,
        agent_session_id,
        container_name,
        runner_type,
        ended,
        reopened,
        interrupted,
        interruptions_reset,
        auto_resumed,
        user_stopped,
        upstream_merge_sha,
        reserved_turn_sequence,
        notes_delivered_through,
        usage_added,
        touched,
    } = patch;
    // What clears comes first, so that a value given with it stands.
    if reopened {
        session.ended_at = None;
        session.outcome = None;
        session.agent_session_id = None;
    }
    if interruptions_reset {
        session.consecutive_interruptions = 0;
        session.auto_resumed = false;
        session.user_stopped = false;
    }
    if let Some(agent) = agent_id
        && agent != session.agent_id
    {
        session.agent_id = agent;
        session.agent_session_id = None;
    }
    if let Some(conversation) = agent_session_id {
        session.agent_session_id = conversation;
    }
    if let Some(run) = container_name {
        session.container_name = run;
    }
    session.runner_type = runner_type.or(session.runner_type);
    if let Some((at, outcome)) = ended {
        session.ended_at = Some(if at == Millis::default() { now } else { at });
        session.outcome = Some(outcome);
    }
    if let Some(interruption) = interrupted {
        session.interrupt_reason = Some(interruption.reason);
        session.interrupt_exit_code = interruption.exit_code;
        session.interrupt_at = Some(now);
        session.interrupt_logs = interruption.logs.map(|logs| last_lines(&logs));
        session.consecutive_interruptions += 1;
    }
    session.auto_resumed = auto_resumed.unwrap_or(session.auto_resumed);
    session.user_stopped = user_stopped.unwrap_or(session.user_stopped);
    session.upstream_merge_sha = upstream_merge_sha.or(session.upstream_merge_sha.take());
    session.reserved_turn_sequence = reserved_turn_sequence.or(session.reserved_turn_sequence);
    session.notes_delivered_through = notes_delivered_through.or(session.notes_delivered_through);
    if let Some(usage) = usage_added {
        session.total_usage = Some(session.total_usage.unwrap_or_default().plus(usage));
    }
    if touched {
        session.last_interaction_at = Some(now);
    }
    if *session == before {
        return Ok(Touched::NOTHING);
    }
    Ok(Touched::new(&[Part::Session], Effect::Session))
}

/// A turn is added.
pub(super) fn turn(record: &mut TaskRecord, mut turn: Turn, now: Millis) -> Result<Touched> {
    record.require_session()?;
    let name = record.task.display_id();
    if turn.sequence == 0 {
        return Err(Error::invalid(format!("a turn of task {name} has the number 0; they count from 1")));
    }
    if record.turns.iter().any(|known| known.sequence == turn.sequence || known.id == turn.id) {
        return Err(Error::conflict(format!("task {name} has a turn {} already", turn.sequence)));
    }
    let Some(session) = record.session.as_mut() else { return Ok(Touched::NOTHING) };
    stamp(&mut turn.timestamp, now);
    if turn.role == Role::Agent {
        let since = session.last_interaction_at.unwrap_or(session.started_at);
        let spent = turn.timestamp.since(since);
        session.total_duration_ms =
            session.total_duration_ms.saturating_add(i64::try_from(spent.as_millis()).unwrap_or(i64::MAX));
        if let Some(usage) = turn.usage {
            session.total_usage = Some(session.total_usage.unwrap_or_default().plus(usage));
        }
    }
    // A response recorded late does not move the clock back.
    session.last_interaction_at = session.last_interaction_at.max(Some(turn.timestamp));
    let effect = Effect::Turn { sequence: turn.sequence, role: turn.role };
    record.turns.push(turn);
    record.turns.sort_by_key(|turn| turn.sequence);
    Ok(Touched::new(&[Part::Turns, Part::Session], effect))
}

fn last_lines(logs: &str) -> String {
    let lines: Vec<&str> = logs.lines().collect();
    lines[lines.len().saturating_sub(INTERRUPT_LOG_LINES)..].join("\n")
}
