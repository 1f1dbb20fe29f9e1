//! Commands that write something down.

use serde::{Deserialize, Serialize};

use super::{RaisedDecision, TaskBrief, command};
use crate::model::{Comment, JournalEntry, RaisedItem, Status, TaskId};

command!(
    /// Leaves a note for the agent; it comes with its next prompt and starts nothing.
    AddComment = "addComment": NoteParams => CommentReport
);

/// A note.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct NoteParams {
    /// The task.
    pub task: String,
    /// Not blank.
    pub message: String,
}

/// The comment kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommentReport {
    /// The task.
    pub task: TaskBrief,
    /// The comment.
    pub comment: Comment,
}

command!(
    /// Writes in the task's journal, which no prompt ever contains.
    AddJournal = "addJournal": NoteParams => JournalReport
);

/// The entry kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JournalReport {
    /// The task.
    pub task: TaskBrief,
    /// The entry.
    pub entry: JournalEntry,
}

command!(
    /// The task's journal, oldest first.
    ReadJournal = "readJournal": super::TaskParams => JournalListReport
);

/// The journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JournalListReport {
    /// The task.
    pub task: TaskBrief,
    /// Oldest first.
    pub entries: Vec<JournalEntry>,
}

command!(
    /// Records something a person must see. Triggers nothing. Only agents raise.
    Raise = "raiseItem": RaiseParams => RaisedReport
);

/// The item.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RaiseParams {
    /// The task.
    pub task: String,
    /// Whether it stops an accept while open.
    pub blocking: bool,
    /// The text; this or the title must not be blank.
    pub content: Option<String>,
    /// A short name.
    pub title: Option<String>,
    /// Why it matters.
    pub explanation: Option<String>,
    /// A code for the task it could become.
    pub proposed_code: Option<String>,
    /// A prompt for the task it could become.
    pub proposed_prompt: Option<String>,
    /// Answers to choose from.
    pub options: Vec<String>,
}

/// The item kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RaisedReport {
    /// The task.
    pub task: TaskBrief,
    /// The item.
    pub item: RaisedItem,
    /// The task it became, when it was promoted.
    pub promoted: Option<TaskBrief>,
}

command!(
    /// Raised items across tasks.
    ListRaised = "listRaised": ListRaisedParams => ListRaisedReport
);

/// Which items.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListRaisedParams {
    /// Only of this task.
    pub task: Option<String>,
    /// Only blocking (true) or not (false).
    pub blocking: Option<bool>,
    /// Also those that are decided.
    pub all: bool,
    /// Only with this text in them.
    pub query: Option<String>,
    /// Only of tasks with this status.
    pub status: Option<Status>,
}

/// The items, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListRaisedReport {
    /// The items.
    pub items: Vec<RaisedLine>,
    /// Open ones that stop an accept, whatever was filtered.
    pub open_blocking: u32,
    /// Open ones that do not.
    pub open_non_blocking: u32,
}

/// An item and its task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RaisedLine {
    /// The task.
    pub task: TaskBrief,
    /// The item.
    pub item: RaisedItem,
}

command!(
    /// Decides a raised item.
    ResolveRaised = "resolveRaised": ResolveRaisedParams => RaisedReport
);

/// The decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResolveRaisedParams {
    /// The task.
    pub task: String,
    /// The decision.
    pub decision: RaisedDecision,
}

command!(
    /// Sets whether an open item stops an accept.
    FlagRaised = "flagRaised": FlagRaisedParams => RaisedReport
);

/// The flag.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FlagRaisedParams {
    /// The task.
    pub task: String,
    /// The item's id or a prefix of it.
    pub id: String,
    /// Whether it does.
    pub blocking: bool,
}

command!(
    /// Adds or removes a label; idempotent.
    SetTag = "setTag": TagParams => TagReport
);

/// The label.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TagParams {
    /// The task.
    pub task: String,
    /// As typed; it is normalised.
    pub tag: String,
    /// Whether it is there afterwards.
    pub present: bool,
}

/// The labels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TagReport {
    /// The task.
    pub task_id: TaskId,
    /// What people call it.
    pub display_id: String,
    /// The label, normalised.
    pub tag: String,
    /// All labels.
    pub tags: Vec<String>,
}
