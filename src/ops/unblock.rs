//! `unblock` and `resume`: a resting task goes on.

use super::launch::{self, Effective};
use super::notes::require_text;
use super::{Caller, Ctx, Narrator, Operation, lookup, prompting, protecting, raised};
use crate::agent::Agent;
use crate::base::{Error, Result, checkpoint};
use crate::model::exchange::{Command, Work};
use crate::model::task::META_EFFORT;
use crate::model::{Effort, Status, TaskId, violations};
use crate::rpc::commands::{LaunchReport, Resume, ResumeParams, Unblock, UnblockParams};
use crate::store::{Change, Edit, SessionPatch, TaskPatch, TaskRecord};

impl Operation for Unblock {
    async fn run(ctx: &Ctx, caller: &Caller, params: UnblockParams, narrator: &Narrator) -> Result<LaunchReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "unblock")?;
        let message = require_text(&params.message, "the feedback")
            .map_err(|error| error.hint(format!("to go on without words: lazy resume {}", row.task.display_id())))?;
        let _lock = ctx.lock_task(row.id()).await;
        narrator.phase("checking");
        let row = lookup::by_id(ctx, row.id())?;
        launch::require_no_turn(&row)?;
        require_resting(ctx, row.id(), "unblock")?;
        protecting::finish(ctx, row.id()).await?;
        let mut record = lookup::load(ctx, row.id()).await?;
        let mut edits = Vec::new();
        let decided = raised::decide(ctx, caller, &record, &params.raised)?;
        edits.extend(decided.edits);
        for item in &decided.items {
            if let Some(place) = record.raised.iter_mut().find(|known| known.id == item.id) {
                *place = item.clone();
            }
        }
        edits.extend(protecting::decide(ctx, &mut record, params.approved_files.as_deref()).await?);
        let agent = params.agent.as_deref().map(Agent::parse).transpose()?;
        let mut feedback = message;
        let (reverted, told) = protecting::untold(&record);
        edits.extend(told);
        if !reverted.is_empty() {
            feedback.push_str(&format!(
                "\n\nYour changes to these protected files were not approved and have been reverted: {}",
                reverted.join(", ")
            ));
        }
        let plan = Plan {
            words: Words::Feedback(feedback),
            agent,
            model: params.model.as_deref(),
            effort: params.effort,
            auto: Auto::No,
        };
        go_on(ctx, caller, record, edits, plan, narrator).await
    }
}

impl Operation for Resume {
    async fn run(ctx: &Ctx, caller: &Caller, params: ResumeParams, narrator: &Narrator) -> Result<LaunchReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "resume")?;
        let _lock = ctx.lock_task(row.id()).await;
        resume(ctx, caller, row.id(), params.model.as_deref(), params.effort, Auto::No, narrator).await
    }
}

/// Whether the daemon does it by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Auto {
    Yes,
    No,
}

/// Goes on with no new words; the caller holds the lifecycle lock.
pub(super) async fn resume(
    ctx: &Ctx,
    caller: &Caller,
    id: TaskId,
    model: Option<&str>,
    effort: Option<Effort>,
    auto: Auto,
    narrator: &Narrator,
) -> Result<LaunchReport> {
    narrator.phase("checking");
    let row = lookup::by_id(ctx, id)?;
    launch::require_no_turn(&row)?;
    require_resting(ctx, id, "resume")?;
    protecting::finish(ctx, id).await?;
    let record = lookup::load(ctx, id).await?;
    let pending = violations::pending(&record.turns);
    if !pending.is_empty() {
        let name = record.task.display_id();
        return Err(Error::conflict(format!(
            "task {name} has changes to protected files to decide first: {}",
            pending.iter().map(|violation| violation.file.as_str()).collect::<Vec<_>>().join(", ")
        ))
        .hint(format!("lazy unblock {name} -m '…' --approve-file <file>"))
        .hint(format!("lazy unblock {name} -m '…' --no-approve-files")));
    }
    let plan = Plan { words: Words::Resumed, agent: None, model, effort, auto };
    go_on(ctx, caller, record, Vec::new(), plan, narrator).await
}

enum Words {
    Feedback(String),
    Resumed,
}

struct Plan<'a> {
    words: Words,
    agent: Option<Agent>,
    model: Option<&'a str>,
    effort: Option<Effort>,
    auto: Auto,
}

async fn go_on(
    ctx: &Ctx,
    caller: &Caller,
    mut record: TaskRecord,
    mut edits: Vec<Edit>,
    plan: Plan<'_>,
    narrator: &Narrator,
) -> Result<LaunchReport> {
    let id = record.task.id;
    let row = lookup::by_id(ctx, id)?;
    let unattended = launch::count_unattended(ctx, caller, &row)?;
    lookup::require_worktree(ctx, &row)?;
    if let Some(agent) = plan.agent.filter(|agent| agent.id() != record.task.agent_id) {
        record.task.agent_id = agent.id().into();
        let patch = TaskPatch { agent_id: Some(agent.id().into()), ..TaskPatch::default() };
        edits.push(Edit::new(id, Change::Task(Box::new(patch))));
        let patch = SessionPatch { agent_id: Some(agent.id().into()), ..SessionPatch::default() };
        edits.push(Edit::new(id, Change::Session(Box::new(patch))));
        if let Some(session) = &mut record.session {
            session.agent_session_id = None;
        }
    }
    let model = super::create::model(plan.model)?;
    if let Some(model) = &model {
        let patch = TaskPatch { model: Some(Some(model.clone())), ..TaskPatch::default() };
        edits.push(Edit::new(id, Change::Task(Box::new(patch))));
    }
    if let Some(effort) = plan.effort {
        edits.push(Edit::new(id, Change::Meta(META_EFFORT.into(), Some(effort.to_string()))));
    }
    let effective = Effective::of(ctx, &record.task, model.as_deref(), plan.effort, ctx.runner_kind(&row))?;
    launch::require_ready(ctx, &effective, &row, narrator).await?;
    let target_branch = lookup::target_branch(ctx, &row)?;
    let session = record.require_session()?.clone();
    let sequence = record.next_sequence();
    let variant =
        if session.agent_session_id.is_some() { prompting::Variant::Resume } else { prompting::Variant::First };
    let head = launch::head(ctx, &record, &effective, &target_branch, variant)?;
    let (delivered, words) = raised::deliver(ctx, id, &record.raised, sequence);
    edits.extend(delivered);
    let (shown, content) = match &plan.words {
        Words::Feedback(feedback) => (feedback.clone(), prompting::feedback(&record, feedback, &words)?),
        Words::Resumed => ("[Resumed after interruption]".into(), prompting::resumed(&record, &words)?),
    };
    let mut turn = launch::request_turn(ctx, caller, &session, sequence, &shown, &effective);
    if matches!(plan.words, Words::Feedback(_)) {
        turn = launch::carrying_feedback(turn);
    }
    turn.prompt = Some(prompting::as_sent(&head.system_prompt, &content));
    turn.auto_triggered = plan.auto == Auto::Yes;
    edits.push(Edit::new(id, Change::Turn(Box::new(turn))));
    edits.push(Edit::new(id, Change::Status { to: Status::Working, by: caller.by.clone() }));
    let patch = SessionPatch {
        user_stopped: Some(false),
        auto_resumed: Some(plan.auto == Auto::Yes),
        interruptions_reset: caller.is_human(),
        notes_delivered_through: record.comments.last().map(|comment| comment.created_at),
        ..SessionPatch::default()
    };
    edits.push(Edit::new(id, Change::Session(Box::new(patch))));
    edits.extend(unattended);
    let _slot = match plan.auto {
        Auto::No => ctx.take_slot_always(id),
        Auto::Yes => ctx.take_slot(id).map_err(|(running, limit)| {
            Error::conflict(format!("no slot is free for an automatic resume ({running} of {limit} agents run)"))
        })?,
    };
    ctx.store().apply(edits)?;
    checkpoint::reach("ops.after-unblock-recorded");
    narrator.phase("launching the agent");
    let command = Command::Unblock(Work {
        head,
        goal: record.task.goal.clone(),
        prompt: content,
        sync_before_work: false,
        sync_after_work: ctx.config().features.get("auto_sync_after_turn").copied().unwrap_or(false),
        maintain: ctx.config().automation.maintain.clone(),
    });
    let row = lookup::by_id(ctx, id)?;
    match launch::launch(ctx, &row, &effective, &command, narrator).await {
        Ok(launched) => launch::report(ctx, &row, &effective, launched.run, sequence, launched.warnings),
        Err(error) => {
            super::start::interrupt_failed_launch(ctx, id, &error)?;
            Err(error)
        }
    }
}

/// Refuses a task that has no resting session, each case with the command that fits it.
pub(super) fn require_resting(ctx: &Ctx, id: TaskId, doing: &str) -> Result<()> {
    let row = lookup::by_id(ctx, id)?;
    let name = row.task.display_id();
    let refuse = |why: String, hint: String| Err(Error::conflict(why).hint(hint));
    let Some(session) = &row.session else {
        return refuse(format!("cannot {doing} task {name}: it was never started"), format!("lazy start {name}"));
    };
    if session.ended_at.is_some() || row.status().is_terminal() {
        return refuse(format!("cannot {doing} task {name}: it is {}", row.status()), format!("lazy reopen {name}"));
    }
    match row.status() {
        Status::Blocked | Status::Conflict | Status::Submitted | Status::Interrupted => Ok(()),
        Status::Working => {
            refuse(format!("cannot {doing} task {name}: its agent is working"), format!("lazy wait {name}"))
        }
        Status::Pairing => refuse(
            format!("cannot {doing} task {name}: someone is pairing on it"),
            format!("lazy pair {name} --unlock"),
        ),
        status => refuse(format!("cannot {doing} task {name}: it is {status}"), format!("lazy show {name}")),
    }
}
