//! The session record, `session.json`: exactly one for each started task.

use serde::{Deserialize, Serialize};

use super::task::{millis, optional_millis};
use super::{RunnerKind, SessionId, TaskId, Usage};
use crate::base::Millis;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The work was merged.
    Accepted,
    /// The work was turned down.
    Rejected,
}

impl Outcome {
    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Accepted => "accepted",
            Outcome::Rejected => "rejected",
        }
    }
}

/// A session, as `session.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The task it belongs to.
    pub task_id: TaskId,
    /// The agent that works in it.
    pub agent_id: String,
    /// When the task was first started.
    #[serde(deserialize_with = "millis")]
    pub started_at: Millis,
    /// When it ended.
    #[serde(default, deserialize_with = "optional_millis")]
    pub ended_at: Option<Millis>,
    /// How it ended.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// The task's branch.
    pub git_branch: String,
    /// The commit the branch started from.
    pub git_start_sha: String,
    /// The agent's own conversation, for resuming it.
    #[serde(default, alias = "claude_session_id")]
    pub agent_session_id: Option<String>,
    /// When a turn was last added.
    #[serde(default, deserialize_with = "optional_millis")]
    pub last_interaction_at: Option<Millis>,
    /// Milliseconds of agent turns in all.
    #[serde(default)]
    pub total_duration_ms: i64,
    /// Tokens of all turns.
    #[serde(default)]
    pub total_usage: Option<Usage>,
    /// The run that holds the worktree, while one does.
    #[serde(default)]
    pub container_name: Option<String>,
    /// The runner that launched it.
    #[serde(default)]
    pub runner_type: Option<RunnerKind>,
    /// Why the last run ended without a response.
    #[serde(default)]
    pub interrupt_reason: Option<String>,
    /// Its exit code, where known.
    #[serde(default)]
    pub interrupt_exit_code: Option<i32>,
    /// When.
    #[serde(default, deserialize_with = "optional_millis")]
    pub interrupt_at: Option<Millis>,
    /// The last 50 lines of its log.
    #[serde(default)]
    pub interrupt_logs: Option<String>,
    /// Interruptions in a row.
    #[serde(default)]
    pub consecutive_interruptions: u32,
    /// Whether the running turn was resumed by the daemon.
    #[serde(default)]
    pub auto_resumed: bool,
    /// Whether a person stopped it: no automatic resume until a person says so.
    #[serde(default)]
    pub user_stopped: bool,
    /// The upstream commit last merged in.
    #[serde(default)]
    pub upstream_merge_sha: Option<String>,
    /// Turn numbers given out and not yet recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_turn_sequence: Option<u32>,
    /// Creation time of the newest comment the agent was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes_delivered_through: Option<Millis>,
}
