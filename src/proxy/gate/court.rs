//! The judge of one response: the rules, where the caller is, and what was found.

use std::sync::Arc;

use super::findings::{Enforcement, Findings, Judged, LISTED, Verdict};
use crate::base::text::truncate_chars;
use crate::proxy::policy::{Argument, Arguments, Denial, Forms, Need, NoInput, Place, Policy, touched};

/// The longest id, name or argument that a record keeps, in characters.
const KEPT: usize = 1024;

/// The rules over one response.
#[derive(Debug, Clone)]
pub struct Court {
    policy: Arc<Policy>,
    place: Place,
    findings: Findings,
}

/// A tool call as it is called in records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub id: Option<String>,
    pub name: String,
}

impl Court {
    /// The court of a response to a caller at `place`.
    pub fn new(policy: Arc<Policy>, place: Place) -> Court {
        Court { policy, place, findings: Findings::default() }
    }

    /// What has to be known of a call. A verdict by name alone is recorded.
    pub(super) fn open(&mut self, call: &Call) -> Need {
        let need = self.policy.need(&call.name);
        match &need {
            Need::Nothing => self.record(call, None, None),
            Need::Denied(denial) => self.record(call, None, Some(denial)),
            Need::Input => {}
        }
        need
    }

    /// Judges a call by every input that a client may read from it.
    ///
    /// # Errors
    /// [`NoInput`] when one of them is none; recorded as damaged.
    pub(super) fn judge(&mut self, call: &Call, inputs: &[&[u8]]) -> Result<Option<Denial>, NoInput> {
        let mut last = None;
        for input in inputs {
            let Ok(arguments) = Arguments::read(input) else {
                self.damaged(call);
                return Err(NoInput);
            };
            if let Some(denial) = self.policy.judge(&call.name, &arguments, &self.place) {
                self.record(call, Some(&arguments), Some(&denial));
                return Ok(Some(denial));
            }
            last = Some(arguments);
        }
        self.record(call, last.as_ref(), None);
        Ok(None)
    }

    /// Records a call that could not be read.
    pub(super) fn damaged(&mut self, call: &Call) {
        let judged = Judged { verdict: Verdict::Damaged, ..self.judged(call, None) };
        self.list(judged);
    }

    /// Records that something passed without being judged; the first reason stays.
    pub(super) fn unjudged(&mut self, why: impl Into<String>) {
        self.findings.unjudged.get_or_insert_with(|| why.into());
    }

    /// What was found; nothing is left.
    pub fn findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }

    fn record(&mut self, call: &Call, arguments: Option<&Arguments>, denial: Option<&Denial>) {
        let mut judged = self.judged(call, arguments);
        if let Some(denial) = denial {
            judged.verdict = Verdict::Deny;
            judged.rule = Some(denial.rule.id().to_string());
            tracing::warn!(tool = judged.name, rule = denial.rule.id(), "a tool call was denied");
            if self.findings.denials.len() < LISTED {
                self.findings.denials.push(Enforcement {
                    tool_use_id: judged.tool_use_id.clone(),
                    name: judged.name.clone(),
                    rule: denial.rule.id().to_string(),
                    reason: denial.reason.clone(),
                });
            }
        }
        self.list(judged);
    }

    fn list(&mut self, judged: Judged) {
        if self.findings.judged.len() < LISTED {
            self.findings.judged.push(judged);
        }
    }

    fn judged(&self, call: &Call, arguments: Option<&Arguments>) -> Judged {
        let cut = |text: &str| truncate_chars(text, KEPT);
        let kept = |argument: Option<&Argument>| argument.and_then(Argument::text).map(cut);
        let mut paths = Vec::new();
        let touched = arguments.map(|arguments| touched(&call.name, arguments)).unwrap_or_default();
        for path in touched.iter().filter_map(Argument::text) {
            paths.push(cut(path));
            let normal = cut(Forms::of(&cut(path), &self.place).normal());
            if !paths.contains(&normal) {
                paths.push(normal);
            }
        }
        Judged {
            tool_use_id: call.id.as_deref().map(cut),
            name: cut(&call.name),
            paths,
            url: arguments
                .and_then(|arguments| kept(arguments.url.as_ref()))
                .map(|url| url.split(['?', '#']).next().unwrap_or_default().to_string()),
            command: arguments.and_then(|arguments| kept(arguments.command.as_ref())),
            ..Judged::default()
        }
    }
}
