//! From text to a task, and from a task to what people read.

use std::sync::Arc;

use super::{Caller, Ctx};
use crate::base::{Error, Kind, Result};
use crate::git::{Repo, Worktree};
use crate::model::{Target, TaskId};
use crate::rpc::commands::{DamagedRecord, MergeNote, TaskBrief};
use crate::store::{TaskRecord, TaskRow};

/// The row that `text` names. An agent that names no task means its own.
pub(super) fn row(ctx: &Ctx, caller: &Caller, text: &str) -> Result<Arc<TaskRow>> {
    let id = match caller.own_task() {
        Some(own) if text.trim().is_empty() => own,
        _ => ctx.store().resolve(text).map_err(|error| with_matches(ctx, error))?,
    };
    by_id(ctx, id)
}

/// The row of an id.
pub(super) fn by_id(ctx: &Ctx, id: TaskId) -> Result<Arc<TaskRow>> {
    ctx.store().row(id).ok_or_else(|| match ctx.store().load_task(id) {
        // A damaged record has no row; the store says which file and where.
        Err(error) if error.kind() != Kind::NotFound => error.hint("lazy doctor"),
        _ => Error::not_found(format!("task {id} does not exist")).hint("lazy list --all"),
    })
}

/// The record that `text` names.
pub(super) async fn record(ctx: &Ctx, caller: &Caller, text: &str) -> Result<TaskRecord> {
    let id = row(ctx, caller, text)?.id();
    load(ctx, id).await
}

/// The record of an id, read off the async threads.
pub(super) async fn load(ctx: &Ctx, id: TaskId) -> Result<TaskRecord> {
    let store = ctx.store().clone();
    blocking(move || store.load_task(id)).await
}

/// Runs file work off the async threads.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|source| Err(Error::internal("a worker thread ended early").caused_by(source)))
}

/// An ambiguous name, with what a person needs to choose.
fn with_matches(ctx: &Ctx, error: Error) -> Error {
    let damaged = ctx.store().damaged().len();
    if error.kind() == Kind::NotFound && damaged > 0 {
        return error.hint(format!("{} cannot be read: lazy doctor", crate::base::text::plural(damaged, "record")));
    }
    if error.kind() != Kind::Ambiguous {
        return error;
    }
    let ids = error.details().and_then(|details| details["matches"].as_array().cloned()).unwrap_or_default();
    let matches: Vec<TaskBrief> =
        ids.iter().filter_map(|id| ctx.store().row(id.as_str()?.parse().ok()?)).map(|row| brief(&row)).collect();
    let name = error.details().map(|details| details["name"].clone());
    error.with_details(serde_json::json!({ "matches": matches, "name": name }))
}

/// The records that cannot be read, looked at again: a mended one counts no more.
pub(super) async fn damaged(ctx: &Ctx) -> Result<Vec<DamagedRecord>> {
    let store = ctx.store().clone();
    blocking(move || {
        let record = |found: crate::store::Damaged| DamagedRecord {
            id: found.task,
            damaged: format!("{}: {}", found.path.display(), found.message),
        };
        Ok(store.damaged().into_iter().map(record).collect())
    })
    .await
}

/// A task in one line.
pub(super) fn brief(row: &TaskRow) -> TaskBrief {
    TaskBrief {
        id: row.id(),
        code: row.task.code.as_ref().map(ToString::to_string),
        goal: row.task.goal.clone(),
        status: row.status(),
    }
}

/// The task of an id in one line, as it stands now.
pub(super) fn brief_now(ctx: &Ctx, id: TaskId) -> Result<TaskBrief> {
    Ok(brief(&*by_id(ctx, id)?))
}

/// The branch a task's work goes into.
pub(super) fn target_branch(ctx: &Ctx, row: &TaskRow) -> Result<String> {
    branch_of(ctx, row.target())
}

/// The branch that a target stands for.
pub(super) fn branch_of(ctx: &Ctx, target: &Target) -> Result<String> {
    match target {
        Target::Task { parent_task_id } => {
            let parent = by_id(ctx, *parent_task_id)?;
            let branch = parent.session.as_ref().map(|session| session.git_branch.clone());
            branch.ok_or_else(|| {
                let name = parent.task.display_id();
                Error::conflict(format!(
                    "the parent task {name} has not been started, so there is no branch to work from"
                ))
                .hint(format!("lazy start {name}"))
            })
        }
        Target::Branch { branch } if !branch.is_empty() => Ok(branch.clone()),
        Target::Branch { .. } => ctx.repo().default_branch(ctx.remote()),
    }
}

/// The branch a task's work goes into, where a new turn or a merge needs one that lives.
///
/// # Errors
/// [`Kind::Conflict`] when the parent has ended: its branch is no place to take work from or to bring it to.
pub(super) fn live_target_branch(ctx: &Ctx, row: &TaskRow) -> Result<String> {
    require_live_parent(ctx, row)?;
    target_branch(ctx, row)
}

/// Refuses a task whose parent has ended.
pub(super) fn require_live_parent(ctx: &Ctx, row: &TaskRow) -> Result<()> {
    let Some(parent) = row.parent() else { return Ok(()) };
    let parent = by_id(ctx, parent)?;
    if !parent.status().is_terminal() {
        return Ok(());
    }
    let (name, above) = (row.task.display_id(), parent.task.display_id());
    Err(Error::conflict(format!(
        "the parent task {above} is {}, so task {name} has nowhere to merge into",
        parent.status()
    ))
    .hint(format!("lazy edit {name} --parent <task or branch>"))
    .hint(format!("lazy reopen {above}")))
}

/// Why an open task has nowhere to merge into; `None` when it has.
pub(super) fn orphaned(ctx: &Ctx, row: &TaskRow) -> Option<String> {
    let parent = row.parent().filter(|_| !row.status().is_terminal())?;
    match ctx.store().row(parent) {
        Some(parent) if parent.status().is_terminal() => Some(format!("parent {}", parent.status())),
        Some(_) => None,
        None => Some("parent missing".into()),
    }
}

/// Where work goes that cannot go into `row` any more: its target, above parents that have ended too.
pub(super) fn heir(ctx: &Ctx, row: &TaskRow) -> Target {
    let mut target = row.target().clone();
    let mut seen = vec![row.id()];
    while let Some(parent) = target.parent() {
        match ctx.store().row(parent) {
            Some(above) if above.status().is_terminal() && !seen.contains(&parent) => {
                seen.push(parent);
                target = above.target().clone();
            }
            Some(above) if !above.status().is_terminal() => return target,
            // A circle or a record that cannot be read: nothing above it is known.
            _ => return Target::default_branch(),
        }
    }
    target
}

/// The worktree of a task, when it stands.
pub(super) fn worktree(ctx: &Ctx, row: &TaskRow) -> Option<Worktree> {
    let path = ctx.worktree_path(row)?;
    ctx.repo().worktree(&path).ok()
}

/// The worktree of a task.
///
/// # Errors
/// [`Kind::Conflict`] naming the missing directory.
pub(super) fn require_worktree(ctx: &Ctx, row: &TaskRow) -> Result<Worktree> {
    worktree(ctx, row).ok_or_else(|| {
        let name = row.task.display_id();
        let place = ctx.worktree_path(row).map(|path| format!(": {}", path.display())).unwrap_or_default();
        Error::conflict(format!("the worktree of task {name} is gone{place}"))
            .hint(format!("lazy close {name} --reason '…' and lazy reopen {name} make a new one from its branch"))
    })
}

/// The worktree, held on the task's own branch whatever its HEAD says later.
///
/// # Errors
/// [`Kind::Conflict`] when another one is checked out: what is committed there would not be part of the task.
pub(super) fn on_own_branch(worktree: Worktree, row: &TaskRow) -> Result<Worktree> {
    let own = row.session.as_ref().map(|session| session.git_branch.clone()).unwrap_or_default();
    worktree.pinned(&own)?.map_err(|checked_out| {
        Error::conflict(format!(
            "the worktree is on {}, not on the task's branch {own}; check that branch out again before you commit",
            checked_out.unwrap_or_else(|| "no branch".into()),
        ))
    })
}

/// A merge under way in a task's worktree.
pub(super) async fn merge_note(ctx: &Ctx, row: &TaskRow) -> Option<MergeNote> {
    let state = worktree(ctx, row)?.merge_state().await.ok()??;
    Some(MergeNote {
        merge_in_progress: state.merge_in_progress,
        unmerged_files: state.unmerged_files,
        summary: state.summary,
    })
}

/// The newest commit of a task's branch.
pub(super) fn head_sha(repo: &Repo, row: &TaskRow) -> Option<String> {
    repo.branch_sha(&row.session.as_ref()?.git_branch).ok()?
}
