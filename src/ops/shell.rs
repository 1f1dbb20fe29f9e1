//! `shell`: a way into the place where a task works.
//!
//! Nothing is run here: the caller has the terminal. A resting task whose container was ended while it idled gets one
//! again; someone in a container keeps it from being ended for idling.

use super::{Caller, Ctx, Narrator, Operation, launch, lookup, unblock};
use crate::base::{Error, Result};
use crate::model::{Status, TaskId};
use crate::rpc::commands::{ContainerShell, Shell, ShellParams, ShellReport};
use crate::runner::engine::Terminal;
use crate::runner::{RunState, Runner};

impl Operation for Shell {
    async fn run(ctx: &Ctx, caller: &Caller, params: ShellParams, narrator: &Narrator) -> Result<ShellReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        let name = row.task.display_id();
        if !caller.is_human() {
            return Err(Error::new(crate::base::Kind::Forbidden, "a shell is for people"));
        }
        if row.session.is_none() {
            return Err(Error::conflict(format!("task {name} has no worktree yet: it was never started"))
                .hint(format!("lazy start {name}")));
        }
        let worktree = lookup::require_worktree(ctx, &row)?;
        let container = match ctx.runner(&row)? {
            Runner::Engine(engine) if !params.host => {
                let task_ref = row.task.task_ref().ok_or_else(|| Error::internal("a started task has no ref"))?;
                let run = task_ref.run_name();
                if engine.state(&run).await? != RunState::Running {
                    open_container(ctx, row.id(), narrator).await?;
                }
                let terminal = if params.terminal { Terminal::Yes } else { Terminal::No };
                let args = engine.shell_args(&run, worktree.path(), terminal).await?;
                Some(ContainerShell {
                    program: engine.engine().kind().as_str().into(),
                    args: args.into_iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
                    name: engine.container_name(&run),
                })
            }
            _ => None,
        };
        Ok(ShellReport {
            task: lookup::brief_now(ctx, row.id())?,
            worktree: worktree.path().to_string_lossy().into_owned(),
            container,
        })
    }
}

/// Starts the container of a resting task, with nothing to do.
async fn open_container(ctx: &Ctx, id: TaskId, narrator: &Narrator) -> Result<()> {
    let _lock = ctx.lock_task(id).await;
    unblock::require_resting(ctx, id, "open a container for")?;
    let row = lookup::by_id(ctx, id)?;
    if row.status() == Status::Interrupted {
        // Its next turn resumes by itself and brings a container.
        return Err(Error::conflict(format!("task {} is interrupted and has no container", row.task.display_id()))
            .hint(format!("lazy resume {}", row.task.display_id()))
            .hint(format!("lazy shell {} --host", row.task.display_id())));
    }
    let effective = launch::Effective::of(ctx, &row.task, None, None, ctx.runner_kind(&row))?;
    narrator.phase("starting the container");
    launch::require_ready(ctx, &effective, &row, narrator).await?;
    let _slot = ctx.take_slot_always(id);
    launch::idle(ctx, &row, &effective, narrator).await.map(drop)
}
