//! A list of edits worked out in memory: the records as they would be, and the refusals that need other tasks.

use std::collections::HashMap;
use std::path::Path;

use super::apply::{self, Touched};
use super::change::{Change, Edit};
use super::event::AppliedEdit;
use super::index::{self, Index};
use super::journal::NewFile;
use super::layout::{self, Parts};
use super::read::{self, Loaded};
use super::record::{TaskRecord, TaskRow};
use super::write;
use crate::base::{Error, Millis, Result};
use crate::model::{Code, Task, TaskId};

/// The records a list of edits works on.
pub(super) struct Plan<'a> {
    root: &'a Path,
    index: &'a Index,
    now: Millis,
    tasks: HashMap<TaskId, Worked>,
    order: Vec<TaskId>,
    edits: Vec<AppliedEdit>,
}

struct Worked {
    loaded: Loaded,
    parts: Parts,
}

/// What a plan comes to.
pub(super) struct Outcome {
    /// The files to write.
    pub(super) files: Vec<NewFile>,
    /// The rows as they will be.
    pub(super) rows: Vec<TaskRow>,
    /// What to tell subscribers.
    pub(super) edits: Vec<AppliedEdit>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(root: &'a Path, index: &'a Index, now: Millis) -> Plan<'a> {
        Plan { root, index, now, tasks: HashMap::new(), order: Vec::new(), edits: Vec::new() }
    }

    /// Works one edit in.
    pub(super) fn add(&mut self, edit: Edit) -> Result<()> {
        let Edit { task: id, change } = edit;
        let touched = match change {
            Change::Created { task, by } => {
                apply::require_same_task(id, task.id, "record")?;
                // A directory with a torn record is no free place: the refusal names the file.
                let stored = read::load_task(&self.root.join(layout::task_dir(id)), id, &mut Default::default());
                if self.tasks.contains_key(&id) || stored.map_err(|torn| torn.error)?.is_some() {
                    return Err(Error::conflict(format!("task {} exists already", id.short())));
                }
                self.require_free_code(&task)?;
                self.require_parent(&task)?;
                let record = apply::create(*task, &by, self.now)?;
                let loaded = Loaded { record, raw: Default::default() };
                self.tasks.insert(id, Worked { loaded, parts: Parts::NONE });
                self.order.push(id);
                Touched { parts: Parts::NEW_TASK, effect: Some(super::event::Effect::Created) }
            }
            change => {
                self.load(id)?;
                let now = self.now;
                let Some(worked) = self.tasks.get_mut(&id) else { return Err(no_such_task(id)) };
                let record = &mut worked.loaded.record;
                let before = (record.task.code.clone(), record.task.status, record.task.target.clone());
                let touched = apply::apply_change(record, change, now)?;
                let task = record.task.clone();
                if task.code != before.0 || (before.1.is_terminal() && !task.status.is_terminal()) {
                    self.require_free_code(&task)?;
                }
                if task.target != before.2 {
                    self.require_parent(&task)?;
                }
                touched
            }
        };
        if let Some(effect) = touched.effect {
            if let Some(worked) = self.tasks.get_mut(&id) {
                worked.parts = worked.parts.plus(touched.parts);
            }
            self.edits.push(AppliedEdit { task: id, effect });
        }
        Ok(())
    }

    /// The files to write for all that was worked in.
    pub(super) fn finish(self) -> Result<Outcome> {
        let mut outcome = Outcome { files: Vec::new(), rows: Vec::new(), edits: self.edits };
        for id in &self.order {
            let Some(Worked { loaded, parts }) = self.tasks.get(id) else { continue };
            for part in parts.iter() {
                if let Some(bytes) = write::encode(part, &loaded.raw, &loaded.record)? {
                    outcome.files.push(NewFile { path: layout::task_file(*id, part), bytes });
                }
            }
            if *parts != Parts::NONE {
                outcome.rows.push(index::row_of(&loaded.record));
            }
        }
        Ok(outcome)
    }

    fn load(&mut self, id: TaskId) -> Result<()> {
        if self.tasks.contains_key(&id) {
            return Ok(());
        }
        let loaded = read::load(self.root, id).map_err(|torn| torn.error)?.ok_or_else(|| no_such_task(id))?;
        self.tasks.insert(id, Worked { loaded, parts: Parts::NONE });
        self.order.push(id);
        Ok(())
    }

    /// A task as it would be after the edits so far.
    fn task(&self, id: TaskId) -> Option<&Task> {
        let worked = self.tasks.get(&id).map(|worked| &worked.loaded.record.task);
        worked.or_else(|| self.index.row(id).map(|row| &row.task))
    }

    fn require_free_code(&self, task: &Task) -> Result<()> {
        let Some(code) = task.code.as_ref().filter(|_| !task.status.is_terminal()) else { return Ok(()) };
        let has =
            |other: &&Task| other.id != task.id && other.code.as_ref() == Some(code) && !other.status.is_terminal();
        let worked = self.tasks.values().map(|worked: &Worked| record(worked)).map(|record| &record.task).find(has);
        let stored = || {
            let rows = self.index.rows().map(|row| &row.task);
            rows.filter(|other| !self.tasks.contains_key(&other.id)).find(has)
        };
        match worked.or_else(stored) {
            None => Ok(()),
            Some(other) => Err(code_taken(code, other)),
        }
    }

    fn require_parent(&self, task: &Task) -> Result<()> {
        let Some(parent) = task.target.parent() else { return Ok(()) };
        let name = task.display_id();
        let Some(record) = self.task(parent) else {
            return Err(no_such_task(parent).context(format!("the parent of task {name}")));
        };
        if record.status.is_terminal() && !task.status.is_terminal() {
            let parent = record.display_id();
            return Err(Error::conflict(format!("task {parent} is {} and cannot be a parent", record.status))
                .hint(format!("lazy reopen {parent}")));
        }
        let mut path = vec![name.clone()];
        let mut next = Some(parent);
        // An older store may hold a circle of its own: no more steps than there are tasks.
        for _ in 0..=self.index.rows().count() + self.tasks.len() {
            let Some(ancestor) = next.and_then(|id| self.task(id)) else { return Ok(()) };
            path.push(ancestor.display_id());
            if ancestor.id == task.id {
                return Err(Error::conflict(format!(
                    "task {name} cannot go into that parent: the tasks would form a circle ({})",
                    path.join(" into ")
                )));
            }
            next = ancestor.target.parent();
        }
        Ok(())
    }
}

fn record(worked: &Worked) -> &TaskRecord {
    &worked.loaded.record
}

fn code_taken(code: &Code, other: &Task) -> Error {
    Error::conflict(format!("the code {code} belongs to task {}, which is {}", other.id.short(), other.status))
        .hint(format!("choose another code, or see who has it: lazy show {}", other.id.short()))
}

/// The refusal for an id that no task has.
pub(super) fn no_such_task(id: TaskId) -> Error {
    Error::not_found(format!("there is no task {id}")).hint("lazy list --all")
}
