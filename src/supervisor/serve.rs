//! The loop: take a command, answer it, leave the response.

use std::time::Duration;

use super::fault::{Fault, Then};
use super::report::Reporter;
use super::stop::Stop;
use super::turn::Turn;
use super::{Args, Mode, ask, sync, work};
use crate::base::{Error, Process, Result};
use crate::exchange::Mailbox;
use crate::git::{self, Repo};
use crate::model::exchange::{Command, EXIT_STOP, Failure, PROTOCOL_VERSION, Phase, Response};
use crate::proc;

/// How often the slot is looked at.
const POLL: Duration = Duration::from_millis(250);
/// How often a response is tried to be written, e.g. on a full disk.
const WRITES: u32 = 6;

/// Serves commands until there are to be no more; the exit code.
pub(super) async fn serve(process: &Process, args: &Args, mailbox: &Mailbox, mut stop: Stop) -> Result<u8> {
    report_findings(process, args, mailbox).await;
    loop {
        let (response, then) = match mailbox.take_command() {
            Ok(None) => {
                tokio::select! {
                    () = tokio::time::sleep(POLL) => continue,
                    () = stop.requested() => return Ok(0),
                }
            }
            Ok(Some(Command::Stop(order))) => {
                let why = order.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                process.err_line(format!("supervisor: told to stop{why}"));
                mailbox.clear_status()?;
                return Ok(EXIT_STOP);
            }
            Ok(Some(command)) => answer(process, args, mailbox, &command, &stop).await,
            Err(error) => (unreadable(&error), Then::Respond),
        };
        // A failure seen while ending is most likely the end's own doing; a turn that came through is worth a response.
        if then == Then::End || (stop.is_requested() && matches!(response, Response::Error(_))) {
            return Ok(0);
        }
        leave(process, mailbox, &response).await?;
        if stop.is_requested() || (args.mode == Mode::OneShot && then == Then::Respond) {
            return Ok(0);
        }
    }
}

/// Says what an earlier supervisor left. Nothing is touched: that is for the next command, which can say so.
async fn report_findings(process: &Process, args: &Args, mailbox: &Mailbox) {
    process.err_line(format!("supervisor: ready for {} on {}", args.worktree.display(), args.runner.as_str()));
    if let Ok(Some(status)) = mailbox.load_status() {
        process.err_line(format!("supervisor: an earlier one was last in {}", status.phase.as_str()));
    }
    if mailbox.has_response() {
        process.err_line("supervisor: the last response was not collected yet");
    }
    // Opening the repository takes more memory than all the rest of a supervisor that waits.
    if !git::seems_to_merge(&args.worktree) {
        return;
    }
    let worktree = Repo::discover(process, &args.worktree).and_then(|repo| repo.worktree(&args.worktree));
    if let Ok(worktree) = worktree
        && let Ok(Some(state)) = worktree.merge_state().await
    {
        process.err_line(format!("supervisor: the worktree has {}; the next command rolls it back", state.summary));
    }
}

/// The response to a command, and what is to happen then.
async fn answer(process: &Process, args: &Args, mailbox: &Mailbox, command: &Command, stop: &Stop) -> (Response, Then) {
    let Some(head) = command.head() else {
        return (unreadable(&Error::internal("a command without a head")), Then::Respond);
    };
    let command_id = head.command_id.clone();
    let fail = |failure: Failure| {
        let phase = if failure.phase.is_empty() { Phase::ReadingCommand.as_str().into() } else { failure.phase };
        Response::Error(Failure { command_id: command_id.clone(), phase, ..failure })
    };
    if head.protocol_version != PROTOCOL_VERSION {
        return (
            fail(Failure { error: wrong_version(Some(head.protocol_version)), ..Failure::default() }),
            Then::Respond,
        );
    }
    end_leftover_agent(process, mailbox).await;
    let reporter = Reporter::new(process, mailbox, command);
    let opened = Turn::open(process, mailbox, (head, command.name()), &args.worktree, (reporter, stop.clone()));
    let mut turn = match opened {
        Ok(turn) => turn,
        Err(fault) => {
            let (agent, model) = (Some(head.agent_id.clone()), head.model_id.clone());
            return (fail(Failure { agent, model, ..*fault.failure }), Then::Respond);
        }
    };
    let answered = match command {
        Command::Start(order) | Command::Unblock(order) => work::run(&mut turn, order).await,
        Command::Ask(order) => ask::run(&mut turn, order).await,
        Command::Sync(order) => sync::run(&mut turn, order).await,
        Command::Stop(_) => Err(Fault::new("a stop is not answered")),
    };
    match answered {
        Ok(responses) => (Response::Completed { command_id, responses }, Then::Respond),
        Err(Fault { then: Then::End, .. }) => (fail(Failure::default()), Then::End),
        Err(fault) => {
            let phase = turn.reporter.current().as_str();
            let Fault { failure, then } = fault.in_phase(phase);
            let failure = turn.complete(*failure).await;
            process.err_line(format!("supervisor: {} failed in {}: {}", turn.context, failure.phase, failure.error));
            (fail(failure), then)
        }
    }
}

/// An agent whose supervisor was killed may still be at work in this worktree; two at once must never be.
async fn end_leftover_agent(process: &Process, mailbox: &Mailbox) {
    let Some(agent) = mailbox.load_agent() else { return };
    if agent.start_time.is_some() && proc::same_process(agent.pid, agent.start_time) {
        process.err_line(format!("supervisor: ending an agent that was left running, process {}", agent.pid));
        if let Err(error) = proc::terminate_group(agent.pid, proc::GRACE).await {
            process.err_line(format!("supervisor: {error}"));
        }
    }
    mailbox.clear_agent().ok();
}

fn unreadable(error: &Error) -> Response {
    let details = error.details();
    let version = details.and_then(|details| details["protocol_version"].as_u64()).and_then(|n| u32::try_from(n).ok());
    let foreign = version.is_some_and(|version| version != PROTOCOL_VERSION);
    Response::Error(Failure {
        command_id: details.and_then(|details| details["command_id"].as_str()).unwrap_or_default().to_string(),
        error: if foreign { wrong_version(version) } else { error.full_message() },
        phase: Phase::ReadingCommand.as_str().into(),
        ..Failure::default()
    })
}

fn wrong_version(theirs: Option<u32>) -> String {
    let theirs = theirs.map_or("none".to_string(), |version| version.to_string());
    format!(
        "the daemon speaks protocol version {theirs} and this supervisor {PROTOCOL_VERSION}: one of them is of another \
         release.\nTry: lazy upgrade"
    )
}

/// Writes the response, again and again while the disk is full: a whole turn hangs on it.
async fn leave(process: &Process, mailbox: &Mailbox, response: &Response) -> Result<()> {
    let mut pause = Duration::from_millis(200);
    for attempt in 1.. {
        match mailbox.write_response(response) {
            Ok(()) => break,
            Err(error) if attempt == WRITES => return Err(error.context("the turn's response is lost")),
            Err(error) => process.err_line(format!("supervisor: {error}; trying again")),
        }
        tokio::time::sleep(pause).await;
        pause *= 3;
    }
    Ok(())
}
