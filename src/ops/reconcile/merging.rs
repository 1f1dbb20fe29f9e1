//! Merges that nobody is making any more.

use super::super::{Caller, Ctx, accept, lookup};
use crate::base::Result;
use crate::model::task::{META_ACCEPT_FROM, META_ACCEPT_TIP};
use crate::model::{Status, TaskId};
use crate::store::{Change, Edit, TaskRow};

/// The annotated tag on the merge of an accepted task.
pub(crate) fn accept_tag(task: TaskId) -> String {
    format!("lazy-accept-{task}")
}

/// Finishes or undoes a merge whose maker died; the caller holds the lifecycle lock, so no one is making it now.
pub(crate) async fn unstrand_merge(ctx: &Ctx, id: TaskId) -> Result<()> {
    let row = lookup::by_id(ctx, id)?;
    let Some(before) = row.task.meta(META_ACCEPT_FROM) else { return Ok(()) };
    if row.status() != Status::Merging {
        return Ok(());
    }
    let caller = Caller::system();
    if let Some(sha) = made_merge(ctx, &row)? {
        tracing::info!(task = %id, %sha, "completing a merge that was interrupted");
        accept::complete(ctx, &caller, id, Some(sha), "the merge had been made before the daemon ended", Vec::new())
            .await?;
        return Ok(());
    }
    let to = Status::parse(before).filter(|status| status.waits_for_review()).unwrap_or(Status::Blocked);
    tracing::info!(task = %id, "undoing a merge that was interrupted");
    ctx.store().apply(vec![
        Edit::new(id, Change::Status { to, by: caller.by }),
        Edit::new(id, Change::Meta(META_ACCEPT_FROM.into(), None)),
        Edit::new(id, Change::Meta(META_ACCEPT_TIP.into(), None)),
    ])
}

/// The merge commit of a task, if its target got it since the accept began: by the tag, else by the trailer of its
/// message. An earlier accept of a task that was reopened since is none.
fn made_merge(ctx: &Ctx, row: &TaskRow) -> Result<Option<String>> {
    let target = lookup::target_branch(ctx, row)?;
    let (Some(tip), Some(before)) = (ctx.repo().branch_sha(&target)?, row.task.meta(META_ACCEPT_TIP)) else {
        return Ok(None);
    };
    let tagged = ctx.repo().resolve(&format!("refs/tags/{}", accept_tag(row.id())))?;
    let trailer = format!("Lazy-Task: {}", row.id());
    let since = ctx.repo().commits_between(before, &tip)?;
    let made = since.into_iter().find(|commit| {
        tagged.as_ref() == Some(&commit.sha) || commit.message.lines().any(|line| line.trim() == trailer)
    });
    Ok(made.map(|commit| commit.sha))
}
