//! The only spawner: child processes in groups of their own, ended by TERM, a grace, then KILL.
//!
//! Invariants
//! - Every child leads its own process group, so that a terminal's Ctrl-C reaches lazy alone and a kill reaches all
//!   that the child started. Ending a child also ends descendants that moved to a group of their own.
//! - No wait is unbounded unless the caller asked for that: a timeout ends the group, and output is drained at most
//!   [`DRAIN`] after the exit, because a grandchild may hold the pipe open for ever.
//! - No output is unbounded: [`Cmd::output_limit`] bounds what is kept, the rest is read and dropped.
//! - A dropped future leaves nothing behind: the group is killed. Detached children are the exception by purpose; the
//!   runtime reaps them when they end, so no zombie stays.
//! - The timers of a watched agent ([`guard`]) are pure: they are fed events and instants, and answer with a verdict.
//!
//! - The first process of a container ([`init`]) is the exception to all of this: it holds one child, again and again,
//!   and reaps what others left.
//!
//! Refuses: a program that is not there ([`crate::base::Kind::Unavailable`], naming it).

use std::time::Duration;

mod cmd;
mod collector;
mod detached;
mod foreground;
pub mod guard;
pub mod init;
pub mod lines;
mod lookout;
mod pids;
mod running;
mod signals;

pub use cmd::{Cmd, Output};
pub use collector::{Collector, Keep};
pub use detached::spawn_detached;
pub use foreground::foreground;
pub use lookout::working_in;
pub use pids::{Signal, alive, same_process, signal_group, start_time, terminate_group, which};
pub use running::{Exit, Running, spawn_piped};
pub use signals::{Shutdown, shutdown_signal};

/// How long a child may take between TERM and KILL.
pub const GRACE: Duration = Duration::from_secs(5);

/// How long output is read after the exit of the child that wrote it.
pub const DRAIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
