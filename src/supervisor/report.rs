//! `status.json`: what the supervisor is doing, rewritten at each change.

use crate::base::Process;
use crate::exchange::Mailbox;
use crate::model::exchange::{Command, FailureClass, Phase, RetryError, StatusFile};

/// How many different errors are kept.
const ERRORS: usize = 10;

/// Writes the checkpoint of one command. A checkpoint that cannot be written never fails a turn.
#[derive(Debug)]
pub(super) struct Reporter {
    process: Process,
    mailbox: Mailbox,
    status: StatusFile,
    /// Of all attempts at the present request; shown while waiting for the next one.
    errors: Vec<RetryError>,
}

/// What is known while waiting for another attempt.
#[derive(Debug, Clone)]
pub(super) struct Retry {
    pub(super) attempts: u32,
    pub(super) message: String,
    pub(super) class: Option<FailureClass>,
    pub(super) reason: String,
    pub(super) delay_ms: u64,
}

impl Reporter {
    pub(super) fn new(process: &Process, mailbox: &Mailbox, command: &Command) -> Reporter {
        let now = process.now().iso();
        let head = command.head();
        let status = StatusFile {
            phase: Phase::ReadingCommand,
            task_id: command.task_id(),
            command_type: command.name().into(),
            command_id: head.map(|head| head.command_id.clone()).unwrap_or_default(),
            started_at: head.map_or(now.clone(), |head| head.turn_started_at.clone()),
            updated_at: now,
            phase_started_at: None,
            pre_turn_sha: None,
            post_merge_sha: None,
            upstream_merge_sha: None,
            post_work_sha: None,
            pid: std::process::id(),
            retry_count: None,
            errors: Vec::new(),
            retry_failure_class: None,
            retry_failure_reason: None,
            retry_next_delay_ms: None,
        };
        Reporter { process: process.clone(), mailbox: mailbox.clone(), status, errors: Vec::new() }
    }

    /// The present phase.
    pub(super) fn current(&self) -> Phase {
        self.status.phase
    }

    /// Enters a phase. What is known about attempts is told only while waiting for the next one.
    pub(super) fn phase(&mut self, phase: Phase) {
        let status = &mut self.status;
        if status.phase != Phase::Retrying {
            self.errors.clear();
        }
        status.retry_count = None;
        status.errors.clear();
        status.retry_failure_class = None;
        status.retry_failure_reason = None;
        status.retry_next_delay_ms = None;
        status.phase = phase;
        status.phase_started_at = Some(self.process.now().iso());
        self.write();
        self.process.err_line(format!("{} supervisor: {}", self.status.updated_at, phase.as_str()));
    }

    /// Notes commits of the turn.
    pub(super) fn shas(&mut self, note: impl FnOnce(&mut StatusFile)) {
        note(&mut self.status);
        self.write();
    }

    /// Enters the wait before another attempt.
    pub(super) fn retrying(&mut self, retry: Retry) {
        let now = self.process.now().iso();
        let status = &mut self.status;
        match self.errors.iter_mut().find(|error| error.message == retry.message) {
            Some(error) => {
                error.count += 1;
                error.last_seen = now.clone();
                error.failure_class = retry.class;
            }
            None => {
                if self.errors.len() >= ERRORS {
                    self.errors.remove(0);
                }
                self.errors.push(RetryError {
                    message: retry.message.clone(),
                    count: 1,
                    first_seen: now.clone(),
                    last_seen: now.clone(),
                    failure_class: retry.class,
                });
            }
        }
        status.phase = Phase::Retrying;
        status.phase_started_at = Some(now);
        status.errors = self.errors.clone();
        status.retry_count = Some(retry.attempts);
        status.retry_failure_class = retry.class;
        status.retry_failure_reason = Some(retry.reason);
        status.retry_next_delay_ms = Some(retry.delay_ms);
        self.write();
        self.process.err_line(format!(
            "{} supervisor: attempt {} failed ({}), next in {} ms",
            self.status.updated_at, retry.attempts, retry.message, retry.delay_ms
        ));
    }

    fn write(&mut self) {
        self.status.updated_at = self.process.now().iso();
        if let Err(error) = self.mailbox.write_status(&self.status) {
            tracing::warn!(%error, "the supervisor's status cannot be written");
        }
    }
}
