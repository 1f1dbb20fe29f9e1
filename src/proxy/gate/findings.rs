//! What a gate found, as it stands in the audit record.

use serde::{Deserialize, Serialize};

/// The most calls that one record tells of.
pub(super) const LISTED: usize = 64;

/// One verdict against a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enforcement {
    /// The id of the `tool_use` block.
    pub tool_use_id: Option<String>,
    /// The tool.
    pub name: String,
    /// The rule that denied it.
    pub rule: String,
    /// Why, in words.
    pub reason: String,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It went out unchanged.
    #[default]
    Allow,
    /// A text took its place.
    Deny,
    /// It could not be read, and the response ended there.
    Damaged,
}

/// One tool call of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Judged {
    /// The id of the `tool_use` block.
    pub tool_use_id: Option<String>,
    /// The tool.
    pub name: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that denied it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The paths that were judged, as written and with links followed, cut to 1024 characters each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The URL that was judged, without its query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The command that was judged, cut to 1024 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Everything that a gate found in one response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What was denied.
    pub denials: Vec<Enforcement>,
    /// Calls that were seen, the first 64.
    pub judged: Vec<Judged>,
    /// Why a part of the response passed without being judged.
    pub unjudged: Option<String>,
}
