//! What the agent of a task asks for while it works: a commit, and a word on its progress.

use super::notes::require_text;
use super::{Caller, Ctx, Narrator, Operation, lookup};
use crate::base::{Error, Result, text};
use crate::model::exchange::ProgressFile;
use crate::model::{Commit, CommitStatus};
use crate::rpc::commands::{CommitParams, CommitReport, CommitWork, ProgressParams, ProgressReport, UpdateProgress};
use crate::store::{Change, Edit};

/// Characters of a progress line.
const PROGRESS_LIMIT: usize = 120;

impl Operation for CommitWork {
    async fn run(ctx: &Ctx, caller: &Caller, params: CommitParams, _: &Narrator) -> Result<CommitReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own(&row, "commit in")?;
        let message = require_text(&params.message, "the commit message")?;
        let worktree = lookup::worktree(ctx, &row).ok_or_else(|| {
            Error::conflict(format!(
                "the worktree of task {} is gone; report this and do not try again",
                row.task.display_id()
            ))
        })?;
        let worktree = lookup::on_own_branch(worktree, &row)?;
        super::internal_git::require_honest_merge(ctx, &row, &worktree)?;
        let Some(done) = worktree.commit(&message, &params.files).await? else {
            return Ok(CommitReport {
                committed: false,
                sha: None,
                full_sha: None,
                message: "nothing to commit: the worktree equals the last commit".into(),
                files_changed: 0,
                diff_stat: String::new(),
            });
        };
        let session = row.session.as_ref().ok_or_else(|| Error::internal("a task with a worktree has no session"))?;
        let commit = Commit {
            id: uuid::Uuid::new_v4().to_string(),
            session_id: session.id,
            sha: done.sha.clone(),
            message: message.clone(),
            status: CommitStatus::PendingReview,
            timestamp: ctx.process().now(),
        };
        ctx.store().apply(vec![Edit::new(row.id(), Change::Commit(Box::new(commit)))])?;
        Ok(CommitReport {
            committed: true,
            sha: done.sha.get(..7).map(str::to_string),
            full_sha: Some(done.sha),
            message,
            files_changed: u32::try_from(done.files_changed).unwrap_or(u32::MAX),
            diff_stat: done.diff_stat,
        })
    }
}

impl Operation for UpdateProgress {
    async fn run(ctx: &Ctx, caller: &Caller, params: ProgressParams, _: &Narrator) -> Result<ProgressReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own(&row, "report progress on")?;
        let whole = text::one_line(&require_text(&params.message, "the progress message")?);
        let message = text::truncate_chars(&whole, PROGRESS_LIMIT);
        let truncated = message != whole;
        let file = ProgressFile { message: message.clone(), updated_at: ctx.process().now().iso() };
        ctx.mailbox(row.id())?.write_progress(&file)?;
        Ok(ProgressReport { task_id: row.id(), message, truncated })
    }
}
