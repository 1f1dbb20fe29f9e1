//! The trail: one JSON line for each request, written off the request's path, bounded in size.
//!
//! `<data>/logs/proxy-audit.jsonl` and one older segment `.1`; each at most 4 MiB. Disposable telemetry: a write that
//! fails is logged and costs its records, never a request. What is there can be trusted as far as [`verify()`] says: every
//! line carries the hash of the one before it, across the rotation too ([`chain`]).

mod chain;
mod entry;
mod verify;
mod writer;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use verify::{Fault, Finding, Verdict, verify};

pub(super) use entry::{DISCONNECTED, Entry, Extraction};
pub(super) use writer::Ledger;

use super::extract::{Endpoint, RequestShape, ToolResult, ToolUse};
use super::gate::{Enforcement, Judged};
use super::usage::Usage;
use crate::base::{Result, files};

/// The size at which the live file becomes the older segment.
pub const SEGMENT: u64 = 4 << 20;

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// A UUID.
    pub id: String,
    /// The number in this daemon process, from 1.
    pub seq: u64,
    /// Receipt, unix milliseconds.
    pub ts: i64,
    /// `agent`, `builder`, or what a caller without a grant claims.
    pub role: Option<String>,
    /// The task's ref.
    pub task_id: Option<String>,
    /// `proxy` or `cursor`.
    pub backend: String,
    /// The base address that was called.
    pub upstream: String,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The class of the path.
    pub endpoint: Endpoint,
    /// The model asked for.
    pub model: Option<String>,
    /// `haiku`, `sonnet`, `opus`, `other`.
    pub tier: Option<String>,
    /// Whether a stream was asked for.
    pub stream: Option<bool>,
    /// The outline of the request; `null` for other endpoints.
    pub request_shape: Option<RequestShape>,
    /// Calls of the last assistant message in the request.
    pub tool_uses: Vec<ToolUse>,
    /// Results that follow it.
    pub tool_results: Vec<ToolResult>,
    /// The status; `null` when there was no response.
    pub status: Option<u16>,
    /// Token counts, as far as they were told.
    pub usage: Option<Usage>,
    /// Whether the response broke off, so that more may have been billed than was told.
    #[serde(skip_serializing_if = "is_false")]
    pub usage_partial: bool,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Milliseconds to the head of the response.
    pub duration_ms: u64,
    /// Where it went instead.
    pub reroute: Option<Reroute>,
    /// What was denied.
    pub enforcement: Option<Vec<Enforcement>>,
    /// The calls that the response proposed, each with its verdict; none when no rule was active.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub judged: Vec<Judged>,
    /// Why a part of the response passed without being judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// The record's number in the chain, from 1; records of older versions have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// The blake3 hash of the line before this one, without its end; empty for the first of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prev: Option<String>,
}

/// A request that went to another target than the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reroute {
    /// The first target.
    pub from_upstream: String,
    /// The model asked for.
    pub from_model: Option<String>,
    /// The target that answered.
    pub to_upstream: String,
    /// The model that answered.
    pub to_model: Option<String>,
    /// `429`, `529` or `unreachable`.
    pub trigger: String,
    /// How many targets were tried.
    pub attempts: u32,
}

impl Record {
    /// Whether it counts as failed: an error, or a status of 400 or more.
    pub fn is_failure(&self) -> bool {
        self.error.is_some() || self.status.is_some_and(|status| status >= 400)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The newest `limit` records, oldest first. Lines that are none are skipped; a missing trail is empty.
pub fn read(path: &Path, limit: usize) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for segment in [older(path), path.to_path_buf()] {
        let bytes = files::read_optional(&segment)?.unwrap_or_default();
        records.extend(parse(&bytes));
    }
    records.drain(..records.len().saturating_sub(limit));
    Ok(records)
}

/// The records of a segment, oldest first. Lines that are none are skipped.
pub fn parse(segment: &[u8]) -> Vec<Record> {
    let lines = segment.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Record>(line).ok());
    lines.filter(|record| !record.id.is_empty()).collect()
}

/// The older segment of a trail.
fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}
