//! What a run lives in: one interface over host process and containers.
//!
//! A run is the supervisor of one task with everything below it. The daemon launches it, asks after it, and ends it;
//! it never talks to it but through the mailbox. Runs outlive the daemon.
//!
//! **Files owned:** `~/.lazy/run/<project>/<run>.json` (who the run is), `~/.lazy/logs/<project>/<run>.log` (what it wrote),
//! `~/.lazy/bin/` (the agent's side of lazy, content-addressed). Of an engine's: containers and images that carry lazy's
//! labels.
//!
//! **Refused:** a runner whose program is missing (with the way to install it), the sandbox posture without
//! `bubblewrap` and `socat`, a second launch of a live host run, a mount that would show a container the daemon's state.

pub mod engine;
mod host;
pub mod image;
pub mod install;
pub mod sandbox;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::{Process, Result};
use crate::config::Config;
use crate::model::{RunnerKind, TaskId};

pub use engine::{Engine, EngineRunner, GitDirs, Prepared};
pub use host::HostRunner;

/// A way to run a task. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Runner {
    /// A process on this machine.
    Host(HostRunner),
    /// A container.
    Engine(EngineRunner),
}

/// What a launch needs to know.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// The task.
    pub task: TaskId,
    /// `lazy-<ref>`.
    pub run: String,
    /// Which agent works.
    pub agent_id: String,
    /// The project's root.
    pub project_root: PathBuf,
    /// lazy's data directory.
    pub data_dir: PathBuf,
    /// The mailbox.
    pub protocol_dir: PathBuf,
    /// The worktree.
    pub worktree: PathBuf,
    /// Where its git data lies.
    pub git: GitDirs,
    /// Name and address for commits, as far as the user told git any.
    pub identity: (Option<String>, Option<String>),
    /// The run's own configuration file.
    pub mcp_config: PathBuf,
    /// The directory with the link's socket, where containers use one.
    pub link_dir: Option<PathBuf>,
    /// Environment to set; an empty value removes the variable.
    pub env: Vec<(String, String)>,
}

/// How a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// It lives.
    Running,
    /// It ended.
    Exited {
        /// With this exit code, where known.
        code: Option<i32>,
        /// For this reason, where it is a special one.
        reason: Option<String>,
    },
    /// Nothing is known of it.
    Gone,
}

impl Runner {
    /// The runner of a kind.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] without a home directory.
    pub fn for_kind(kind: RunnerKind, process: &Process, project_root: &Path) -> Result<Runner> {
        Ok(match Engine::of(kind, process) {
            None => Runner::Host(HostRunner::new(process, project_root)?),
            Some(engine) => Runner::Engine(EngineRunner::new(engine, project_root)?),
        })
    }

    /// The kind.
    pub fn kind(&self) -> RunnerKind {
        match self {
            Runner::Host(_) => RunnerKind::Host,
            Runner::Engine(engine) => engine.engine().kind(),
        }
    }

    /// Refuses when a launch could not work on this machine. A container runner makes its image first when there is
    /// none, which takes minutes: `say` hears of it. With `run`, a container of it that stands is enough.
    pub async fn require_ready(
        &self,
        config: &Config,
        agent_id: &str,
        run: Option<&str>,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<()> {
        match self {
            Runner::Host(host) => host.require_available(config, agent_id),
            Runner::Engine(engine) => engine.require_ready(config, agent_id, run, say).await,
        }
    }

    /// Arguments for the agent that put the runner's walls up.
    pub fn agent_args(&self, config: &Config, agent_id: &str) -> Result<Vec<String>> {
        match self {
            Runner::Host(host) => host.agent_args(config, agent_id),
            Runner::Engine(_) => Ok(Vec::new()),
        }
    }

    /// What walls stand around the agent, in words.
    pub fn posture(&self, config: &Config, agent_id: &str) -> String {
        match self {
            Runner::Host(_) => sandbox::posture(config, agent_id),
            Runner::Engine(engine) => engine.posture(config),
        }
    }

    /// Everything of a launch that can be refused. Call it before the command is in the mailbox: a container that
    /// stands but does not fit ends here, and must not take the command with it.
    pub async fn prepare(
        &self,
        config: &Config,
        spec: &LaunchSpec,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Prepared> {
        match self {
            Runner::Host(_) => Ok(Prepared::Warm),
            Runner::Engine(engine) => engine.prepare(config, spec, say).await,
        }
    }

    /// Launches the supervisor of a task, unless a warm one is there. Returns what the person should know.
    pub async fn launch(&self, spec: &LaunchSpec, prepared: Prepared) -> Result<Vec<String>> {
        match self {
            Runner::Host(host) => host.launch(spec).await.map(|()| Vec::new()),
            Runner::Engine(engine) => engine.launch(spec, prepared).await,
        }
    }

    /// How a run is, asked now.
    pub async fn state(&self, run: &str) -> Result<RunState> {
        match self {
            Runner::Host(host) => host.state(run),
            Runner::Engine(engine) => engine.state(run).await,
        }
    }

    /// Whether a run lives, for showing: may be a second old.
    pub async fn seems_alive(&self, run: &str) -> Result<bool> {
        match self {
            Runner::Host(host) => Ok(host.state(run)? == RunState::Running),
            Runner::Engine(engine) => engine.seems_alive(run).await,
        }
    }

    /// Ends a run and everything below it: TERM, `grace`, KILL. One that is gone is as good.
    pub async fn stop(&self, run: &str, grace: Duration) -> Result<()> {
        match self {
            Runner::Host(host) => host.stop(run, grace).await,
            Runner::Engine(engine) => engine.stop(run, grace).await,
        }
    }

    /// The last `lines` lines of a run's log; empty when there is none.
    pub async fn logs(&self, run: &str, lines: usize) -> String {
        match self {
            Runner::Host(host) => host.logs(run, lines),
            Runner::Engine(engine) => engine.logs(run, lines).await.unwrap_or_default(),
        }
    }

    /// Whether a run stays alive between turns, and over the end of the daemon.
    pub fn keeps_warm(&self) -> bool {
        matches!(self, Runner::Engine(_))
    }

    /// Whether someone else is at work in a run's container, who would be thrown out with it.
    pub async fn is_visited(&self, run: &str) -> Result<bool> {
        match self {
            Runner::Host(_) => Ok(false),
            Runner::Engine(engine) => engine.is_visited(run).await,
        }
    }

    /// What the runner itself calls a run: what a person looks for with the engine's own program.
    pub fn run_name(&self, run: &str) -> String {
        match self {
            Runner::Host(_) => run.to_string(),
            Runner::Engine(engine) => engine.container_name(run),
        }
    }
}
