//! [`Store`]: opening, reading, applying.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::change::Edit;
use super::event::Applied;
use super::index::{self, Index};
use super::journal::{Failed, Journal, Written, poisoned};
use super::plan::{Plan, no_such_task};
use super::read::{self, Torn};
use super::record::{TaskRecord, TaskRow};
use super::{layout, scan};
use crate::base::lock::{Attempt, FileLock};
use crate::base::{Error, Process, Result, files, json};
use crate::model::TaskId;

/// The newest layout this version can read and write.
const SCHEMA: u64 = 1;

/// Applied lists a slow subscriber may fall behind before it misses some and has to read the rows again.
const BACKLOG: usize = 1024;

/// The task store. Cheap to clone; every clone is the same store.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    root: PathBuf,
    process: Process,
    /// Held for as long as any clone lives.
    _lock: FileLock,
    writer: Mutex<Writer>,
    /// Taken for reading while a task's files are read, for writing while they are replaced. Holds the tasks whose
    /// files may be half-written after a failure that could not be undone.
    files: RwLock<HashSet<TaskId>>,
    index: RwLock<Index>,
    damaged: Mutex<BTreeMap<PathBuf, Damaged>>,
    events: broadcast::Sender<Arc<Applied>>,
}

struct Writer {
    journal: Journal,
    /// Why no write is taken any more.
    poisoned: Option<String>,
}

/// A file of the store that cannot be read. The task it belongs to is the only one affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The task.
    pub task: TaskId,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, with line and column.
    pub message: String,
}

#[derive(Serialize, Deserialize)]
struct Version {
    schema_version: u64,
    #[serde(default)]
    migrated_at: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Holder {
    pid: u32,
    acquired_at: String,
}

impl Store {
    /// Opens the store below `root`, making it if there is none: takes the lock, completes what a crash interrupted,
    /// and reads the rows of all tasks.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] when another process has it open (named by pid), or when a later version of
    /// lazy wrote it; [`crate::base::Kind::Io`] when the directory cannot be read or written.
    pub fn open(process: &Process, root: &Path) -> Result<Store> {
        files::create_dir(root)?;
        let lock = take_lock(process, root)?;
        require_schema(process, root)?;
        files::create_dir(&root.join(layout::TASKS))?;
        let journal = Journal::open(root)?;
        let mut index = Index::default();
        let mut damaged = BTreeMap::new();
        for found in scan::all(root)? {
            found.row.into_iter().for_each(|row| index.put(row));
            for torn in found.torn {
                note_damage(&mut damaged, found.id, &torn);
            }
        }
        Ok(Store(Arc::new(Inner {
            root: root.to_path_buf(),
            process: process.clone(),
            _lock: lock,
            writer: Mutex::new(Writer { journal, poisoned: None }),
            files: RwLock::default(),
            index: RwLock::new(index),
            damaged: Mutex::new(damaged),
            events: broadcast::Sender::new(BACKLOG),
        })))
    }

    /// Where the store is.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// The rows of all tasks, newest first. Reads no file.
    pub fn rows(&self) -> Vec<Arc<TaskRow>> {
        self.index().rows().cloned().collect()
    }

    /// The row of a task. Reads no file.
    pub fn row(&self, id: TaskId) -> Option<Arc<TaskRow>> {
        self.index().row(id).cloned()
    }

    /// The rows of the tasks whose work goes into this one, oldest first. Reads no file.
    pub fn children(&self, id: TaskId) -> Vec<Arc<TaskRow>> {
        self.index().children(id)
    }

    /// Which task the text names: its id, its code, or the beginning of its id. Reads no file.
    ///
    /// # Errors
    /// [`crate::base::Kind::NotFound`]; [`crate::base::Kind::Ambiguous`] with the candidates' ids under `matches`.
    pub fn resolve(&self, text: &str) -> Result<TaskId> {
        let unreadable: Vec<TaskId> = locked(&self.0.damaged).values().map(|damaged| damaged.task).collect();
        self.index().resolve(text, &unreadable)
    }

    /// Whether a task other than `except` has the name as its code or as its stored ref. Reads no file.
    pub fn ref_taken(&self, name: &str, except: TaskId) -> bool {
        self.index().rows().filter(|row| row.id() != except).any(|row| {
            row.task.code.as_ref().is_some_and(|code| code.as_str() == name)
                || row.task.task_ref().is_some_and(|task_ref| task_ref.as_str() == name)
        })
    }

    /// A task with all its records, as they were at one moment.
    ///
    /// # Errors
    /// [`crate::base::Kind::NotFound`]; [`crate::base::Kind::Io`] naming file, line and column of a record that does
    /// not read.
    pub fn load_task(&self, id: TaskId) -> Result<TaskRecord> {
        let unclear = self.0.files.read().unwrap_or_else(PoisonError::into_inner);
        if unclear.contains(&id) {
            return Err(poisoned(&format!("a write to task {} ended halfway", id.short())));
        }
        match read::load(&self.0.root, id) {
            Ok(Some(loaded)) => Ok(loaded.record),
            Ok(None) => Err(no_such_task(id)),
            Err(torn) => {
                note_damage(&mut locked(&self.0.damaged), id, &torn);
                Err(torn.error)
            }
        }
    }

    /// Reads the records of all tasks, newest first, and hands over one after the other. Those that cannot be read are
    /// left out; [`Store::damaged`] has them.
    pub fn for_each_record(&self, mut visit: impl FnMut(TaskRecord)) {
        for row in self.rows() {
            if let Ok(record) = self.load_task(row.id()) {
                visit(record);
            }
        }
    }

    /// The files that could not be read since the store was opened, and still cannot.
    pub fn damaged(&self) -> Vec<Damaged> {
        // In this order everywhere: the files, then the list.
        let _files = self.0.files.read().unwrap_or_else(PoisonError::into_inner);
        let mut damaged = locked(&self.0.damaged);
        let tasks: HashSet<TaskId> = damaged.values().map(|damaged| damaged.task).collect();
        for id in tasks {
            let Ok(loaded) = read::load(&self.0.root, id) else { continue };
            damaged.retain(|_, damaged| damaged.task != id);
            if let Some(loaded) = loaded {
                self.0.index.write().unwrap_or_else(PoisonError::into_inner).put(index::row_of(&loaded.record));
            }
        }
        damaged.values().cloned().collect()
    }

    /// Applies a list of edits whole or not at all, durably, and tells the subscribers. Blocks on the disk.
    ///
    /// # Errors
    /// [`crate::base::Kind::NotFound`] for an unknown task, [`crate::base::Kind::Conflict`] for what the transition
    /// table, a code in use, a circle of parents or a finished task forbids, [`crate::base::Kind::Io`] when the disk
    /// refuses. After an error nothing was applied.
    pub fn apply(&self, edits: Vec<Edit>) -> Result<()> {
        let mut writer = self.0.writer.lock().map_err(|_| poisoned("a write broke off with a panic"))?;
        if let Some(reason) = &writer.poisoned {
            return Err(poisoned(reason));
        }
        let now = self.0.process.now();
        let outcome = {
            let index = self.index();
            let mut plan = Plan::new(&self.0.root, &index, now);
            edits.into_iter().try_for_each(|edit| plan.add(edit))?;
            plan.finish()?
        };
        if outcome.edits.is_empty() {
            return Ok(());
        }
        {
            let mut unclear = self.0.files.write().unwrap_or_else(PoisonError::into_inner);
            match writer.journal.write(&outcome.files) {
                Ok(Written::Clean) => {}
                Ok(Written::Stuck(error)) => {
                    tracing::error!(%error, "the trace of a finished write cannot be removed");
                    writer.poisoned = Some(format!("the trace of a finished write cannot be removed ({error})"));
                }
                Err(Failed::NotApplied(error)) => return Err(error.context("nothing was applied")),
                Err(Failed::Unclear(error)) => {
                    tracing::error!(%error, "a write failed and could not be undone");
                    unclear.extend(outcome.rows.iter().map(TaskRow::id));
                    writer.poisoned = Some(format!("a write failed and could not be undone ({error})"));
                    return Err(error.context("a write failed halfway; opening the store again completes it"));
                }
            }
            let mut index = self.0.index.write().unwrap_or_else(PoisonError::into_inner);
            outcome.rows.into_iter().for_each(|row| index.put(row));
        }
        // Still under the writer's lock: subscribers see the lists in the order they were applied. None may listen.
        self.0.events.send(Arc::new(Applied { at: now, edits: outcome.edits })).ok();
        Ok(())
    }

    /// Every list applied from now on, in order. A receiver that falls 1024 lists behind is told so and misses some.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Applied>> {
        self.0.events.subscribe()
    }

    fn index(&self) -> std::sync::RwLockReadGuard<'_, Index> {
        self.0.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("root", &self.0.root).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note_damage(damaged: &mut BTreeMap<PathBuf, Damaged>, task: TaskId, torn: &Torn) {
    let message = torn.error.full_message();
    let known = damaged.get(&torn.path).is_some_and(|known| known.message == message);
    if !known {
        tracing::error!(%task, path = %torn.path.display(), %message, "a record of the store cannot be read");
        damaged.insert(torn.path.clone(), Damaged { task, path: torn.path.clone(), message });
    }
}

fn take_lock(process: &Process, root: &Path) -> Result<FileLock> {
    let path = root.join(layout::LOCK);
    let note = Holder { pid: std::process::id(), acquired_at: process.now().iso() };
    let note = serde_json::to_string(&note)
        .map_err(|source| Error::internal("cannot encode the lock's note as JSON").caused_by(source))?;
    match FileLock::try_take(&path, &note)? {
        Attempt::Taken(lock) => Ok(lock),
        Attempt::Held(holder) => {
            let pid = serde_json::from_str::<Holder>(&holder).map(|holder| holder.pid.to_string());
            Err(Error::conflict(format!(
                "the task store {} is in use by process {}, which holds {}",
                root.display(),
                pid.unwrap_or_else(|_| if holder.is_empty() { "unknown".into() } else { holder }),
                path.display()
            ))
            .hint("see which daemon has it: lazy daemon list"))
        }
    }
}

fn require_schema(process: &Process, root: &Path) -> Result<()> {
    let path = root.join(layout::VERSION);
    match json::load::<Version>(&path)? {
        None => json::save(&path, &Version { schema_version: SCHEMA, migrated_at: Some(process.now().iso()) }),
        Some(version) if version.schema_version <= SCHEMA => Ok(()),
        Some(version) => Err(Error::conflict(format!(
            "the task store {} has layout {}; this version of lazy knows layouts up to {SCHEMA}",
            root.display(),
            version.schema_version
        ))
        .hint("a newer lazy wrote it: install that version (make install), then: lazy upgrade")
        .hint("which one runs now: lazy --version")),
    }
}
