//! Turns: what was asked of the agent and what it answered, `turns.json`.

use serde::{Deserialize, Serialize};

use super::task::millis;
use super::{Actor, SessionId};
use crate::base::Millis;

/// Whose turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A request: from a person, the builder, the daemon or the supervisor.
    Human,
    /// The agent's answer.
    Agent,
}

/// What kind of turn. Absent on disk means work; a kind this version does not know behaves like work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// Work on the task.
    #[default]
    Work,
    /// A question that changes nothing.
    Ask,
    /// A supervisor's follow-up inside a turn.
    Nudge,
    /// A merge of the upstream.
    Sync,
    /// The turn before a merge.
    PreAccept,
    /// Written by a later version.
    #[serde(other)]
    Unknown,
}

impl TurnKind {
    fn is_work(&self) -> bool {
        *self == TurnKind::Work
    }
}

/// Whether the agent has read the feedback a turn carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// Not surely: the run may have died first.
    Pending,
    /// A normal response came after it.
    Consumed,
}

/// Tokens, as the store keeps them. Input shown to people is input + cache creation + cache read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Fresh input tokens.
    #[serde(default)]
    pub input_tokens: u64,
    /// Output tokens.
    #[serde(default)]
    pub output_tokens: u64,
    /// Input tokens written to the cache.
    #[serde(default)]
    pub cache_creation_tokens: u64,
    /// Input tokens read from the cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
}

impl Usage {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            cache_creation_tokens: self.cache_creation_tokens + other.cache_creation_tokens,
            cache_read_tokens: self.cache_read_tokens + other.cache_read_tokens,
        }
    }

    /// Input of every kind.
    pub fn input_total(self) -> u64 {
        self.input_tokens + self.cache_creation_tokens + self.cache_read_tokens
    }

    /// Whether nothing was counted.
    pub fn is_zero(self) -> bool {
        self == Usage::default()
    }
}

/// What a reviewer decided about a changed protected file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViolationStatus {
    /// Nothing yet.
    Pending,
    /// The change stays.
    Approved,
    /// The change was undone.
    Rejected,
}

/// A protected file that the agent changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Path from the root of the repository.
    pub file: String,
    /// The commit whose content is the allowed one.
    pub base_sha: String,
    /// The decision.
    pub status: ViolationStatus,
}

/// A file that conflicted in a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeConflict {
    /// Path from the root of the repository.
    pub path: String,
    /// The file with its conflict markers.
    #[serde(default)]
    pub content: String,
    /// The branch merged in.
    #[serde(default)]
    pub merge_source: String,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its id.
    pub id: String,
    /// The session it belongs to.
    pub session_id: SessionId,
    /// Its number, from 1.
    pub sequence: u32,
    /// Whose.
    pub role: Role,
    /// What was said.
    #[serde(default)]
    pub content: String,
    /// When it was recorded.
    #[serde(deserialize_with = "millis")]
    pub timestamp: Millis,
    /// Tokens, where known.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// HEAD before anything was merged.
    #[serde(default)]
    pub start_sha: Option<String>,
    /// HEAD before the agent began.
    #[serde(default)]
    pub start_sha_work: Option<String>,
    /// HEAD when the agent ended.
    #[serde(default)]
    pub end_sha_work: Option<String>,
    /// HEAD when the turn ended.
    #[serde(default)]
    pub end_sha: Option<String>,
    /// Files that conflicted in a merge of this turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merge_conflicts: Vec<MergeConflict>,
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
    /// `lazy=<status> tools=<n>`, from the agent's first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_tools: Option<String>,
    /// The whole prompt that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The person who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_email: Option<String>,
    /// Their name then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_name: Option<String>,
    /// Protected files changed; an empty list says that a scan found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violations: Option<Vec<Violation>>,
    /// Exit code of the check after the turn: -1 could not run, -2 timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_exit_code: Option<i32>,
    /// Its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_output: Option<String>,
    /// Whether the daemon started it by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_triggered: bool,
    /// What kind.
    #[serde(default, rename = "turn_type", skip_serializing_if = "TurnKind::is_work")]
    pub kind: TurnKind,
    /// Whether the agent has read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback_delivery: Option<Delivery>,
    /// Set on a failed turn that left no commit and a clean tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_had_no_effect: bool,
}

impl Turn {
    /// A turn with only what every turn has.
    pub fn new(
        session_id: SessionId,
        sequence: u32,
        role: Role,
        content: impl Into<String>,
        timestamp: Millis,
    ) -> Turn {
        Turn {
            id: uuid::Uuid::new_v4().to_string(),
            session_id,
            sequence,
            role,
            content: content.into(),
            timestamp,
            usage: None,
            start_sha: None,
            start_sha_work: None,
            end_sha_work: None,
            end_sha: None,
            merge_conflicts: Vec::new(),
            agent: None,
            model: None,
            model_id: None,
            effort: None,
            mcp_tools: None,
            prompt: None,
            actor: None,
            actor_email: None,
            actor_name: None,
            violations: None,
            check_exit_code: None,
            check_output: None,
            auto_triggered: false,
            kind: TurnKind::Work,
            feedback_delivery: None,
            agent_had_no_effect: false,
        }
    }
}
