//! `accept`: a task's work becomes one commit on its target, and the task ends.
//!
//! The user's checkout is never lost sight of: the merge is made beside it, and where the target is checked out it moves
//! only if no uncommitted file is in the way. A crash between the merge and its record is found again by the annotated
//! tag `lazy-accept-<task id>`.

use super::{Caller, Ctx, Narrator, Operation, finish, gates, launch, lookup, protecting, raised, reconcile};
use crate::base::{Error, Result, checkpoint, text};
use crate::git::{DiffFormat, DiffRange, SquashMerge, Squashed};
use crate::model::task::{META_ACCEPT_FROM, META_ACCEPT_TIP, META_MERGE_SHA};
use crate::model::{CommitStatus, Outcome, Status, TaskId};
use crate::rpc::commands::{Accept, AcceptParams, AcceptReport};
use crate::store::{Change, Edit, SessionPatch, TaskRow};

impl Operation for Accept {
    async fn run(ctx: &Ctx, caller: &Caller, params: AcceptParams, narrator: &Narrator) -> Result<AcceptReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_child(&row, "accept")?;
        let id = row.id();
        let _lock = ctx.lock_task(id).await;
        narrator.phase("checking");
        reconcile::unstrand_merge(ctx, id).await?;
        protecting::finish(ctx, id).await?;
        let row = lookup::by_id(ctx, id)?;
        if row.status() == Status::Complete {
            return already(ctx, &row);
        }
        let target = require_acceptable(ctx, caller, &row).await?;
        let record = lookup::load(ctx, id).await?;
        let decided = raised::decide(ctx, caller, &record, &params.raised)?;
        raised::require_none_blocking(&record, &decided.items)?;
        gates::require_files_approved(&record, &params.approved_files)?;
        gates::require_branch_approved(ctx, &row, &record, &target, &params.approved_files).await?;
        gates::require_unprotected(ctx, &row, &target)?;
        let session = record.require_session()?;
        let name = row.task.display_id();
        gates::require_no_resurrection(ctx, &name, &target, &session.git_branch, &params.approved_files).await?;
        let range = DiffRange::ThreeDot { base: target.clone(), head: session.git_branch.clone() };
        let diff_stat = ctx.repo().diff(&range, DiffFormat::ShortStat, &[]).await?.trim().to_string();
        let reason =
            text::escape_controls(params.reason.as_deref().map(str::trim).filter(|r| !r.is_empty()).unwrap_or("LGTM"));

        let previous = row.status();
        let tip = ctx.repo().branch_sha(&target)?;
        ctx.store().apply(vec![
            Edit::new(id, Change::Meta(META_ACCEPT_FROM.into(), Some(previous.to_string()))),
            Edit::new(id, Change::Meta(META_ACCEPT_TIP.into(), tip)),
            Edit::new(id, Change::Status { to: Status::Merging, by: caller.by.clone() }),
        ])?;
        checkpoint::reach("ops.after-merging");
        narrator.phase("merging");
        match merge(ctx, &row, &target, &reason).await {
            Ok(merge_sha) => {
                checkpoint::reach("ops.after-merge");
                narrator.phase("finishing");
                let (reparented, warnings) =
                    complete(ctx, caller, id, merge_sha.clone(), &reason, decided.edits).await?;
                Ok(AcceptReport {
                    task: lookup::brief_now(ctx, id)?,
                    merge_sha,
                    target_branch: target,
                    diff_stat,
                    reparented: reparented.into_iter().map(|id| lookup::brief_now(ctx, id)).collect::<Result<_>>()?,
                    already: false,
                    warnings,
                })
            }
            Err(error) => {
                restore(ctx, id, previous)?;
                Err(error)
            }
        }
    }
}

/// Refuses everything that must be settled first; returns the target branch.
async fn require_acceptable(ctx: &Ctx, caller: &Caller, row: &TaskRow) -> Result<String> {
    let name = row.task.display_id();
    launch::require_no_turn(row)?;
    match row.status() {
        status if status.waits_for_review() => {}
        Status::Working => {
            return Err(Error::conflict(format!("task {name} is still working")).hint(format!("lazy wait {name}")));
        }
        Status::Interrupted => {
            return Err(Error::conflict(format!("task {name} was interrupted before its turn ended"))
                .hint(format!("lazy resume {name}"))
                .hint(format!("to take the work as it is: lazy stop {name}, then lazy accept {name}")));
        }
        Status::Backlog | Status::Queued => {
            return Err(Error::conflict(format!("task {name} was never started")).hint(format!("lazy start {name}")));
        }
        Status::Abandoned => {
            return Err(Error::conflict(format!("task {name} is abandoned")).hint(format!("lazy reopen {name}")));
        }
        status => return Err(Error::conflict(format!("task {name} is {status}")).hint(format!("lazy show {name}"))),
    }
    gates::require_idle_parent(ctx, row, caller.own_task())?;
    if let Some(worktree) = lookup::worktree(ctx, row) {
        finish::require_clean(&worktree, row).await?;
    }
    lookup::target_branch(ctx, row)
}

/// The squash commit on the target, tagged; `None` when the task had changed nothing.
async fn merge(ctx: &Ctx, row: &TaskRow, target: &str, reason: &str) -> Result<Option<String>> {
    let name = row.task.display_id();
    let session = row.session.as_ref().ok_or_else(|| Error::internal("an accepted task has no session"))?;
    let task_ref = row.task.task_ref().map_or_else(|| name.clone(), |task_ref| task_ref.to_string());
    let message = format!("{}\n\nAccept task {task_ref}\n\n{reason}\n\nLazy-Task: {}\n", row.task.goal, row.id());
    let request =
        SquashMerge { branch: session.git_branch.clone(), target: target.to_string(), message, expected_target: None };
    match ctx.forge().merge(ctx.repo(), &request).await? {
        Squashed::Merged { sha, .. } => {
            let tag = reconcile::accept_tag(row.id());
            // The target has moved: what comes after can fail without undoing that. The trailer says the same.
            if let Err(error) = ctx.repo().tag(&tag, &sha, Some(&format!("Accepted task {name}"))).await {
                tracing::warn!(task = %row.id(), %error, "the accepted merge could not be tagged");
            }
            Ok(Some(sha))
        }
        Squashed::NothingToMerge => Ok(None),
        Squashed::Conflicts { files } => Err(Error::conflict(format!(
            "task {name} conflicts with {target} in {}: {}",
            text::plural(files.len(), "file"),
            files.join(", ")
        ))
        .hint(format!("lazy unblock {name} -m 'merge {target} into your branch and resolve the conflicts'"))),
    }
}

/// The merge is durable: the task ends, its children move to its target, and what it no longer needs is taken down.
pub(super) async fn complete(
    ctx: &Ctx,
    caller: &Caller,
    id: TaskId,
    merge_sha: Option<String>,
    reason: &str,
    decisions: Vec<Edit>,
) -> Result<(Vec<TaskId>, Vec<String>)> {
    let row = lookup::by_id(ctx, id)?;
    let mut children: Vec<TaskId> = finish::open_children(ctx, id).iter().map(|child| child.id()).collect();
    let heir = lookup::heir(ctx, &row);
    // Decisions on raised items count only with the merge they were made for.
    let mut edits = decisions;
    edits.extend(children.iter().map(|child| finish::retarget(*child, &heir)));
    let patch = SessionPatch { ended: Some((ctx.process().now(), Outcome::Accepted)), ..SessionPatch::default() };
    edits.push(Edit::new(id, Change::Session(Box::new(patch))));
    edits.push(Edit::new(id, Change::CommitsDecided(CommitStatus::Approved)));
    edits.push(Edit::new(id, Change::Meta(META_ACCEPT_FROM.into(), None)));
    edits.push(Edit::new(id, Change::Meta(META_ACCEPT_TIP.into(), None)));
    if merge_sha.is_some() {
        edits.push(Edit::new(id, Change::Meta(META_MERGE_SHA.into(), merge_sha)));
    }
    edits.push(Edit::new(
        id,
        Change::Journal(Box::new(reconcile::journal(ctx, id, caller, &format!("Accepted: {reason}")))),
    ));
    edits.push(Edit::new(id, Change::Status { to: Status::Complete, by: caller.by.clone() }));
    ctx.store().apply(edits)?;
    children.extend(finish::retarget_latecomers(ctx, id, &heir)?);
    checkpoint::reach("ops.after-complete");
    let warnings = finish::clean_up(ctx, id, finish::Keep::Nothing).await;
    Ok((children, warnings))
}

/// The merge did not happen: the task stands where it stood.
fn restore(ctx: &Ctx, id: TaskId, previous: Status) -> Result<()> {
    ctx.store().apply(vec![
        Edit::new(id, Change::Status { to: previous, by: Caller::system().by }),
        Edit::new(id, Change::Meta(META_ACCEPT_FROM.into(), None)),
        Edit::new(id, Change::Meta(META_ACCEPT_TIP.into(), None)),
    ])
}

/// A second accept is told what the first one did.
fn already(ctx: &Ctx, row: &TaskRow) -> Result<AcceptReport> {
    let name = row.task.display_id();
    if row.session.as_ref().and_then(|session| session.outcome) != Some(Outcome::Accepted) {
        return Err(Error::conflict(format!("task {name} is complete")).hint(format!("lazy show {name}")));
    }
    Ok(AcceptReport {
        task: lookup::brief(row),
        merge_sha: row.task.meta(META_MERGE_SHA).map(str::to_string),
        target_branch: lookup::target_branch(ctx, row).unwrap_or_default(),
        diff_stat: String::new(),
        reparented: Vec::new(),
        already: true,
        warnings: Vec::new(),
    })
}
