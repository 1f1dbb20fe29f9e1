//! The only way to write: typed mutations, applied as a list.

use crate::base::Millis;
use crate::model::task::InFlightTurn;
use crate::model::{
    By, Code, Comment, Commit, CommitStatus, JournalEntry, Outcome, Priority, RaisedItem, RunnerKind, Session,
    Snapshot, Status, Target, Task, TaskId, TaskType, Turn, Usage, Violation,
};

/// A mutation of one task.
#[derive(Debug, Clone)]
pub struct Edit {
    /// The task.
    pub task: TaskId,
    /// What happens to it.
    pub change: Change,
}

impl Edit {
    /// A mutation of one task.
    pub fn new(task: TaskId, change: Change) -> Edit {
        Edit { task, change }
    }
}

/// What can happen to a task. The store stamps every row with its own clock unless the value carries a time.
#[derive(Debug, Clone)]
pub enum Change {
    /// The task comes into being, with version 1 of its prompt (if any) and the first row of its status history.
    /// Refused when its code belongs to a live task.
    Created {
        /// The whole record.
        task: Box<Task>,
        /// By whom.
        by: By,
    },
    /// The status changes, with its history row; entering a terminal one sets `completed_at`, leaving it clears it.
    /// Refused by the transition table. Staying writes nothing.
    Status {
        /// The new one.
        to: Status,
        /// By whom.
        by: By,
    },
    /// Fields of the task change.
    Task(Box<TaskPatch>),
    /// A new version of the prompt, unless it equals the latest.
    Prompt(String),
    /// A metadata value is set, or removed with `None`.
    Meta(String, Option<String>),
    /// `pending_sync` is set.
    PendingSync(u32),
    /// A waited-for turn begins, or ends with `None`.
    InFlight(Option<Box<InFlightTurn>>),
    /// The session begins. Refused when there is one that has not ended.
    SessionStarted(Box<Session>),
    /// Fields of the session change. Refused without a session.
    Session(Box<SessionPatch>),
    /// A turn is added; the session's `last_interaction_at` follows it, and an agent turn adds to
    /// `total_duration_ms` and `total_usage`. Refused when its number is taken.
    Turn(Box<Turn>),
    /// Every pending feedback of the session counts as read.
    FeedbackConsumed,
    /// The protected-file decisions of one turn are replaced.
    Violations {
        /// The turn's id.
        turn: String,
        /// The new set.
        violations: Vec<Violation>,
    },
    /// A commit is recorded, unless its hash is.
    Commit(Box<Commit>),
    /// Every commit still under review gets this status.
    CommitsDecided(CommitStatus),
    /// A comment is added.
    Comment(Box<Comment>),
    /// A journal entry is added, unless one with the same text and actor stands already.
    Journal(Box<JournalEntry>),
    /// A raised item is added, unless one with the same text stands already.
    Raised(Box<RaisedItem>),
    /// A raised item is replaced by id.
    RaisedUpdated(Box<RaisedItem>),
    /// A label is added, with its history row; idempotent.
    Tagged {
        /// Normalised.
        tag: String,
        /// By whom.
        by: By,
    },
    /// A label is removed, with its history row; idempotent.
    Untagged {
        /// Normalised.
        tag: String,
        /// By whom.
        by: By,
    },
    /// What was uncommitted when a turn ended.
    Snapshot(Box<Snapshot>),
}

/// Fields of a task; `None` leaves one as it is.
#[derive(Debug, Clone, Default)]
pub struct TaskPatch {
    /// The goal.
    pub goal: Option<String>,
    /// The code; `Some(None)` clears it. Refused when it belongs to another live task.
    pub code: Option<Option<Code>>,
    /// The kind of work.
    pub task_type: Option<TaskType>,
    /// The place in the queue.
    pub priority: Option<Priority>,
    /// Where the work goes. Refused when it would make a circle.
    pub target: Option<Target>,
    /// The branch point.
    pub branched_from_sha: Option<Option<String>>,
    /// Why it was closed.
    pub close_reason: Option<Option<String>>,
    /// The model.
    pub model: Option<Option<String>>,
    /// The agent.
    pub agent_id: Option<String>,
    /// The runner.
    pub runner_type: Option<Option<RunnerKind>>,
}

/// Fields of a session; `None` leaves one as it is.
#[derive(Debug, Clone, Default)]
pub struct SessionPatch {
    /// The agent; changing it also clears the conversation.
    pub agent_id: Option<String>,
    /// The agent's conversation.
    pub agent_session_id: Option<Option<String>>,
    /// The run that holds the worktree.
    pub container_name: Option<Option<String>>,
    /// The runner that launched it.
    pub runner_type: Option<RunnerKind>,
    /// The session ends.
    pub ended: Option<(Millis, Outcome)>,
    /// The session opens again: no end, no outcome, no conversation.
    pub reopened: bool,
    /// An interruption is recorded and counted.
    pub interrupted: Option<Interruption>,
    /// The count of interruptions, `auto_resumed` and `user_stopped` are cleared.
    pub interruptions_reset: bool,
    /// Whether the daemon resumed it.
    pub auto_resumed: Option<bool>,
    /// Whether a person stopped it.
    pub user_stopped: Option<bool>,
    /// The upstream commit merged in.
    pub upstream_merge_sha: Option<String>,
    /// Turn numbers given out.
    pub reserved_turn_sequence: Option<u32>,
    /// The newest comment the agent was given.
    pub notes_delivered_through: Option<Millis>,
    /// Tokens to add.
    pub usage_added: Option<Usage>,
    /// `last_interaction_at` becomes now.
    pub touched: bool,
}

/// A run that ended without a response.
#[derive(Debug, Clone)]
pub struct Interruption {
    /// Why, as far as is known.
    pub reason: String,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The last lines of its log.
    pub logs: Option<String>,
}
