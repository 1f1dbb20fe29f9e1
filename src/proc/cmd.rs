//! One command, run to its end.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::collector::{Collector, Keep};
use super::running::{Exit, Running};
use super::{DRAIN, GRACE};
use crate::base::{Error, Kind, Process, Result};

/// Bytes of each output stream kept when the caller sets no limit.
const DEFAULT_LIMIT: usize = 64 << 20;

/// A command to run: a program, its arguments and surroundings.
///
/// Unless told otherwise the child inherits the environment and directory of this process and reads an empty standard
/// input.
#[derive(Debug)]
pub struct Cmd {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) clear: Clear,
    pub(super) env: Vec<(OsString, Option<OsString>)>,
    pub(super) stdin: Stdin,
    pub(super) timeout: Option<Duration>,
    limit: usize,
    keep: Keep,
}

#[derive(Debug, Default)]
pub(super) enum Stdin {
    #[default]
    Empty,
    Bytes(Vec<u8>),
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clear {
    Inherit,
    Empty,
}

/// How a command ended and what it wrote.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output, at most the limit.
    pub stdout: Vec<u8>,
    /// Standard error, at most the limit.
    pub stderr: Vec<u8>,
    /// Whether it was ended because its time ran out.
    pub timed_out: bool,
    /// Whether bytes beyond the limit were dropped, or output was still open [`DRAIN`] after the exit.
    pub truncated: bool,
}

impl Output {
    /// Exit code 0, in time.
    pub fn success(&self) -> bool {
        self.code == Some(0) && !self.timed_out
    }

    /// Standard output as text, bad UTF-8 replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text, bad UTF-8 replaced.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl Cmd {
    /// A command that runs `program`, looked up in the child's `PATH` unless it has a slash.
    pub fn new(program: impl AsRef<OsStr>) -> Cmd {
        Cmd {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            cwd: None,
            clear: Clear::Inherit,
            env: Vec::new(),
            stdin: Stdin::Empty,
            timeout: None,
            limit: DEFAULT_LIMIT,
            keep: Keep::Head,
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Cmd {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Cmd {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// The directory to run in.
    #[must_use]
    pub fn cwd(mut self, directory: &Path) -> Cmd {
        self.cwd = Some(directory.to_path_buf());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Cmd {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Unsets a variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Cmd {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Starts from an empty environment; variables set so far are forgotten.
    #[must_use]
    pub fn env_clear(mut self) -> Cmd {
        self.clear = Clear::Empty;
        self.env.clear();
        self
    }

    /// Starts from exactly the environment of `process`; variables set so far are forgotten.
    #[must_use]
    pub fn env_of(mut self, process: &Process) -> Cmd {
        self = self.env_clear();
        self.env.extend(process.env().map(|(name, value)| (name.to_owned(), Some(value.to_owned()))));
        self
    }

    /// What the child reads from standard input.
    #[must_use]
    pub fn stdin_bytes(mut self, bytes: Vec<u8>) -> Cmd {
        self.stdin = Stdin::Bytes(bytes);
        self
    }

    /// Leaves standard input open for [`Running::take_stdin`]; the child sees its end when the pipe taken is dropped.
    #[must_use]
    pub fn stdin_open(mut self) -> Cmd {
        self.stdin = Stdin::Open;
        self
    }

    /// The longest the command may take; then its group gets TERM, and KILL after [`GRACE`].
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Cmd {
        self.timeout = Some(limit);
        self
    }

    /// The bytes kept of each output stream (64 MiB unless set); the first ones, see [`Cmd::keep`].
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Cmd {
        self.limit = bytes;
        self
    }

    /// Which end of a too long output is kept.
    #[must_use]
    pub fn keep(mut self, end: Keep) -> Cmd {
        self.keep = end;
        self
    }

    /// The program and arguments as one line, for messages.
    pub fn display(&self) -> String {
        let mut text = self.program.to_string_lossy().into_owned();
        for arg in &self.args {
            text.push(' ');
            text.push_str(&arg.to_string_lossy());
        }
        text
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the program is not there, [`Kind::Io`] when it cannot be started. A failing exit code
    /// and a timeout are not errors: see [`Output`].
    pub async fn output(self) -> Result<Output> {
        let (limit, keep, allowed) = (self.limit, self.keep, self.timeout);
        let mut running = super::spawn_piped(self)?;
        let stdout = running.take_stdout().map(|pipe| Collector::start(pipe, limit, keep));
        let stderr = running.take_stderr().map(|pipe| Collector::start(pipe, limit, keep));
        let (exit, timed_out) = match allowed {
            None => (running.wait().await?, false),
            Some(allowed) => match timeout(allowed, running.wait()).await {
                Ok(exit) => (exit?, false),
                Err(_) => (running.terminate(GRACE).await?, true),
            },
        };
        let until = tokio::time::Instant::now() + DRAIN;
        let (stdout, cut_out) = finish(stdout, until).await;
        let (stderr, cut_err) = finish(stderr, until).await;
        let Exit { code, signal } = exit;
        Ok(Output { code, signal, stdout, stderr, timed_out, truncated: cut_out || cut_err })
    }

    /// The command in the form the runtime spawns, in a group of its own, killed when dropped by accident.
    pub(super) fn prepare(&self) -> std::process::Command {
        use std::os::unix::process::CommandExt as _;
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).process_group(0);
        if self.clear == Clear::Empty {
            command.env_clear();
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.cwd {
            command.current_dir(directory);
        }
        command
    }

    /// Spawns with piped output and the input given.
    pub(super) fn spawn(mut self) -> Result<Running> {
        let stdin = std::mem::take(&mut self.stdin);
        let mut command = Command::from(self.prepare());
        command
            .stdin(if matches!(stdin, Stdin::Empty) { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = retry_busy(|| command.spawn()).map_err(|source| self.spawn_error(source))?;
        let feeder = match stdin {
            Stdin::Bytes(bytes) => feed(&mut child, bytes),
            Stdin::Empty | Stdin::Open => None,
        };
        Running::new(child, feeder)
    }

    /// Why a spawn failed, in words that name what is missing.
    pub(super) fn spawn_error(&self, source: io::Error) -> Error {
        let program = self.program.to_string_lossy();
        if let Some(directory) = self.cwd.as_ref().filter(|directory| !directory.is_dir()) {
            return Error::new(
                Kind::Unavailable,
                format!("cannot run {program} in {}: the directory does not exist", directory.display()),
            );
        }
        match source.kind() {
            io::ErrorKind::NotFound => Error::new(Kind::Unavailable, format!("the program {program} is not installed"))
                .hint(format!("install {program} and see that it is on PATH: command -v {program}")),
            io::ErrorKind::PermissionDenied => {
                Error::new(Kind::Unavailable, format!("the program {program} may not be run"))
                    .caused_by(source)
                    .hint(format!("make it executable: chmod +x {program}"))
            }
            io::ErrorKind::ArgumentListTooLong => {
                Error::new(Kind::Io, format!("the arguments for {program} are too long for the system"))
            }
            _ => Error::io(format!("cannot start {program}"), source),
        }
    }
}

/// Tries again for a moment while the program file is still open for writing somewhere: an installer, or a fork of this
/// very process that has not yet reached its exec.
pub(super) fn retry_busy<T>(mut spawn: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..20 {
        match spawn() {
            Err(source) if source.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
    spawn()
}

fn feed(child: &mut Child, bytes: Vec<u8>) -> Option<JoinHandle<()>> {
    let mut pipe: ChildStdin = child.stdin.take()?;
    Some(tokio::spawn(async move {
        // A child that ends without reading its input is no fault of ours.
        pipe.write_all(&bytes).await.ok();
        pipe.shutdown().await.ok();
    }))
}

async fn finish(collector: Option<Collector>, until: tokio::time::Instant) -> (Vec<u8>, bool) {
    match collector {
        Some(mut collector) => collector.finish(until).await,
        None => Default::default(),
    }
}
