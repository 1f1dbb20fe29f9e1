//! Reading the rows of all tasks when a store is opened: only the files a row needs, on all cores.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::index;
use super::layout::{self, Part};
use super::read::{self, Torn};
use super::record::TaskRow;
use crate::base::{Result, ResultExt, files};
use crate::model::{RaisedStatus, TaskId};

/// Threads that read. More than there are cores, because with a cold cache they wait for the disk, which serves many
/// requests at once faster than one after the other.
const THREADS: usize = 16;

/// Tasks that are worth a thread.
const TASKS_PER_THREAD: usize = 32;

/// What was found in one task's directory.
pub(super) struct Found {
    /// The task.
    pub(super) id: TaskId,
    /// Its row, as far as it can be read.
    pub(super) row: Option<TaskRow>,
    /// The files of it that cannot.
    pub(super) torn: Vec<Torn>,
}

/// A list, counted and not kept.
#[derive(Deserialize)]
struct Counted {
    #[serde(alias = "comments", alias = "commits", default)]
    turns: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct RaisedItems {
    #[serde(default)]
    raised_items: Vec<RaisedItem>,
}

#[derive(Deserialize)]
struct RaisedItem {
    #[serde(default = "blocking_by_default")]
    blocking: bool,
    status: RaisedStatus,
}

fn blocking_by_default() -> bool {
    true
}

/// Reads the rows of all tasks below `root`, and clears away what unfinished writes left.
pub(super) fn all(root: &Path) -> Result<Vec<Found>> {
    let tasks = root.join(layout::TASKS);
    let ids = task_ids(&tasks)?;
    let threads = ids.len().div_ceil(TASKS_PER_THREAD).min(THREADS);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.extend(one(root, *id));
        }
        found
    };
    let found = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut found = work();
        for other in others {
            match other.join() {
                Ok(more) => found.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        found
    });
    Ok(found)
}

fn task_ids(tasks: &Path) -> Result<Vec<TaskId>> {
    let mut ids = Vec::new();
    let entries = fs::read_dir(tasks).io_context(|| format!("cannot read {}", tasks.display()))?;
    for entry in entries {
        let entry = entry.io_context(|| format!("cannot read {}", tasks.display()))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Ok(id) = name.parse::<TaskId>() {
            // Only the spelling that ids are written in: another one would be a second task of the same id.
            if name == id.to_string() {
                ids.push(id);
            }
        } else if layout::is_litter(name) {
            let removed = match entry.file_type() {
                Ok(kind) if kind.is_dir() => files::remove_tree(&entry.path()),
                _ => files::remove_file(&entry.path()),
            };
            if let Err(error) = removed {
                tracing::warn!(%error, "what an unfinished write left could not be removed");
            }
        }
    }
    Ok(ids)
}

/// The row of one task; `None` for a directory without records.
pub(super) fn one(root: &Path, id: TaskId) -> Option<Found> {
    let dir = root.join(layout::task_dir(id));
    let names = match sweep(&dir) {
        Ok(names) => names,
        Err(error) => return Some(Found { id, row: None, torn: vec![Torn { path: dir, error }] }),
    };
    let has = |name: &str| names.iter().any(|known| known == name);
    let mut torn = Vec::new();
    let mut raw = BTreeMap::new();
    let task = match read::load_task(&dir, id, &mut raw) {
        Ok(Some(task)) => task,
        Ok(None) => return None,
        Err(error) => return Some(Found { id, row: None, torn: vec![error] }),
    };
    let mut note = |result: Result<(), Torn>| torn.extend(result.err());
    let mut session = None;
    if has(Part::Session.file()) {
        note(read::load_session(&dir, &mut raw).map(|found| session = found));
    }
    let mut row = index::bare_row(task, session);
    if has(layout::LEGACY_NOTES) || has(layout::LEGACY_FOLLOW_UPS) {
        // The lists of an older store have to be put together to be counted.
        note(read::load(root, id).map(|loaded| row = loaded.map_or(row.clone(), |l| index::row_of(&l.record))));
        return Some(Found { id, row: Some(row), torn });
    }
    for (part, counter) in [
        (Part::Turns, &mut row.turn_count),
        (Part::Comments, &mut row.comment_count),
        (Part::Commits, &mut row.commit_count),
    ] {
        if has(part.file()) {
            let counted = read::light::<Counted>(&dir.join(part.file()));
            note(counted.map(|list| *counter = list.map_or(0, |list| index::count(list.turns.len()))));
        }
    }
    if has(Part::Raised.file()) {
        let items = read::light::<RaisedItems>(&dir.join(Part::Raised.file()));
        note(items.map(|items| {
            let items = items.map(|items| items.raised_items).unwrap_or_default();
            index::count_raised(&mut row, items.iter().map(|item| (item.status, item.blocking)));
        }));
    }
    Some(Found { id, row: Some(row), torn })
}

/// The names in a directory, after unfinished writes were removed from it.
fn sweep(dir: &PathBuf) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).io_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry.io_context(|| format!("cannot read {}", dir.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.ends_with(".tmp") && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            if let Err(error) = files::remove_file(&entry.path()) {
                tracing::warn!(%error, "what an unfinished write left could not be removed");
            }
        } else {
            names.push(name);
        }
    }
    Ok(names)
}
