//! What a run lives in: one interface over host process and containers.
//!
//! A run is the supervisor of one task with everything below it. The daemon launches it, asks after it, and ends it;
//! it never talks to it but through the mailbox. Runs outlive the daemon.
//!
//! **Files owned:** `~/.lazy/run/<project>/<run>.json` (who the run is), `~/.lazy/logs/<project>/<run>.log` (what it wrote).
//!
//! **Refused:** a runner whose program is missing (with the way to install it), the sandbox posture without
//! `bubblewrap` and `socat`, a second launch of a live run.

mod host;
pub mod sandbox;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::{Error, Process, Result};
use crate::config::Config;
use crate::model::{RunnerKind, TaskId};

pub use host::HostRunner;

/// A way to run a task.
#[derive(Debug, Clone)]
pub enum Runner {
    /// A process on this machine.
    Host(HostRunner),
}

/// What a launch needs to know.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// The task.
    pub task: TaskId,
    /// `lazy-<ref>`.
    pub run: String,
    /// The project's root.
    pub project_root: PathBuf,
    /// The mailbox.
    pub protocol_dir: PathBuf,
    /// The worktree.
    pub worktree: PathBuf,
    /// Environment to set; an empty value removes the variable.
    pub env: Vec<(String, String)>,
}

/// How a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It lives.
    Running,
    /// It ended, with this exit code where known.
    Exited(Option<i32>),
    /// Nothing is known of it.
    Gone,
}

impl Runner {
    /// The runner of a kind.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] for a kind this version cannot launch.
    pub fn for_kind(kind: RunnerKind, process: &Process, project_root: &Path) -> Result<Runner> {
        match kind {
            RunnerKind::Host => Ok(Runner::Host(HostRunner::new(process, project_root)?)),
            RunnerKind::Docker | RunnerKind::Podman => Err(Error::unavailable(format!(
                "the {kind} runner is not available in this version; tasks can run as host processes"
            ))
            .hint("set in lazy.toml: [runner] type = \"dangerously-host-process-without-any-isolation\"")
            .hint("then: lazy daemon restart")
            .hint("or for one task: lazy start <task> --runner host")),
        }
    }

    /// The kind.
    pub fn kind(&self) -> RunnerKind {
        match self {
            Runner::Host(_) => RunnerKind::Host,
        }
    }

    /// Refuses when a launch could not work on this machine.
    pub fn require_available(&self, config: &Config, agent_id: &str) -> Result<()> {
        match self {
            Runner::Host(host) => host.require_available(config, agent_id),
        }
    }

    /// Arguments for the agent that put the runner's walls up.
    pub fn agent_args(&self, config: &Config, agent_id: &str) -> Result<Vec<String>> {
        match self {
            Runner::Host(host) => host.agent_args(config, agent_id),
        }
    }

    /// What walls stand around the agent, in words.
    pub fn posture(&self, config: &Config, agent_id: &str) -> String {
        match self {
            Runner::Host(_) => sandbox::posture(config, agent_id),
        }
    }

    /// Launches the supervisor of a task.
    pub async fn launch(&self, spec: &LaunchSpec) -> Result<()> {
        match self {
            Runner::Host(host) => host.launch(spec).await,
        }
    }

    /// How a run is.
    pub fn state(&self, run: &str) -> Result<RunState> {
        match self {
            Runner::Host(host) => host.state(run),
        }
    }

    /// Ends a run and everything below it: TERM, `grace`, KILL. One that is gone is as good.
    pub async fn stop(&self, run: &str, grace: Duration) -> Result<()> {
        match self {
            Runner::Host(host) => host.stop(run, grace).await,
        }
    }

    /// The last `lines` lines of a run's log.
    pub fn logs(&self, run: &str, lines: usize) -> String {
        match self {
            Runner::Host(host) => host.logs(run, lines),
        }
    }

    /// Whether the run stays alive between turns.
    pub fn keeps_warm(&self) -> bool {
        match self {
            Runner::Host(_) => false,
        }
    }
}
