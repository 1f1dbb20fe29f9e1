//! `show`: a task with all that hangs on it.

use super::live;
use crate::base::Result;
use crate::ops::{Caller, Ctx, Narrator, Operation, lookup};
use crate::rpc::commands::{RunnerNote, Show, ShowReport, SupervisorNote, TaskParams};

impl Operation for Show {
    async fn run(ctx: &Ctx, caller: &Caller, params: TaskParams, _: &Narrator) -> Result<Box<ShowReport>> {
        let record = lookup::record(ctx, caller, &params.task).await?;
        let row = lookup::by_id(ctx, record.task.id)?;
        let live = live::look(ctx, &row).await;
        let kind = ctx.runner_kind(&row);
        let posture = match ctx.runner(&row) {
            Ok(runner) => runner.posture(ctx.config(), &record.task.agent_id),
            Err(error) => error.message().to_string(),
        };
        let prompt_versions = u32::try_from(record.prompts.len()).unwrap_or(u32::MAX);
        Ok(Box::new(ShowReport {
            session: record.session,
            turns: record.turns,
            commits: record.commits,
            comments: record.comments,
            journal: record.journal,
            raised_items: record.raised,
            status_history: record.statuses,
            tag_history: record.tag_events,
            parent: row.parent().and_then(|id| ctx.store().row(id)).map(|row| lookup::brief(&row)),
            orphaned: lookup::orphaned(ctx, &row),
            children: ctx.store().children(row.id()).iter().map(|row| lookup::brief(row)).collect(),
            worktree: ctx.worktree_path(&row).filter(|path| path.exists()).map(|path| path.display().to_string()),
            merge_state: lookup::merge_note(ctx, &row).await,
            substate: live.substate,
            progress: live.progress,
            supervisor: live.supervisor.map(|status| SupervisorNote {
                phase: status.phase,
                command: status.command_type,
                phase_started_at: status.phase_started_at,
                retry_count: status.retry_count,
                retry_reason: status.retry_failure_reason,
                retry_next_delay_ms: status.retry_next_delay_ms,
                errors: status.errors,
            }),
            runner: RunnerNote { kind, alive: live.alive, posture },
            prompt_versions,
            task: record.task,
        }))
    }
}
