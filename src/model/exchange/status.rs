//! What a supervisor is doing.

use serde::{Deserialize, Serialize};

use super::super::TaskId;
use super::FailureClass;

/// What a supervisor is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting for a command.
    Idle,
    /// It has one.
    ReadingCommand,
    /// Merging the upstream in.
    MergeAndFix,
    /// Done with that.
    MergeAndFixDone,
    /// The agent runs.
    Work,
    /// It ended.
    WorkDone,
    /// Asking the agent about protected files.
    PermissionPushback,
    /// Done with that.
    PermissionPushbackDone,
    /// Running the check.
    PostTurnCheck,
    /// Done with that.
    PostTurnCheckDone,
    /// Merging the upstream in after the work.
    PostTurnSync,
    /// Done with that.
    PostTurnSyncDone,
    /// Waiting before another attempt.
    Retrying,
    /// Nearly done.
    WritingResponse,
}

impl Phase {
    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::ReadingCommand => "reading_command",
            Phase::MergeAndFix => "merge_and_fix",
            Phase::MergeAndFixDone => "merge_and_fix_done",
            Phase::Work => "work",
            Phase::WorkDone => "work_done",
            Phase::PermissionPushback => "permission_pushback",
            Phase::PermissionPushbackDone => "permission_pushback_done",
            Phase::PostTurnCheck => "post_turn_check",
            Phase::PostTurnCheckDone => "post_turn_check_done",
            Phase::PostTurnSync => "post_turn_sync",
            Phase::PostTurnSyncDone => "post_turn_sync_done",
            Phase::Retrying => "retrying",
            Phase::WritingResponse => "writing_response",
        }
    }
}

/// Which commit of a turn a tag marks; the third part of `turn/<task>/<phase>/<commit>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnTag {
    /// HEAD after the task's own branch was merged in from the remote.
    PostRemoteSync,
    /// HEAD after the upstream was merged in.
    PostMerge,
    /// HEAD when the agent ended.
    PostWork,
}

impl TurnTag {
    /// Every one.
    pub const ALL: [TurnTag; 3] = [TurnTag::PostRemoteSync, TurnTag::PostMerge, TurnTag::PostWork];

    /// The word in the tag's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            TurnTag::PostRemoteSync => "post-remote-sync",
            TurnTag::PostMerge => "post-merge",
            TurnTag::PostWork => "post-work",
        }
    }
}

/// The supervisor's checkpoint, rewritten at every change of phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusFile {
    /// What it is doing.
    pub phase: Phase,
    /// The task.
    pub task_id: TaskId,
    /// The word in the command's `type`.
    pub command_type: String,
    /// The command.
    #[serde(default)]
    pub command_id: String,
    /// RFC 3339.
    pub started_at: String,
    /// RFC 3339.
    pub updated_at: String,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_started_at: Option<String>,
    /// HEAD before anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_turn_sha: Option<String>,
    /// HEAD after the upstream was merged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_merge_sha: Option<String>,
    /// The upstream commit merged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_merge_sha: Option<String>,
    /// HEAD when the agent ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_work_sha: Option<String>,
    /// The supervisor's process id, as it sees itself.
    pub pid: u32,
    /// Attempts so far, only while retrying.
    #[serde(default, rename = "retryCount", skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u32>,
    /// The last 10 different errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RetryError>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_failure_class: Option<FailureClass>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_failure_reason: Option<String>,
    /// Milliseconds until the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_next_delay_ms: Option<u64>,
}

/// An error seen while retrying.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryError {
    /// The message.
    pub message: String,
    /// How often.
    pub count: u32,
    /// RFC 3339.
    #[serde(rename = "firstSeen")]
    pub first_seen: String,
    /// RFC 3339.
    #[serde(rename = "lastSeen")]
    pub last_seen: String,
    /// Its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<FailureClass>,
}

/// The agent's own word on how far it is, `progress.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressFile {
    /// At most 120 characters.
    pub message: String,
    /// RFC 3339.
    pub updated_at: String,
}
