//! The trail added up.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Filter, records};
use crate::base::{Millis, Process, Result};
use crate::config::project::Project;
use crate::proxy::audit::Record;

/// What requests are put together by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// `agent`, `builder`.
    Role,
    /// The task's ref.
    Task,
    /// The model asked for.
    Model,
    /// The day in UTC.
    Day,
}

impl By {
    /// Every way.
    pub const ALL: [By; 4] = [By::Role, By::Task, By::Model, By::Day];

    /// As people type it.
    pub fn name(self) -> &'static str {
        match self {
            By::Role => "role",
            By::Task => "task",
            By::Model => "model",
            By::Day => "day",
        }
    }

    fn key(self, record: &Record) -> String {
        let day = || Millis(record.ts).minute().get(..10).unwrap_or("-").to_string();
        match self {
            By::Role => record.role.clone(),
            By::Task => record.task_id.clone(),
            By::Model => record.model.clone(),
            By::Day => Some(day()),
        }
        .unwrap_or_else(|| "(unattributed)".into())
    }
}

/// Requests and their tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// Requests, answered or not.
    pub requests: u64,
    /// Of these, with token counts.
    pub with_usage: u64,
    /// Of these, with responses that broke off: more may have been billed than was told.
    pub partial: u64,
    /// Tokens read and not from a cache.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens put into the cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// All together.
    pub total_tokens: u64,
}

impl Sum {
    fn add(&mut self, record: &Record) {
        self.requests += 1;
        let Some(usage) = record.usage else { return };
        self.with_usage += 1;
        self.partial += u64::from(record.usage_partial);
        let pairs = [
            (&mut self.input_tokens, usage.input_tokens),
            (&mut self.output_tokens, usage.output_tokens),
            (&mut self.cache_creation_input_tokens, usage.cache_creation_input_tokens),
            (&mut self.cache_read_input_tokens, usage.cache_read_input_tokens),
        ];
        for (sum, count) in pairs {
            *sum = sum.saturating_add(count.unwrap_or_default());
        }
        self.total_tokens = self.total_tokens.saturating_add(usage.total().unwrap_or_default());
    }
}

/// Everything of one role, task, model or day.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenGroup {
    /// Which.
    pub key: String,
    /// Its sum.
    #[serde(flatten)]
    pub sum: Sum,
}

/// Everything put together in one way.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breakdown {
    /// The way.
    pub by: By,
    /// Days in their order, else the group with the most tokens first.
    pub rows: Vec<TokenGroup>,
}

/// Everything added up, and put together in one or more ways.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenReport {
    /// Of all requests.
    pub total: Sum,
    /// The first and the last receipt, unix milliseconds; `null` without any request.
    pub span: Option<(i64, i64)>,
    /// Each way.
    pub groups: Vec<Breakdown>,
}

/// Adds up the requests that fit.
///
/// # Errors
/// [`crate::base::Kind::Io`] when the trail is there and cannot be read.
pub fn token_report(process: &Process, project: &Project, filter: &Filter, by: &[By]) -> Result<TokenReport> {
    Ok(report(&records(process, project, filter)?, by))
}

fn report(records: &[Record], by: &[By]) -> TokenReport {
    let mut total = Sum::default();
    records.iter().for_each(|record| total.add(record));
    let times = || records.iter().map(|record| record.ts);
    let groups = by.iter().map(|by| Breakdown { by: *by, rows: groups(records, *by) }).collect();
    TokenReport { total, span: times().min().zip(times().max()), groups }
}

fn groups(records: &[Record], by: By) -> Vec<TokenGroup> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for record in records {
        sums.entry(by.key(record)).or_default().add(record);
    }
    let mut groups: Vec<TokenGroup> = sums.into_iter().map(|(key, sum)| TokenGroup { key, sum }).collect();
    if by != By::Day {
        groups.sort_by_key(|group| std::cmp::Reverse(group.sum.total_tokens));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::usage::Usage;

    #[test]
    fn failures_are_requests_and_partial_counts_are_marked() {
        let usage =
            |input, output| Some(Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() });
        let record = |ts: i64, task: Option<&str>, usage, partial| Record {
            ts,
            task_id: task.map(str::to_string),
            usage,
            usage_partial: partial,
            ..Record::default()
        };
        const DAY: i64 = 86_400_000;
        let records = [
            record(0, Some("a"), usage(1, 2), false),
            record(DAY, Some("b"), usage(100, 0), true),
            record(DAY + 1, Some("b"), None, false),
            record(DAY + 2, None, usage(5, 0), false),
        ];
        let report = report(&records, &[By::Task, By::Day]);
        let total = report.total;
        assert_eq!((total.requests, total.with_usage, total.partial, total.total_tokens), (4, 3, 1, 108));
        assert_eq!(report.span, Some((0, DAY + 2)));
        let keys = |at: usize| -> Vec<(&str, u64)> {
            report.groups[at].rows.iter().map(|group| (group.key.as_str(), group.sum.total_tokens)).collect()
        };
        assert_eq!(keys(0), [("b", 100), ("(unattributed)", 5), ("a", 3)]);
        assert_eq!(keys(1), [("1970-01-01", 3), ("1970-01-02", 105)]);
    }
}
