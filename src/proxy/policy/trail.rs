//! What the rules would have done to the calls that the audit trail tells of.
//!
//! A call stands in the record of the response that proposed it (`judged`, when a rule was active then) and, unless it was
//! denied, in the record of the request that carried its result (`toolUses`). The arguments come from whichever has them;
//! both are cut short, so a pattern that needs the end of a very long value may miss it.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{Argument, Arguments, Denial, Need, Place, Policy};
use crate::proxy::audit::Record;
use crate::proxy::extract::ToolUse;
use crate::proxy::gate::{Judged, Verdict};

/// The outcome of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// Records that were looked at.
    pub requests: usize,
    /// Calls in them, each counted once.
    pub calls: usize,
    /// Calls whose arguments would decide and are not in the trail.
    pub unknown: usize,
    /// Calls that would be denied, oldest first.
    pub denied: Vec<Replayed>,
}

/// A call that would be denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// The record.
    pub record: String,
    /// When it was, unix milliseconds.
    pub ts: i64,
    /// Whose call it was.
    pub role: Option<String>,
    /// The task's ref.
    pub task_id: Option<String>,
    /// The call.
    pub tool_use_id: Option<String>,
    /// The tool.
    pub name: String,
    /// Whether it was denied then, too.
    pub was_denied: bool,
    /// The verdict.
    #[serde(flatten)]
    pub denial: Denial,
}

/// Judges every call of `records`, oldest first; `place_of` says where a record's caller was.
pub fn replay(records: &[Record], policy: &Policy, place_of: impl Fn(&Record) -> Place) -> Replay {
    let mut inputs: HashMap<&str, &ToolUse> = HashMap::new();
    for call in records.iter().flat_map(|record| &record.tool_uses) {
        if let Some(id) = call.id.as_deref() {
            inputs.entry(id).or_insert(call);
        }
    }
    let mut outcome = Replay { requests: records.len(), ..Replay::default() };
    let mut seen: HashSet<&str> = HashSet::new();
    for record in records {
        let place = place_of(record);
        for call in &record.judged {
            if call.tool_use_id.as_deref().is_none_or(|id| seen.insert(id)) {
                let known = call.tool_use_id.as_deref().and_then(|id| inputs.get(id));
                let arguments = from_judged(call).or_else(|| known.map(|call| from_request(call)));
                let was_denied = call.verdict == Verdict::Deny;
                outcome.add(record, policy, &place, (call.tool_use_id.as_ref(), &call.name), arguments, was_denied);
            }
        }
        for call in &record.tool_uses {
            if call.id.as_deref().is_none_or(|id| seen.insert(id)) {
                outcome.add(record, policy, &place, (call.id.as_ref(), &call.name), Some(from_request(call)), false);
            }
        }
    }
    outcome
}

impl Replay {
    fn add(
        &mut self,
        record: &Record,
        policy: &Policy,
        place: &Place,
        (id, name): (Option<&String>, &String),
        arguments: Option<Arguments>,
        was_denied: bool,
    ) {
        self.calls += 1;
        let denial = match (policy.need(name), arguments) {
            (Need::Nothing, _) => None,
            (Need::Denied(denial), _) => Some(*denial),
            (Need::Input, Some(arguments)) => policy.judge(name, &arguments, place),
            (Need::Input, None) => {
                self.unknown += 1;
                None
            }
        };
        let Some(denial) = denial else { return };
        self.denied.push(Replayed {
            record: record.id.clone(),
            ts: record.ts,
            role: record.role.clone(),
            task_id: record.task_id.clone(),
            tool_use_id: id.cloned(),
            name: name.clone(),
            was_denied,
            denial,
        });
    }
}

/// What the rules looked at then; `None` when they did not have to look.
fn from_judged(call: &Judged) -> Option<Arguments> {
    let text = |value: &String| Argument::Text(value.clone());
    let arguments = Arguments {
        paths: call.paths.iter().map(text).collect(),
        url: call.url.as_ref().map(text),
        command: call.command.as_ref().map(text),
        ..Arguments::default()
    };
    (arguments != Arguments::default()).then_some(arguments)
}

fn from_request(call: &ToolUse) -> Arguments {
    let text = |value: &String| Argument::Text(value.clone());
    // A short input is there whole.
    let mut arguments = Arguments::read(call.input_preview.as_bytes()).unwrap_or_default();
    if let Some(path) = call.path.as_ref().map(text).filter(|path| !arguments.paths.contains(path)) {
        arguments.paths.push(path);
    }
    arguments.url = arguments.url.or_else(|| call.target.as_ref().map(text));
    arguments.command = call.command.as_ref().map(text).or(arguments.command);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema;

    #[test]
    fn calls_are_judged_once_by_what_the_trail_knows() {
        let settings = schema::Policy { deny_command_globs: vec!["git push*".into()], ..schema::Policy::default() };
        let policy = Policy::from_settings(&settings, None);
        let judged = |id: &str, name: &str, paths: &[&str], verdict| Judged {
            tool_use_id: Some(id.into()),
            name: name.into(),
            paths: paths.iter().map(|path| (*path).to_string()).collect(),
            verdict,
            ..Judged::default()
        };
        let asked = |id: &str, name: &str, preview: &str| ToolUse {
            id: Some(id.into()),
            name: name.into(),
            input_preview: preview.into(),
            ..ToolUse::default()
        };
        let first = Record {
            id: "r1".into(),
            judged: vec![
                judged("a", "Read", &["keys", "/root/.ssh/id_rsa"], Verdict::Deny),
                judged("b", "Bash", &[], Verdict::Allow),
                judged("c", "Read", &["src/main.rs"], Verdict::Allow),
                judged("d", "Bash", &[], Verdict::Allow),
            ],
            ..Record::default()
        };
        let second = Record {
            id: "r2".into(),
            tool_uses: vec![
                asked("b", "Bash", r#"{"command":"cd x && git push origin"}"#),
                asked("c", "Read", "{}"),
                asked("e", "mcp__claude_ai_mail", "{}"),
                ToolUse { path: Some("/w/.env".into()), ..asked("f", "Read", "{\"x\":\"cut…") },
            ],
            ..Record::default()
        };
        let outcome = replay(&[first, second], &policy, |_| Place::default());
        assert_eq!((outcome.requests, outcome.calls, outcome.unknown), (2, 6, 1));
        let denied: Vec<_> = outcome
            .denied
            .iter()
            .map(|call| {
                (
                    call.record.as_str(),
                    call.tool_use_id.as_deref().unwrap_or("-"),
                    call.denial.rule.id(),
                    call.was_denied,
                )
            })
            .collect();
        assert_eq!(
            denied,
            [
                ("r1", "a", "secret-path-read", true),
                ("r1", "b", "command-glob-deny", false),
                ("r2", "e", "connector-deny-default", false),
                ("r2", "f", "secret-path-read", false),
            ]
        );
    }
}
