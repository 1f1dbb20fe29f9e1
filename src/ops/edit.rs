//! `edit` and `prioritize`: fields of a task that is not finished.

use super::create::{model, parent, require_goal};
use super::{Caller, Ctx, Narrator, Operation, lookup};
use crate::agent::Agent;
use crate::base::{Error, Kind, Result, text};
use crate::model::task::META_EFFORT;
use crate::model::{Code, RunnerKind, Target, TaskId};
use crate::rpc::commands::{Edit as EditCommand, EditParams, EditReport, Prioritize, PrioritizeParams};
use crate::store::{Change, Edit, SessionPatch, TaskPatch, TaskRow};

impl Operation for EditCommand {
    async fn run(ctx: &Ctx, caller: &Caller, params: EditParams, _: &Narrator) -> Result<EditReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "edit")?;
        let _lock = ctx.lock_task(row.id()).await;
        let row = lookup::by_id(ctx, row.id())?;
        require_editable(ctx, &row, &params)?;
        let mut changes = Vec::new();
        let mut patch = TaskPatch::default();
        let mut edits = Vec::new();
        let mut note = |field: &str, old: &str, new: &str| {
            let differs = old != new;
            if differs {
                changes.push(format!("{field}: {} -> {}", shown(old), shown(new)));
            }
            differs
        };
        if let Some(goal) = params.goal.as_deref().map(require_goal).transpose()?
            && note("goal", &row.task.goal, &goal)
        {
            patch.goal = Some(goal);
        }
        if let Some(code) = params.code.as_deref() {
            let code = if code.trim().is_empty() { None } else { Some(Code::new(code.trim())?) };
            if note("code", opt(row.task.code.as_ref()), opt(code.as_ref())) {
                patch.code = Some(code);
            }
        }
        if let Some(new) = model(params.model.as_deref())?
            && note("model", row.task.model.as_deref().unwrap_or(""), &new)
        {
            patch.model = Some(Some(new));
        }
        if let Some(new) = params.task_type
            && note("type", row.task.task_type.as_str(), new.as_str())
        {
            patch.task_type = Some(new);
        }
        if let Some(new) = params.priority
            && note("priority", row.task.priority.as_str(), new.as_str())
        {
            patch.priority = Some(new);
        }
        if let Some(text) = params.runner.as_deref() {
            let new = if text.trim().is_empty() { None } else { Some(RunnerKind::parse_alias(text)?) };
            let name = |kind: Option<RunnerKind>| kind.map_or("", RunnerKind::as_str);
            if note("runner", name(row.task.runner_type), name(new)) {
                patch.runner_type = Some(new);
            }
        }
        if let Some(id) = params.agent.as_deref() {
            let agent = Agent::parse(id)?.id();
            if note("agent", &row.task.agent_id, agent) {
                patch.agent_id = Some(agent.into());
                if row.session.is_some() {
                    let session = SessionPatch { agent_id: Some(agent.into()), ..SessionPatch::default() };
                    edits.push(Edit::new(row.id(), Change::Session(Box::new(session))));
                }
            }
        }
        if let Some(name) = params.parent.as_deref() {
            let target = new_target(ctx, caller, &row, name)?;
            if note("parent", &target_text(ctx, row.target()), &target_text(ctx, &target)) {
                patch.target = Some(target);
            }
        }
        if let Some(effort) = params.effort
            && note("effort", row.task.meta(META_EFFORT).unwrap_or(""), effort.as_str())
        {
            edits.push(Edit::new(row.id(), Change::Meta(META_EFFORT.into(), Some(effort.to_string()))));
        }
        if let Some(prompt) = &params.prompt {
            let prompt = text::escape_controls(prompt);
            let old = lookup::load(ctx, row.id()).await?.task.prompt;
            if note("prompt", &old, &prompt) {
                edits.push(Edit::new(row.id(), Change::Prompt(prompt)));
            }
        }
        if !changes.is_empty() {
            edits.insert(0, Edit::new(row.id(), Change::Task(Box::new(patch))));
            ctx.store().apply(edits)?;
        }
        Ok(EditReport { task: lookup::brief_now(ctx, row.id())?, changes })
    }
}

impl Operation for Prioritize {
    async fn run(ctx: &Ctx, caller: &Caller, params: PrioritizeParams, _: &Narrator) -> Result<EditReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "prioritize")?;
        require_live(&row, "prioritize")?;
        let mut changes = Vec::new();
        if row.task.priority != params.priority {
            changes.push(format!("priority: {} -> {}", row.task.priority, params.priority));
            let patch = TaskPatch { priority: Some(params.priority), ..TaskPatch::default() };
            ctx.store().apply(vec![Edit::new(row.id(), Change::Task(Box::new(patch)))])?;
            ctx.reconcile_now();
        }
        Ok(EditReport { task: lookup::brief_now(ctx, row.id())?, changes })
    }
}

/// Refuses a finished task.
pub(super) fn require_live(row: &TaskRow, doing: &str) -> Result<()> {
    if !row.status().is_terminal() {
        return Ok(());
    }
    let name = row.task.display_id();
    Err(Error::conflict(format!("cannot {doing} task {name}: it is {}", row.status()))
        .hint(format!("lazy comment {name} -m '…'"))
        .hint(format!("lazy reopen {name}")))
}

/// Before anything is written: once the agent has had a turn, only what the next turn can take up may change.
fn require_editable(ctx: &Ctx, row: &TaskRow, params: &EditParams) -> Result<()> {
    // A task whose parent ended has nowhere to go but to another one.
    let orphaned = row.parent().and_then(|id| ctx.store().row(id)).is_some_and(|parent| parent.status().is_terminal());
    require_live(row, "edit")?;
    let fixed = [
        ("goal", params.goal.is_some()),
        ("prompt", params.prompt.is_some()),
        ("type", params.task_type.is_some()),
        ("code", params.code.is_some()),
        ("parent", params.parent.is_some() && !orphaned),
    ];
    let asked: Vec<&str> = fixed.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if row.turn_count > 0 && !asked.is_empty() {
        let name = row.task.display_id();
        return Err(Error::conflict(format!(
            "task {name} has had turns: {} can no longer change, only model, effort, runner, agent and priority",
            asked.join(", ")
        ))
        .hint(format!("lazy comment {name} -m '…'  (the agent reads it with its next prompt)")));
    }
    Ok(())
}

fn new_target(ctx: &Ctx, caller: &Caller, row: &TaskRow, name: &str) -> Result<Target> {
    if caller.own_task().is_some() {
        return Err(Error::new(Kind::Forbidden, "an agent may not move a task to another parent"));
    }
    let target = parent(ctx, caller, Some(name))?;
    let mut above = target.parent();
    let mut seen: Vec<TaskId> = Vec::new();
    while let Some(id) = above {
        if id == row.id() {
            return Err(Error::invalid(format!(
                "{name} is the task itself or below it; a task cannot be its own ancestor"
            )));
        }
        if seen.contains(&id) {
            break;
        }
        seen.push(id);
        above = ctx.store().row(id).and_then(|row| row.parent());
    }
    Ok(target)
}

fn target_text(ctx: &Ctx, target: &Target) -> String {
    match target {
        Target::Task { parent_task_id } => {
            ctx.store().row(*parent_task_id).map_or_else(|| parent_task_id.short(), |row| row.task.display_id())
        }
        Target::Branch { branch } => branch.clone(),
    }
}

fn opt(code: Option<&Code>) -> &str {
    code.map_or("", Code::as_str)
}

fn shown(value: &str) -> String {
    if value.is_empty() { "(none)".into() } else { text::truncate_chars(&text::one_line(value), 60) }
}
