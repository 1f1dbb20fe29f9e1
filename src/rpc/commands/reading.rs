//! Commands that change nothing.

use serde::{Deserialize, Serialize};

use super::command;
use crate::base::Millis;
use crate::model::exchange::{Phase, RetryError};
use crate::model::{
    Comment, Commit, JournalEntry, Priority, RaisedItem, RunnerKind, Session, Status, StatusChange, TagEvent, Task,
    TaskId, TaskType, Turn,
};

/// Names one task: its id, a prefix of it, or its code.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TaskParams {
    /// The name.
    pub task: String,
}

command!(
    /// Tasks, a row each.
    List = "list": ListParams => ListReport
);

/// Which tasks to list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListParams {
    /// Which statuses.
    pub view: ListView,
    /// Only this task and its descendants.
    pub task: Option<String>,
    /// Only tasks with this label.
    pub tag: Option<String>,
    /// Depth counted from the roots returned, at least 1.
    pub levels: Option<u32>,
}

/// Which statuses a list shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListView {
    /// All that are not finished.
    #[default]
    Open,
    /// Everything.
    All,
    /// Not finished and started.
    Active,
    /// Waiting for a reviewer, longest wait last.
    Blocked,
}

/// The rows, parents before their children, siblings newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListReport {
    /// The rows.
    pub tasks: Vec<TaskLine>,
    /// Rows left out below `levels`.
    pub hidden: u32,
    /// Records that cannot be read: their tasks may be missing above.
    #[serde(default)]
    pub damaged: Vec<DamagedRecord>,
}

/// A file of the store that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedRecord {
    /// The task.
    pub id: TaskId,
    /// The file, and what is wrong with it.
    pub damaged: String,
}

/// A task in a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskLine {
    /// Its id.
    pub id: TaskId,
    /// Its code.
    pub code: Option<String>,
    /// Its goal.
    pub goal: String,
    /// Where it stands.
    pub status: Status,
    /// How far a working task is: `agent`, `agent:answering`, `harness:<phase>`, `not-alive`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substate: Option<String>,
    /// The agent's own word on its progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Parked because a person stopped it.
    pub stopped: bool,
    /// Interrupted by a crash and not by a person.
    pub crashed: bool,
    /// How the session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Place in the start queue, 1 first, and its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<(u32, u32)>,
    /// The kind of work.
    #[serde(rename = "type")]
    pub task_type: TaskType,
    /// Its priority.
    pub priority: Priority,
    /// The agent.
    pub agent: String,
    /// The model asked for.
    pub model: Option<String>,
    /// The parent task.
    pub parent_task_id: Option<TaskId>,
    /// What people call the parent: its code or short id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Why the task has nowhere to merge into: `parent abandoned`, `parent complete`, `parent missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphaned: Option<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// Turns so far.
    pub turns: u32,
    /// When it was created.
    pub created_at: Millis,
    /// When something last happened.
    pub last_active_at: Millis,
    /// Milliseconds the agent has run.
    pub duration_ms: i64,
    /// Open raised items that stop an accept.
    pub open_blocking: u32,
    /// 0 for a root of this listing.
    pub depth: u32,
    /// Descendants left out below `levels`.
    #[serde(default)]
    pub hidden_descendants: u32,
}

command!(
    /// A task with all that hangs on it.
    Show = "show": TaskParams => Box<ShowReport>
);

/// Everything about a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShowReport {
    /// The task.
    pub task: Task,
    /// Its session.
    pub session: Option<Session>,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// Its commits.
    pub commits: Vec<Commit>,
    /// Its comments.
    pub comments: Vec<Comment>,
    /// Its journal.
    pub journal: Vec<JournalEntry>,
    /// Its raised items.
    pub raised_items: Vec<RaisedItem>,
    /// Its status history.
    pub status_history: Vec<StatusChange>,
    /// Its tag history.
    pub tag_history: Vec<TagEvent>,
    /// The parent task.
    pub parent: Option<TaskBrief>,
    /// Why the task has nowhere to merge into: `parent abandoned`, `parent complete`, `parent missing`.
    #[serde(default)]
    pub orphaned: Option<String>,
    /// The children.
    pub children: Vec<TaskBrief>,
    /// The worktree's directory, while there is one.
    pub worktree: Option<String>,
    /// A merge under way in the worktree.
    pub merge_state: Option<MergeNote>,
    /// How far a working task is.
    pub substate: Option<String>,
    /// The agent's own word on its progress.
    pub progress: Option<String>,
    /// What the supervisor is doing, while a turn runs.
    pub supervisor: Option<SupervisorNote>,
    /// The runner and posture the task runs or would run under.
    pub runner: RunnerNote,
    /// Versions of the prompt.
    pub prompt_versions: u32,
}

/// A task in one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskBrief {
    /// Its id.
    pub id: TaskId,
    /// Its code.
    pub code: Option<String>,
    /// Its goal.
    pub goal: String,
    /// Where it stands.
    pub status: Status,
}

/// A merge under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergeNote {
    /// Whether git has one under way.
    pub merge_in_progress: bool,
    /// Files not yet merged.
    pub unmerged_files: Vec<String>,
    /// In words.
    pub summary: String,
}

/// What a supervisor is doing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SupervisorNote {
    /// The phase.
    pub phase: Phase,
    /// The command it works on.
    pub command: String,
    /// RFC 3339.
    pub phase_started_at: Option<String>,
    /// Attempts so far, while retrying.
    pub retry_count: Option<u32>,
    /// In words.
    pub retry_reason: Option<String>,
    /// Milliseconds until the next attempt.
    pub retry_next_delay_ms: Option<u64>,
    /// Errors seen while retrying.
    pub errors: Vec<RetryError>,
}

/// What a task runs in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunnerNote {
    /// The runner.
    pub kind: RunnerKind,
    /// Whether its run is alive.
    pub alive: bool,
    /// In words: what walls stand around the agent.
    pub posture: String,
}

command!(
    /// A task's worktree and what may be done next.
    TaskStatus = "status": TaskParams => TaskStatusReport
);

/// A task's worktree and what may be done next.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskStatusReport {
    /// The task.
    pub task: TaskBrief,
    /// How far a working task is.
    pub substate: Option<String>,
    /// The parent task.
    pub parent: Option<TaskBrief>,
    /// Why the task has nowhere to merge into: `parent abandoned`, `parent complete`, `parent missing`.
    #[serde(default)]
    pub orphaned: Option<String>,
    /// The task's branch.
    pub branch: Option<String>,
    /// The branch its work goes into.
    pub target_branch: Option<String>,
    /// The worktree's directory.
    pub worktree: Option<String>,
    /// Whether that directory exists.
    pub worktree_exists: bool,
    /// The commit the branch started from.
    pub baseline: Option<String>,
    /// The branch's newest commit.
    pub head: Option<String>,
    /// Commits since the baseline, oldest first.
    pub commits: Vec<CommitLine>,
    /// `git status --porcelain` lines.
    pub uncommitted: Vec<String>,
    /// A merge under way.
    pub merge_state: Option<MergeNote>,
    /// The agent's conversation.
    pub agent_session_id: Option<String>,
    /// The agent.
    pub agent: String,
    /// Why the last run ended without a response.
    pub last_interrupt: Option<String>,
    /// Commands that make sense now.
    pub actions: Vec<String>,
    /// Records of the store that cannot be read.
    #[serde(default)]
    pub damaged: Vec<DamagedRecord>,
}

/// A commit in one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitLine {
    /// Its hash.
    pub sha: String,
    /// The first line of its message.
    pub message: String,
}

command!(
    /// What a task changed.
    Diff = "diff": DiffParams => DiffReport
);

/// Which difference.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiffParams {
    /// The task.
    pub task: String,
    /// The patch instead of the summary.
    pub full: bool,
    /// Only these files.
    pub files: Vec<String>,
    /// Only what this agent turn changed: a number, or `latest`.
    pub turn: Option<String>,
}

/// The difference as git prints it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DiffReport {
    /// The text; empty when nothing differs.
    pub output: String,
    /// The range, as git reads it.
    pub diff_range: String,
    /// The task.
    pub task_id: TaskId,
    /// Comments since the agent's last turn, which it has not seen.
    pub new_comments: Vec<Comment>,
}
