//! A child that a person works in: the terminal is its, until it ends.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;

use super::Cmd;
use super::cmd::retry_busy;
use super::running::Exit;
use crate::base::{Result, ResultExt};

/// Runs a program with this process's own streams and in its process group, so that it may read from the terminal and
/// hears Ctrl-C as the person expects. Waits without a limit: a person ends it.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] when the program is not there.
pub async fn foreground(cmd: Cmd) -> Result<Exit> {
    let mut command = cmd.prepare();
    // 0 would make a group of its own, which a terminal stops as soon as it reads.
    command.process_group(rustix::process::getpgrp().as_raw_nonzero().get());
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut child = tokio::process::Command::from(command);
    let mut child = retry_busy(|| child.spawn()).map_err(|source| cmd.spawn_error(source))?;
    let status = child.wait().await.io_context(|| format!("cannot wait for {}", cmd.display()))?;
    Ok(Exit { code: status.code(), signal: status.signal() })
}
