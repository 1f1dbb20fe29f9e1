//! The daemon: one for each project, the only writer of its store, the holder of the credential.
//!
//! **Processes.** `lazy daemon start --foreground --project <root>` is the daemon itself ([`run`]). Command line, agents
//! and dashboard reach it over one TCP listener.
//!
//! **Start** ([`ladder`]), rung by rung: log, configuration, credential, lock, pid and token, repository, store, proxy,
//! port, minted configurations, the link of containers ([`link`], on Linux), operations, loops. A refused start leaves no pid file, no lock and no listener, and says
//! why in `startup-error`.
//!
//! **Routes.** Every one is *framed* (the heartbeat envelope keeps it alive however long it takes) or *bounded* (it
//! cannot take long, for the reason given).
//!
//! | route | credential | kind |
//! | --- | --- | --- |
//! | `GET /daemon/status` | none | bounded: memory only, no file, no network |
//! | `POST /daemon/shutdown` | control | bounded: sets a timer of 50 ms |
//! | `POST /rpc/<command>` | shared token, control or user token | framed: `wait` takes minutes |
//! | `POST /mcp/<task>/<tool>` | task or builder token | framed: a tool may merge |
//! | anything else | none | bounded: a constant 404 |
//!
//! **Invariants.** Who calls is decided by the token presented and never by what the request says ([`auth`]): an agent's
//! token is refused on `/rpc`, a person's on `/mcp`, and a task's token for another task. Requests are parsed whole before
//! anything is done; a refused one did nothing. Work runs on a task of its own: a caller that hangs up changes who hears
//! the answer, not what happens. An error keeps its status, enveloped or not. No token is ever in the log.
//!
//! **End.** TERM, INT, HUP or `/daemon/shutdown`: no more connections, running requests get 10 s, runs are ended and
//! their tasks go on with the next daemon, then proxy, store, pid file, and the lock last. A second signal ends at once.
//!
//! **Files owned:** everything in the state directory ([`crate::rpc::StateDir`]): `daemon.lock`, `lazy.pid`, `root`,
//! `token`, `web-port`, `proxy-port`, `startup-error`, `daemon.log` with three older segments, `mcp-tokens.json`,
//! `proxy-tokens.json`, `mcp/`. Files of it that vanish while it runs are put back. And `~/.lazy/link/<project>/link.sock`.
//!
//! **Refused:** a second daemon (named by pid), a missing credential, a configuration that does not load, a directory
//! that is not the root of a main checkout, a full window of ports, a request for another project.

mod access;
mod auth;
mod binary;
mod body;
mod claim;
mod dispatch;
mod ladder;
mod link;
mod logfile;
mod loops;
mod ports;
mod route;
mod router;
mod status;
mod tools;

use std::path::PathBuf;

use crate::agent::require_sound_credentials;
use crate::base::{Process, Result};
use crate::proc;

use ladder::Daemon;

/// What the daemon is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The project's main checkout.
    pub project_root: PathBuf,
}

/// Runs the daemon until a signal or a request ends it; the exit code.
///
/// # Errors
/// Whatever refused the start; it is also in `startup-error` and in the log.
pub async fn run(process: &Process, options: Options) -> Result<u8> {
    let signal = proc::shutdown_signal();
    require_sound_credentials(process)?;
    let daemon = Daemon::start(process, &options).await?;
    if process.stderr_is_terminal() {
        process.err_line(format!("the daemon listens on {}; Ctrl-C ends it", daemon.url()));
    }
    tokio::select! {
        signal = signal => tracing::info!(?signal, "asked to end by a signal"),
        () = daemon.asked_to_end() => tracing::info!("asked to end by a request"),
    }
    // Taken before the end begins: the next signal means that the person does not want to wait for it.
    let impatience = proc::shutdown_signal();
    tokio::select! {
        () = daemon.stop() => Ok(0),
        signal = impatience => {
            tracing::warn!(?signal, "a second signal: ending at once");
            Ok(signal.exit_code())
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
