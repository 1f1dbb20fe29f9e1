//! Commands that look for something, or wait for it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MergeNote, command};
use crate::model::{Effort, RunnerKind, Status, Target, TaskId};

command!(
    /// Finds text in tasks.
    Search = "search": SearchParams => SearchReport
);

/// What to look for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchParams {
    /// A regular expression without regard to case, or terms such as `status:blocked AND #tag`.
    pub query: String,
    /// Approximate matching.
    pub fuzzy: bool,
    /// Only these: task, prompt, turn, commit, comment, raised, journal. Empty is all.
    pub types: Vec<String>,
    /// Matches to leave out first.
    pub offset: u32,
    /// Matches at most; 0 is all.
    pub limit: u32,
}

/// What was found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SearchReport {
    /// The query.
    pub query: String,
    /// All matches, before `offset` and `limit`.
    pub total: u32,
    /// The matches.
    pub matches: Vec<SearchHit>,
    /// A word on an empty result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A match.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SearchHit {
    /// The task.
    pub task_id: TaskId,
    /// Its code.
    pub task_code: Option<String>,
    /// Its goal.
    pub task_goal: String,
    /// task, prompt, turn, commit, comment, raised, journal.
    #[serde(rename = "match_type")]
    pub kind: String,
    /// The text around the match, 40 characters each way.
    pub content: String,
    /// The line of the match in the record, from 1.
    pub line: u32,
    /// Position in its list, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The turn's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_seq: Option<u32>,
    /// The commit's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<String>,
}

command!(
    /// Waits until one of several tasks stops working.
    Wait = "wait": WaitParams => WaitReport
);

/// What to wait for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitParams {
    /// The tasks; the first to stop working wins.
    pub tasks: Vec<String>,
    /// Instead: whichever working task stops first.
    pub next: bool,
    /// Seconds, at most 600 (the default).
    pub timeout: Option<u64>,
}

/// How the wait ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WaitReport {
    /// Whether the time ran out first.
    pub timed_out: bool,
    /// The winner.
    pub task_id: Option<TaskId>,
    /// What people call it.
    pub display_id: Option<String>,
    /// Where it stands now.
    pub status: Option<Status>,
    /// Its branch's newest commit.
    pub head_sha: Option<String>,
    /// A merge under way in its worktree.
    pub merge_state: Option<MergeNote>,
    /// All tasks asked about.
    pub tasks: Vec<WaitLine>,
    /// Those still working.
    pub pending: Vec<WaitLine>,
}

/// A task in a wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitLine {
    /// Its id.
    pub task_id: TaskId,
    /// What people call it.
    pub display_id: String,
    /// Where it stands.
    pub status: Status,
}

command!(
    /// What a running turn says and does, as it happens. Asked again and again with the cursor of the last answer.
    Watch = "watch": WatchParams => WatchReport
);

/// Where to go on watching.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchParams {
    /// The task.
    pub task: String,
    /// The cursor of the last answer; absent starts with the running turn.
    pub cursor: Option<String>,
    /// Milliseconds to wait for something new, at most 30,000.
    pub wait_ms: u64,
}

/// What happened since the cursor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WatchReport {
    /// In order.
    pub events: Vec<WatchEvent>,
    /// For the next question.
    pub cursor: String,
    /// Where the task stands.
    pub status: Status,
    /// Whether a turn is running.
    pub running: bool,
}

/// Something that happened in a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WatchEvent {
    /// The supervisor entered a phase.
    Phase {
        /// Its name.
        phase: String,
        /// More, such as why it retries.
        detail: Option<String>,
    },
    /// The agent said something.
    Text {
        /// What.
        text: String,
    },
    /// The agent used a tool.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments in short.
        summary: String,
    },
    /// The agent's own word on its progress.
    Progress {
        /// It.
        message: String,
    },
    /// A commit on the task's branch.
    Commit {
        /// Its hash.
        sha: String,
        /// The first line of its message.
        message: String,
    },
    /// The status changed.
    Status {
        /// To this.
        status: Status,
    },
}

command!(
    /// The project as the daemon sees it.
    SystemStatus = "systemStatus": Empty => SystemStatusReport
);

/// Nothing.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Empty {}

/// The project as the daemon sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SystemStatusReport {
    /// The program's version.
    pub version: String,
    /// The project's root.
    pub project: String,
    /// Whether remotes are left alone.
    pub offline: bool,
    /// `local`, `github`, `gitlab`.
    pub driver: String,
    /// The git remote.
    pub remote: String,
    /// Where the store is.
    pub storage: String,
    /// Which credential variable the daemon has, never its value.
    pub credential: Option<String>,
    /// Records that could not be read.
    pub damaged: Vec<String>,
    /// Tasks by status.
    pub counts: Vec<(Status, u32)>,
    /// The runner of new tasks.
    pub runner: RunnerKind,
    /// The agent of new tasks.
    pub agent: String,
    /// The effort of new tasks.
    pub effort: Effort,
    /// The branch new work goes into.
    pub default_target: Target,
    /// Anything worth showing that has no field of its own.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The effective configuration, secrets excluded.
    #[serde(default)]
    pub config: Value,
}
