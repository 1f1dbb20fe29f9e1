//! What subscribers are told of an applied list.

use crate::base::Millis;
use crate::model::{Role, Status, TaskId};

/// A list of edits that is durable. Edits that changed nothing are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// When it was applied.
    pub at: Millis,
    /// What changed, in the order of the list. Never empty.
    pub edits: Vec<AppliedEdit>,
}

/// What one edit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedEdit {
    /// The task.
    pub task: TaskId,
    /// What changed in it.
    pub effect: Effect,
}

/// What an edit changed, without the content: whoever needs that reads the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The task came into being.
    Created,
    /// Its status changed.
    Status {
        /// Before.
        from: Status,
        /// Now.
        to: Status,
    },
    /// Fields of the task changed.
    Task,
    /// The prompt has a new version.
    Prompt {
        /// Its number.
        version: u32,
    },
    /// A metadata value was set or removed.
    Meta {
        /// Its key.
        key: String,
    },
    /// `pending_sync` was set.
    PendingSync {
        /// To this.
        count: u32,
    },
    /// A waited-for turn began or ended.
    InFlight,
    /// The session began.
    SessionStarted,
    /// Fields of the session changed.
    Session,
    /// A turn was added.
    Turn {
        /// Its number.
        sequence: u32,
        /// Whose.
        role: Role,
    },
    /// Pending feedback counts as read.
    FeedbackConsumed,
    /// Protected-file decisions were replaced.
    Violations {
        /// The turn's id.
        turn: String,
    },
    /// A commit was recorded.
    Commit {
        /// Its hash.
        sha: String,
    },
    /// Commits under review were decided.
    CommitsDecided,
    /// A comment was added.
    Comment {
        /// Its id.
        id: String,
    },
    /// A journal entry was added.
    Journal {
        /// Its id.
        id: String,
    },
    /// A raised item was added.
    Raised {
        /// Its id.
        id: String,
    },
    /// A raised item was replaced.
    RaisedUpdated {
        /// Its id.
        id: String,
    },
    /// A label was added.
    Tagged {
        /// The label.
        tag: String,
    },
    /// A label was removed.
    Untagged {
        /// The label.
        tag: String,
    },
    /// What was uncommitted was recorded.
    Snapshot,
}

impl Applied {
    /// The tasks that changed, each once, in the order of the list.
    pub fn tasks(&self) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for edit in &self.edits {
            if !tasks.contains(&edit.task) {
                tasks.push(edit.task);
            }
        }
        tasks
    }

    /// The status a task came to with this list, if it changed.
    pub fn new_status(&self, task: TaskId) -> Option<Status> {
        self.edits.iter().rev().filter(|edit| edit.task == task).find_map(|edit| match edit.effect {
            Effect::Status { to, .. } => Some(to),
            _ => None,
        })
    }
}
