//! What the daemon and a task's supervisor tell each other: the shapes of `command.json`, `response.json` and
//! `status.json`. Absent always means "unknown, not in force, nothing reported", never a default.

use serde::{Deserialize, Serialize};

use super::{Effort, TaskId};

mod response;
mod status;

pub use response::{
    Completed, Failure, FailureClass, HandoffEntry, MergeSettled, Response, Supervised, SyncReport, WorktreeRecovery,
};
pub use status::{Phase, ProgressFile, RetryError, StatusFile, TurnTag};

/// Bumped whenever a command or response changes in a way an older supervisor would misread. Compared for equality.
pub const PROTOCOL_VERSION: u32 = 1;

/// Exit code of a supervisor that was told to stop.
pub const EXIT_STOP: u8 = 42;

/// What the supervisor is to do next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// The first turn.
    Start(Work),
    /// A further turn.
    Unblock(Work),
    /// A question that changes nothing.
    Ask(Work),
    /// Merge the upstream in.
    Sync(Sync),
    /// End the supervisor.
    Stop(Stop),
}

impl Command {
    /// The word in `type`.
    pub const fn name(&self) -> &'static str {
        match self {
            Command::Start(_) => "start",
            Command::Unblock(_) => "unblock",
            Command::Ask(_) => "ask",
            Command::Sync(_) => "sync",
            Command::Stop(_) => "stop",
        }
    }

    /// The common part, absent on stop.
    pub const fn head(&self) -> Option<&Head> {
        match self {
            Command::Start(work) | Command::Unblock(work) | Command::Ask(work) => Some(&work.head),
            Command::Sync(sync) => Some(&sync.head),
            Command::Stop(_) => None,
        }
    }

    /// The task.
    pub const fn task_id(&self) -> TaskId {
        match self {
            Command::Start(work) | Command::Unblock(work) | Command::Ask(work) => work.head.task_id,
            Command::Sync(sync) => sync.head.task_id,
            Command::Stop(stop) => stop.task_id,
        }
    }
}

/// What every command that runs something carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Echoed in the response, so that a waiter knows whose answer it reads.
    pub command_id: String,
    /// The task.
    pub task_id: TaskId,
    /// [`PROTOCOL_VERSION`] of the writer.
    pub protocol_version: u32,
    /// RFC 3339.
    pub turn_started_at: String,
    /// The agent: `claude-code`, `demo`.
    pub agent_id: String,
    /// The model to ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The effort to ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The conversation to resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
    /// Appended to the agent's own system prompt.
    #[serde(default)]
    pub system_prompt: String,
    /// Further arguments for the agent: the sandbox posture of the host runner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_extra_args: Vec<String>,
    /// Kill after this many milliseconds without a completed step; absent is the agent's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog_output_timeout_ms: Option<u64>,
    /// Milliseconds for the agent to exit after its final result; 0 waits for ever.
    pub wind_down_timeout_ms: u64,
    /// Globs of files the agent may add but not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected_patterns: Vec<String>,
    /// Shell command run after the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_turn_check: Option<String>,
    /// Its limit in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_turn_timeout: Option<u64>,
    /// The branch the task merges into: a local name or `<remote>/<branch>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_branch: Option<String>,
    /// The commit the task branched from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_point_sha: Option<String>,
}

/// A turn of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The common part.
    #[serde(flatten)]
    pub head: Head,
    /// The task's goal.
    pub goal: String,
    /// The whole prompt.
    pub prompt: String,
    /// Merge the upstream in before the agent runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync_before_work: bool,
    /// Merge the upstream in after the agent ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync_after_work: bool,
    /// Groups of files to be kept up to date with the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintain: Vec<Maintain>,
}

/// Files to be kept up to date with the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintain {
    /// What they are.
    pub title: String,
    /// Which they are: a glob.
    pub pattern: String,
    /// How to keep them.
    pub instructions: String,
}

/// A merge of the upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sync {
    /// The common part.
    #[serde(flatten)]
    pub head: Head,
    /// The exact commit to merge in.
    pub upstream_sha: String,
}

/// The end of a supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// The task.
    pub task_id: TaskId,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
