//! What is prepared before every run of an agent.

use std::path::PathBuf;
use std::time::Duration;

use super::fault::Fault;
use super::turn::Turn;
use crate::agent::{Agent, AgentTurn, McpServer, RunningAs, TurnMode};
use crate::base::{Error, checkpoint};
use crate::model::exchange::{Failure, FailureClass};
use crate::proc::{self, Cmd};

/// What the agent is asked.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) prompt: String,
    pub(super) system_prompt: String,
    pub(super) session_id: Option<String>,
    pub(super) mode: TurnMode,
    pub(super) limits: Limits,
}

/// How long a run may take, see [`crate::proc::guard`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) watchdog: Option<Duration>,
    pub(super) wind_down: Option<Duration>,
}

impl Limits {
    /// Those of the command, else the agent's own.
    pub(super) fn of(turn: &Turn<'_>, agent: Agent) -> Limits {
        let millis = |limit: u64| Some(limit).filter(|limit| *limit > 0).map(Duration::from_millis);
        Limits {
            watchdog: turn.head.watchdog_output_timeout_ms.and_then(millis).or_else(|| agent.default_watchdog()),
            wind_down: millis(turn.head.wind_down_timeout_ms),
        }
    }
}

/// An agent that can be run, and its way to lazy's tools.
#[derive(Debug, Clone)]
pub(super) struct Launcher {
    pub(super) agent: Agent,
    program: PathBuf,
    server: McpServer,
    user: RunningAs,
}

impl Launcher {
    /// Finds the command's agent and composes its MCP server.
    pub(super) fn prepare(turn: &Turn<'_>, mode: TurnMode) -> Result<Launcher, Fault> {
        let agent = Agent::parse(&turn.head.agent_id).map_err(|error| fatal(error, "the agent is not known"))?;
        let lazy = turn.process.executable()?;
        let program = agent.program(&lazy);
        let path = turn.process.var_os("PATH").unwrap_or_default();
        let found = program.path.to_str().and_then(|name| proc::which(name, path));
        let Some(found) = found else {
            let what =
                format!("the agent {} is not installed: no program {}", agent.display_name(), program.path.display());
            return Err(fatal(Error::unavailable(what).hint(program.install_hint), "the agent is not installed"));
        };
        let server = mcp_server(turn, &lazy, mode)?;
        let user = if rustix::process::geteuid().is_root() { RunningAs::Root } else { RunningAs::User };
        Ok(Launcher { agent, program: found, server, user })
    }

    /// Writes the files of a run and composes its command line.
    pub(super) fn command(&self, turn: &Turn<'_>, request: &Request) -> Result<Cmd, Fault> {
        let agent_turn = AgentTurn {
            worktree: turn.worktree.path().to_path_buf(),
            sandbox: turn.sandbox.clone(),
            prompt: request.prompt.clone(),
            system_prompt: request.system_prompt.clone(),
            session_id: request.session_id.clone(),
            model: turn.head.model_id.clone().or_else(|| self.agent.default_model().map(str::to_string)),
            effort: turn.head.effort,
            mode: request.mode,
            extra_args: turn.head.agent_extra_args.clone(),
            mcp_config: turn.sandbox.join("mcp.json"),
        };
        self.agent.write_mcp_config(&agent_turn, &self.server).map_err(|error| {
            Fault::from(
                error.context(format!("the way to lazy's tools cannot be prepared for task {}", turn.head.task_id)),
            )
        })?;
        checkpoint::reach("supervisor.before-agent");
        let first_args = self.agent.program(&self.server.command).first_args;
        let mut cmd = Cmd::new(&self.program).args(first_args).args(self.agent.args(&agent_turn));
        cmd = cmd.env_of(turn.process).cwd(turn.worktree.path()).stdin_bytes(self.agent.stdin(&agent_turn));
        for (name, value) in self.agent.env(&agent_turn, self.user) {
            cmd = cmd.env(name, value);
        }
        if request.mode == TurnMode::ReadOnly {
            cmd = cmd.env("LAZY_MCP_READ_ONLY", "1");
        }
        // A nested agent must not take itself for a part of the one around it, nor stop at our own crash points.
        for name in ["CLAUDECODE", "LAZY_CHECKPOINT", "LAZY_CHECKPOINT_FILE"] {
            cmd = cmd.env_remove(name);
        }
        Ok(cmd)
    }
}

fn mcp_server(turn: &Turn<'_>, lazy: &std::path::Path, mode: TurnMode) -> Result<McpServer, Fault> {
    let config = turn.process.var("LAZY_DAEMON_CONFIG").ok_or_else(|| {
        Error::unavailable("LAZY_DAEMON_CONFIG is not set, so the agent would have none of lazy's tools")
            .hint(format!("start the turn again from the daemon: lazy resume {}", turn.head.task_id.short()))
    })?;
    let task = turn.head.task_id.to_string();
    let worktree = turn.worktree.path().to_string_lossy().into_owned();
    let mut args: Vec<String> =
        ["mcp", "--daemon-config", config, "--task-id", &task, "--worktree", &worktree].map(str::to_string).to_vec();
    let mut env =
        vec![("LAZY_MCP_EXPECTED_TASK_ID".to_string(), task), ("LAZY_MCP_EXPECTED_WORKTREE".to_string(), worktree)];
    if mode == TurnMode::ReadOnly {
        args.push("--read-only".into());
        env.push(("LAZY_MCP_READ_ONLY".into(), "1".into()));
    }
    Ok(McpServer { command: lazy.to_path_buf(), args, env })
}

/// A failure that trying again does not mend.
fn fatal(error: Error, reason: &str) -> Fault {
    let told = Fault::from(error);
    Fault::from(Failure {
        failure_class: Some(FailureClass::FatalConfig),
        failure_reason: Some(reason.to_string()),
        failure_attempts: Some(0),
        ..*told.failure
    })
}
