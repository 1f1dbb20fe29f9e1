//! `list`: rows out of the index. No file is read but for tasks that are working.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::live;
use crate::base::{Error, Result};
use crate::model::{Status, TaskId, tags};
use crate::ops::{Caller, Ctx, Narrator, Operation, lookup};
use crate::rpc::commands::{List, ListParams, ListReport, ListView, TaskLine};
use crate::store::TaskRow;

impl Operation for List {
    async fn run(ctx: &Ctx, caller: &Caller, params: ListParams, _: &Narrator) -> Result<ListReport> {
        if params.levels == Some(0) {
            return Err(Error::invalid("levels must be at least 1"));
        }
        let root = params.task.as_deref().map(|name| lookup::row(ctx, caller, name)).transpose()?.map(|row| row.id());
        let tag = params.tag.as_deref().map(tags::normalize).transpose()?;
        let rows = ctx.store().rows();
        let below = root.map(|root| descendants(&rows, root));
        let mut shown: Vec<Arc<TaskRow>> = rows
            .iter()
            .filter(|row| is_in_view(row, params.view) && below.as_ref().is_none_or(|ids| ids.contains(&row.id())))
            .filter(|row| tag.as_ref().is_none_or(|tag| row.task.tags.contains(tag)))
            .cloned()
            .collect();
        if params.view == ListView::Blocked {
            shown.sort_by_key(|row| std::cmp::Reverse(row.last_active()));
        }
        let names: HashMap<TaskId, String> = rows.iter().map(|row| (row.id(), row.task.display_id())).collect();
        let queue = queue_places(&rows);
        let mut report = ListReport::default();
        for (row, depth, hidden) in in_tree_order(&shown, params.levels.unwrap_or(u32::MAX)) {
            let Some(depth) = depth else {
                report.hidden += 1;
                continue;
            };
            report.tasks.push(line(ctx, &row, depth, hidden, &names, &queue).await);
        }
        report.damaged = lookup::damaged(ctx).await?;
        Ok(report)
    }
}

fn is_in_view(row: &TaskRow, view: ListView) -> bool {
    match view {
        ListView::All => true,
        ListView::Open => !row.status().is_terminal(),
        ListView::Active => !row.status().is_terminal() && row.session.is_some(),
        ListView::Blocked => row.status().waits_for_review(),
    }
}

/// A task and all below it, over every status: a finished one does not hide what is under it.
fn descendants(rows: &[Arc<TaskRow>], root: TaskId) -> HashSet<TaskId> {
    let mut children: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    for row in rows {
        if let Some(parent) = row.parent() {
            children.entry(parent).or_default().push(row.id());
        }
    }
    let mut found = HashSet::from([root]);
    let mut next = vec![root];
    while let Some(id) = next.pop() {
        for child in children.get(&id).into_iter().flatten() {
            if found.insert(*child) {
                next.push(*child);
            }
        }
    }
    found
}

/// Parents before children, each with its depth (`None` below `levels`) and the count of descendants left out.
fn in_tree_order(rows: &[Arc<TaskRow>], levels: u32) -> Vec<(Arc<TaskRow>, Option<u32>, u32)> {
    let ids: HashSet<TaskId> = rows.iter().map(|row| row.id()).collect();
    let mut children: HashMap<Option<TaskId>, Vec<&Arc<TaskRow>>> = HashMap::new();
    for row in rows {
        // A parent that is not shown makes its child a root; so does a circle, which only a damaged store has.
        children
            .entry(row.parent().filter(|parent| ids.contains(parent) && *parent != row.id()))
            .or_default()
            .push(row);
    }
    let mut out = Vec::with_capacity(rows.len());
    let mut seen = HashSet::new();
    let mut stack: Vec<(&Arc<TaskRow>, u32)> =
        children.get(&None).into_iter().flatten().rev().map(|row| (*row, 0)).collect();
    while let Some((row, depth)) = stack.pop() {
        if !seen.insert(row.id()) {
            continue;
        }
        let below = children.get(&Some(row.id()));
        stack.extend(below.into_iter().flatten().rev().map(|child| (*child, depth + 1)));
        let hidden = if depth + 1 == levels { count_below(&children, row.id()) } else { 0 };
        out.push((Arc::clone(row), (depth < levels).then_some(depth), hidden));
    }
    for row in rows.iter().filter(|row| !seen.contains(&row.id())) {
        out.push((Arc::clone(row), Some(0), 0));
    }
    out
}

fn count_below(children: &HashMap<Option<TaskId>, Vec<&Arc<TaskRow>>>, id: TaskId) -> u32 {
    let mut count = 0;
    let mut next = vec![id];
    let mut seen = HashSet::from([id]);
    while let Some(id) = next.pop() {
        for child in children.get(&Some(id)).into_iter().flatten() {
            if seen.insert(child.id()) {
                count += 1;
                next.push(child.id());
            }
        }
    }
    count
}

/// Places in the start queue: the order in which the queue is drained.
fn queue_places(rows: &[Arc<TaskRow>]) -> HashMap<TaskId, (u32, u32)> {
    let mut queued: Vec<&Arc<TaskRow>> = rows.iter().filter(|row| row.status() == Status::Queued).collect();
    queued.sort_by_key(|row| (std::cmp::Reverse(row.task.priority), row.task.created_at));
    let length = u32::try_from(queued.len()).unwrap_or(u32::MAX);
    (1..).zip(queued).map(|(place, row)| (row.id(), (place, length))).collect()
}

async fn line(
    ctx: &Ctx,
    row: &TaskRow,
    depth: u32,
    hidden_descendants: u32,
    names: &HashMap<TaskId, String>,
    queue: &HashMap<TaskId, (u32, u32)>,
) -> TaskLine {
    let live = match row.status() {
        Status::Working => live::look(ctx, row).await,
        _ => live::Live::default(),
    };
    let session = row.session.as_ref();
    let stopped = session.is_some_and(|session| session.user_stopped);
    TaskLine {
        id: row.id(),
        code: row.task.code.as_ref().map(ToString::to_string),
        goal: row.task.goal.clone(),
        status: row.status(),
        substate: live.substate,
        progress: live.progress,
        stopped: stopped && !row.status().is_terminal(),
        crashed: row.status() == Status::Interrupted && !stopped,
        outcome: session.and_then(|session| session.outcome).map(|outcome| outcome.as_str().into()),
        queue: queue.get(&row.id()).copied(),
        task_type: row.task.task_type,
        priority: row.task.priority,
        agent: row.task.agent_id.clone(),
        model: row.task.model.clone(),
        parent_task_id: row.parent(),
        parent: row.parent().and_then(|id| names.get(&id).cloned()),
        orphaned: lookup::orphaned(ctx, row),
        tags: row.task.tags.clone(),
        turns: row.turn_count,
        created_at: row.task.created_at,
        last_active_at: row.last_active(),
        duration_ms: session.map_or(0, |session| session.total_duration_ms),
        open_blocking: row.open_blocking,
        depth,
        hidden_descendants,
    }
}
