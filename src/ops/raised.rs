//! Raised items: recorded by agents, decided by people.

use super::notes::require_text;
use super::{Caller, Ctx, Narrator, Operation, lookup};
use crate::base::{Error, Kind, Result, text};
use crate::model::task::META_EFFORT;
use crate::model::{Code, RaisedItem, RaisedStatus, Target, Task, TaskId};
use crate::rpc::commands::{
    FlagRaised, FlagRaisedParams, ListRaised, ListRaisedParams, ListRaisedReport, Raise, RaiseParams, RaisedAction,
    RaisedDecision, RaisedLine, RaisedReport, ResolveRaised, ResolveRaisedParams,
};
use crate::store::{Change, Edit, TaskRecord};

impl Operation for Raise {
    async fn run(ctx: &Ctx, caller: &Caller, params: RaiseParams, _: &Narrator) -> Result<RaisedReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own(&row, "raise an item on")?;
        let optional = |value: &Option<String>| {
            value.as_deref().map(str::trim).filter(|v| !v.is_empty()).map(text::escape_controls)
        };
        let (content, title) = (optional(&params.content), optional(&params.title));
        if content.is_none() && title.is_none() {
            return Err(Error::invalid("a raised item needs content or a title"));
        }
        let now = ctx.process().now();
        let mut item = RaisedItem::new(row.id(), content.unwrap_or_default(), params.blocking, now);
        item.title = title;
        item.explanation = optional(&params.explanation);
        item.proposed_code = optional(&params.proposed_code);
        item.proposed_prompt = optional(&params.proposed_prompt);
        item.options = params.options.iter().map(|option| text::escape_controls(option)).collect();
        item.session_id = row.session.as_ref().map(|session| session.id);
        item.turn_sequence = Some(row.turn_count + 1);
        ctx.store().apply(vec![Edit::new(row.id(), Change::Raised(Box::new(item.clone())))])?;
        Ok(RaisedReport { task: lookup::brief(&row), item, promoted: None })
    }
}

impl Operation for ListRaised {
    async fn run(ctx: &Ctx, caller: &Caller, params: ListRaisedParams, _: &Narrator) -> Result<ListRaisedReport> {
        let only = params.task.as_deref().map(|name| lookup::row(ctx, caller, name)).transpose()?.map(|row| row.id());
        let query = params.query.as_deref().map(str::to_lowercase);
        let mut report = ListRaisedReport::default();
        for row in ctx.store().rows() {
            report.open_blocking += row.open_blocking;
            report.open_non_blocking += row.open_non_blocking;
            let wanted =
                only.is_none_or(|id| id == row.id()) && params.status.is_none_or(|status| status == row.status());
            if !wanted || (!params.all && row.open_blocking + row.open_non_blocking == 0) {
                continue;
            }
            let Ok(record) = lookup::load(ctx, row.id()).await else { continue };
            for item in record.raised {
                let shown = (params.all || item.status == RaisedStatus::Open)
                    && params.blocking.is_none_or(|blocking| blocking == item.blocking)
                    && query.as_deref().is_none_or(|query| {
                        item.content.to_lowercase().contains(query) || item.headline().to_lowercase().contains(query)
                    });
                if shown {
                    report.items.push(RaisedLine { task: lookup::brief(&row), item });
                }
            }
        }
        report.items.sort_by_key(|line| line.item.created_at);
        Ok(report)
    }
}

impl Operation for ResolveRaised {
    async fn run(ctx: &Ctx, caller: &Caller, params: ResolveRaisedParams, _: &Narrator) -> Result<RaisedReport> {
        require_decider(caller)?;
        let row = lookup::row(ctx, caller, &params.task)?;
        let _lock = ctx.lock_task(row.id()).await;
        let record = lookup::load(ctx, row.id()).await?;
        let decided = decide(ctx, caller, &record, std::slice::from_ref(&params.decision))?;
        let item = decided.items.first().cloned().ok_or_else(|| Error::internal("a decision made no item"))?;
        ctx.store().apply(decided.edits)?;
        let promoted = item.promoted_task_id.map(|id| lookup::brief_now(ctx, id)).transpose()?;
        Ok(RaisedReport { task: lookup::brief_now(ctx, row.id())?, item, promoted })
    }
}

impl Operation for FlagRaised {
    async fn run(ctx: &Ctx, caller: &Caller, params: FlagRaisedParams, _: &Narrator) -> Result<RaisedReport> {
        require_decider(caller)?;
        let row = lookup::row(ctx, caller, &params.task)?;
        let _lock = ctx.lock_task(row.id()).await;
        let record = lookup::load(ctx, row.id()).await?;
        let mut item = find(&record, &params.id)?.clone();
        item.blocking = params.blocking;
        item.flagged_by = Some(caller.by.actor);
        ctx.store().apply(vec![Edit::new(row.id(), Change::RaisedUpdated(Box::new(item.clone())))])?;
        Ok(RaisedReport { task: lookup::brief_now(ctx, row.id())?, item, promoted: None })
    }
}

/// Edits that carry decisions out, and the items as they will be.
pub(super) struct Decided {
    pub edits: Vec<Edit>,
    pub items: Vec<RaisedItem>,
}

/// Computes the edits for decisions on a task's raised items; nothing is written here.
pub(super) fn decide(ctx: &Ctx, caller: &Caller, record: &TaskRecord, decisions: &[RaisedDecision]) -> Result<Decided> {
    let mut decided = Decided { edits: Vec::new(), items: Vec::new() };
    if !decisions.is_empty() {
        require_decider(caller)?;
    }
    let mut taken_codes: Vec<Code> = Vec::new();
    for decision in decisions {
        let mut item = find(record, &decision.id)?.clone();
        if decided.items.iter().any(|other| other.id == item.id) {
            return Err(Error::invalid(format!("raised item {} is decided twice", short(&item.id))));
        }
        if item.status != RaisedStatus::Open && item.status != RaisedStatus::Acknowledged {
            return Err(Error::conflict(format!(
                "raised item {} is already {}",
                short(&item.id),
                item.status.as_str()
            )));
        }
        let response =
            decision.response.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(text::escape_controls);
        let needs = |what: &str| {
            response.clone().ok_or_else(|| Error::invalid(format!("raised item {} needs {what}", short(&item.id))))
        };
        item.status = match decision.action {
            RaisedAction::Respond => {
                item.pending_comment =
                    Some(format!("Answer to your raised item {:?}: {}", item.headline(), needs("an answer")?));
                RaisedStatus::Responded
            }
            RaisedAction::Dismiss => {
                item.pending_comment =
                    Some(format!("Your raised item {:?} was dismissed: {}", item.headline(), needs("a reason")?));
                RaisedStatus::Dismissed
            }
            RaisedAction::Acknowledge => RaisedStatus::Acknowledged,
            RaisedAction::PromoteSubtask => RaisedStatus::PromotedSubtask,
            RaisedAction::PromotePeer => RaisedStatus::PromotedPeer,
        };
        if matches!(item.status, RaisedStatus::PromotedSubtask | RaisedStatus::PromotedPeer) {
            let task = promoted_task(ctx, record, &item, response.as_deref(), &mut taken_codes);
            item.promoted_task_id = Some(task.id);
            item.promoted_task_code = task.code.as_ref().map(ToString::to_string);
            decided.edits.push(Edit::new(task.id, Change::Created { task: Box::new(task), by: caller.by.clone() }));
        }
        item.resolution = response;
        item.resolved_at = Some(ctx.process().now());
        item.resolved_by = Some(caller.by.actor);
        item.resolved_by_email = caller.by.actor_email.clone();
        item.resolved_by_name = caller.by.actor_name.clone();
        decided.edits.push(Edit::new(record.task.id, Change::RaisedUpdated(Box::new(item.clone()))));
        decided.items.push(item);
    }
    Ok(decided)
}

/// Edits that mark decisions' words as given to the agent with turn `sequence`, and those words.
pub(super) fn deliver(ctx: &Ctx, task: TaskId, items: &[RaisedItem], sequence: u32) -> (Vec<Edit>, Vec<String>) {
    let mut edits = Vec::new();
    let mut words = Vec::new();
    for item in items {
        let Some(comment) = item.pending_comment.clone() else { continue };
        let mut item = item.clone();
        item.pending_comment = None;
        item.comment_delivered_at = Some(ctx.process().now());
        item.delivered_turn = Some(sequence);
        edits.push(Edit::new(task, Change::RaisedUpdated(Box::new(item))));
        words.push(comment);
    }
    (edits, words)
}

/// Refuses while an open blocking item is left undecided; names each with a command.
pub(super) fn require_none_blocking(record: &TaskRecord, decided: &[RaisedItem]) -> Result<()> {
    let open: Vec<&RaisedItem> = record
        .raised
        .iter()
        .filter(|item| item.gates_accept() && !decided.iter().any(|other| other.id == item.id))
        .collect();
    if open.is_empty() {
        return Ok(());
    }
    let name = record.task.display_id();
    let list: Vec<String> =
        open.iter().map(|item| format!("{} {}", short(&item.id), text::truncate_chars(item.headline(), 80))).collect();
    let error = Error::conflict(format!(
        "task {name} has {} open that must be decided before it is accepted: {}",
        text::plural(open.len(), "blocking raised item"),
        list.join("; ")
    ));
    Err(open
        .iter()
        .fold(error, |error, item| error.hint(format!("lazy raised respond {name} {} -m '…'", short(&item.id)))))
}

fn require_decider(caller: &Caller) -> Result<()> {
    match caller.own_task() {
        Some(_) => {
            Err(Error::new(Kind::Forbidden, "raised items are decided by a person or the builder, not by an agent"))
        }
        None => Ok(()),
    }
}

fn find<'a>(record: &'a TaskRecord, id: &str) -> Result<&'a RaisedItem> {
    let id = id.trim().to_ascii_lowercase();
    let found: Vec<&RaisedItem> =
        record.raised.iter().filter(|item| !id.is_empty() && item.id.starts_with(&id)).collect();
    let name = record.task.display_id();
    match found[..] {
        [item] => Ok(item),
        [] => Err(Error::not_found(format!("task {name} has no raised item {id:?}")).hint(format!("lazy show {name}"))),
        _ => Err(Error::new(Kind::Ambiguous, format!("{id:?} fits {} raised items of task {name}", found.len()))),
    }
}

/// The backlog task that an item becomes; agent, model and effort are those of the task it was raised on.
fn promoted_task(ctx: &Ctx, record: &TaskRecord, item: &RaisedItem, note: Option<&str>, taken: &mut Vec<Code>) -> Task {
    let origin = &record.task;
    let mut task =
        Task::new(TaskId::random(), text::truncate_chars(&text::one_line(item.headline()), 200), ctx.process().now());
    let base = item.proposed_code.as_deref().and_then(|code| Code::new(code).ok()).or_else(|| Code::derive(&task.goal));
    task.code = base.and_then(|base| free_code(ctx, &base, taken));
    taken.extend(task.code.clone());
    task.prompt = [
        item.proposed_prompt.as_deref().unwrap_or(&item.content),
        item.explanation.as_deref().unwrap_or(""),
        note.unwrap_or(""),
    ]
    .into_iter()
    .filter(|part| !part.trim().is_empty())
    .collect::<Vec<_>>()
    .join("\n\n");
    task.agent_id = origin.agent_id.clone();
    task.model = origin.model.clone();
    task.runner_type = origin.runner_type;
    task.metadata = origin.meta(META_EFFORT).map(|effort| [(META_EFFORT.to_string(), effort.to_string())].into());
    task.target = match item.status {
        RaisedStatus::PromotedSubtask => Target::Task { parent_task_id: origin.id },
        _ => origin.target.clone(),
    };
    task
}

/// The code, or it with `-2`, `-3`, … so that no task has it.
fn free_code(ctx: &Ctx, base: &Code, taken: &[Code]) -> Option<Code> {
    let free = |code: &Code| {
        !taken.contains(code) && !ctx.store().rows().iter().any(|row| row.task.code.as_ref() == Some(code))
    };
    if free(base) {
        return Some(base.clone());
    }
    (2..100).find_map(|n| {
        let cut: String = base.as_str().chars().take(59).collect();
        Code::new(&format!("{}-{n}", cut.trim_end_matches('-'))).ok().filter(free)
    })
}

/// The reason given, checked.
pub(super) fn require_reason(reason: Option<&str>, doing: &str) -> Result<String> {
    require_text(reason.unwrap_or_default(), "the reason")
        .map_err(|error| error.hint(format!("lazy {doing} <task> --reason '…'")))
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}
