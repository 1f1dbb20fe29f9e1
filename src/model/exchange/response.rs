//! What came of a command.

use serde::{Deserialize, Serialize};

use super::super::turn::MergeConflict;
use super::super::{Usage, Violation};

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "one is read or written per turn; a box would only add noise")]
pub enum Response {
    /// It ended as it should. The first entry answers the command; the rest are follow-ups of the supervisor.
    Completed {
        /// The command answered.
        command_id: String,
        /// In order.
        responses: Vec<Completed>,
    },
    /// It did not.
    Error(Failure),
}

impl Response {
    /// The command this answers.
    pub fn command_id(&self) -> &str {
        match self {
            Response::Completed { command_id, .. } => command_id,
            Response::Error(failure) => &failure.command_id,
        }
    }
}

/// One answered prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// What the agent said last.
    pub result: String,
    /// Its conversation; empty when the supervisor itself speaks.
    #[serde(default)]
    pub session_id: String,
    /// Tokens, failed attempts included.
    #[serde(default)]
    pub usage: Usage,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model the agent says it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The effort asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// `lazy=<status> tools=<n>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_tools: Option<String>,
    /// Files that conflicted in a merge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merge_conflicts: Vec<MergeConflict>,
    /// Protected files changed; an empty list says that a scan found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violations: Option<Vec<Violation>>,
    /// Exit code of the check: -1 could not run, -2 timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_exit_code: Option<i32>,
    /// Its output, last 200 lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_output: Option<String>,
    /// Milliseconds the agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_duration_ms: Option<u64>,
    /// HEAD before anything was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_sha: Option<String>,
    /// HEAD before the agent began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_sha_work: Option<String>,
    /// HEAD when the agent ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_sha_work: Option<String>,
    /// HEAD when the turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_sha: Option<String>,
    /// Set on a follow-up of the supervisor: what it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervised: Option<Supervised>,
    /// Set when the command was a sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncReport>,
    /// A half-done merge that was found and rolled back before the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_recovery: Option<WorktreeRecovery>,
    /// What the agent left in the handoff file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_handoff: Vec<HandoffEntry>,
}

/// A follow-up prompt of the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervised {
    /// `permission_pushback` or `maintain`.
    pub kind: String,
    /// The prompt.
    pub prompt: String,
}

/// What a sync did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncReport {
    /// Whether anything was merged.
    pub merged: bool,
    /// How many files conflicted.
    pub conflicts: u32,
}

/// A half-done merge that was rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeRecovery {
    /// `merge_in_progress` or `unmerged_files`.
    pub found: String,
    /// In words.
    pub summary: String,
    /// The files concerned.
    pub files: Vec<String>,
    /// Where its diff was saved; absent when it could not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_path: Option<String>,
    /// The command that found it.
    pub context: String,
}

/// One line of the handoff file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffEntry {
    /// `journal` or `raised` (`followup` is read as a raised item that does not block).
    pub kind: String,
    /// The text.
    #[serde(default)]
    pub content: String,
    /// For raised items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking: Option<bool>,
}

/// Why an agent run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The credential was refused.
    FatalAuth,
    /// A wrong model, flag, or a missing program.
    FatalConfig,
    /// The model's service is busy.
    TransientOverload,
    /// The connection failed on the way.
    TransientNetwork,
    /// Nothing listens there.
    TransientUnreachable,
    /// Nothing matched.
    Unknown,
}

impl FailureClass {
    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            FailureClass::FatalAuth => "fatal_auth",
            FailureClass::FatalConfig => "fatal_config",
            FailureClass::TransientOverload => "transient_overload",
            FailureClass::TransientNetwork => "transient_network",
            FailureClass::TransientUnreachable => "transient_unreachable",
            FailureClass::Unknown => "unknown",
        }
    }
}

/// A command that failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The command answered.
    #[serde(default)]
    pub command_id: String,
    /// What happened.
    pub error: String,
    /// The phase it happened in, as [`super::Phase`] is stored.
    pub phase: String,
    /// Tokens of all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The agent's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The end of its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The error it printed as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_error: Option<String>,
    /// Milliseconds it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<FailureClass>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// How many attempts were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_attempts: Option<u32>,
    /// The watchdog's limit, when it killed the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog_timeout_ms: Option<u64>,
    /// How often it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog_attempts: Option<u32>,
    /// Whether there was a result or a commit by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog_captured_work: Option<bool>,
    /// The conversation, for resuming it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// HEAD before the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_sha: Option<String>,
    /// HEAD after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_sha: Option<String>,
    /// A half-done merge that was found and rolled back before the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_recovery: Option<WorktreeRecovery>,
    /// What the agent left in the handoff file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_handoff: Vec<HandoffEntry>,
    /// How a failed merge was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_state: Option<MergeSettled>,
    /// No new commit and a clean tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_had_no_effect: bool,
}

/// How a failed merge was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeSettled {
    /// Whether the worktree is out of the merge.
    pub settled: bool,
    /// In words; names the patch file, or the commands to run by hand.
    pub detail: String,
}
