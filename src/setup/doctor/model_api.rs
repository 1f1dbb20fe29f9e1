//! Whether the model's service takes the credential: what it said last, from the audit trail.

use super::Check;
use crate::base::Millis;
use crate::config::Project;
use crate::proxy::audit::{self, Record};
use crate::setup::stats;

const LABEL: &str = "Model API accepts the credential";

pub(super) fn check(project: &Project) -> Check {
    match audit::read(&stats::trail(project), usize::MAX) {
        Ok(records) => judge(&records),
        Err(error) => Check::error(LABEL, &error),
    }
}

/// The last answer of the service counts. What the proxy refused by itself, and what got no answer, says nothing.
fn judge(records: &[Record]) -> Check {
    let answered = |record: &&Record| record.status.is_some() && !refused_here(record) && record.role.is_some();
    let Some(last) = records.iter().rev().find(answered) else {
        return Check::ok(LABEL, "no request was made yet");
    };
    let status = last.status.unwrap_or_default();
    let at = format!("{} UTC", Millis(last.ts).minute());
    if !matches!(status, 401 | 403) {
        return Check::ok(LABEL, format!("the last answer was {status}, {at}"));
    }
    let id = last.id.get(..8).unwrap_or(&last.id);
    Check::fail(LABEL, format!("{} answered {status}, {at}", last.upstream))
        .hint(format!("set a credential that is good, then: lazy daemon restart   # see lazy stats audit {id}"))
}

fn refused_here(record: &Record) -> bool {
    record.error.as_deref().is_some_and(|error| error.starts_with("credential refused") || error.starts_with("budget"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Outcome;

    fn record(status: Option<u16>, error: Option<&str>) -> Record {
        Record {
            id: "0123456789".into(),
            status,
            error: error.map(str::to_string),
            role: Some("agent".into()),
            upstream: "https://api.example.com".into(),
            ..Record::default()
        }
    }

    #[test]
    fn the_last_answer_of_the_service_counts() {
        assert_eq!(judge(&[]).outcome, Outcome::Ok);
        let refused = record(Some(401), None);
        let check = judge(&[record(Some(200), None), refused.clone(), record(None, Some("no connection"))]);
        assert_eq!(check.outcome, Outcome::Fail);
        assert!(check.detail.contains("api.example.com answered 401"), "{check:?}");
        assert!(check.hint.is_some_and(|hint| hint.ends_with("lazy stats audit 01234567")));
        assert_eq!(judge(&[refused.clone(), record(Some(529), None)]).outcome, Outcome::Ok, "it was let in");
        let here = record(Some(401), Some("credential refused: unknown or revoked placeholder"));
        assert_eq!(judge(&[record(Some(200), None), here]).outcome, Outcome::Ok);
        let other = Record { role: None, ..refused };
        assert_eq!(judge(&[record(Some(200), None), other]).outcome, Outcome::Ok, "a credential of its own");
    }
}
