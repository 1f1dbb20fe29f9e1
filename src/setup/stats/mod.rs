//! What the audit trail tells: requests one by one, tokens added up, and whether it is what was written. Reads
//! `<data>/logs/` only, so it needs no daemon.

mod rows;
mod tokens;

use std::path::PathBuf;
use std::time::Duration;

use crate::base::{Error, Process, Result};
use crate::config::project::Project;
use crate::proxy::audit::{self, Record};

pub use crate::proxy::audit::{Fault as TrailFault, Record as AuditRecord, Verdict as TrailVerdict};
pub use rows::{AuditRow, AuditRows, audit_record, audit_rows};
pub use tokens::{Breakdown, By, Sum, TokenGroup, TokenReport, token_report};

/// Which requests are looked at; every part must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Received this long ago or less.
    pub last: Option<Duration>,
    /// The task: its ref, the code in front of the ref's date, or the beginning of a ref that is a short id.
    pub task: Option<String>,
    /// The role, exactly.
    pub role: Option<String>,
    /// A part of the model's name, whatever the case.
    pub model: Option<String>,
    /// Only those of these kinds.
    pub only: Vec<Only>,
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// A tool call was denied.
    Denied,
    /// It went to another target than the first.
    Rerouted,
    /// It failed.
    Failed,
}

impl Filter {
    /// Whether a record fits, seen from `now` in unix milliseconds.
    pub fn takes(&self, record: &Record, now: i64) -> bool {
        let recent = self
            .last
            .is_none_or(|last| record.ts >= now.saturating_sub(i64::try_from(last.as_millis()).unwrap_or(i64::MAX)));
        let task = |asked: &String| record.task_id.as_deref().is_some_and(|task| names_task(asked, task));
        let model = |asked: &String| {
            record.model.as_deref().is_some_and(|model| model.to_lowercase().contains(&asked.to_lowercase()))
        };
        recent
            && self.task.as_ref().is_none_or(task)
            && self.role.as_ref().is_none_or(|role| record.role.as_ref() == Some(role))
            && self.model.as_ref().is_none_or(model)
            && self.only.iter().all(|only| match only {
                Only::Denied => record.enforcement.as_ref().is_some_and(|denied| !denied.is_empty()),
                Only::Rerouted => record.reroute.is_some(),
                Only::Failed => record.is_failure(),
            })
    }
}

/// Whether `asked` names the task of this ref: `fix` also names `fix-26-05-06`; a short id also its beginning.
fn names_task(asked: &str, task: &str) -> bool {
    let hex = |text: &str| text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let dated = |rest: &str| {
        rest.len() == 9
            && rest.bytes().enumerate().all(|(at, byte)| if at % 3 == 0 { byte == b'-' } else { byte.is_ascii_digit() })
    };
    match task.strip_prefix(asked) {
        Some("") => true,
        Some(rest) => dated(rest) || (hex(asked) && hex(task)),
        // A whole id is longer than the ref that is its beginning.
        None => hex(task) && asked.len() == 36 && asked.starts_with(task),
    }
}

/// The trail of a project.
pub(crate) fn trail(project: &Project) -> PathBuf {
    project.data_dir.join("logs/proxy-audit.jsonl")
}

/// Whether the trail is what was written: the first line that is not, and every other.
///
/// # Errors
/// [`crate::base::Kind::Io`] when it is there and cannot be read.
pub fn verify_audit(project: &Project) -> Result<TrailVerdict> {
    audit::verify(&trail(project))
}

/// The records that fit, oldest first.
fn records(process: &Process, project: &Project, filter: &Filter) -> Result<Vec<Record>> {
    let now = process.now().0;
    let mut records = audit::read(&trail(project), usize::MAX)?;
    records.retain(|record| filter.takes(record, now));
    Ok(records)
}

fn no_such_record(id: &str) -> Error {
    Error::not_found(format!("the audit trail has no record {id}")).hint("lazy stats audit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_by_its_code_its_ref_or_the_beginning_of_its_id() {
        let id = "aaaabbbb-0000-4000-8000-000000000002";
        for (asked, task) in [("fix", "fix"), ("fix", "fix-26-05-06"), ("aaaa", "aaaabbbb"), (id, "aaaabbbb")] {
            assert!(names_task(asked, task), "{asked} {task}");
        }
        for (asked, task) in [("fi", "fix"), ("fix", "fix-it"), ("aaa", "aaaabbbb"), ("fix-26-05-06", "fix"), ("", "a")]
        {
            assert!(!names_task(asked, task), "{asked} {task}");
        }
    }

    #[test]
    fn every_part_of_a_filter_must_fit() {
        let record = Record {
            ts: 1_000_000,
            role: Some("agent".into()),
            task_id: Some("fix".into()),
            model: Some("claude-Opus-4-7".into()),
            status: Some(500),
            ..Record::default()
        };
        let all = Filter {
            last: Some(Duration::from_secs(60)),
            task: Some("fix".into()),
            role: Some("agent".into()),
            model: Some("opus".into()),
            only: vec![Only::Failed],
        };
        assert!(all.takes(&record, 1_060_000) && Filter::default().takes(&record, i64::MAX));
        assert!(!all.takes(&record, 1_060_001));
        for other in [
            Filter { task: Some("fi".into()), ..all.clone() },
            Filter { role: Some("builder".into()), ..all.clone() },
            Filter { model: Some("haiku".into()), ..all.clone() },
            Filter { only: vec![Only::Failed, Only::Denied], ..all.clone() },
            Filter { only: vec![Only::Rerouted], ..all },
        ] {
            assert!(!other.takes(&record, 1_000_000), "{other:?}");
        }
    }
}
