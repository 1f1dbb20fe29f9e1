//! A reviewer's decision on changed protected files: named ones stay, the other pending ones are reverted.
//!
//! A revert changes the branch, the decision the record. The decision is stored first, then the files are reverted and
//! committed, then the outcome is recorded; each step may be done twice. A daemon that dies between two of them leaves
//! the stored decision, and the next look carries it out to its end ([`finish`]).

use super::{Caller, Ctx, lookup, reconcile};
use crate::base::{Error, Result, checkpoint};
use crate::model::task::{META_DECIDING, META_REVERTED};
use crate::model::{Status, Task, TaskId, Violation, ViolationStatus, violations};
use crate::store::{Change, Edit, TaskRecord};

/// Decides every pending file. `None` decides none and is refused while there are any. What was reverted is committed
/// and recorded when this returns, and waits in [`untold`]; the edits it returns record approvals alone.
pub(super) async fn decide(ctx: &Ctx, record: &mut TaskRecord, approved: Option<&[String]>) -> Result<Vec<Edit>> {
    let name = record.task.display_id();
    let known: Vec<&str> = violations::in_force(&record.turns).iter().map(|found| found.file.as_str()).collect();
    if let Some(unknown) = approved.unwrap_or_default().iter().find(|file| !known.contains(&file.as_str())) {
        return Err(Error::invalid(format!("{unknown} is not a changed protected file of task {name}"))
            .hint(format!("lazy show {name}")));
    }
    let pending: Vec<Violation> = violations::pending(&record.turns).into_iter().cloned().collect();
    if pending.is_empty() {
        return Ok(Vec::new());
    }
    let Some(approved) = approved else {
        let files: Vec<&str> = pending.iter().map(|violation| violation.file.as_str()).collect();
        let error = Error::conflict(format!("task {name} changed protected files; decide each: {}", files.join(", ")));
        let approve: Vec<String> = files.iter().map(|file| format!("--approve-file {file}")).collect();
        return Err(error
            .hint(format!("keep them: lazy unblock {name} -m '…' {}", approve.join(" ")))
            .hint(format!("revert them: lazy unblock {name} -m '…' --no-approve-files")));
    };
    if pending.iter().all(|violation| approved.contains(&violation.file)) {
        return Ok(record_decision(record, approved).into_iter().collect());
    }
    let id = record.task.id;
    let deciding = Change::Meta(META_DECIDING.into(), Some(serde_json::json!(approved).to_string()));
    ctx.store().apply(vec![Edit::new(id, deciding)])?;
    checkpoint::reach("ops.after-decision");
    if let Err(error) = carry_out(ctx, record, approved).await {
        // Nothing is recorded as reverted; the reviewer hears why and decides again.
        ctx.store().apply(vec![Edit::new(id, Change::Meta(META_DECIDING.into(), None))])?;
        return Err(error);
    }
    Ok(Vec::new())
}

/// Carries out to its end what an earlier daemon had begun; the caller holds the lifecycle lock.
pub(super) async fn finish(ctx: &Ctx, id: TaskId) -> Result<()> {
    let row = lookup::by_id(ctx, id)?;
    let Some(stored) = row.task.meta(META_DECIDING) else { return Ok(()) };
    let approved: Vec<String> = serde_json::from_str(stored).unwrap_or_default();
    let mut record = lookup::load(ctx, id).await?;
    let told = match carry_out(ctx, &mut record, &approved).await {
        Ok(()) => format!(
            "A decision on protected files that the daemon's end had interrupted was carried out; reverted: {}",
            untold(&record).0.join(", ")
        ),
        Err(error) => format!(
            "A decision on protected files was interrupted by the daemon's end and could not be carried out ({error}); \
             decide again"
        ),
    };
    let mut edits = vec![
        Edit::new(id, Change::Meta(META_DECIDING.into(), None)),
        Edit::new(id, Change::Journal(Box::new(reconcile::journal(ctx, id, &Caller::system(), &told)))),
    ];
    if row.status() == Status::Conflict && violations::resting_status(&record.turns) == Status::Blocked {
        edits.extend(reconcile::to_status(Status::Conflict, Status::Blocked, id));
    }
    ctx.store().apply(edits)
}

/// Whether an earlier daemon left a decision half-done.
pub(super) fn is_half_done(task: &Task) -> bool {
    task.meta(META_DECIDING).is_some()
}

/// The reverted files that the agent has not heard of, and the edit that counts them as told.
pub(super) fn untold(record: &TaskRecord) -> (Vec<String>, Option<Edit>) {
    let Some(stored) = record.task.meta(META_REVERTED) else { return (Vec::new(), None) };
    let files = serde_json::from_str(stored).unwrap_or_default();
    (files, Some(Edit::new(record.task.id, Change::Meta(META_REVERTED.into(), None))))
}

/// Reverts every pending file that is not approved, commits that, and records it, here and in the store.
async fn carry_out(ctx: &Ctx, record: &mut TaskRecord, approved: &[String]) -> Result<()> {
    let id = record.task.id;
    let row = lookup::by_id(ctx, id)?;
    let worktree = lookup::require_worktree(ctx, &row)?;
    let pending = violations::pending(&record.turns).into_iter();
    let refused: Vec<Violation> = pending.filter(|violation| !approved.contains(&violation.file)).cloned().collect();
    let files: Vec<String> = refused.iter().map(|violation| violation.file.clone()).collect();
    for violation in &refused {
        worktree.revert_file(&violation.file, &violation.base_sha).await?;
    }
    if !files.is_empty() {
        worktree.commit(&format!("Revert protected files: {}", files.join(", ")), &files).await?;
    }
    checkpoint::reach("ops.after-revert");
    let mut edits = vec![Edit::new(id, Change::Meta(META_DECIDING.into(), None))];
    edits.extend(record_decision(record, approved));
    let (mut reverted, _) = untold(record);
    reverted.extend(files);
    if !reverted.is_empty() {
        let text = serde_json::json!(reverted).to_string();
        edits.push(Edit::new(id, Change::Meta(META_REVERTED.into(), Some(text))));
    }
    ctx.store().apply(edits)?;
    record.task = lookup::load(ctx, id).await?.task;
    Ok(())
}

/// Decides the pending violations of the set in force, in the record and as an edit.
fn record_decision(record: &mut TaskRecord, approved: &[String]) -> Option<Edit> {
    let turn = record.turns.iter_mut().rev().find(|turn| turn.violations.is_some())?;
    let decided = turn.violations.as_mut()?;
    for violation in decided.iter_mut().filter(|violation| violation.status == ViolationStatus::Pending) {
        violation.status = match approved.contains(&violation.file) {
            true => ViolationStatus::Approved,
            false => ViolationStatus::Rejected,
        };
    }
    let change = Change::Violations { turn: turn.id.clone(), violations: decided.clone() };
    Some(Edit::new(record.task.id, change))
}
