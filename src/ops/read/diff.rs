//! `diff`: what a task changed.

use crate::base::{Error, Result};
use crate::git::{DiffFormat, DiffRange};
use crate::model::{Role, Turn};
use crate::ops::{Caller, Ctx, Narrator, Operation, lookup};
use crate::rpc::commands::{Diff, DiffParams, DiffReport};
use crate::store::{TaskRecord, TaskRow};

impl Operation for Diff {
    async fn run(ctx: &Ctx, caller: &Caller, params: DiffParams, _: &Narrator) -> Result<DiffReport> {
        let record = lookup::record(ctx, caller, &params.task).await?;
        let row = lookup::by_id(ctx, record.task.id)?;
        record.require_session()?;
        let range = match &params.turn {
            Some(turn) => turn_range(&record, turn)?,
            None => task_range(ctx, &row, &record)?,
        };
        let format = if params.full { DiffFormat::Patch } else { DiffFormat::Stat };
        let output = ctx.repo().diff(&range, format, &params.files).await?;
        let diff_range = match &range {
            DiffRange::ThreeDot { base, head } => format!("{base}...{head}"),
            DiffRange::TwoDot { from, to } => format!("{from}..{to}"),
        };
        let last_answer = record.turns.iter().rev().find(|turn| turn.role == Role::Agent).map(|turn| turn.timestamp);
        let new_comments = record
            .comments
            .into_iter()
            .filter(|comment| last_answer.is_none_or(|at| comment.created_at > at))
            .collect();
        Ok(DiffReport { output, diff_range, task_id: record.task.id, new_comments })
    }
}

/// Against the target's side of the fork; for a finished task against what it merged into.
fn task_range(ctx: &Ctx, row: &TaskRow, record: &TaskRecord) -> Result<DiffRange> {
    let session = record.require_session()?;
    if ctx.repo().branch_sha(&session.git_branch)?.is_none() {
        let merge = row.task.meta(crate::model::task::META_MERGE_SHA);
        return match merge {
            Some(sha) => Ok(DiffRange::TwoDot { from: format!("{sha}^"), to: sha.to_string() }),
            None => Err(Error::conflict(format!("the branch {} does not exist any more", session.git_branch))),
        };
    }
    let target = lookup::target_branch(ctx, row).ok();
    let known = target.filter(|target| ctx.repo().resolve(target).ok().flatten().is_some());
    Ok(match known {
        Some(base) => DiffRange::ThreeDot { base, head: session.git_branch.clone() },
        None => {
            let from = session.upstream_merge_sha.clone().unwrap_or_else(|| session.git_start_sha.clone());
            DiffRange::TwoDot { from, to: session.git_branch.clone() }
        }
    })
}

/// What one agent turn changed.
fn turn_range(record: &TaskRecord, named: &str) -> Result<DiffRange> {
    let with_work =
        |turn: &&Turn| turn.role == Role::Agent && turn.start_sha_work.is_some() && turn.end_sha_work.is_some();
    let numbers: Vec<String> = record.turns.iter().filter(with_work).map(|turn| turn.sequence.to_string()).collect();
    let found = match named.trim() {
        "latest" => record.turns.iter().rfind(with_work),
        number => record.turns.iter().filter(with_work).find(|turn| turn.sequence.to_string() == number),
    };
    let name = record.task.display_id();
    let turn = found.ok_or_else(|| match numbers.is_empty() {
        true => Error::not_found(format!("no agent turn of task {name} has recorded what it changed")),
        false => Error::not_found(format!("task {name} has no agent turn {named}; there are {}", numbers.join(", "))),
    })?;
    let side = |sha: &Option<String>| sha.clone().unwrap_or_default();
    Ok(DiffRange::TwoDot { from: side(&turn.start_sha_work), to: side(&turn.end_sha_work) })
}
