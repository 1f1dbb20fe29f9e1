//! `status`: a task's worktree, and what may be done next.

use super::live;
use crate::base::Result;
use crate::model::Status;
use crate::ops::{Caller, Ctx, Narrator, Operation, lookup};
use crate::rpc::commands::{CommitLine, TaskParams, TaskStatus, TaskStatusReport};
use crate::store::TaskRow;

impl Operation for TaskStatus {
    async fn run(ctx: &Ctx, caller: &Caller, params: TaskParams, _: &Narrator) -> Result<TaskStatusReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        let worktree = lookup::worktree(ctx, &row);
        let session = row.session.as_ref();
        let head = lookup::head_sha(ctx.repo(), &row);
        let commits = match (session, &head) {
            (Some(session), Some(head)) => ctx.repo().commits_between(&session.git_start_sha, head).unwrap_or_default(),
            _ => Vec::new(),
        };
        let uncommitted = match &worktree {
            Some(worktree) => worktree.status().await.map(|status| status.entries).unwrap_or_default(),
            None => Vec::new(),
        };
        Ok(TaskStatusReport {
            task: lookup::brief(&row),
            substate: live::look(ctx, &row).await.substate,
            parent: row.parent().and_then(|id| ctx.store().row(id)).map(|row| lookup::brief(&row)),
            orphaned: lookup::orphaned(ctx, &row),
            branch: session.map(|session| session.git_branch.clone()),
            target_branch: lookup::target_branch(ctx, &row).ok(),
            worktree: ctx.worktree_path(&row).map(|path| path.display().to_string()),
            worktree_exists: worktree.is_some(),
            baseline: session.map(|session| session.git_start_sha.clone()),
            head,
            commits: commits
                .into_iter()
                .map(|commit| CommitLine {
                    sha: commit.sha,
                    message: commit.message.lines().next().unwrap_or_default().to_string(),
                })
                .collect(),
            uncommitted,
            merge_state: lookup::merge_note(ctx, &row).await,
            agent_session_id: session.and_then(|session| session.agent_session_id.clone()),
            agent: row.task.agent_id.clone(),
            last_interrupt: session.and_then(|session| session.interrupt_reason.clone()),
            actions: actions(ctx, &row),
            damaged: lookup::damaged(ctx).await?,
        })
    }
}

/// Commands that make sense from where the task stands.
fn actions(ctx: &Ctx, row: &TaskRow) -> Vec<String> {
    let name = row.task.display_id();
    let all: &[&str] = match row.status() {
        Status::Backlog => &["start {}", "edit {}", "close {} --reason '…'"],
        Status::Queued => &["prioritize {} high", "stop {}"],
        Status::Working => &["watch {}", "wait {}", "stop {}"],
        Status::Blocked | Status::Submitted => {
            &["diff {} --full", "accept {}", "unblock {} -m '…'", "ask {} -m '…'", "reject {} --reason '…'"]
        }
        Status::Conflict => &["diff {} --full", "unblock {} -m '…' --approve-file <file>", "reject {} --reason '…'"],
        Status::Interrupted => &["resume {}", "unblock {} -m '…'", "stop {}", "close {} --reason '…'"],
        Status::Complete | Status::Abandoned => &["show {}", "reopen {} --reason '…'"],
        Status::Pairing | Status::Merging | Status::Zombie => &["show {}"],
    };
    let first = lookup::orphaned(ctx, row).map(|_| "edit {} --parent <task or branch>");
    first.iter().chain(all).map(|action| format!("lazy {}", action.replace("{}", &name))).collect()
}
