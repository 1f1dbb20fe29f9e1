//! `create`: a task in the backlog.

use std::collections::BTreeMap;

use super::{Caller, Ctx, Narrator, Operation, lookup};
use crate::agent::Agent;
use crate::base::{Error, Kind, Result, text};
use crate::model::task::META_EFFORT;
use crate::model::{Code, RunnerKind, Target, Task, TaskId, TaskType, tags};
use crate::rpc::commands::{Create, CreateParams, CreateReport};
use crate::store::{Change, Edit};

impl Operation for Create {
    async fn run(ctx: &Ctx, caller: &Caller, params: CreateParams, _: &Narrator) -> Result<CreateReport> {
        let parent = parent(ctx, caller, params.parent.as_deref())?;
        let parent_row = parent.parent().map(|id| lookup::by_id(ctx, id)).transpose()?;
        let (agent, agent_source) = match (&params.agent, &parent_row) {
            (Some(id), _) => (Agent::parse(id)?.id().to_string(), "--agent"),
            (None, Some(row)) => (row.task.agent_id.clone(), "parent"),
            (None, None) => (Agent::parse(&ctx.config().agent.agent_id)?.id().to_string(), "project default"),
        };
        let mut task = Task::new(TaskId::random(), require_goal(&params.goal)?, ctx.process().now());
        task.code = params.code.as_deref().map(Code::new).transpose()?;
        task.prompt = text::escape_controls(params.prompt.as_deref().unwrap_or_default());
        task.task_type = params.task_type.unwrap_or(TaskType::Task);
        task.target = parent;
        task.model = model(params.model.as_deref())?;
        task.agent_id = agent;
        task.runner_type = params.runner.as_deref().map(RunnerKind::parse_alias).transpose()?;
        if let Some(priority) = params.priority {
            task.priority = priority;
        }
        if let Some(effort) = params.effort {
            task.metadata = Some(BTreeMap::from([(META_EFFORT.to_string(), effort.to_string())]));
        }
        let id = task.id;
        let mut edits = vec![Edit::new(id, Change::Created { task: Box::new(task.clone()), by: caller.by.clone() })];
        for tag in &params.tags {
            edits.push(Edit::new(id, Change::Tagged { tag: tags::normalize(tag)?, by: caller.by.clone() }));
        }
        ctx.store().apply(edits)?;
        let row = lookup::by_id(ctx, id)?;
        Ok(CreateReport {
            task: lookup::brief(&row),
            task_type: task.task_type,
            parent: parent_row.as_deref().map(lookup::brief),
            target_branch: task.target.branch().map(str::to_string),
            agent: task.agent_id,
            agent_source: agent_source.into(),
            model: task.model,
            effort: params.effort,
            runner: task.runner_type,
            prompt_chars: u32::try_from(task.prompt.chars().count()).unwrap_or(u32::MAX),
            tags: row.task.tags.clone(),
        })
    }
}

/// A goal in one line.
pub(super) fn require_goal(goal: &str) -> Result<String> {
    let goal = text::one_line(goal);
    if goal.is_empty() {
        Err(Error::invalid("the goal is empty").hint("lazy create --goal 'one line'"))
    } else {
        Ok(goal)
    }
}

/// A model's name, any text that is not blank.
pub(super) fn model(name: Option<&str>) -> Result<Option<String>> {
    match name.map(str::trim) {
        None => Ok(None),
        Some("") => Err(Error::invalid("the model's name is empty")),
        Some(name) if name.chars().any(char::is_control) => {
            Err(Error::invalid("the model's name holds a line end or another control character"))
        }
        Some(name) => Ok(Some(name.to_string())),
    }
}

/// Where a task's work goes: a task, else a local branch that is not a task's; an agent's tasks are its children.
pub(super) fn parent(ctx: &Ctx, caller: &Caller, named: Option<&str>) -> Result<Target> {
    let named = named.map(str::trim).filter(|name| !name.is_empty());
    if let Some(own) = caller.own_task() {
        return match named.map(|name| ctx.store().resolve(name)).transpose()? {
            Some(id) if id != own => {
                Err(Error::new(Kind::Forbidden, "an agent may create tasks only below its own; leave the parent out"))
            }
            _ => Ok(Target::Task { parent_task_id: own }),
        };
    }
    let Some(name) = named else { return Ok(Target::default_branch()) };
    match ctx.store().resolve(name) {
        Ok(id) => {
            let row = lookup::by_id(ctx, id)?;
            if row.status().is_terminal() {
                let parent = row.task.display_id();
                return Err(Error::conflict(format!("task {parent} is {} and cannot be a parent", row.status()))
                    .hint(format!("lazy reopen {parent}")));
            }
            Ok(Target::Task { parent_task_id: id })
        }
        Err(error) if error.kind() == Kind::Ambiguous => Err(error),
        Err(_) => {
            let prefix = format!("{}/", ctx.config().git.default_branch_prefix);
            if name.starts_with(&prefix) {
                return Err(
                    Error::invalid(format!("{name} is a task's branch; name the task instead")).hint("lazy list")
                );
            }
            match ctx.repo().branch_sha(name)? {
                Some(_) => Ok(Target::Branch { branch: name.to_string() }),
                None => Err(Error::not_found(format!("{name:?} is neither a task nor a local branch"))
                    .hint("lazy list")
                    .hint("git branch --list")),
            }
        }
    }
}
