//! A record in the making. It reaches the trail exactly once, also when its request is dropped on the way.

use std::time::Instant;

use tokio::task::JoinHandle;

use super::{Ledger, Record};
use crate::proxy::extract::{Extract, Scrubber, tier};
use crate::proxy::gate::Findings;
use crate::proxy::usage::Told;

/// What is read from a request, at once or on another thread.
#[derive(Debug)]
pub(in crate::proxy) enum Extraction {
    /// It is here.
    Ready(Box<Extract>),
    /// It is being read.
    Running(JoinHandle<Extract>),
}

impl Extraction {
    /// Waits for it; reading that failed gives nothing.
    pub async fn wait(self) -> Extract {
        match self {
            Extraction::Ready(extract) => *extract,
            Extraction::Running(task) => task.await.unwrap_or_default(),
        }
    }
}

/// A record that is complete but for what was read from the request.
#[derive(Debug)]
pub(super) struct Closing {
    pub record: Record,
    pub extraction: Option<Extraction>,
    pub scrubber: Scrubber,
}

impl Closing {
    /// The complete record.
    pub async fn complete(self) -> Record {
        let mut record = self.record;
        if let Some(extraction) = self.extraction {
            fill(&mut record, extraction.wait().await);
        }
        // Credentials never stand where a client put them either: in a path, in the text of an error.
        let texts = [Some(&mut record.path), record.error.as_mut(), record.task_id.as_mut(), record.role.as_mut()];
        let reasons = record.enforcement.iter_mut().flatten().map(|denial| &mut denial.reason);
        let arguments = record
            .judged
            .iter_mut()
            .flat_map(|call| call.paths.iter_mut().chain(call.url.as_mut()).chain(call.command.as_mut()));
        for text in texts.into_iter().flatten().chain(reasons).chain(arguments) {
            *text = self.scrubber.scrub(text).into_owned();
        }
        record
    }
}

/// Puts what was read from the request into its record.
pub(in crate::proxy) fn fill(record: &mut Record, extract: Extract) {
    record.tier = extract.model.as_deref().map(|model| tier(model).to_string());
    record.model = extract.model;
    record.stream = extract.stream;
    record.request_shape = extract.shape;
    record.tool_uses = extract.tool_uses;
    record.tool_results = extract.tool_results;
}

/// The record of a request that is under way.
#[derive(Debug)]
pub(in crate::proxy) struct Entry {
    open: Option<Closing>,
    started: Instant,
    ledger: Ledger,
}

impl Entry {
    /// A record that begins now.
    pub fn new(record: Record, scrubber: Scrubber, ledger: Ledger) -> Self {
        let open = Some(Closing { record, extraction: None, scrubber });
        Entry { open, started: Instant::now(), ledger }
    }

    /// The record so far.
    pub fn record(&self) -> &Record {
        &self.open.as_ref().expect("an entry is open until it is closed").record
    }

    /// The record, to be added to.
    pub fn record_mut(&mut self) -> &mut Record {
        &mut self.open.as_mut().expect("an entry is open until it is closed").record
    }

    /// What will scrub it.
    pub fn scrubber(&self) -> &Scrubber {
        &self.open.as_ref().expect("an entry is open until it is closed").scrubber
    }

    /// What is read from the request.
    pub fn extracting(&mut self, extraction: Extraction) {
        self.open.as_mut().expect("an entry is open until it is closed").extraction = Some(extraction);
    }

    /// The head of the response is here.
    pub fn answered(&mut self, status: u16) {
        let elapsed = self.elapsed();
        let record = self.record_mut();
        record.status = Some(status);
        record.duration_ms = elapsed;
    }

    /// The request is over, whole (`None`) or with an error.
    pub fn close(mut self, told: Told, findings: Findings, error: Option<String>) {
        self.end(told, findings, error);
    }

    fn end(&mut self, told: Told, findings: Findings, error: Option<String>) {
        let elapsed = self.elapsed();
        let Some(mut closing) = self.open.take() else { return };
        let record = &mut closing.record;
        if record.status.is_none() {
            record.duration_ms = elapsed;
        }
        record.usage_partial = error.is_some() && told.usage.is_some();
        record.usage = told.usage;
        record.stop_reason = told.stop_reason;
        record.enforcement = (!findings.denials.is_empty()).then_some(findings.denials);
        record.judged = findings.judged;
        record.unjudged = findings.unjudged;
        record.error = error;
        self.ledger.put(closing);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// What a record says about a client that went away.
pub(in crate::proxy) const DISCONNECTED: &str = "client disconnected";

impl Drop for Entry {
    fn drop(&mut self) {
        // hyper drops the handler of a client that hung up: the entry falls with it.
        self.end(Told::default(), Findings::default(), Some(DISCONNECTED.into()));
    }
}
