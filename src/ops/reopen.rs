//! `reopen`: a finished task is taken up again, on the branch it had.

use super::{Caller, Ctx, Narrator, Operation, lookup, raised};
use crate::base::{Error, Result, text};
use crate::model::{Comment, Status};
use crate::rpc::commands::{ReasonParams, Reopen, StatusReport};
use crate::store::{Change, Edit, SessionPatch, TaskPatch};

impl Operation for Reopen {
    async fn run(ctx: &Ctx, caller: &Caller, params: ReasonParams, narrator: &Narrator) -> Result<StatusReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own_or_child(&row, "reopen")?;
        let id = row.id();
        let _lock = ctx.lock_task(id).await;
        narrator.phase("checking");
        let row = lookup::by_id(ctx, id)?;
        let previous = row.status();
        let name = row.task.display_id();
        let reason = match previous {
            Status::Complete => Some(raised::require_reason(params.reason.as_deref(), "reopen")?),
            Status::Abandoned => {
                params.reason.as_deref().map(|reason| text::escape_controls(reason.trim())).filter(|r| !r.is_empty())
            }
            status => {
                return Err(Error::conflict(format!("task {name} is not finished: it is {status}"))
                    .hint(format!("lazy show {name}")));
            }
        };
        if let Some(code) = &row.task.code
            && let Some(other) = ctx.store().rows().iter().find(|other| {
                other.id() != id && other.task.code.as_ref() == Some(code) && !other.status().is_terminal()
            })
        {
            return Err(Error::conflict(format!(
                "the code {code} belongs to task {} now, which is {}",
                other.id().short(),
                other.status()
            ))
            .hint(format!("lazy show {}", other.id().short()))
            .hint(format!("when that one has ended: lazy reopen {}", id.short())));
        }
        let mut warnings = Vec::new();
        let mut edits = Vec::new();
        if let Some(parent) = row.parent().and_then(|id| ctx.store().row(id))
            && parent.status().is_terminal()
        {
            let target = lookup::heir(ctx, &parent);
            warnings.push(format!(
                "its parent {} is {}; the task now merges into {}",
                parent.task.display_id(),
                parent.status(),
                lookup::branch_of(ctx, &target).unwrap_or_else(|_| "where that one did".into())
            ));
            edits.push(Edit::new(
                id,
                Change::Task(Box::new(TaskPatch { target: Some(target), ..TaskPatch::default() })),
            ));
        }
        let to = if row.session.is_some() { Status::Blocked } else { Status::Backlog };
        if let (Some(session), Some(path)) = (&row.session, ctx.worktree_path(&row))
            && ctx.repo().worktree(&path).is_err()
        {
            narrator.phase("making the worktree");
            if ctx.repo().branch_sha(&session.git_branch)?.is_some() {
                ctx.repo().restore_worktree(&path, &session.git_branch).await?;
            } else {
                let branch = lookup::branch_of(ctx, &lookup::heir(ctx, &row))?;
                let start = ctx.repo().resolve(&branch)?.ok_or_else(|| {
                    Error::conflict(format!("neither {} nor {branch} exists any more", session.git_branch))
                })?;
                warnings.push(format!("its branch was gone; it starts afresh from {branch}"));
                ctx.repo().add_worktree(&path, &session.git_branch, &start).await?;
            }
            crate::base::files::create_dir(&path.join(".lazy-task-sandbox"))?;
            if let Err(error) = ctx.repo().copy_untracked(&ctx.config().worktree.include, &path).await {
                warnings.push(format!("[worktree] include: {error}"));
            }
        }
        // The status first: the fields of a finished task are frozen.
        edits.insert(0, Edit::new(id, Change::Status { to, by: caller.by.clone() }));
        edits.push(Edit::new(
            id,
            Change::Task(Box::new(TaskPatch { close_reason: Some(None), ..TaskPatch::default() })),
        ));
        if row.session.is_some() {
            let patch = SessionPatch { reopened: true, interruptions_reset: true, ..SessionPatch::default() };
            edits.push(Edit::new(id, Change::Session(Box::new(patch))));
        }
        if let Some(reason) = &reason {
            let comment = Comment {
                id: uuid::Uuid::new_v4().to_string(),
                task_id: id,
                content: format!("[Reopened] {reason}"),
                created_at: ctx.process().now(),
                actor: Some(caller.by.actor),
                source: Some("local".into()),
                actor_email: caller.by.actor_email.clone(),
                actor_name: caller.by.actor_name.clone(),
            };
            edits.push(Edit::new(id, Change::Comment(Box::new(comment))));
        }
        ctx.store().apply(edits)?;
        let row = lookup::by_id(ctx, id)?;
        Ok(StatusReport {
            task: lookup::brief(&row),
            previous,
            branch: row.session.as_ref().map(|session| session.git_branch.clone()),
            reason,
            reparented: Vec::new(),
            reparented_to: None,
            warnings,
        })
    }
}
