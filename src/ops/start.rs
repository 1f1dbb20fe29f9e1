//! `start`: a task leaves the backlog.

use super::launch::{self, Effective};
use super::{Caller, Ctx, Narrator, Operation, lookup, prompting};
use crate::agent::Agent;
use crate::base::{Error, Result, checkpoint};
use crate::git::Worktree;
use crate::model::exchange::{Command, Work};
use crate::model::task::{META_EFFORT, META_TASK_REF};
use crate::model::{RunnerKind, Session, SessionId, Status, Target, TaskRef};
use crate::rpc::commands::{LaunchReport, Start, StartParams};
use crate::store::{Change, Edit, SessionPatch, TaskPatch, TaskRow};

impl Operation for Start {
    async fn run(ctx: &Ctx, caller: &Caller, params: StartParams, narrator: &Narrator) -> Result<LaunchReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_child(&row, "start")?;
        let _lock = ctx.lock_task(row.id()).await;
        start(ctx, caller, row.id(), &params, narrator).await
    }
}

/// Launches a task; the caller holds its lifecycle lock. Also how the queue is drained.
pub(super) async fn start(
    ctx: &Ctx,
    caller: &Caller,
    id: crate::model::TaskId,
    params: &StartParams,
    narrator: &Narrator,
) -> Result<LaunchReport> {
    narrator.phase("checking");
    let record = lookup::load(ctx, id).await?;
    let row = lookup::by_id(ctx, id)?;
    let name = row.task.display_id();
    require_startable(&row)?;
    if record.task.prompt.trim().is_empty() {
        return Err(Error::invalid(format!("task {name} has no prompt")).hint(format!("lazy edit {name} --prompt '…'")));
    }
    let mut patch = TaskPatch::default();
    if let Some(agent) = &params.agent {
        patch.agent_id = Some(Agent::parse(agent)?.id().into());
    }
    patch.model = super::create::model(params.model.as_deref())?.map(Some);
    let runner_override = params.runner.as_deref().map(RunnerKind::parse_alias).transpose()?;
    patch.runner_type = runner_override.map(Some);
    let mut task = record.task.clone();
    task.agent_id = patch.agent_id.clone().unwrap_or(task.agent_id);
    let kind = runner_override.or(task.runner_type).unwrap_or(ctx.config().runner.kind);
    let effective = Effective::of(ctx, &task, params.model.as_deref(), params.effort, kind)?;
    launch::require_ready(ctx, &effective, &row, narrator).await?;
    let unattended = launch::count_unattended(ctx, caller, &row)?;
    let target_branch = lookup::live_target_branch(ctx, &row)?;
    let start_sha = ctx.repo().resolve(&format!("refs/heads/{target_branch}"))?.map_or_else(
        || {
            let remote = format!("refs/remotes/{}/{target_branch}", ctx.remote());
            ctx.repo().resolve(&remote)?.ok_or_else(|| unresolvable(&row, &target_branch))
        },
        Ok,
    )?;
    let mut overrides = vec![Edit::new(id, Change::Task(Box::new(patch)))];
    if let Some(effort) = params.effort {
        overrides.push(Edit::new(id, Change::Meta(META_EFFORT.into(), Some(effort.to_string()))));
    }
    let slot = match ctx.take_slot(id) {
        Ok(slot) => slot,
        Err((running, limit)) => return queue(ctx, caller, &row, overrides, (running, limit)),
    };

    narrator.phase("making the worktree");
    let earlier = record.task.task_ref();
    let left = if earlier.is_some() { Left::ByThisTask } else { Left::Nothing };
    let task_ref = earlier.unwrap_or_else(|| {
        TaskRef::choose(id, record.task.code.as_ref(), record.task.created_at, |name| is_taken(ctx, id, name))
    });
    let branch = format!("{}/{task_ref}", ctx.config().git.default_branch_prefix);
    overrides.push(Edit::new(id, Change::Meta(META_TASK_REF.into(), Some(task_ref.to_string()))));
    ctx.store().apply(overrides)?;
    let row = lookup::by_id(ctx, id)?;
    let (worktree, mut warnings) = make_worktree(ctx, &row, &branch, &start_sha, left).await?;
    checkpoint::reach("ops.after-worktree");

    // From here on a failure takes the worktree back: nothing was worked on in it yet.
    let launched =
        launch_first(ctx, caller, &row, &effective, &branch, &start_sha, &target_branch, unattended, narrator).await;
    drop(slot);
    match launched {
        Ok((launched, sequence)) => {
            let row = lookup::by_id(ctx, id)?;
            warnings.extend(launched.warnings);
            launch::report(ctx, &row, &effective, launched.run, sequence, std::mem::take(&mut warnings))
        }
        Err(error) => {
            if lookup::by_id(ctx, id)?.session.is_none() {
                ctx.repo().remove_worktree(worktree.path()).await.ok();
                ctx.repo().delete_branch(&branch).await.ok();
            }
            Err(error)
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the facts of one launch, used once")]
async fn launch_first(
    ctx: &Ctx,
    caller: &Caller,
    row: &TaskRow,
    effective: &Effective,
    branch: &str,
    start_sha: &str,
    target_branch: &str,
    unattended: Option<Edit>,
    narrator: &Narrator,
) -> Result<(launch::Launched, u32)> {
    let id = row.id();
    // Read again: an edit made meanwhile wins.
    let mut record = lookup::load(ctx, id).await?;
    let session = Session {
        id: SessionId::random(),
        task_id: id,
        agent_id: effective.agent.id().into(),
        started_at: ctx.process().now(),
        ended_at: None,
        outcome: None,
        git_branch: branch.into(),
        git_start_sha: start_sha.into(),
        agent_session_id: None,
        last_interaction_at: None,
        total_duration_ms: 0,
        total_usage: None,
        container_name: None,
        runner_type: Some(effective.runner),
        interrupt_reason: None,
        interrupt_exit_code: None,
        interrupt_at: None,
        interrupt_logs: None,
        consecutive_interruptions: 0,
        auto_resumed: false,
        user_stopped: false,
        upstream_merge_sha: None,
        reserved_turn_sequence: None,
        notes_delivered_through: record.comments.last().map(|comment| comment.created_at),
    };
    record.session = Some(session.clone());
    let head = launch::head(ctx, &record, effective, target_branch, prompting::Variant::First)?;
    let content = prompting::first(&record)?;
    let sequence = record.next_sequence();
    let mut turn =
        launch::carrying_feedback(launch::request_turn(ctx, caller, &session, sequence, &content, effective));
    turn.prompt = Some(prompting::as_sent(&head.system_prompt, &content));
    let mut edits = vec![
        Edit::new(id, Change::SessionStarted(Box::new(session))),
        Edit::new(id, Change::Turn(Box::new(turn))),
        Edit::new(id, Change::Status { to: Status::Working, by: caller.by.clone() }),
        Edit::new(
            id,
            Change::Task(Box::new(TaskPatch {
                branched_from_sha: Some(Some(start_sha.into())),
                target: matches!(row.target(), Target::Branch { branch } if branch.is_empty())
                    .then(|| Target::Branch { branch: target_branch.into() }),
                ..TaskPatch::default()
            })),
        ),
    ];
    edits.extend(unattended);
    ctx.store().apply(edits)?;
    checkpoint::reach("ops.after-start-recorded");
    narrator.phase("launching the agent");
    let row = lookup::by_id(ctx, id)?;
    let command = Command::Start(Work {
        head,
        goal: record.task.goal.clone(),
        prompt: content,
        sync_before_work: false,
        sync_after_work: ctx.config().features.get("auto_sync_after_turn").copied().unwrap_or(false),
        maintain: ctx.config().automation.maintain.clone(),
    });
    match launch::launch(ctx, &row, effective, &command, narrator).await {
        Ok(launched) => Ok((launched, sequence)),
        Err(error) => {
            interrupt_failed_launch(ctx, id, &error)?;
            Err(error)
        }
    }
}

/// A launch that failed after its turn was recorded: the task is interrupted, and says why.
pub(super) fn interrupt_failed_launch(ctx: &Ctx, id: crate::model::TaskId, error: &Error) -> Result<()> {
    let interruption = crate::store::Interruption {
        reason: format!("the launch failed: {}", error.full_message()),
        exit_code: None,
        logs: None,
    };
    let patch = SessionPatch { interrupted: Some(interruption), container_name: Some(None), ..SessionPatch::default() };
    ctx.store().apply(vec![
        Edit::new(id, Change::Status { to: Status::Interrupted, by: Caller::system().by }),
        Edit::new(id, Change::Session(Box::new(patch))),
    ])
}

fn require_startable(row: &TaskRow) -> Result<()> {
    let name = row.task.display_id();
    if let Some(session) = &row.session {
        let error = Error::conflict(format!("task {name} was started already; it is {}", row.status()));
        return Err(match session.ended_at {
            Some(_) => error.hint(format!("lazy reopen {name}")),
            None if row.status() == Status::Interrupted => error.hint(format!("lazy resume {name}")),
            None => error.hint(format!("lazy unblock {name} -m '…'")),
        });
    }
    match row.status() {
        Status::Backlog | Status::Queued => Ok(()),
        status => {
            Err(Error::conflict(format!("task {name} is {status} and cannot be started"))
                .hint(format!("lazy show {name}")))
        }
    }
}

fn unresolvable(row: &TaskRow, branch: &str) -> Error {
    let name = row.task.display_id();
    Error::conflict(format!("the branch {branch}, from which task {name} should start, does not exist"))
        .hint(format!("git fetch --all, or git branch {branch} <commit>"))
        .hint(format!("lazy edit {name} --parent <task or branch>"))
}

/// Whether a ref names another task's, or a branch or directory that stands already.
fn is_taken(ctx: &Ctx, id: crate::model::TaskId, name: &str) -> bool {
    let branch = format!("{}/{name}", ctx.config().git.default_branch_prefix);
    ctx.store().ref_taken(name, id)
        || ctx.repo().branch_sha(&branch).ok().flatten().is_some()
        || ctx.project().data_dir.join("worktrees").join(name).exists()
}

/// Puts a task in the queue; the reconcile loop launches it when a slot is free.
fn queue(ctx: &Ctx, caller: &Caller, row: &TaskRow, mut edits: Vec<Edit>, slots: (u32, u32)) -> Result<LaunchReport> {
    edits.push(Edit::new(row.id(), Change::Status { to: Status::Queued, by: caller.by.clone() }));
    ctx.store().apply(edits)?;
    Ok(LaunchReport {
        task: lookup::brief_now(ctx, row.id())?,
        branch: None,
        worktree: None,
        runner: None,
        run: None,
        target_branch: None,
        parent: row.parent().and_then(|id| ctx.store().row(id)).map(|row| lookup::brief(&row)),
        turn: 0,
        queued: Some(slots),
        warnings: Vec::new(),
    })
}

/// Whether a worktree under the task's ref can only be its own: the ref was stored by an earlier start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    ByThisTask,
    Nothing,
}

/// The worktree of a first start: a fresh branch, its first commit, and the untracked files the project wants in it.
async fn make_worktree(
    ctx: &Ctx,
    row: &TaskRow,
    branch: &str,
    start_sha: &str,
    left: Left,
) -> Result<(Worktree, Vec<String>)> {
    let path = ctx.worktree_path(row).ok_or_else(|| Error::internal("the task has no ref"))?;
    // What an earlier start left behind when it was killed between making this and recording it.
    if left == Left::ByThisTask && row.session.is_none() && path.exists() {
        ctx.repo().remove_worktree(&path).await?;
        ctx.repo().delete_branch(branch).await?;
    }
    let mut warnings = Vec::new();
    let worktree = ctx.repo().add_worktree(&path, branch, start_sha).await?;
    let first = format!("Initialize task {}: {}", row.task.display_id(), row.task.goal);
    if let Err(error) = worktree.commit_empty(&first).await {
        warnings.push(format!("the first commit could not be made: {error}"));
    }
    match ctx.repo().copy_untracked(&ctx.config().worktree.include, &path).await {
        Ok(_) => {}
        Err(error) => warnings.push(format!("[worktree] include: {error}")),
    }
    crate::base::files::create_dir(&path.join(".lazy-task-sandbox"))?;
    Ok((worktree, warnings))
}
