//! A request to the agent, tried until it is answered or nothing more can be hoped for.

use std::time::Duration;

use super::attempt::{self, Attempt, End};
use super::fault::{Fault, Then};
use super::ladder::{Ladder, Verdict};
use super::launch::{Launcher, Request};
use super::report::Retry;
use super::turn::Turn;
use crate::agent::{AgentResult, RunFailure, prompts};
use crate::base::text;
use crate::model::Usage;
use crate::model::exchange::{Failure, FailureClass};

/// How often a wait before another attempt looks for a new command.
const LOOK: Duration = Duration::from_millis(500);

/// An answer of the agent.
#[derive(Debug)]
pub(super) struct Performed {
    pub(super) result: AgentResult,
    /// Tokens of all attempts.
    pub(super) usage: Usage,
    pub(super) mcp_tools: Option<String>,
    /// How long the attempt that succeeded ran.
    pub(super) ran: Duration,
}

/// How often a request is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    /// As long as the ladder allows.
    Ladder,
    /// One time.
    Once,
}

/// Has the agent answer a request. Tokens of every attempt are added to the turn's.
pub(super) async fn perform(
    turn: &mut Turn<'_>,
    launcher: &Launcher,
    mut request: Request,
    persistence: Persistence,
) -> Result<Performed, Fault> {
    let phase = turn.reporter.current();
    let before = turn.worktree.head()?;
    let prompt = request.prompt.clone();
    let mut ladder = Ladder::default();
    let mut usage = Usage::default();
    loop {
        let Attempt { end, session_id, mcp_tools, usage: used, ran, steps } =
            attempt::run(turn, launcher, &request).await?;
        usage = usage.plus(used);
        turn.notes.usage = turn.notes.usage.plus(used);
        let known_session = session_id.clone().or_else(|| request.session_id.clone());
        let base = Failure {
            usage: Some(usage),
            session_id: known_session,
            duration_ms: Some(millis(ran)),
            failure_attempts: Some(ladder.attempts() + 1),
            ..Failure::default()
        };
        let (failure, verdict) = match end {
            End::Done(result) => return Ok(Performed { result, usage, mcp_tools, ran }),
            End::NoTools => return Err(no_tools(base, mcp_tools)),
            End::Unusable(why) => {
                return Err(Fault::from(Failure {
                    error: format!("{why}, and it did not exit either"),
                    failure_class: Some(FailureClass::Unknown),
                    failure_reason: Some(why),
                    ..base
                }));
            }
            End::NoProgress(message) => {
                let captured = turn.worktree.head()? != before;
                let verdict = match ladder.killed() {
                    _ if captured => Verdict::GiveUp("the watchdog ended the agent after it had committed work".into()),
                    verdict => verdict,
                };
                let failure = Failure {
                    error: message.clone(),
                    failure_class: Some(FailureClass::Unknown),
                    failure_reason: Some(message),
                    watchdog_timeout_ms: request.limits.watchdog.map(millis),
                    watchdog_attempts: Some(ladder.kills()),
                    watchdog_captured_work: Some(captured),
                    ..base
                };
                (failure, verdict)
            }
            End::Failed(run, message) => {
                let gone = launcher.agent.is_prompt_too_long(&run) || launcher.agent.is_session_not_found(&run);
                if gone && request.session_id.take().is_some() && persistence == Persistence::Ladder {
                    turn.process.err_line(format!("supervisor: {message}; trying again in a new conversation"));
                    ladder.note();
                    request.prompt.clone_from(&prompt);
                    continue;
                }
                let (class, reason) = classify(launcher, &run);
                let verdict = ladder.failed(class, ran);
                if steps > 0 && session_id.is_some() {
                    // The attempt got somewhere: go on in its conversation, which has the prompt, not from the beginning.
                    request.session_id = session_id;
                    request.prompt = prompts::render("resume-context", &[])?;
                }
                (crashed(base, run, message, (class, reason)), verdict)
            }
        };
        let verdict = match persistence {
            Persistence::Ladder => verdict,
            Persistence::Once => Verdict::GiveUp(String::new()),
        };
        match verdict {
            Verdict::GiveUp(why) => return Err(given_up(failure, &why)),
            Verdict::Again(delay) => wait(turn, failure, ladder.attempts(), delay).await?,
        }
        turn.reporter.phase(phase);
    }
}

fn classify(launcher: &Launcher, run: &RunFailure) -> (FailureClass, String) {
    if launcher.agent.is_prompt_too_long(run) {
        // Without a conversation to drop there is nothing left to shorten.
        return (FailureClass::FatalConfig, "the prompt is too long for the model".into());
    }
    let classified = launcher.agent.classify(run);
    (classified.class, classified.reason)
}

fn crashed(base: Failure, run: RunFailure, message: String, (class, reason): (FailureClass, String)) -> Failure {
    Failure {
        error: message,
        exit_code: run.exit_code,
        stderr: Some(run.stderr).filter(|text| !text.trim().is_empty()).map(|text| tail(&text)),
        stdout_error: run.stdout_error.map(|text| text::truncate_chars(&text, 2000)),
        failure_class: Some(class),
        failure_reason: Some(reason),
        ..base
    }
}

fn given_up(mut failure: Failure, why: &str) -> Fault {
    if !why.is_empty() {
        failure.error = format!("{}: {why}", failure.error);
    }
    Fault::from(failure)
}

fn no_tools(base: Failure, mcp_tools: Option<String>) -> Fault {
    let state = mcp_tools.map(|state| format!(" ({state})")).unwrap_or_default();
    let error = format!(
        "the agent started without any of lazy's tools{state} and was ended, because it could neither commit nor \
         report.\nTry: lazy daemon status"
    );
    Fault::from(Failure {
        error,
        failure_class: Some(FailureClass::Unknown),
        failure_reason: Some("the agent had none of lazy's tools".into()),
        ..base
    })
}

/// Waits before another attempt, unless a new command arrives or this process is ending.
async fn wait(turn: &mut Turn<'_>, failure: Failure, attempts: u32, delay: Duration) -> Result<(), Fault> {
    let delay = turn.scaled(delay);
    turn.reporter.retrying(Retry {
        attempts,
        message: failure.error.clone(),
        class: failure.failure_class,
        reason: failure.failure_reason.clone().unwrap_or_default(),
        delay_ms: millis(delay),
    });
    let until = tokio::time::Instant::now() + delay;
    loop {
        if turn.mailbox.has_command() {
            let error = format!("{}: not tried again, because a new command arrived", failure.error);
            return Err(Fault { then: Then::TakeNext, ..Fault::from(Failure { error, ..failure }) });
        }
        let next = until.min(tokio::time::Instant::now() + LOOK);
        tokio::select! {
            () = tokio::time::sleep_until(next) => if next == until { return Ok(()) },
            () = turn.stop.requested() => return Err(Fault::ending()),
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The last 4000 characters.
fn tail(text: &str) -> String {
    text.chars().skip(text.chars().count().saturating_sub(4000)).collect()
}
