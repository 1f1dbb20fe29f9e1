//! The trail request by request.

use serde::Serialize;

use super::{Filter, no_such_record, records};
use crate::base::{Error, Kind, Process, Result};
use crate::config::project::Project;
use crate::proxy::audit::Record;
use crate::proxy::extract::Endpoint;

/// One request in a few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRow {
    /// The record.
    pub id: String,
    /// Receipt, unix milliseconds.
    pub ts: i64,
    /// Whose request it was.
    pub role: Option<String>,
    /// The task's ref.
    pub task_id: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// The class of the path.
    pub endpoint: Endpoint,
    /// The status; `null` when there was no response.
    pub status: Option<u16>,
    /// Milliseconds to the head of the response.
    pub duration_ms: u64,
    /// Tool calls of the last assistant message in the request.
    pub tool_uses: usize,
    /// Results that follow it.
    pub tool_results: usize,
    /// All tokens together.
    pub total_tokens: Option<u64>,
    /// Whether the response broke off, so that more may have been billed.
    pub partial: bool,
    /// Tool calls that were denied.
    pub denials: usize,
    /// Whether it went to another target than the first.
    pub rerouted: bool,
    /// An error, or a status of 400 or more.
    pub failed: bool,
}

/// The newest requests that fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRows {
    /// Oldest first.
    pub rows: Vec<AuditRow>,
    /// How many older ones fit as well.
    pub hidden: usize,
}

/// The newest `limit` requests that fit.
///
/// # Errors
/// [`crate::base::Kind::Io`] when the trail is there and cannot be read.
pub fn audit_rows(process: &Process, project: &Project, filter: &Filter, limit: usize) -> Result<AuditRows> {
    let records = records(process, project, filter)?;
    let hidden = records.len().saturating_sub(limit);
    Ok(AuditRows { rows: records[hidden..].iter().map(row).collect(), hidden })
}

/// The record whose id is or begins with `id`.
///
/// # Errors
/// [`crate::base::Kind::NotFound`] when there is none, [`crate::base::Kind::Ambiguous`] when there are several.
pub fn audit_record(process: &Process, project: &Project, id: &str) -> Result<Record> {
    let mut found = records(process, project, &Filter::default())?;
    found.retain(|record| record.id.starts_with(id));
    if let Some(at) = found.iter().position(|record| record.id == id) {
        return Ok(found.swap_remove(at));
    }
    match found.len() {
        0 => Err(no_such_record(id)),
        1 => Ok(found.swap_remove(0)),
        count => Err(found
            .iter()
            .take(3)
            .fold(Error::new(Kind::Ambiguous, format!("{count} records begin with {id}")), |error, record| {
                error.hint(format!("lazy stats audit {}", record.id))
            })),
    }
}

fn row(record: &Record) -> AuditRow {
    AuditRow {
        id: record.id.clone(),
        ts: record.ts,
        role: record.role.clone(),
        task_id: record.task_id.clone(),
        model: record.model.clone(),
        endpoint: record.endpoint,
        status: record.status,
        duration_ms: record.duration_ms,
        tool_uses: record.tool_uses.len(),
        tool_results: record.tool_results.len(),
        total_tokens: record.usage.and_then(|usage| usage.total()),
        partial: record.usage_partial,
        denials: record.enforcement.as_ref().map_or(0, Vec::len),
        rerouted: record.reroute.is_some(),
        failed: record.is_failure(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;

    #[test]
    fn the_newest_are_kept_and_a_record_is_found_by_its_beginning() {
        let dir = tempfile::tempdir().expect("temp dir");
        let project = Project { root: dir.path().into(), data_dir: dir.path().join(".lazy"), name: "p".into() };
        let process = Process::fake(["lazy"], &[], dir.path(), Millis(100));
        let none = audit_rows(&process, &project, &Filter::default(), 20).expect("no trail yet");
        assert_eq!((none.rows.len(), none.hidden), (0, 0));
        std::fs::create_dir_all(dir.path().join(".lazy/logs")).expect("makes");
        let lines: String = (0..5)
            .map(|at| format!("{{\"id\":\"ab{at}\",\"ts\":{at},\"usage\":{{\"inputTokens\":7,\"outputTokens\":2}}}}\n"))
            .collect();
        std::fs::write(dir.path().join(".lazy/logs/proxy-audit.jsonl"), lines).expect("writes");
        let rows = audit_rows(&process, &project, &Filter::default(), 2).expect("reads");
        assert_eq!((rows.rows[0].id.as_str(), rows.rows.len(), rows.hidden), ("ab3", 2, 3));
        assert_eq!(rows.rows[0].total_tokens, Some(9));
        assert_eq!(audit_record(&process, &project, "ab4").expect("one").ts, 4);
        let several = audit_record(&process, &project, "ab").expect_err("five");
        assert_eq!((several.kind(), several.hints().len()), (Kind::Ambiguous, 3));
        assert_eq!(audit_record(&process, &project, "x").expect_err("none").kind(), Kind::NotFound);
    }
}
