//! The engine's own program: how it is called, and what its failures mean.
//!
//! Every call is bounded, and a failure names the engine and what can be done about it. Nothing here knows of tasks.

use std::ffi::OsStr;
use std::time::Duration;

use crate::base::{Error, Kind, Process, Result, text};
use crate::model::RunnerKind;
use crate::proc::lines::{Line, Lines};
use crate::proc::{self, Cmd, Output};

/// How long a question to the engine may take.
pub const QUERY: Duration = Duration::from_secs(10);
/// How long a container may take to start.
pub const LAUNCH: Duration = Duration::from_secs(300);

/// A container engine's command line. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    process: Process,
    kind: RunnerKind,
}

impl Engine {
    /// The engine of a container runner's kind; `None` for the host runner.
    pub fn of(kind: RunnerKind, process: &Process) -> Option<Engine> {
        match kind {
            RunnerKind::Host => None,
            RunnerKind::Docker | RunnerKind::Podman => Some(Engine { process: process.clone(), kind }),
        }
    }

    /// Which engine.
    pub fn kind(&self) -> RunnerKind {
        self.kind
    }

    /// The process whose environment finds and configures the engine.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Whether the engine's program is in `PATH`.
    pub fn is_installed(&self) -> bool {
        proc::which(self.kind.as_str(), self.process.var_os("PATH").unwrap_or_default()).is_some()
    }

    /// Refuses when the engine's program is not in `PATH`.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] with how to install it.
    pub fn require_installed(&self) -> Result<()> {
        if self.is_installed() { Ok(()) } else { Err(self.not_installed()) }
    }

    /// A call with these arguments, bounded by `limit`, in the environment of [`Engine::process`].
    pub fn cmd<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>, limit: Duration) -> Cmd {
        Cmd::new(self.kind.as_str()).env_of(&self.process).args(args).timeout(limit)
    }

    /// Runs a call to its end, whatever it says.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the engine is not installed, not running, or does not answer in time.
    pub async fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>, limit: Duration) -> Result<Output> {
        self.finished(self.cmd(args, limit), limit).await
    }

    /// As [`Engine::run`], for a call composed by [`Engine::cmd`].
    pub async fn finished(&self, cmd: Cmd, limit: Duration) -> Result<Output> {
        let output = cmd.output().await.map_err(|error| self.not_started(error))?;
        match self.trouble(&output, limit) {
            Some(error) => Err(error),
            None => Ok(output),
        }
    }

    /// The trimmed standard output of a call that must succeed; `doing` completes "cannot …".
    pub async fn text<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        limit: Duration,
        doing: &str,
    ) -> Result<String> {
        let output = self.run(args, limit).await?;
        match output.success() {
            true => Ok(output.stdout_text().trim().to_string()),
            false => Err(self.refusal(&output, doing)),
        }
    }

    /// Runs a call that may take long and hands over every line it writes, on either stream, as it comes. Returns the
    /// last 40 lines when it fails.
    ///
    /// # Errors
    /// As [`Engine::run`]; [`Kind::Unavailable`] with the last lines when the call fails or takes longer than `limit`.
    pub async fn narrated(
        &self,
        cmd: Cmd,
        limit: Duration,
        doing: &str,
        mut line: impl FnMut(&str) + Send,
    ) -> Result<()> {
        let mut running = proc::spawn_piped(cmd).map_err(|error| self.not_started(error))?;
        let mut out = Lines::new(running.take_stdout().ok_or_else(|| Error::internal("no standard output"))?);
        let mut err = Lines::new(running.take_stderr().ok_or_else(|| Error::internal("no standard error"))?);
        let mut last: Vec<String> = Vec::new();
        let reading = async {
            let (mut out_open, mut err_open) = (true, true);
            while out_open || err_open {
                let (next, open) = tokio::select! {
                    next = out.next(), if out_open => (next, &mut out_open),
                    next = err.next(), if err_open => (next, &mut err_open),
                };
                match next.ok().flatten() {
                    Some(Line::Whole(bytes)) => {
                        let said = text::escape_controls(String::from_utf8_lossy(&bytes).trim_end());
                        line(&said);
                        if last.len() == 40 {
                            last.remove(0);
                        }
                        last.push(said);
                    }
                    Some(_) => {}
                    None => *open = false,
                }
            }
            running.wait().await
        };
        let ended = tokio::time::timeout(limit, reading).await.ok().transpose()?;
        match ended {
            None => {
                running.terminate(proc::GRACE).await?;
                Err(Error::unavailable(format!("cannot {doing}: it took more than {} s", limit.as_secs())))
            }
            Some(exit) if exit.code == Some(0) => Ok(()),
            Some(_) => {
                let said = last.join("\n");
                let output = Output { code: Some(1), stderr: said.clone().into_bytes(), ..Output::default() };
                Err(match self.trouble(&output, limit) {
                    Some(error) => error,
                    None => Error::unavailable(format!("cannot {doing}:\n{said}")),
                })
            }
        }
    }

    /// What a failed call says, as an error: "cannot {doing}: {its last line}".
    pub fn refusal(&self, output: &Output, doing: &str) -> Error {
        let said = output.stderr_text();
        let said = said.lines().map(str::trim).rfind(|line| !line.is_empty() && !line.starts_with("See '"));
        Error::unavailable(format!("cannot {doing}: {}", text::escape_controls(said.unwrap_or("no reason given"))))
    }

    fn not_started(&self, error: Error) -> Error {
        if error.kind() == Kind::Unavailable { self.not_installed() } else { error }
    }

    fn not_installed(&self) -> Error {
        let hint = match self.kind {
            RunnerKind::Podman => "apt-get install podman",
            _ => "apt-get install docker.io",
        };
        Error::unavailable(format!("{} is not installed: no program {} in PATH", self.name(), self.kind))
            .hint(hint)
            .hint("or without containers, in lazy.toml: [runner] type = \"dangerously-host-process-without-any-isolation\"")
    }

    /// A failure of the engine itself, not of what it was asked.
    fn trouble(&self, output: &Output, limit: Duration) -> Option<Error> {
        let name = self.name();
        if output.timed_out {
            return Some(
                Error::unavailable(format!("{name} did not answer within {} s", limit.as_secs()))
                    .hint(format!("{} info", self.kind)),
            );
        }
        if output.success() {
            return None;
        }
        let said = output.stderr_text().to_lowercase();
        if said.contains("permission denied") && (said.contains("docker.sock") || said.contains("daemon socket")) {
            return Some(
                Error::unavailable(format!("{name} refuses this user: its socket may not be opened"))
                    .hint("sudo usermod -aG docker \"$USER\"    # then log in again, and: lazy daemon restart"),
            );
        }
        let down = ["cannot connect to the docker daemon", "is the docker daemon running", "cannot connect to podman"];
        if down.iter().any(|words| said.contains(words)) {
            let hint = match self.kind {
                RunnerKind::Podman => "podman machine start",
                _ => "sudo systemctl start docker",
            };
            return Some(Error::unavailable(format!("{name} is installed but not running")).hint(hint));
        }
        None
    }

    fn name(&self) -> &'static str {
        match self.kind {
            RunnerKind::Podman => "Podman",
            _ => "Docker",
        }
    }
}
