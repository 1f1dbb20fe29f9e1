//! The smaller records of a task: commits, prompts, comments, journal, snapshots, status and tag history.

use serde::{Deserialize, Serialize};

use super::task::millis;
use super::{Actor, By, SessionId, Status, TaskId};
use crate::base::Millis;

/// What a reviewer made of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitStatus {
    /// Nothing yet.
    PendingReview,
    /// Accepted.
    Approved,
    /// Turned down.
    Rejected,
    /// Replaced by later history.
    Superseded,
}

impl CommitStatus {
    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            CommitStatus::PendingReview => "pending_review",
            CommitStatus::Approved => "approved",
            CommitStatus::Rejected => "rejected",
            CommitStatus::Superseded => "superseded",
        }
    }
}

/// A commit on the task's branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Its id here.
    pub id: String,
    /// The session it was made in.
    pub session_id: SessionId,
    /// Its hash.
    pub sha: String,
    /// Its message.
    #[serde(default)]
    pub message: String,
    /// What became of it.
    pub status: CommitStatus,
    /// When it was recorded.
    #[serde(deserialize_with = "millis")]
    pub timestamp: Millis,
}

/// One version of the task's prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptVersion {
    /// Its id.
    pub id: String,
    /// The task.
    pub task_id: TaskId,
    /// From 1.
    pub version: u32,
    /// The text.
    pub content: String,
    /// When it was written.
    #[serde(deserialize_with = "millis")]
    pub created_at: Millis,
    /// The session it was written in.
    #[serde(default)]
    pub session_id: Option<SessionId>,
}

/// A note for the agent, given to it with its next prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comment {
    /// Its id.
    pub id: String,
    /// The task.
    pub task_id: TaskId,
    /// The text.
    #[serde(default)]
    pub content: String,
    /// When it was written.
    #[serde(deserialize_with = "millis")]
    pub created_at: Millis,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// `local` or `remote`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_email: Option<String>,
    /// Their name then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
}

/// A record for people: append-only, never put in a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Its id.
    pub id: String,
    /// The task.
    pub task_id: TaskId,
    /// The text.
    #[serde(default)]
    pub content: String,
    /// When it was written.
    #[serde(deserialize_with = "millis")]
    pub created_at: Millis,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_email: Option<String>,
    /// Their name then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
}

/// What was uncommitted in the worktree when a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_sequence: u32,
    /// The diff.
    #[serde(default)]
    pub uncommitted_diff: String,
    /// `git status --porcelain`.
    #[serde(default)]
    pub git_status: String,
    /// When.
    #[serde(deserialize_with = "millis")]
    pub timestamp: Millis,
}

/// One row of the status history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusChange {
    /// The new status.
    pub status: Status,
    /// When.
    #[serde(deserialize_with = "millis")]
    pub timestamp: Millis,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_email: Option<String>,
    /// Their name then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
}

impl StatusChange {
    /// A row for a change made now.
    pub fn new(status: Status, timestamp: Millis, by: &By) -> StatusChange {
        StatusChange {
            status,
            timestamp,
            actor: Some(by.actor),
            actor_email: by.actor_email.clone(),
            actor_name: by.actor_name.clone(),
        }
    }
}

/// `tag` or `untag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TagAction {
    /// Added.
    Tag,
    /// Removed.
    Untag,
}

/// One row of the tag history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TagEvent {
    /// The label.
    pub tag: String,
    /// What was done.
    pub action: TagAction,
    /// When.
    #[serde(deserialize_with = "millis")]
    pub timestamp: Millis,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_email: Option<String>,
    /// Their name then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
}
