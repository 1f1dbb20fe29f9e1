//! What each [`Change`] does to a record, as a pure function. What needs other tasks (codes, parents) is decided in
//! [`super::plan`].

use uuid::Uuid;

use super::apply_session;
use super::change::{Change, TaskPatch};
use super::event::Effect;
use super::layout::{Part, Parts};
use super::record::TaskRecord;
use crate::base::{Error, Millis, Result};
use crate::model::notes::TagAction;
use crate::model::{
    By, Comment, Delivery, JournalEntry, PromptVersion, RaisedItem, Status, StatusChange, TagEvent, Task, TaskId, Turn,
    Violation, tags,
};

/// What an applied change touched.
#[derive(Debug, PartialEq)]
pub(super) struct Touched {
    /// The files to write.
    pub(super) parts: Parts,
    /// What to tell subscribers; `None` when nothing changed.
    pub(super) effect: Option<Effect>,
}

impl Touched {
    pub(super) const NOTHING: Touched = Touched { parts: Parts::NONE, effect: None };

    pub(super) fn new(parts: &[Part], effect: Effect) -> Touched {
        Touched { parts: Parts::of(parts), effect: Some(effect) }
    }
}

/// The record of a new task.
///
/// # Errors
/// [`crate::base::Kind::Conflict`] when the task begins in a status that the backlog does not lead to.
pub(super) fn create(mut task: Task, by: &By, now: Millis) -> Result<TaskRecord> {
    stamp(&mut task.created_at, now);
    Status::Backlog.require_transition(task.status, by.actor)?;
    let at = task.created_at;
    let mut statuses = vec![StatusChange::new(Status::Backlog, at, by)];
    if task.status != Status::Backlog {
        statuses.push(StatusChange::new(task.status, at, by));
    }
    let prompts = match task.prompt.is_empty() {
        true => Vec::new(),
        false => vec![prompt_version(&task, 1, None, at)],
    };
    let labels = std::mem::take(&mut task.tags);
    let mut record = TaskRecord {
        task,
        session: None,
        turns: Vec::new(),
        commits: Vec::new(),
        prompts,
        comments: Vec::new(),
        journal: Vec::new(),
        raised: Vec::new(),
        statuses,
        tag_events: Vec::new(),
        snapshots: Vec::new(),
    };
    for label in labels {
        tag(&mut record, &label, TagAction::Tag, by, at)?;
    }
    Ok(record)
}

/// Applies one change to the record of its task.
///
/// # Errors
/// [`crate::base::Kind::Conflict`] for what the present state forbids, [`crate::base::Kind::NotFound`] for a turn or an
/// item that is not there, [`crate::base::Kind::Invalid`] for a value that belongs elsewhere. The record may be changed
/// in part then: it is to be thrown away.
pub(super) fn apply_change(record: &mut TaskRecord, change: Change, now: Millis) -> Result<Touched> {
    let id = record.task.id;
    match change {
        Change::Created { .. } => Err(Error::conflict(format!("task {} exists already", id.short()))),
        Change::Status { to, by } => status(record, to, &by, now),
        Change::Task(patch) => task_fields(record, *patch),
        Change::Prompt(text) => prompt(record, text, now),
        Change::Meta(key, value) => Ok(meta(&mut record.task, key, value)),
        Change::PendingSync(count) if record.task.pending_sync == count => Ok(Touched::NOTHING),
        Change::PendingSync(count) => {
            record.task.pending_sync = count;
            Ok(Touched::new(&[Part::Task], Effect::PendingSync { count }))
        }
        Change::InFlight(turn) => {
            let turn = turn.map(|turn| *turn);
            if record.task.in_flight_turn == turn {
                return Ok(Touched::NOTHING);
            }
            record.task.in_flight_turn = turn;
            Ok(Touched::new(&[Part::Task], Effect::InFlight))
        }
        Change::SessionStarted(session) => apply_session::start(record, *session, now),
        Change::Session(patch) => apply_session::patch(record, *patch, now),
        Change::Turn(turn) => apply_session::turn(record, *turn, now),
        Change::FeedbackConsumed => Ok(feedback_consumed(record)),
        Change::Violations { turn, violations } => self::violations(record, turn, violations),
        Change::Commit(mut commit) => {
            if record.commits.iter().any(|known| known.sha == commit.sha) {
                return Ok(Touched::NOTHING);
            }
            stamp(&mut commit.timestamp, now);
            let effect = Effect::Commit { sha: commit.sha.clone() };
            record.commits.push(*commit);
            Ok(Touched::new(&[Part::Commits], effect))
        }
        Change::CommitsDecided(status) => {
            let open = |commit: &&mut crate::model::Commit| commit.status == crate::model::CommitStatus::PendingReview;
            let mut decided = 0;
            for commit in record.commits.iter_mut().filter(open) {
                commit.status = status;
                decided += 1;
            }
            Ok(if decided == 0 { Touched::NOTHING } else { Touched::new(&[Part::Commits], Effect::CommitsDecided) })
        }
        Change::Comment(comment) => self::comment(record, *comment, now),
        Change::Journal(entry) => journal(record, *entry, now),
        Change::Raised(item) => raised(record, *item, now),
        Change::RaisedUpdated(item) => raised_updated(record, *item),
        Change::Tagged { tag: label, by } => tag(record, &label, TagAction::Tag, &by, now),
        Change::Untagged { tag: label, by } => tag(record, &label, TagAction::Untag, &by, now),
        Change::Snapshot(mut snapshot) => {
            stamp(&mut snapshot.timestamp, now);
            record.snapshots.push(*snapshot);
            Ok(Touched::new(&[Part::Snapshots], Effect::Snapshot))
        }
    }
}

/// A value that carries no time gets the store's.
pub(super) fn stamp(at: &mut Millis, now: Millis) {
    if *at == Millis::default() {
        *at = now;
    }
}

/// Refuses a row that names another task than the one it is added to.
pub(super) fn require_same_task(task: TaskId, named: TaskId, what: &str) -> Result<()> {
    if task == named {
        return Ok(());
    }
    Err(Error::invalid(format!("a {what} of task {} cannot be added to task {}", named.short(), task.short())))
}

fn status(record: &mut TaskRecord, to: Status, by: &By, now: Millis) -> Result<Touched> {
    let task = &mut record.task;
    let from = task.status;
    from.require_transition(to, by.actor).map_err(|error| error.context(format!("task {}", task.display_id())))?;
    if from == to {
        return Ok(Touched::NOTHING);
    }
    task.status = to;
    match (from.is_terminal(), to.is_terminal()) {
        (_, true) => task.completed_at = Some(now),
        (true, false) => task.completed_at = None,
        (false, false) => {}
    }
    record.statuses.push(StatusChange::new(to, now, by));
    Ok(Touched::new(&[Part::Task, Part::Statuses], Effect::Status { from, to }))
}

fn task_fields(record: &mut TaskRecord, patch: TaskPatch) -> Result<Touched> {
    let task = &mut record.task;
    let before = task.clone();
    let TaskPatch {
        goal,
        code,
        task_type,
        priority,
        target,
        branched_from_sha,
        close_reason,
        model,
        agent_id,
        runner_type,
    } = patch;
    set(&mut task.goal, goal);
    set(&mut task.code, code);
    set(&mut task.task_type, task_type);
    set(&mut task.priority, priority);
    set(&mut task.target, target);
    set(&mut task.branched_from_sha, branched_from_sha);
    set(&mut task.close_reason, close_reason);
    set(&mut task.model, model);
    set(&mut task.agent_id, agent_id);
    set(&mut task.runner_type, runner_type);
    if *task == before {
        return Ok(Touched::NOTHING);
    }
    let frozen = [
        ("goal", task.goal != before.goal),
        ("type", task.task_type != before.task_type),
        ("priority", task.priority != before.priority),
        ("target", task.target != before.target),
        ("model", task.model != before.model),
        ("agent", task.agent_id != before.agent_id),
        ("runner", task.runner_type != before.runner_type),
    ];
    let changed: Vec<&str> = frozen.iter().filter(|(_, changed)| *changed).map(|(name, _)| *name).collect();
    require_unfrozen(&before, &changed)?;
    Ok(Touched::new(&[Part::Task], Effect::Task))
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn require_unfrozen(task: &Task, changed: &[&str]) -> Result<()> {
    if changed.is_empty() || !task.status.is_terminal() {
        return Ok(());
    }
    let name = task.display_id();
    Err(Error::conflict(format!("task {name} is {}: its {} cannot change any more", task.status, changed.join(", ")))
        .hint(format!("lazy reopen {name}")))
}

fn prompt(record: &mut TaskRecord, text: String, now: Millis) -> Result<Touched> {
    let latest = record.prompts.last();
    if latest.map_or(record.task.prompt.as_str(), |latest| latest.content.as_str()) == text {
        return Ok(Touched::NOTHING);
    }
    require_unfrozen(&record.task, &["prompt"])?;
    let version = latest.map_or(0, |latest| latest.version) + 1;
    let session = record.session.as_ref().filter(|session| session.ended_at.is_none()).map(|session| session.id);
    record.task.prompt = text;
    record.prompts.push(prompt_version(&record.task, version, session, now));
    Ok(Touched::new(&[Part::Task, Part::Prompts], Effect::Prompt { version }))
}

fn prompt_version(
    task: &Task,
    version: u32,
    session_id: Option<crate::model::SessionId>,
    created_at: Millis,
) -> PromptVersion {
    PromptVersion {
        id: Uuid::new_v4().to_string(),
        task_id: task.id,
        version,
        content: task.prompt.clone(),
        created_at,
        session_id,
    }
}

fn meta(task: &mut Task, key: String, value: Option<String>) -> Touched {
    if task.meta(&key) == value.as_deref() {
        return Touched::NOTHING;
    }
    let values = task.metadata.get_or_insert_default();
    match value {
        Some(value) => values.insert(key.clone(), value),
        None => values.remove(&key),
    };
    if values.is_empty() {
        task.metadata = None;
    }
    Touched::new(&[Part::Task], Effect::Meta { key })
}

fn feedback_consumed(record: &mut TaskRecord) -> Touched {
    let Some(session) = record.session.as_ref().map(|session| session.id) else { return Touched::NOTHING };
    let is_pending = |turn: &&mut Turn| turn.session_id == session && turn.feedback_delivery == Some(Delivery::Pending);
    let consumed = record
        .turns
        .iter_mut()
        .filter(is_pending)
        .map(|turn| turn.feedback_delivery = Some(Delivery::Consumed))
        .count();
    match consumed {
        0 => Touched::NOTHING,
        _ => Touched::new(&[Part::Turns], Effect::FeedbackConsumed),
    }
}

fn violations(record: &mut TaskRecord, turn: String, violations: Vec<Violation>) -> Result<Touched> {
    let name = record.task.display_id();
    let found = record.turns.iter_mut().find(|known| known.id == turn);
    let found = found.ok_or_else(|| Error::not_found(format!("task {name} has no turn with the id {turn}")))?;
    if found.violations.as_ref() == Some(&violations) {
        return Ok(Touched::NOTHING);
    }
    found.violations = Some(violations);
    Ok(Touched::new(&[Part::Turns], Effect::Violations { turn }))
}

fn comment(record: &mut TaskRecord, mut comment: Comment, now: Millis) -> Result<Touched> {
    require_same_task(record.task.id, comment.task_id, "comment")?;
    if record.comments.iter().any(|known| known.id == comment.id) {
        let name = record.task.display_id();
        return Err(Error::conflict(format!("task {name} has a comment with the id {} already", comment.id)));
    }
    stamp(&mut comment.created_at, now);
    let effect = Effect::Comment { id: comment.id.clone() };
    record.comments.push(comment);
    record.comments.sort_by_key(|comment| comment.created_at);
    Ok(Touched::new(&[Part::Comments], effect))
}

fn journal(record: &mut TaskRecord, mut entry: JournalEntry, now: Millis) -> Result<Touched> {
    require_same_task(record.task.id, entry.task_id, "journal entry")?;
    if record.journal.iter().any(|known| known.content == entry.content && known.actor == entry.actor) {
        return Ok(Touched::NOTHING);
    }
    stamp(&mut entry.created_at, now);
    let effect = Effect::Journal { id: entry.id.clone() };
    record.journal.push(entry);
    record.journal.sort_by_key(|entry| entry.created_at);
    Ok(Touched::new(&[Part::Journal], effect))
}

fn raised(record: &mut TaskRecord, mut item: RaisedItem, now: Millis) -> Result<Touched> {
    require_same_task(record.task.id, item.task_id, "raised item")?;
    if record.raised.iter().any(|known| known.content == item.content) {
        return Ok(Touched::NOTHING);
    }
    stamp(&mut item.created_at, now);
    let effect = Effect::Raised { id: item.id.clone() };
    record.raised.push(item);
    Ok(Touched::new(&[Part::Raised], effect))
}

fn raised_updated(record: &mut TaskRecord, item: RaisedItem) -> Result<Touched> {
    require_same_task(record.task.id, item.task_id, "raised item")?;
    let name = record.task.display_id();
    let Some(known) = record.raised.iter_mut().find(|known| known.id == item.id) else {
        return Err(Error::not_found(format!("task {name} has no raised item with the id {}", item.id))
            .hint(format!("lazy raised {name} --all")));
    };
    if *known == item {
        return Ok(Touched::NOTHING);
    }
    let effect = Effect::RaisedUpdated { id: item.id.clone() };
    *known = item;
    Ok(Touched::new(&[Part::Raised], effect))
}

fn tag(record: &mut TaskRecord, label: &str, action: TagAction, by: &By, now: Millis) -> Result<Touched> {
    let tag = tags::normalize(label)?;
    let labels = &mut record.task.tags;
    let position = labels.iter().position(|known| *known == tag);
    let effect = match (action, position) {
        (TagAction::Tag, None) => {
            labels.push(tag.clone());
            Effect::Tagged { tag: tag.clone() }
        }
        (TagAction::Untag, Some(at)) => {
            labels.remove(at);
            Effect::Untagged { tag: tag.clone() }
        }
        (TagAction::Tag, Some(_)) | (TagAction::Untag, None) => return Ok(Touched::NOTHING),
    };
    record.tag_events.push(TagEvent {
        tag,
        action,
        timestamp: now,
        actor: Some(by.actor),
        actor_email: by.actor_email.clone(),
        actor_name: by.actor_name.clone(),
    });
    Ok(Touched::new(&[Part::Task, Part::Tags], effect))
}
