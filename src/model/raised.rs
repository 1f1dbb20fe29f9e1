//! Raised items: what a person must see, recorded without triggering anything.
//!
//! Recording one creates no comment, changes no status and starts no turn. Open blocking ones stop an accept.

use serde::{Deserialize, Serialize};

use super::task::{millis, optional_millis};
use super::{Actor, SessionId, TaskId};
use crate::base::Millis;

/// What became of a raised item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RaisedStatus {
    /// Nothing yet.
    Open,
    /// Answered in words.
    #[serde(alias = "answered")]
    Responded,
    /// Seen.
    Acknowledged,
    /// Turned down, with a reason.
    Dismissed,
    /// Became a child of the task.
    PromotedSubtask,
    /// Became a task beside it.
    PromotedPeer,
}

impl RaisedStatus {
    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            RaisedStatus::Open => "open",
            RaisedStatus::Responded => "responded",
            RaisedStatus::Acknowledged => "acknowledged",
            RaisedStatus::Dismissed => "dismissed",
            RaisedStatus::PromotedSubtask => "promoted_subtask",
            RaisedStatus::PromotedPeer => "promoted_peer",
        }
    }
}

/// A raised item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaisedItem {
    /// Its id.
    pub id: String,
    /// The task.
    pub task_id: TaskId,
    /// The text.
    #[serde(default)]
    pub content: String,
    /// Whether it stops an accept while open. Records without the flag read as blocking.
    #[serde(default = "blocking_by_default")]
    pub blocking: bool,
    /// A short name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// A code for the task it could become.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_code: Option<String>,
    /// A prompt for the task it could become.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_prompt: Option<String>,
    /// Answers to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// When it was raised.
    #[serde(deserialize_with = "millis")]
    pub created_at: Millis,
    /// In which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// In which turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_sequence: Option<u32>,
    /// What became of it.
    pub status: RaisedStatus,
    /// When it was decided.
    #[serde(default, deserialize_with = "optional_millis", skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Millis>,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<Actor>,
    /// The person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by_email: Option<String>,
    /// Their name then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by_name: Option<String>,
    /// The answer or the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
    /// The words that go to the agent with its next prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_comment: Option<String>,
    /// When they went.
    #[serde(default, deserialize_with = "optional_millis", skip_serializing_if = "Option::is_none")]
    pub comment_delivered_at: Option<Millis>,
    /// With which turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_turn: Option<u32>,
    /// The task it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_task_id: Option<TaskId>,
    /// Its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_task_code: Option<String>,
    /// Who set the blocking flag afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flagged_by: Option<Actor>,
    /// Set on a record converted from an older kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrated_from: Option<String>,
}

fn blocking_by_default() -> bool {
    true
}

impl RaisedItem {
    /// A fresh item.
    pub fn new(task_id: TaskId, content: impl Into<String>, blocking: bool, created_at: Millis) -> RaisedItem {
        RaisedItem {
            id: uuid::Uuid::new_v4().to_string(),
            task_id,
            content: content.into(),
            blocking,
            title: None,
            explanation: None,
            proposed_code: None,
            proposed_prompt: None,
            options: Vec::new(),
            created_at,
            session_id: None,
            turn_sequence: None,
            status: RaisedStatus::Open,
            resolved_at: None,
            resolved_by: None,
            resolved_by_email: None,
            resolved_by_name: None,
            resolution: None,
            pending_comment: None,
            comment_delivered_at: None,
            delivered_turn: None,
            promoted_task_id: None,
            promoted_task_code: None,
            flagged_by: None,
            migrated_from: None,
        }
    }

    /// Whether it stops an accept.
    pub fn gates_accept(&self) -> bool {
        self.blocking && self.status == RaisedStatus::Open
    }

    /// The text people see: the title, else the first line of the content.
    pub fn headline(&self) -> &str {
        self.title.as_deref().unwrap_or_else(|| self.content.lines().next().unwrap_or_default())
    }
}
