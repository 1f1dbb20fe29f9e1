//! The supervisor: runs beside the agent, takes one command at a time from the mailbox, leads it through the phases of
//! a turn, and leaves one response.
//!
//! Invariants
//! - A command is taken out of the slot before any work: what is in the slot is always news.
//! - Every command ends in exactly one response, a failing one too: with its phase, the class of the failure, the
//!   tokens of all attempts, what the agent left in the handoff file, and how a failed merge was left. Only a
//!   supervisor that is told to end by a signal leaves none; the daemon treats its turn as interrupted.
//! - At most one agent works in a worktree: one left over by a supervisor that was killed is ended first.
//! - Conflicted files never stay behind silently: every failed merge is settled, and the response says how.
//! - Start-up destroys nothing: a half-done merge is only reported; the next command rolls it back and says so.
//! - The store is never opened. What is to be remembered goes into the response.
//!
//! Files owned, below the worktree's sandbox directory: `mcp.json`, and the removal of `turn-handoff.jsonl`.
//!
//! Refuses: a command of another protocol version, an agent that has none of lazy's tools, a launch without
//! `LAZY_DAEMON_CONFIG`.

use std::path::PathBuf;

use crate::base::{Error, Process, Result};
use crate::exchange::Mailbox;
use crate::model::RunnerKind;
use crate::proc;

mod ask;
mod attempt;
mod check;
mod fault;
mod followup;
mod handoff;
mod hands;
mod ladder;
mod launch;
mod perform;
mod report;
mod resolve;
mod serve;
mod stop;
mod sync;
#[cfg(test)]
mod tests;
mod turn;
mod work;

/// What a supervisor is started with.
#[derive(Debug, Clone)]
pub struct Args {
    /// The mailbox.
    pub protocol_dir: PathBuf,
    /// The task's worktree.
    pub worktree: PathBuf,
    /// What the agent is isolated by.
    pub runner: RunnerKind,
    /// How long to live.
    pub mode: Mode,
}

/// How long a supervisor lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// For one command.
    OneShot,
    /// Until a stop command.
    Loop,
}

/// How long a supervisor that got a signal may take to end its agent.
const SHUTDOWN: std::time::Duration = std::time::Duration::from_millis(4_500);

/// Runs a supervisor to its end and returns its exit code: 0, [`crate::model::exchange::EXIT_STOP`] after a stop
/// command, 128 plus the number of the signal that ended it.
///
/// # Errors
/// When git is missing, or a response cannot be written even after several tries.
pub async fn run(process: &Process, args: Args) -> Result<u8> {
    let signal = proc::shutdown_signal();
    if proc::which("git", process.var_os("PATH").unwrap_or_default()).is_none() {
        return Err(Error::unavailable("the program git is not installed where the agent runs")
            .hint("install git there: apt-get install git"));
    }
    let (stopper, stop) = stop::pair();
    let mailbox = Mailbox::new(&args.protocol_dir);
    let serving = serve::serve(process, &args, &mailbox, stop);
    tokio::pin!(serving);
    tokio::select! {
        code = &mut serving => code,
        signal = signal => {
            process.err_line(format!("supervisor: got {signal:?}, ending the agent"));
            stopper.stop();
            // What does not end in time is killed when the future is dropped.
            tokio::time::timeout(SHUTDOWN, serving).await.ok();
            Ok(signal.exit_code())
        }
    }
}
