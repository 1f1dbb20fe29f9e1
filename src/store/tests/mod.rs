//! Tests of the room as a whole. Shared here: a store in a temporary directory and records with fixed ids.

mod changes;
mod crash;
mod damage;
mod faults;
mod older;
mod random;
mod reads;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Change, Edit, Store, TaskRecord};
use crate::base::{Millis, Process};
use crate::model::{Actor, By, Code, Comment, Role, Session, SessionId, Status, Task, TaskId, Turn};

pub(super) const NOW: Millis = Millis(1_760_000_000_000);

pub(super) fn process() -> Process {
    Process::fake(["lazy"], &[], Path::new("/"), NOW)
}

pub(super) fn open(root: &Path) -> Store {
    Store::open(&process(), root).expect("the store opens")
}

/// A temporary directory in memory where the system has one: thousands of durable writes take long on a disk, and what
/// a killed process leaves is the same on both.
pub(super) fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("temp dir")
}

/// A store in a directory that goes with it.
pub(super) struct Temp {
    pub(super) store: Store,
    pub(super) dir: tempfile::TempDir,
    pub(super) process: Process,
}

impl Temp {
    pub(super) fn new() -> Temp {
        Temp::within(tempfile::tempdir().expect("temp dir"))
    }

    pub(super) fn within(dir: tempfile::TempDir) -> Temp {
        let process = process();
        let store = Store::open(&process, dir.path()).expect("the store opens");
        Temp { store, dir, process }
    }

    /// Closes the store and opens it again.
    pub(super) fn reopened(self) -> Temp {
        let Temp { store, dir, process } = self;
        drop(store);
        let store = Store::open(&process, dir.path()).expect("the store opens again");
        Temp { store, dir, process }
    }

    pub(super) fn create(&self, number: u32, code: &str) -> TaskId {
        let id = task_id(number);
        self.store.apply(vec![created(id, code)]).expect("the task is created");
        id
    }

    /// A task with a session, working.
    pub(super) fn start(&self, number: u32, code: &str) -> TaskId {
        let id = self.create(number, code);
        let edits = vec![
            Edit::new(id, Change::SessionStarted(Box::new(session(id)))),
            Edit::new(id, Change::Status { to: Status::Working, by: human() }),
        ];
        self.store.apply(edits).expect("the task starts");
        id
    }

    pub(super) fn one(&self, id: TaskId, change: Change) -> crate::base::Result<()> {
        self.store.apply(vec![Edit::new(id, change)])
    }

    pub(super) fn record(&self, id: TaskId) -> TaskRecord {
        self.store.load_task(id).expect("the task reads")
    }
}

pub(super) fn task_id(number: u32) -> TaskId {
    format!("aaaaaaaa-0000-4000-8000-{number:012}").parse().expect("an id")
}

pub(super) fn session_id(task: TaskId) -> SessionId {
    task.to_string().replace("aaaaaaaa", "bbbbbbbb").parse().expect("an id")
}

pub(super) fn human() -> By {
    Actor::Human.into()
}

pub(super) fn new_task(id: TaskId, code: &str) -> Task {
    let mut task = Task::new(id, format!("goal of {code}"), Millis(NOW.0 - 1000));
    task.code = (!code.is_empty()).then(|| Code::new(code).expect("a code"));
    task.prompt = format!("prompt of {code}");
    task
}

pub(super) fn created(id: TaskId, code: &str) -> Edit {
    Edit::new(id, Change::Created { task: Box::new(new_task(id, code)), by: human() })
}

pub(super) fn session(task: TaskId) -> Session {
    let id = session_id(task);
    serde_json::from_value(serde_json::json!({
        "id": id, "task_id": task, "agent_id": "claude-code", "started_at": NOW.0 - 500,
        "git_branch": "lazy/x", "git_start_sha": "0123", "agent_session_id": "conversation",
    }))
    .expect("a session")
}

pub(super) fn turn(task: TaskId, sequence: u32, role: Role) -> Turn {
    Turn::new(session_id(task), sequence, role, format!("turn {sequence}"), Millis(0))
}

pub(super) fn comment(task: TaskId, id: &str, content: &str) -> Comment {
    serde_json::from_value(
        serde_json::json!({ "id": id, "task_id": task, "content": content, "created_at": NOW.0, "actor": "human" }),
    )
    .expect("a comment")
}

/// Every file below the root with its bytes, the lock aside.
pub(super) fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).expect("lists") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                left.push(path);
            } else if path.file_name().is_some_and(|name| name != ".storage-lock") {
                found.insert(
                    path.strip_prefix(root).expect("below").to_path_buf(),
                    std::fs::read(&path).expect("reads"),
                );
            }
        }
    }
    found
}

/// Nothing of an unfinished write is left below the root.
pub(super) fn assert_no_litter(root: &Path) {
    for path in tree(root).keys() {
        assert!(!path.starts_with("journal"), "{} is left of a write", path.display());
        assert!(!path.to_string_lossy().ends_with(".tmp"), "{} is left of a write", path.display());
    }
}
