//! A child whose output is read while it runs.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use super::Cmd;
use super::pids::{Signal, Tree};
use crate::base::{Error, Result, ResultExt};

/// How a child ended: a code, or the signal that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exit {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A running child in a process group of its own. Dropping it kills the group.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    child: Child,
    exit: Option<Exit>,
    feeder: Option<JoinHandle<()>>,
}

/// Starts a command whose output the caller reads as it comes.
///
/// The command's timeout is not watched here: that is the caller's, see [`super::guard`].
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] when the program is not there, [`crate::base::Kind::Io`] when it cannot be
/// started.
pub fn spawn_piped(cmd: Cmd) -> Result<Running> {
    cmd.spawn()
}

impl Running {
    pub(super) fn new(child: Child, feeder: Option<JoinHandle<()>>) -> Result<Running> {
        let pid = child.id().ok_or_else(|| Error::internal("a child that was just started has no process id"))?;
        Ok(Running { pid, child, exit: None, feeder })
    }

    /// The process id, which is also the id of its group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The writing end of standard input; `None` unless [`Cmd::stdin_open`] was asked for, and when it was taken before.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The reading end of standard output; `None` when it was taken before.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The reading end of standard error; `None` when it was taken before.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for the child to end. May be dropped and called again.
    pub async fn wait(&mut self) -> Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let status = self.child.wait().await.io_context(|| format!("cannot wait for process {}", self.pid))?;
        let exit = Exit { code: status.code(), signal: status.signal() };
        self.exit = Some(exit);
        Ok(exit)
    }

    /// Ends the child with all it started: TERM to the group, `grace` to end, KILL to what is left.
    pub async fn terminate(&mut self, grace: Duration) -> Result<Exit> {
        let mut tree = Tree::below(self.pid);
        tree.signal(Signal::Term);
        let until = tokio::time::Instant::now() + grace;
        let mut left = true;
        while left && tokio::time::Instant::now() < until {
            if self.exit.is_none() {
                tokio::time::timeout(super::pids::POLL, self.wait()).await.ok();
            } else {
                tokio::time::sleep(super::pids::POLL).await;
            }
            left = self.exit.is_none() || tree.any_alive();
        }
        if left {
            tree.signal(Signal::Kill);
        }
        self.wait().await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(feeder) = &self.feeder {
            feeder.abort();
        }
        if self.exit.is_none() {
            Tree::below(self.pid).signal(Signal::Kill);
        }
    }
}
