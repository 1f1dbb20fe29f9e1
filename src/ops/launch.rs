//! From a recorded turn to a running one: the command in the mailbox, the run's way to the daemon, the launch.
//!
//! The turn is persisted before anything here happens, so that a crash at any point leaves a working task without a run,
//! which reconciling takes up.

use super::{Caller, Ctx, GrantRequest, Narrator, lookup, prompting};
use crate::agent::Agent;
use crate::base::{Error, Kind, Result, checkpoint};
use crate::model::exchange::{Command, Head, PROTOCOL_VERSION};
use crate::model::{Actor, Delivery, Effort, Role, RunnerKind, Session, Task, Turn, TurnKind};
use crate::rpc::commands::LaunchReport;
use crate::runner::{GitDirs, LaunchSpec};
use crate::store::{Change, Edit, SessionPatch, TaskRecord, TaskRow};

/// Metadata key: turns in a row that no person asked for.
pub(super) const META_UNATTENDED: &str = "turns_without_human";

/// What a turn runs with, after every override.
#[derive(Debug, Clone)]
pub(super) struct Effective {
    pub agent: Agent,
    pub model: String,
    pub effort: Effort,
    pub runner: RunnerKind,
}

impl Effective {
    /// The choice for a task as it stands; parameters that were given have been written to it or come in here.
    pub(super) fn of(
        ctx: &Ctx,
        task: &Task,
        model: Option<&str>,
        effort: Option<Effort>,
        runner: RunnerKind,
    ) -> Result<Effective> {
        let agent = Agent::parse(&task.agent_id)?;
        let model = model
            .or(task.model.as_deref())
            .or(agent.default_model())
            .unwrap_or(&ctx.config().models.default)
            .to_string();
        let effort = effort.or(task.effort()).unwrap_or(ctx.config().agent.effort);
        Ok(Effective { agent, model, effort, runner })
    }
}

/// A run that was launched.
#[derive(Debug)]
pub(super) struct Launched {
    /// What its runner calls it.
    pub run: String,
    /// What the person should know.
    pub warnings: Vec<String>,
}

/// The part of a command that every turn shares.
pub(super) fn head(
    ctx: &Ctx,
    record: &TaskRecord,
    effective: &Effective,
    target_branch: &str,
    variant: prompting::Variant,
) -> Result<Head> {
    let config = ctx.config();
    let runner = ctx.runner_of(effective.runner)?;
    let agent_id = effective.agent.id();
    let set = |value: u64| (value > 0).then_some(value);
    let check = config.checks.post_turn.trim();
    Ok(Head {
        command_id: uuid::Uuid::new_v4().to_string(),
        task_id: record.task.id,
        protocol_version: PROTOCOL_VERSION,
        turn_started_at: ctx.process().now().iso(),
        agent_id: agent_id.into(),
        model_id: Some(effective.model.clone()),
        effort: Some(effective.effort),
        agent_session_id: record.session.as_ref().and_then(|session| session.agent_session_id.clone()),
        system_prompt: prompting::system(ctx, variant, effective.runner)?,
        agent_extra_args: runner.agent_args(config, agent_id)?,
        watchdog_output_timeout_ms: set(config.agent.watchdog_output_timeout_ms),
        wind_down_timeout_ms: config.agent.wind_down_timeout_ms,
        protected_patterns: config.permissions.protected.clone(),
        post_turn_check: (!check.is_empty()).then(|| check.to_string()),
        post_turn_timeout: (!check.is_empty()).then_some(config.checks.post_turn_timeout),
        parent_branch: Some(target_branch.to_string()),
        branch_point_sha: record.session.as_ref().map(|session| session.git_start_sha.clone()),
    })
}

/// The request turn, as it is kept.
pub(super) fn request_turn(
    ctx: &Ctx,
    caller: &Caller,
    session: &Session,
    sequence: u32,
    content: &str,
    effective: &Effective,
) -> Turn {
    let mut turn = Turn::new(session.id, sequence, Role::Human, content, ctx.process().now());
    turn.agent = Some(effective.agent.id().into());
    turn.model = Some(effective.model.clone());
    turn.effort = Some(effective.effort.to_string());
    turn.actor = Some(caller.by.actor);
    turn.actor_email = caller.by.actor_email.clone();
    turn.actor_name = caller.by.actor_name.clone();
    turn.kind = TurnKind::Work;
    turn
}

/// Marks a request as feedback that must reach the agent.
pub(super) fn carrying_feedback(mut turn: Turn) -> Turn {
    turn.feedback_delivery = Some(Delivery::Pending);
    turn
}

/// Puts the command in the mailbox and launches the run, unless a warm one is there to take it.
///
/// # Errors
/// Whatever stopped the launch; the caller says what becomes of the task.
pub(super) async fn launch(
    ctx: &Ctx,
    row: &TaskRow,
    effective: &Effective,
    command: &Command,
    narrator: &Narrator,
) -> Result<Launched> {
    launch_with(ctx, row, effective, Some(command), narrator).await
}

/// Launches the run with nothing to do.
pub(super) async fn idle(ctx: &Ctx, row: &TaskRow, effective: &Effective, narrator: &Narrator) -> Result<Launched> {
    launch_with(ctx, row, effective, None, narrator).await
}

async fn launch_with(
    ctx: &Ctx,
    row: &TaskRow,
    effective: &Effective,
    command: Option<&Command>,
    narrator: &Narrator,
) -> Result<Launched> {
    let task_ref = row.task.task_ref().ok_or_else(|| Error::internal("a launched task has no ref"))?;
    let run = task_ref.run_name();
    let worktree = lookup::require_worktree(ctx, row)?;
    let runner = ctx.runner_of(effective.runner)?;
    let mailbox = ctx.mailbox(row.id())?;
    let granted = ctx.access().grant(&GrantRequest {
        task: row.id(),
        task_ref: task_ref.to_string(),
        run_name: run.clone(),
        runner: effective.runner,
        worktree: worktree.path().to_path_buf(),
        credential_vars: effective.agent.credential_vars(),
    })?;
    let git = worktree.git_paths()?;
    let spec = LaunchSpec {
        task: row.id(),
        run: run.clone(),
        agent_id: effective.agent.id().into(),
        project_root: ctx.project().root.clone(),
        data_dir: ctx.project().data_dir.clone(),
        protocol_dir: mailbox.dir().to_path_buf(),
        worktree: worktree.path().to_path_buf(),
        git: GitDirs {
            common_dir: git.common_dir,
            objects: git.objects,
            git_dir: git.git_dir,
            alternates: git.alternates,
        },
        identity: ctx.repo().identity().await?,
        mcp_config: granted.mcp_config,
        link_dir: granted.link_dir,
        env: granted.env,
    };
    mailbox.create()?;
    let prepared = runner.prepare(ctx.config(), &spec, &mut |text| narrator.note(text)).await?;
    checkpoint::reach("ops.before-command");
    if let Some(command) = command {
        mailbox.write_command(command)?;
    }
    checkpoint::reach("ops.after-command");
    let warnings = runner.launch(&spec, prepared).await?;
    checkpoint::reach("ops.after-launch");
    let patch = SessionPatch {
        container_name: Some(Some(runner.run_name(&run))),
        runner_type: Some(effective.runner),
        touched: true,
        ..SessionPatch::default()
    };
    ctx.store().apply(vec![Edit::new(row.id(), Change::Session(Box::new(patch)))])?;
    Ok(Launched { run: runner.run_name(&run), warnings })
}

/// Refuses a turn that could not be launched, before anything is recorded of it. Making an image can take minutes.
pub(super) async fn require_ready(ctx: &Ctx, effective: &Effective, row: &TaskRow, narrator: &Narrator) -> Result<()> {
    let runner = ctx.runner_of(effective.runner)?;
    let standing = row.session.as_ref().and_then(|session| session.container_name.as_ref());
    let run = standing.and_then(|_| row.task.task_ref()).map(|task_ref| task_ref.run_name());
    let say = &mut |text: &str| narrator.note(text);
    runner.require_ready(ctx.config(), effective.agent.id(), run.as_deref(), say).await?;
    require_credential(ctx, effective.agent)
}

/// The report of a launched turn.
pub(super) fn report(
    ctx: &Ctx,
    row: &TaskRow,
    effective: &Effective,
    run: String,
    turn: u32,
    warnings: Vec<String>,
) -> Result<LaunchReport> {
    Ok(LaunchReport {
        task: lookup::brief_now(ctx, row.id())?,
        branch: row.session.as_ref().map(|session| session.git_branch.clone()),
        worktree: ctx.worktree_path(row).map(|path| path.display().to_string()),
        runner: Some(effective.runner),
        run: Some(run),
        target_branch: lookup::target_branch(ctx, row).ok(),
        parent: row.parent().and_then(|id| ctx.store().row(id)).map(|row| lookup::brief(&row)),
        turn,
        queued: None,
        warnings,
    })
}

/// Refuses a turn that nobody watches once there were too many in a row; counts it otherwise.
///
/// Returns the edit that keeps the count.
pub(super) fn count_unattended(ctx: &Ctx, caller: &Caller, row: &TaskRow) -> Result<Option<Edit>> {
    let key = META_UNATTENDED.to_string();
    let count: u32 = row.task.meta(META_UNATTENDED).and_then(|text| text.parse().ok()).unwrap_or(0);
    match caller.by.actor {
        Actor::Human => Ok((count > 0).then(|| Edit::new(row.id(), Change::Meta(key, None)))),
        Actor::System | Actor::Supervisor => Ok(None),
        Actor::Builder | Actor::Agent => {
            let limit = ctx.config().limits.max_turns_without_human;
            if limit > 0 && count >= limit {
                let name = row.task.display_id();
                return Err(Error::conflict(format!(
                    "task {name} has had {count} turns in a row that no person asked for; [limits] max_turns_without_human is {limit}"
                ))
                .hint(format!("a person goes on with: lazy unblock {name} -m '…'")));
            }
            Ok(Some(Edit::new(row.id(), Change::Meta(key, Some((count + 1).to_string())))))
        }
    }
}

/// Refuses a task that someone else is in the middle of moving.
pub(super) fn require_no_turn(row: &TaskRow) -> Result<()> {
    let name = row.task.display_id();
    if let Some(turn) = &row.task.in_flight_turn {
        return Err(Error::conflict(format!("task {name} is busy with a turn of its own ({})", turn.owner))
            .hint(format!("lazy wait {name}")));
    }
    Ok(())
}

/// The credential a run needs, before anything is made for it.
fn require_credential(ctx: &Ctx, agent: Agent) -> Result<()> {
    if ctx.credential().is_some() || ctx.config().ollama.enabled || agent.credential_vars().is_empty() {
        return Ok(());
    }
    let names = agent.credential_vars().join(" or ");
    Err(Error::new(
        Kind::Unavailable,
        format!("the daemon has no credential for {}: {names} is not set", agent.display_name()),
    )
    .hint(format!("export {}=… && lazy daemon restart", agent.credential_vars()[0])))
}
