//! The host-process runner: the supervisor is a detached process of this machine.
//!
//! Nothing here is isolation. What stands between the agent and the machine is the agent's own sandbox
//! ([`super::sandbox`]). Every process of a run carries `LAZY_RUN=<project>/<run>@<launch id>` in its environment, so that ending
//! a run also finds what was left behind by a supervisor that was killed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LaunchSpec, RunState, sandbox};
use crate::base::{Error, Process, Result, hash, json};
use crate::config::Config;
use crate::config::schema::PermissionMode;
use crate::model::RunnerKind;
use crate::proc::{self, Cmd};

/// Variables of the daemon's own that a run must not inherit.
const NOT_INHERITED: [&str; 8] = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "LAZY_IS_DAEMON",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CURSOR_API_KEY",
    "LAZY_CHECKPOINT",
];

/// Runs the tasks of one project as processes of this machine.
#[derive(Debug, Clone)]
pub struct HostRunner {
    process: Process,
    state_dir: PathBuf,
    /// `<basename>-<hash>` of the project's root: two projects may have tasks of one name at the same time.
    project: String,
}

/// Who a run is, `~/.lazy/run/<project>/<run>.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunFile {
    pid: u32,
    started_at: String,
    log_file: PathBuf,
    project_root: PathBuf,
    /// Of the process, as the kernel counts: tells a recycled pid.
    #[serde(default)]
    start_time: Option<u64>,
    /// The value of `LAZY_RUN` in every process of this launch.
    #[serde(default)]
    mark: String,
}

impl HostRunner {
    /// The runner for this user's home and one project.
    pub fn new(process: &Process, project_root: &Path) -> Result<HostRunner> {
        let project = hash::project_slug(project_root);
        Ok(HostRunner { process: process.clone(), state_dir: process.home()?.join(".lazy"), project })
    }

    pub(super) fn require_available(&self, config: &Config, agent_id: &str) -> Result<()> {
        if agent_id != "claude-code" {
            return Ok(());
        }
        let path = self.process.var_os("PATH").unwrap_or_default();
        if proc::which("claude", path).is_none() {
            return Err(Error::unavailable(
                "Claude Code is not installed where the daemon looks: `claude` is not in its PATH",
            )
            .hint("npm install -g @anthropic-ai/claude-code")
            .hint("if it is in another directory: put that in PATH, then: lazy daemon restart"));
        }
        if config.runner.permission_mode == PermissionMode::Bypass || !cfg!(target_os = "linux") {
            return Ok(());
        }
        let missing: Vec<&str> =
            ["bwrap", "socat"].into_iter().filter(|name| proc::which(name, path).is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "the agent's sandbox needs {} on this machine, and the host runner does not start without it",
            missing.join(" and ")
        ))
        .hint("apt-get install bubblewrap socat")
        .hint("or give the sandbox up, in lazy.toml: [runner] permission_mode = \"bypass\""))
    }

    pub(super) fn agent_args(&self, config: &Config, agent_id: &str) -> Result<Vec<String>> {
        if agent_id != "claude-code" || config.runner.permission_mode == PermissionMode::Bypass {
            return Ok(Vec::new());
        }
        let settings = sandbox::settings(config, &self.process.home()?, sandbox::Session::Task);
        Ok(vec!["--settings".into(), settings.to_string()])
    }

    pub(super) async fn launch(&self, spec: &LaunchSpec) -> Result<()> {
        if self.state(&spec.run)? == RunState::Running {
            return Err(Error::conflict(format!("the run {} is already alive", spec.run)));
        }
        self.end_leftovers(&spec.run, Duration::from_secs(5)).await?;
        let mark = format!("{}/{}@{}", self.project, spec.run, uuid::Uuid::new_v4().simple());
        let log_file = self.log_file(&spec.run);
        let mut command = Cmd::new(self.process.executable()?)
            .arg("supervise")
            .arg("--protocol-dir")
            .arg(&spec.protocol_dir)
            .arg("--worktree")
            .arg(&spec.worktree)
            .args(["--runner", RunnerKind::Host.as_str(), "--one-shot"])
            .cwd(&spec.worktree)
            .env_clear();
        for (key, value) in self.process.env().filter(|(key, _)| !NOT_INHERITED.iter().any(|name| key == name)) {
            command = command.env(key, value);
        }
        for (key, value) in &spec.env {
            command = if value.is_empty() { command.env_remove(key) } else { command.env(key, value) };
        }
        let command = command.env("LAZY_RUN", &mark);
        let pid = proc::spawn_detached(command, &log_file)?;
        let file = RunFile {
            pid,
            started_at: self.process.now().iso(),
            log_file,
            project_root: spec.project_root.clone(),
            start_time: proc::start_time(pid),
            mark,
        };
        json::save(&self.run_file(&spec.run), &file)
    }

    pub(super) fn state(&self, run: &str) -> Result<RunState> {
        Ok(match json::load::<RunFile>(&self.run_file(run))? {
            // A daemon that was killed between starting a run and noting it down left a supervisor without a file.
            None if self.has_supervisor(run) => RunState::Running,
            None => RunState::Gone,
            Some(file) if is_same_process(&file) => RunState::Running,
            Some(_) => RunState::Exited { code: None, reason: None },
        })
    }

    pub(super) async fn stop(&self, run: &str, grace: Duration) -> Result<()> {
        if let Some(file) = json::load::<RunFile>(&self.run_file(run))?
            && is_same_process(&file)
        {
            proc::terminate_group(file.pid, grace).await?;
        }
        self.end_leftovers(run, grace).await?;
        crate::base::files::remove_file(&self.run_file(run))
    }

    pub(super) fn logs(&self, run: &str, lines: usize) -> String {
        let bytes = std::fs::read(self.log_file(run)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(64 * 1024)..]).into_owned();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn has_supervisor(&self, run: &str) -> bool {
        marked(&format!("LAZY_RUN={}/{run}@", self.project)).into_iter().any(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"supervise")
        })
    }

    /// Ends processes that an earlier launch of the run left behind.
    async fn end_leftovers(&self, run: &str, grace: Duration) -> Result<()> {
        let prefix = format!("LAZY_RUN={}/{run}@", self.project);
        let ends = marked(&prefix).into_iter().map(|pid| proc::terminate_group(pid, grace));
        futures_util::future::try_join_all(ends).await?;
        // What was started meanwhile.
        let ends = marked(&prefix).into_iter().map(|pid| proc::terminate_group(pid, Duration::ZERO));
        futures_util::future::try_join_all(ends).await.map(drop)
    }

    fn run_file(&self, run: &str) -> PathBuf {
        self.state_dir.join("run").join(&self.project).join(format!("{run}.json"))
    }

    fn log_file(&self, run: &str) -> PathBuf {
        self.state_dir.join("logs").join(&self.project).join(format!("{run}.log"))
    }
}

fn is_same_process(file: &RunFile) -> bool {
    proc::alive(file.pid) && (file.start_time.is_none() || proc::start_time(file.pid) == file.start_time)
}

/// Processes with an environment variable that starts so. None where the system does not show environments.
fn marked(prefix: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|pair| pair.starts_with(prefix.as_bytes()))
        })
        .collect()
}
