//! `lazy_internal_git`: the daemon moves refs for a supervisor that cannot.
//!
//! In a container the shared git directory is read-only, and everything the supervisor is told lies in directories that
//! the agent beside it can write. So nothing that is asked for is believed: not which commit is the upstream, not which
//! branch is checked out, not that a turn is under way. What can be had with the token of a task is a merge of that
//! task's own upstream into that task's own branch, the way out of such a merge, and tags of that branch's commits in
//! the turn's own namespace.

use super::{Caller, Ctx, Narrator, Operation, lookup};
use crate::base::{Error, Kind, Result};
use crate::git::{MergeOutcome, Worktree};
use crate::model::{RunnerKind, Status};
use crate::rpc::commands::{GitOrder, GitOutcome, GitReport, InternalGit, InternalGitParams, MERGE_MESSAGE_LIMIT};
use crate::store::TaskRow;

impl Operation for InternalGit {
    async fn run(ctx: &Ctx, caller: &Caller, params: InternalGitParams, _: &Narrator) -> Result<GitReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_own(&row, "use git's refs for")?;
        // A stop or a rejection that is under way comes first; what it leaves is judged.
        let _lock = ctx.lock_task(row.id()).await;
        let row = lookup::by_id(ctx, row.id())?;
        require_turn(&row)?;
        let worktree = lookup::require_worktree(ctx, &row)?;
        let outcome = match &params.order {
            GitOrder::Merge { target, message } => {
                require_message(message)?;
                require_upstream(ctx, &row, target)?;
                match lookup::on_own_branch(worktree.clone(), &row)?.merge(target, message).await? {
                    MergeOutcome::UpToDate => GitOutcome::UpToDate,
                    MergeOutcome::Merged { .. } => GitOutcome::Merged,
                    MergeOutcome::Conflicts { files } => GitOutcome::Conflicts { files },
                }
            }
            GitOrder::MergeCommit => {
                let worktree = lookup::on_own_branch(worktree.clone(), &row)?;
                require_upstream(ctx, &row, &merge_head(&worktree)?)?;
                worktree.commit_merge().await?;
                GitOutcome::Done
            }
            // These two move no branch, wherever HEAD points.
            GitOrder::MergeAbort => {
                worktree.abort_merge().await?;
                GitOutcome::Done
            }
            GitOrder::ResetHardHead => {
                worktree.reset_hard_head().await?;
                GitOutcome::Done
            }
            GitOrder::Tag { phase, sha } => {
                require_work(ctx, &row, sha)?;
                worktree.tag_turn(row.id(), *phase, sha).await?;
                GitOutcome::Done
            }
        };
        Ok(GitReport { outcome, head: worktree.head()? })
    }
}

/// Only a turn that runs has a supervisor.
fn require_turn(row: &TaskRow) -> Result<()> {
    if row.status() == Status::Working || row.task.in_flight_turn.is_some() {
        return Ok(());
    }
    let name = row.task.display_id();
    Err(Error::conflict(format!("task {name} is {}: no turn runs that could move its refs", row.status())))
}

fn require_message(message: &str) -> Result<()> {
    let fits = message.chars().count() <= MERGE_MESSAGE_LIMIT;
    if fits && !message.trim().is_empty() && !message.contains(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(format!("the message of a merge is one line of 1 to {MERGE_MESSAGE_LIMIT} characters")))
}

/// The commit is one of the task's upstreams, or lies behind one: its target here or on the remote, or its own branch
/// on the remote.
fn require_upstream(ctx: &Ctx, row: &TaskRow, sha: &str) -> Result<()> {
    let repo = ctx.repo();
    let sha = require_commit(ctx, sha)?;
    let target = lookup::target_branch(ctx, row)?;
    let own = row.session.as_ref().map(|session| session.git_branch.as_str());
    let remote = |branch: &str| format!("refs/remotes/{}/{branch}", ctx.remote());
    let upstreams = [Some(format!("refs/heads/{target}")), Some(remote(&target)), own.map(remote)];
    for upstream in upstreams.into_iter().flatten() {
        if let Some(tip) = repo.resolve(&upstream)?
            && repo.is_ancestor(&sha, &tip)?
        {
            return Ok(());
        }
    }
    Err(Error::new(
        Kind::Forbidden,
        format!("{sha} is no commit of {target}, from which task {} merges", row.task.display_id()),
    ))
}

/// In a container every merge is made here, so one under way there that is not of the task's upstream was made up. An
/// agent of this machine can merge what it likes by itself.
pub(super) fn require_honest_merge(ctx: &Ctx, row: &TaskRow, worktree: &Worktree) -> Result<()> {
    match worktree.merge_head() {
        Some(merging) if ctx.runner_kind(row) != RunnerKind::Host => require_upstream(ctx, row, &merging),
        _ => Ok(()),
    }
}

/// The commit is one of the task's own branch.
fn require_work(ctx: &Ctx, row: &TaskRow, sha: &str) -> Result<()> {
    let sha = require_commit(ctx, sha)?;
    let name = row.task.display_id();
    let tip = lookup::head_sha(ctx.repo(), row)
        .ok_or_else(|| Error::conflict(format!("the branch of task {name} does not exist")))?;
    match ctx.repo().is_ancestor(&sha, &tip)? {
        true => Ok(()),
        false => Err(Error::new(Kind::Forbidden, format!("{sha} is no commit of task {name}"))),
    }
}

/// A commit by its whole id: a name could be any ref.
fn require_commit(ctx: &Ctx, sha: &str) -> Result<String> {
    let whole = sha.len() == 40 && sha.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let found = if whole { ctx.repo().resolve(sha)? } else { None };
    found.filter(|found| found == sha).ok_or_else(|| Error::invalid(format!("{sha:?} is not the full id of a commit")))
}

fn merge_head(worktree: &Worktree) -> Result<String> {
    worktree.merge_head().ok_or_else(|| Error::conflict("no merge is under way in the worktree"))
}
