//! A task with all that hangs on it, and the row of it that the index keeps.

use crate::base::Millis;
use crate::model::{
    Comment, Commit, JournalEntry, PromptVersion, RaisedItem, RunnerKind, Session, Snapshot, Status, StatusChange,
    TagEvent, Target, Task, TaskId, Turn,
};

/// A task with all its records, as they were at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRecord {
    /// The task.
    pub task: Task,
    /// Its session, once started.
    pub session: Option<Session>,
    /// By number.
    pub turns: Vec<Turn>,
    /// Oldest first.
    pub commits: Vec<Commit>,
    /// By version.
    pub prompts: Vec<PromptVersion>,
    /// Oldest first.
    pub comments: Vec<Comment>,
    /// Oldest first.
    pub journal: Vec<JournalEntry>,
    /// Oldest first.
    pub raised: Vec<RaisedItem>,
    /// Oldest first; the first is the backlog.
    pub statuses: Vec<StatusChange>,
    /// Oldest first.
    pub tag_events: Vec<TagEvent>,
    /// Oldest first.
    pub snapshots: Vec<Snapshot>,
}

impl TaskRecord {
    /// The number of the next turn.
    pub fn next_sequence(&self) -> u32 {
        let recorded = self.turns.iter().map(|turn| turn.sequence).max().unwrap_or(0);
        let reserved = self.session.as_ref().and_then(|session| session.reserved_turn_sequence).unwrap_or(0);
        recorded.max(reserved) + 1
    }

    /// The session.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] when the task was never started.
    pub fn require_session(&self) -> crate::base::Result<&Session> {
        self.session.as_ref().ok_or_else(|| {
            let name = self.task.display_id();
            crate::base::Error::conflict(format!("task {name} was never started")).hint(format!("lazy start {name}"))
        })
    }
}

/// What listing, filtering and naming need to know of a task. Cheap to clone behind an `Arc`.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRow {
    /// The task, its prompt left empty.
    pub task: Task,
    /// The session without its logs, once started.
    pub session: Option<Session>,
    /// Turns.
    pub turn_count: u32,
    /// Comments.
    pub comment_count: u32,
    /// Commits.
    pub commit_count: u32,
    /// Raised items that are open and gate an accept.
    pub open_blocking: u32,
    /// Raised items that are open and do not.
    pub open_non_blocking: u32,
}

impl TaskRow {
    /// The id.
    pub fn id(&self) -> TaskId {
        self.task.id
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.task.status
    }

    /// Its parent task.
    pub fn parent(&self) -> Option<TaskId> {
        self.task.target.parent()
    }

    /// Where its work goes.
    pub fn target(&self) -> &Target {
        &self.task.target
    }

    /// When something last happened in it.
    pub fn last_active(&self) -> Millis {
        self.session.as_ref().and_then(|session| session.last_interaction_at).unwrap_or(self.task.created_at)
    }

    /// The runner that launched its run, or the one chosen for it.
    pub fn runner(&self) -> Option<RunnerKind> {
        self.session.as_ref().and_then(|session| session.runner_type).or(self.task.runner_type)
    }
}
