//! Responses of supervisors, recorded once.

use super::super::{Caller, Ctx, lookup};
use super::{journal, turns};
use crate::agent::{Agent, RunFailure};
use crate::base::{Result, checkpoint};
use crate::exchange::Mailbox;
use crate::model::exchange::{Completed, Failure, FailureClass, HandoffEntry, Phase, Response, WorktreeRecovery};
use crate::model::{Actor, RaisedItem, Status, TaskId, TurnKind, violations};
use crate::store::{Change, Edit, Interruption, SessionPatch, TaskRecord};

/// Metadata key: the command whose response was recorded last.
const META_LAST_RESPONSE: &str = "last_response";

/// Records the task's response, if there is one; the caller holds the lifecycle lock. Returns whether there was.
pub(crate) async fn settle(ctx: &Ctx, id: TaskId) -> Result<bool> {
    let mailbox = ctx.mailbox(id)?;
    record_superseded(ctx, id, &mailbox).await?;
    let response = match mailbox.load_response() {
        Ok(None) => return Ok(false),
        Ok(Some(response)) => response,
        Err(error) => {
            let moved = mailbox.set_aside_response()?;
            tracing::error!(task = %id, %error, "a response cannot be read");
            let text = format!(
                "The supervisor's response could not be read ({error}); it was set aside as {}",
                moved.display()
            );
            let entry = journal(ctx, id, &Caller::system(), &text);
            ctx.store().apply(vec![Edit::new(id, Change::Journal(Box::new(entry)))])?;
            return Ok(false);
        }
    };
    let record = lookup::load(ctx, id).await?;
    if record.task.meta(META_LAST_RESPONSE) != Some(response.command_id()) {
        let mut edits = match &response {
            Response::Completed { responses, .. } => completed(ctx, &record, responses).await?,
            Response::Error(failure) => failed(ctx, &record, failure).await?,
        };
        edits.push(Edit::new(id, Change::Meta(META_LAST_RESPONSE.into(), Some(response.command_id().into()))));
        ctx.store().apply(edits)?;
    }
    checkpoint::reach("ops.after-response-recorded");
    mailbox.consume_response()?;
    mailbox.clear_status()?;
    Ok(true)
}

/// Responses that a later command found unread: kept as turns, they move nothing.
async fn record_superseded(ctx: &Ctx, id: TaskId, mailbox: &Mailbox) -> Result<()> {
    for (path, response) in mailbox.superseded() {
        let record = lookup::load(ctx, id).await?;
        if record.task.meta(META_LAST_RESPONSE) == Some(response.command_id()) {
            // Recorded when it came; only its file was left.
            mailbox.discard_superseded(&path)?;
            continue;
        }
        let Some(session) = record.session.clone() else { continue };
        let mut edits = Vec::new();
        let mut sequence = record.next_sequence();
        match &response {
            Response::Completed { responses, .. } => {
                for entry in responses {
                    edits.extend(turns::of_completed(ctx, &session, entry, &mut sequence));
                    edits.extend(handoff(ctx, &record, &entry.agent_handoff));
                }
            }
            Response::Error(failure) => {
                edits.push(Edit::new(id, Change::Turn(Box::new(turns::of_failure(ctx, &session, failure, sequence)))));
                edits.extend(handoff(ctx, &record, &failure.agent_handoff));
            }
        }
        let text = "A response that a later command overtook was recorded as history.";
        edits.push(Edit::new(id, Change::Journal(Box::new(journal(ctx, id, &Caller::system(), text)))));
        ctx.store().apply(edits)?;
        mailbox.discard_superseded(&path)?;
    }
    Ok(())
}

/// The edits for a turn that ended as it should.
async fn completed(ctx: &Ctx, record: &TaskRecord, responses: &[Completed]) -> Result<Vec<Edit>> {
    let id = record.task.id;
    let session = record.require_session()?.clone();
    let in_flight = record.task.in_flight_turn.clone();
    let mut edits = Vec::new();
    let mut patch = SessionPatch {
        interruptions_reset: !session.user_stopped,
        auto_resumed: Some(false),
        container_name: released(ctx, record),
        touched: true,
        ..SessionPatch::default()
    };
    let mut sequence = record.next_sequence();
    let kind = in_flight.as_ref().map_or(TurnKind::Work, |turn| turn.turn_type);
    if kind == TurnKind::Ask {
        sequence = in_flight.as_ref().map_or(sequence, |turn| turn.turn_sequence);
    }
    let responses = &without_upstream_changes(ctx, record, responses).await[..];
    for response in responses {
        edits.extend(recovery(ctx, id, response.worktree_recovery.as_ref()));
        if let Some(sync) = &response.sync {
            if !sync.merged {
                continue;
            }
            patch.upstream_merge_sha = response.end_sha.clone();
        }
        if !response.session_id.is_empty() {
            patch.agent_session_id = Some(Some(response.session_id.clone()));
        }
        let mut added = turns::of_completed(ctx, &session, response, &mut sequence);
        if kind == TurnKind::Ask {
            turns::mark_ask(&mut added);
        }
        edits.extend(added);
        edits.extend(handoff(ctx, record, &response.agent_handoff));
    }
    edits.extend(turns::new_commits(ctx, record));
    if kind == TurnKind::Work {
        edits.push(Edit::new(id, Change::FeedbackConsumed));
        edits.extend(turns::snapshot(ctx, record, sequence.saturating_sub(1)).await);
        edits.extend(super::resume::forget_slow_lane(record));
    }
    edits.push(Edit::new(id, Change::Session(Box::new(patch))));
    let resting = match &in_flight {
        Some(turn) => {
            edits.push(Edit::new(id, Change::InFlight(None)));
            turn.restore_status
        }
        None => resting_after(record, responses),
    };
    if moves(record.task.status) {
        edits.extend(turns::to_status(record.task.status, resting, id));
    }
    Ok(edits)
}

/// The responses without violations in files that were merged in from the target, and not changed here.
async fn without_upstream_changes(ctx: &Ctx, record: &TaskRecord, responses: &[Completed]) -> Vec<Completed> {
    let mut responses = responses.to_vec();
    if responses.iter().all(|response| response.violations.as_ref().is_none_or(Vec::is_empty)) {
        return responses;
    }
    let Some(row) = ctx.store().row(record.task.id) else { return responses };
    let (Ok(target), Some(head)) = (lookup::target_branch(ctx, &row), lookup::head_sha(ctx.repo(), &row)) else {
        return responses;
    };
    let Ok(own) = ctx.repo().own_paths(&target, &head).await else { return responses };
    for violations in responses.iter_mut().filter_map(|response| response.violations.as_mut()) {
        violations.retain(|violation| own.contains(&violation.file));
    }
    responses
}

/// The edits for a turn that failed.
async fn failed(ctx: &Ctx, record: &TaskRecord, failure: &Failure) -> Result<Vec<Edit>> {
    let id = record.task.id;
    let session = record.require_session()?.clone();
    let mut edits: Vec<Edit> = recovery(ctx, id, failure.worktree_recovery.as_ref()).into_iter().collect();
    edits.extend(handoff(ctx, record, &failure.agent_handoff));
    edits.extend(turns::new_commits(ctx, record));
    let mut turn = turns::of_failure(ctx, &session, failure, record.next_sequence());
    let mut patch = SessionPatch { container_name: released(ctx, record), touched: true, ..SessionPatch::default() };
    if let Some(conversation) = failure.session_id.as_ref().filter(|text| !text.is_empty()) {
        patch.agent_session_id = Some(Some(conversation.clone()));
    }
    let refused = refused_request(&session.agent_id, failure);
    if let Some(line) = &refused {
        let told = format!("The model's service refused the request in every attempt: {line}");
        let hint = "Sending it again would fail again: the task waits for feedback that changes it";
        let text = format!("{told}\n{hint}, or for another model or another prompt (lazy unblock, lazy edit).");
        edits.push(Edit::new(id, Change::Journal(Box::new(journal(ctx, id, &Caller::system(), &text)))));
        turn.content = format!("{}\n\n{text}", turn.content.trim_end());
    }
    let to = if let Some(in_flight) = &record.task.in_flight_turn {
        turn.sequence = in_flight.turn_sequence;
        turn.kind = in_flight.turn_type;
        turn.agent_had_no_effect = true;
        edits.push(Edit::new(id, Change::InFlight(None)));
        in_flight.restore_status
    } else if refused.is_some() || parks(failure) {
        violations::resting_status(&record.turns)
    } else {
        patch.interrupted = Some(Interruption {
            reason: failure.failure_reason.clone().unwrap_or_else(|| failure.error.clone()),
            exit_code: failure.exit_code,
            logs: failure.stderr.clone(),
        });
        Status::Interrupted
    };
    edits.push(Edit::new(id, Change::Turn(Box::new(turn))));
    edits.push(Edit::new(id, Change::Session(Box::new(patch))));
    if moves(record.task.status) {
        edits.extend(turns::to_status(record.task.status, to, id));
    }
    Ok(edits)
}

/// Whether a failure needs a person: nothing gets better by trying again.
fn parks(failure: &Failure) -> bool {
    let conflict = failure.phase == Phase::MergeAndFix.as_str();
    conflict || failure.failure_class.is_some_and(|class| class != FailureClass::Unknown)
}

/// What the service said of a request that it refuses however often it is sent; such a failure has no class of its own
/// and would otherwise be taken for a crash, which is resumed.
fn refused_request(agent_id: &str, failure: &Failure) -> Option<String> {
    if failure.failure_class.is_some_and(|class| class != FailureClass::Unknown) {
        return None;
    }
    let run = RunFailure {
        exit_code: failure.exit_code,
        stderr: failure.stderr.clone().unwrap_or_default(),
        stdout_error: failure.stdout_error.clone(),
        spawn_error: None,
    };
    Agent::parse(agent_id).ok()?.refused_request(&run)
}

/// A response moves a task that waits for one; on any other it is recorded and moves nothing.
fn moves(status: Status) -> bool {
    matches!(status, Status::Working | Status::Interrupted)
}

/// Blocked or conflict, by the last scan of this turn or the one in force before.
fn resting_after(record: &TaskRecord, responses: &[Completed]) -> Status {
    let scanned = responses.iter().rev().find_map(|response| response.violations.as_ref());
    match scanned {
        Some(found) if !found.is_empty() => Status::Conflict,
        Some(_) => Status::Blocked,
        None => violations::resting_status(&record.turns),
    }
}

/// The run's name is forgotten when the run ends with its turn.
fn released(ctx: &Ctx, record: &TaskRecord) -> Option<Option<String>> {
    let row = ctx.store().row(record.task.id)?;
    match ctx.runner(&row) {
        Ok(runner) if runner.keeps_warm() => None,
        _ => Some(None),
    }
}

/// A half-done merge that was rolled back goes to the journal: durable, shown, never in a prompt.
pub(super) fn recovery(ctx: &Ctx, id: TaskId, found: Option<&WorktreeRecovery>) -> Option<Edit> {
    let found = found?;
    let saved = found.patch_path.as_ref().map(|path| format!("; its diff is in {path}")).unwrap_or_default();
    let text = format!(
        "Before a {} turn the supervisor {}{saved}. Files: {}",
        found.context,
        found.summary,
        found.files.join(", ")
    );
    let caller = Caller { by: Actor::Supervisor.into(), ..Caller::system() };
    Some(Edit::new(id, Change::Journal(Box::new(journal(ctx, id, &caller, &text)))))
}

/// What the agent left in its handoff file, as if its tools had worked.
fn handoff(ctx: &Ctx, record: &TaskRecord, entries: &[HandoffEntry]) -> Vec<Edit> {
    let id = record.task.id;
    let caller = Caller::agent(id);
    entries
        .iter()
        .filter(|entry| !entry.content.trim().is_empty())
        .filter_map(|entry| match entry.kind.as_str() {
            "journal" => Some(Change::Journal(Box::new(journal(ctx, id, &caller, &entry.content)))),
            "raised" | "followup" => {
                let blocking = entry.kind == "raised" && entry.blocking == Some(true);
                let mut item = RaisedItem::new(id, entry.content.clone(), blocking, ctx.process().now());
                item.session_id = record.session.as_ref().map(|session| session.id);
                Some(Change::Raised(Box::new(item)))
            }
            _ => None,
        })
        .map(|change| Edit::new(id, change))
        .collect()
}
