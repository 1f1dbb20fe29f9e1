//! Children that outlive whoever started them: supervisors and the daemon.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;

use super::Cmd;
use super::cmd::retry_busy;
use crate::base::{Result, ResultExt, files};

/// Starts a process that lives on by itself: its own group, no standard input, both outputs appended to `log_file`.
///
/// Returns its process id. It is never killed by this process; inside a runtime a task waits for it, so that it does
/// not stay as a zombie.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] when the program is not there, [`crate::base::Kind::Io`] when the log cannot be
/// opened or the process cannot be started.
pub fn spawn_detached(cmd: Cmd, log_file: &Path) -> Result<u32> {
    if let Some(directory) = log_file.parent() {
        files::create_dir(directory)?;
    }
    let doing = || format!("cannot open the log file {}", log_file.display());
    let log = OpenOptions::new().create(true).append(true).open(log_file).io_context(doing)?;
    let second = log.try_clone().io_context(doing)?;
    let mut command = cmd.prepare();
    command.stdin(Stdio::null()).stdout(log).stderr(second);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        let child = retry_busy(|| command.spawn()).map_err(|source| cmd.spawn_error(source))?;
        return Ok(child.id());
    };
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(false);
    let mut child = retry_busy(|| command.spawn()).map_err(|source| cmd.spawn_error(source))?;
    let pid = child.id().unwrap_or_default();
    runtime.spawn(async move { child.wait().await.map(drop) });
    Ok(pid)
}
