//! Why a command did not come to its end.

use crate::base::Error;
use crate::model::exchange::Failure;

/// What is to happen after a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Leave the response; the command is over.
    Respond,
    /// Leave the response and take the command that arrived meanwhile, also in one-shot mode.
    TakeNext,
    /// Leave no response: this process is ending.
    End,
}

/// A command that failed: what its response will say, and what happens next.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) failure: Box<Failure>,
    pub(super) then: Then,
}

impl Fault {
    /// A failure that says `error`. The phase is filled in by whoever knows it when it is empty.
    pub(super) fn new(error: impl Into<String>) -> Fault {
        Fault::from(Failure { error: error.into(), ..Failure::default() })
    }

    /// This process is ending.
    pub(super) fn ending() -> Fault {
        Fault { then: Then::End, ..Fault::new("the supervisor was told to end") }
    }

    /// The same with the phase it belongs to, unless it has one.
    pub(super) fn in_phase(mut self, phase: &str) -> Fault {
        if self.failure.phase.is_empty() {
            self.failure.phase = phase.to_string();
        }
        self
    }

    /// The same with what was being done in front.
    pub(super) fn context(mut self, doing: &str) -> Fault {
        self.failure.error = format!("{doing}: {}", self.failure.error);
        self
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault { failure: Box::new(failure), then: Then::Respond }
    }
}

impl From<Error> for Fault {
    /// The response has no place for hints, so they follow the message.
    fn from(error: Error) -> Fault {
        let mut text = error.full_message();
        for hint in error.hints() {
            text.push_str("\nTry: ");
            text.push_str(hint);
        }
        Fault::new(text)
    }
}
