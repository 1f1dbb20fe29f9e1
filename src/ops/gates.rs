//! What stands between a task's work and its target.

use super::{Ctx, lookup};
use crate::base::{Error, Result, text};
use crate::model::{Status, ViolationStatus, violations};
use crate::store::{TaskRecord, TaskRow};

/// Refuses a target whose worktree is in use, unless its own agent is the one that accepts.
pub(super) fn require_idle_parent(ctx: &Ctx, row: &TaskRow, own: Option<crate::model::TaskId>) -> Result<()> {
    lookup::require_live_parent(ctx, row)?;
    let Some(parent) = row.parent() else { return Ok(()) };
    let parent = lookup::by_id(ctx, parent)?;
    let name = parent.task.display_id();
    let exempt = own == Some(parent.id()) && matches!(parent.status(), Status::Working | Status::Pairing);
    if parent.status().is_active() && !exempt {
        return Err(Error::conflict(format!(
            "the parent task {name} is {}, and its worktree must not move under it",
            parent.status()
        ))
        .hint(format!("lazy wait {name}")));
    }
    Ok(())
}

/// Protected files: every pending one must be named. Nothing is reverted here.
pub(super) fn require_files_approved(record: &TaskRecord, approved: &[String]) -> Result<()> {
    let left: Vec<&str> = violations::in_force(&record.turns)
        .iter()
        .filter(|violation| violation.status == ViolationStatus::Pending && !approved.contains(&violation.file))
        .map(|violation| violation.file.as_str())
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let name = record.task.display_id();
    let flags: Vec<String> = left.iter().map(|file| format!("--approve-file {file}")).collect();
    Err(Error::conflict(format!("task {name} changed protected files that nobody has approved: {}", left.join(", ")))
        .hint(format!("lazy accept {name} {}", flags.join(" ")))
        .hint(format!("lazy unblock {name} -m '…' --no-approve-files")))
}

/// The branch itself is looked at: a turn that was cut short has committed without being scanned.
///
/// Against the merge base with the target, so that what the target itself changed is nobody's violation.
pub(super) async fn require_branch_approved(
    ctx: &Ctx,
    row: &TaskRow,
    record: &TaskRecord,
    target: &str,
    approved: &[String],
) -> Result<()> {
    let patterns = &ctx.config().permissions.protected;
    let (Some(worktree), Some(head)) = (lookup::worktree(ctx, row), lookup::head_sha(ctx.repo(), row)) else {
        return Ok(());
    };
    let Some(base) = ctx.repo().merge_base(target, &head)?.filter(|_| !patterns.is_empty()) else { return Ok(()) };
    let found = worktree.violations(patterns, &base, &head, &base).await?;
    let decided = violations::in_force(&record.turns);
    let left: Vec<&str> = found
        .iter()
        .map(|violation| violation.file.as_str())
        .filter(|file| !approved.iter().any(|name| name == file))
        .filter(|file| !decided.iter().any(|known| known.file == *file && known.status == ViolationStatus::Approved))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let name = record.task.display_id();
    let flags: Vec<String> = left.iter().map(|file| format!("--approve-file {file}")).collect();
    Err(Error::conflict(format!("task {name} changed protected files that nobody has approved: {}", left.join(", ")))
        .hint(format!("lazy diff {name} --full"))
        .hint(format!("lazy accept {name} {}", flags.join(" "))))
}

/// Files that the target's history deleted must not come back unseen.
pub(super) async fn require_no_resurrection(
    ctx: &Ctx,
    name: &str,
    target: &str,
    branch: &str,
    approved: &[String],
) -> Result<()> {
    let found = ctx.repo().resurrections(target, branch).await?;
    let left: Vec<_> = found.iter().filter(|file| !approved.contains(&file.path)).collect();
    if left.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = left
        .iter()
        .map(|file| format!("{} (deleted in {})", file.path, file.deleted_in.get(..8).unwrap_or(&file.deleted_in)))
        .collect();
    let flags: Vec<String> = left.iter().map(|file| format!("--approve-file {}", file.path)).collect();
    Err(Error::conflict(format!(
        "the merge would bring back {} that {target} deleted: {}",
        text::plural(left.len(), "file"),
        list.join(", ")
    ))
    .hint(format!("if that is meant: lazy accept {name} {}", flags.join(" "))))
}

/// Branch and task protection needs an approval that this version cannot take; it fails closed.
pub(super) fn require_unprotected(ctx: &Ctx, row: &TaskRow, target: &str) -> Result<()> {
    let protection = &ctx.config().protection;
    if !protection.enabled {
        return Ok(());
    }
    let name = row.task.display_id();
    let default = ctx.repo().default_branch(ctx.remote()).unwrap_or_default();
    let by_branch = (protection.gate_default_branch && target == default)
        || protection.protected_branches.iter().any(|branch| branch == target);
    let by_task = protection.protected_tasks.iter().any(|task| *task == name || *task == row.id().short());
    if !by_branch && !by_task {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "merging task {name} into {target} is protected by [protection] in lazy.toml, and approvals cannot be given in this version"
    ))
    .hint("edit [protection] in lazy.toml, then: lazy daemon restart"))
}
