//! The index of all tasks in memory: what listing, filtering and naming need, and nothing else of a task.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::record::{TaskRecord, TaskRow};
use crate::base::{Millis, Result};
use crate::model::names::{self, Candidate};
use crate::model::{RaisedItem, RaisedStatus, Session, Task, TaskId};

type Place = (Reverse<Millis>, TaskId);

/// All rows, newest first.
#[derive(Debug, Default)]
pub(super) struct Index {
    ordered: BTreeMap<Place, Arc<TaskRow>>,
    places: HashMap<TaskId, Place>,
    children: HashMap<TaskId, Vec<TaskId>>,
}

impl Index {
    pub(super) fn rows(&self) -> impl Iterator<Item = &Arc<TaskRow>> + Clone {
        self.ordered.values()
    }

    pub(super) fn row(&self, id: TaskId) -> Option<&Arc<TaskRow>> {
        self.ordered.get(self.places.get(&id)?)
    }

    /// The children of a task, oldest first.
    pub(super) fn children(&self, id: TaskId) -> Vec<Arc<TaskRow>> {
        let ids = self.children.get(&id).map(Vec::as_slice).unwrap_or_default();
        let mut rows: Vec<Arc<TaskRow>> = ids.iter().filter_map(|id| self.row(*id)).cloned().collect();
        rows.sort_by_key(|row| (row.task.created_at, row.id()));
        rows
    }

    pub(super) fn put(&mut self, row: TaskRow) {
        let id = row.id();
        let place = (Reverse(row.task.created_at), id);
        let parent = row.parent();
        let old = self.places.insert(id, place).and_then(|place| self.ordered.remove(&place));
        let old_parent = old.and_then(|row| row.parent());
        if old_parent != parent {
            if let Some(siblings) = old_parent.and_then(|parent| self.children.get_mut(&parent)) {
                siblings.retain(|child| *child != id);
            }
            if let Some(parent) = parent {
                self.children.entry(parent).or_default().push(id);
            }
        }
        self.ordered.insert(place, Arc::new(row));
    }

    /// Which task the text names; `unreadable` are tasks of which only the id is known.
    pub(super) fn resolve(&self, text: &str, unreadable: &[TaskId]) -> Result<TaskId> {
        // The rule asks for codes and beginnings of ids only: most rows need not be handed to it.
        let wanted = text.trim().to_ascii_lowercase();
        let may_be_meant = |row: &&Arc<TaskRow>| {
            let id = row.id().to_string();
            row.task.code.as_ref().is_some_and(|code| code.as_str() == text.trim()) || id.starts_with(&wanted)
        };
        let exact: Option<TaskId> = text.trim().parse().ok();
        let found: Vec<&Arc<TaskRow>> = match exact {
            Some(id) => self.row(id).into_iter().collect(),
            None => self.rows().filter(may_be_meant).collect(),
        };
        let rows = found.iter().map(|row| Candidate {
            id: row.id(),
            code: row.task.code.clone(),
            terminal: row.status().is_terminal(),
            created_at: row.task.created_at,
        });
        // A task is listed once for each of its torn files.
        let bare: BTreeSet<TaskId> = unreadable.iter().filter(|id| !self.places.contains_key(id)).copied().collect();
        names::resolve(text, rows, &Vec::from_iter(bare))
    }
}

/// The row of a record.
pub(super) fn row_of(record: &TaskRecord) -> TaskRow {
    let open = record.raised.iter().map(|item: &RaisedItem| (item.status, item.blocking));
    let mut row = bare_row(record.task.clone(), record.session.clone());
    row.turn_count = count(record.turns.len());
    row.comment_count = count(record.comments.len());
    row.commit_count = count(record.commits.len());
    count_raised(&mut row, open);
    row
}

/// A row without its counts, and without what is long.
pub(super) fn bare_row(mut task: Task, mut session: Option<Session>) -> TaskRow {
    task.prompt = String::new();
    if let Some(session) = &mut session {
        session.interrupt_logs = None;
    }
    TaskRow { task, session, turn_count: 0, comment_count: 0, commit_count: 0, open_blocking: 0, open_non_blocking: 0 }
}

/// Counts the open ones of raised items, given as status and whether they block.
pub(super) fn count_raised(row: &mut TaskRow, items: impl Iterator<Item = (RaisedStatus, bool)>) {
    for (_, blocking) in items.filter(|(status, _)| *status == RaisedStatus::Open) {
        match blocking {
            true => row.open_blocking += 1,
            false => row.open_non_blocking += 1,
        }
    }
}

pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Target;

    fn row(at: i64, parent: Option<TaskId>) -> TaskRow {
        let mut task = Task::new(TaskId::random(), "goal", Millis(at));
        if let Some(parent_task_id) = parent {
            task.target = Target::Task { parent_task_id };
        }
        bare_row(task, None)
    }

    #[test]
    fn rows_are_newest_first_and_children_follow_their_parent() {
        let mut index = Index::default();
        let (old, new) = (row(1, None), row(2, None));
        let (old_id, new_id) = (old.id(), new.id());
        index.put(old);
        index.put(new);
        let mut child = row(3, Some(old_id));
        index.put(child.clone());
        assert_eq!(index.rows().map(|row| row.task.created_at.0).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(index.children(old_id).len(), 1);
        child.task.target = Target::Task { parent_task_id: new_id };
        index.put(child.clone());
        assert!(index.children(old_id).is_empty());
        assert_eq!(index.children(new_id)[0].id(), child.id());
        assert_eq!(index.rows().count(), 3);
    }

    #[test]
    fn a_task_that_cannot_be_read_still_has_its_id() {
        let index = Index::default();
        let id = TaskId::random();
        assert_eq!(index.resolve(&id.short(), &[id]).expect("resolves"), id);
        assert!(index.resolve(&id.short(), &[]).is_err());
    }
}
