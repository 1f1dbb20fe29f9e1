//! Finding the project's daemon, and starting it in the background.
//!
//! Whether a daemon runs is decided by its lock, which the system releases when it dies; whether it is ours is decided
//! by the project it names. The pid file and the port file are only hints.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::app::App;
use super::progress::Talk;
use super::session;
use crate::agent::require_sound_credentials;
use crate::base::lock::{Attempt, FileLock};
use crate::base::{Error, Result, files, hash};
use crate::proc;
use crate::rpc::state_dir::DaemonStatus;
use crate::rpc::{Client, StateDir, client};

/// How long a daemon may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// What stands behind a state directory.
#[derive(Debug)]
pub(crate) enum Found {
    /// A daemon that answers.
    Running(Client, Box<DaemonStatus>),
    /// A process holds the lock and does not answer as this project's daemon: it starts, it ends, or it hangs.
    Silent,
    /// None.
    Absent,
}

/// Looks, and starts nothing.
pub(crate) async fn look(app: &App, state: &StateDir) -> Result<Found> {
    if !state.is_daemon_running() {
        return Ok(Found::Absent);
    }
    let Some(port) = state.port() else { return Ok(Found::Silent) };
    match client::probe(&format!("127.0.0.1:{port}")).await {
        Ok(status) if status.project_root == state.project_root().to_string_lossy() => {
            let client = Client::for_project(state, session::actor(app)?)?;
            Ok(Found::Running(client, Box::new(status)))
        }
        // The port of an earlier life, now taken by another project's daemon, or nobody there yet.
        _ => Ok(Found::Silent),
    }
}

/// The daemon of this project, started when none runs.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] with the reason that the daemon left behind, or that it hangs.
pub(crate) async fn ensure(app: &App, state: &StateDir, talk: Talk) -> Result<(Client, DaemonStatus)> {
    let mut child: Option<Child> = None;
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        match look(app, state).await? {
            Found::Running(client, status) => return Ok((client, *status)),
            Found::Absent => match child {
                None => child = spawn(app, state, talk)?,
                Some(child) if !proc::alive(child.pid) => return Err(died(state)),
                Some(_) if state.startup_error_path().exists() => return Err(died(state)),
                Some(_) => {}
            },
            Found::Silent => {}
        }
        if Instant::now() >= deadline {
            return Err(hangs(state));
        }
        sleep(POLL).await;
    }
}

/// A daemon on its way. Whoever starts one holds the lock, so that of several commands at once only one does.
struct Child {
    pid: u32,
    _starter: FileLock,
}

/// Starts a daemon, unless another command is just doing that.
fn spawn(app: &App, state: &StateDir, talk: Talk) -> Result<Option<Child>> {
    // The daemon has this environment. Refused here the reason is seen, and nothing is made for it.
    require_sound_credentials(&app.process)?;
    files::create_private_dir(state.path())?;
    let note = std::process::id().to_string();
    let Attempt::Taken(starter) = FileLock::try_take(&state.path().join("start.lock"), &note)? else { return Ok(None) };
    // another command may have started one since we looked, and let go of the lock
    if state.is_daemon_running() {
        return Ok(None);
    }
    if talk == Talk::Narrate {
        app.process.err_line("… starting the daemon");
    }
    files::remove_file(&state.startup_error_path())?;
    let command = proc::Cmd::new(app.process.executable()?)
        .args(["daemon", "start", "--foreground", "--project"])
        .arg(state.project_root())
        .cwd(state.project_root());
    let pid = proc::spawn_detached(command, &state.log_path())?;
    Ok(Some(Child { pid, _starter: starter }))
}

fn died(state: &StateDir) -> Error {
    match startup_error(state) {
        Some(reason) => Error::unavailable(format!("the daemon did not start: {reason}")),
        None => Error::unavailable("the daemon ended before it was ready, and left no reason").hint("lazy daemon logs"),
    }
}

fn hangs(state: &StateDir) -> Error {
    let pid = state.pid().map_or_else(|| "unknown".into(), |pid| pid.to_string());
    Error::unavailable(format!(
        "the daemon (pid {pid}) is alive and does not answer within {} s",
        READY_LIMIT.as_secs()
    ))
    .hint("lazy daemon restart")
    .hint("lazy daemon logs")
}

/// Why the last start failed, as the daemon wrote it.
pub(crate) fn startup_error(state: &StateDir) -> Option<String> {
    files::read_line_optional(&state.startup_error_path())
}

/// Whether the running daemon is another build than this program. Not knowing counts as no.
pub(crate) fn is_stale(app: &App, status: &DaemonStatus) -> bool {
    !status.binary_id.is_empty() && own_id(app, status).is_some_and(|own| own != status.binary_id)
}

/// The id of this program.
pub(crate) fn own_id(app: &App, status: &DaemonStatus) -> Option<String> {
    let own = app.process.executable().ok()?;
    // The same file needs no hashing; a replaced one reads back as `… (deleted)`.
    if std::fs::read_link(format!("/proc/{}/exe", status.pid)).is_ok_and(|running| running == own) {
        return Some(status.binary_id.clone());
    }
    std::fs::read(&own).ok().map(|bytes| hash::content_id(&bytes))
}
