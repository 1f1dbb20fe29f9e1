//! The running process as one value: arguments, environment, directory, streams, terminal and clock.
//!
//! `main` builds the only real one; tests build their own with a captured output and a fixed clock. This file is the
//! only one that writes to the real standard output and error.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::text::for_terminal;
use super::time::{Clock, Millis};
use super::{Error, Kind, Result};

/// The process, as far as anything in this crate may know it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Process(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    cwd_is_gone: bool,
    clock: Clock,
    streams: Streams,
    stdin_tty: bool,
    stdout_tty: bool,
    stderr_tty: bool,
}

#[derive(Debug)]
enum Streams {
    Real,
    Captured { stdin: Mutex<Vec<u8>>, stdout: Mutex<Vec<u8>>, stderr: Mutex<Vec<u8>> },
}

impl Process {
    /// The process as the operating system started it.
    pub fn real() -> Result<Process> {
        // Most of what a person asks needs it, and not all: whoever needs it asks with `require_cwd`.
        let (cwd, cwd_is_gone) = match std::env::current_dir() {
            Ok(cwd) => (cwd, false),
            Err(_) => (PathBuf::from("/the/current/directory/does/not/exist"), true),
        };
        Ok(Process(Arc::new(Inner {
            cwd_is_gone,
            args: std::env::args_os().collect(),
            env: std::env::vars_os().collect(),
            cwd,
            clock: Clock::System,
            streams: Streams::Real,
            stdin_tty: io::stdin().is_terminal(),
            stdout_tty: io::stdout().is_terminal(),
            stderr_tty: io::stderr().is_terminal(),
        })))
    }

    /// A process for tests: captured streams, no terminal, a clock that stands still at `now`.
    pub fn fake<A: Into<OsString>>(
        args: impl IntoIterator<Item = A>,
        env: &[(&str, &str)],
        cwd: &Path,
        now: Millis,
    ) -> Process {
        Process(Arc::new(Inner {
            args: args.into_iter().map(Into::into).collect(),
            env: env.iter().map(|(key, value)| (OsString::from(key), OsString::from(value))).collect(),
            cwd: cwd.to_path_buf(),
            cwd_is_gone: false,
            clock: Clock::Fixed(now.0.into()),
            streams: Streams::Captured { stdin: Mutex::default(), stdout: Mutex::default(), stderr: Mutex::default() },
            stdin_tty: false,
            stdout_tty: false,
            stderr_tty: false,
        }))
    }

    /// The arguments, program name first.
    pub fn args(&self) -> &[OsString] {
        &self.0.args
    }

    /// An environment variable that is set, not blank, and UTF-8.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.var_os(name).and_then(OsStr::to_str).filter(|value| !value.trim().is_empty())
    }

    /// An environment variable as it is, also when empty.
    pub fn var_os(&self, name: &str) -> Option<&OsStr> {
        self.0.env.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The whole environment.
    pub fn env(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.env.iter().map(|(key, value)| (key.as_os_str(), value.as_os_str()))
    }

    /// The directory the process was started in.
    pub fn cwd(&self) -> &Path {
        &self.0.cwd
    }

    /// Refuses to go on where the directory was removed after the shell went there: nothing can be found from it.
    pub fn require_cwd(&self) -> Result<()> {
        match self.0.cwd_is_gone {
            false => Ok(()),
            true => Err(Error::new(Kind::Unavailable, "the current directory does not exist any more")
                .hint("cd to a directory that exists")),
        }
    }

    /// The user's home: `$HOME`.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when `HOME` is not set to an absolute path.
    pub fn home(&self) -> Result<PathBuf> {
        match self.var_os("HOME").map(PathBuf::from) {
            Some(home) if home.is_absolute() => Ok(home),
            _ => Err(Error::new(Kind::Unavailable, "HOME is not set to an absolute path")
                .hint("set HOME to a writable directory, e.g. HOME=/root")),
        }
    }

    /// Now, by this process's clock.
    pub fn now(&self) -> Millis {
        self.0.clock.now()
    }

    /// The clock itself.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The program that is running, for starting further copies of it.
    pub fn executable(&self) -> Result<PathBuf> {
        std::env::current_exe().map_err(|source| Error::io("cannot find the path of the running program", source))
    }

    /// Whether a person can answer questions.
    pub fn stdin_is_terminal(&self) -> bool {
        self.0.stdin_tty
    }

    /// Whether the answer goes to a terminal.
    pub fn stdout_is_terminal(&self) -> bool {
        self.0.stdout_tty
    }

    /// Whether the talk goes to a terminal.
    pub fn stderr_is_terminal(&self) -> bool {
        self.0.stderr_tty
    }

    /// Whether the answer may be coloured: a terminal, no `NO_COLOR`, not `TERM=dumb`.
    pub fn color(&self) -> bool {
        self.0.stdout_tty && self.var_os("NO_COLOR").is_none() && self.var("TERM") != Some("dumb")
    }

    /// Columns of the terminal: `COLUMNS`, else what the terminal says, else 80.
    pub fn columns(&self) -> usize {
        self.var("COLUMNS")
            .and_then(|text| text.parse().ok())
            .or_else(|| {
                let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
                (self.0.stdout_tty && size.ws_col > 0).then_some(usize::from(size.ws_col))
            })
            .unwrap_or(80)
            .max(20)
    }

    /// Writes the answer, as [`for_terminal`] makes it fit to be read. A reader that went away is [`Kind::Canceled`] with an empty message: the caller just ends.
    pub fn out(&self, text: impl AsRef<str>) -> Result<()> {
        self.write_out(for_terminal(text.as_ref()).as_bytes())
    }

    /// Writes the answer and a line end.
    pub fn out_line(&self, text: impl AsRef<str>) -> Result<()> {
        self.write_out(format!("{}\n", for_terminal(text.as_ref())).as_bytes())
    }

    /// Writes bytes of the answer as they are: for programs, and where every byte counts.
    pub fn write_out(&self, bytes: &[u8]) -> Result<()> {
        match &self.0.streams {
            Streams::Captured { stdout, .. } => {
                lock(stdout).extend_from_slice(bytes);
                Ok(())
            }
            Streams::Real => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush()).map_err(|source| match source.kind() {
                    io::ErrorKind::BrokenPipe => Error::new(Kind::Canceled, ""),
                    // Not `Error::io`: whatever was asked for may be done, only the word of it did not get out.
                    _ => Error::new(Kind::Io, "the answer could not be written to standard output")
                        .caused_by(source)
                        .hint("what was asked for may have been done; look before you do it again: lazy list"),
                })
            }
        }
    }

    /// Writes a line of talk; failure to write it is nobody's problem.
    pub fn err_line(&self, text: impl AsRef<str>) {
        self.err(format!("{}\n", text.as_ref()));
    }

    /// Writes talk, without a line end.
    pub fn err(&self, text: impl AsRef<str>) {
        let text = for_terminal(text.as_ref());
        match &self.0.streams {
            Streams::Captured { stderr, .. } => lock(stderr).extend_from_slice(text.as_bytes()),
            Streams::Real => {
                io::stderr().lock().write_all(text.as_bytes()).ok();
            }
        }
    }

    /// What a person sends through standard input: all of it, at most 1 MiB.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when there is more, or when it is not UTF-8.
    pub fn read_stdin_written(&self) -> Result<String> {
        let limit = super::files::WRITTEN_LIMIT;
        let text = self.read_stdin_up_to(limit + 1)?;
        match u64::try_from(text.len()) {
            Ok(length) if length <= limit => into_text(text),
            _ => Err(Error::invalid("there is more than 1 MiB on standard input")),
        }
    }

    /// Everything on standard input.
    pub fn read_stdin(&self) -> Result<String> {
        into_text(self.read_stdin_up_to(u64::MAX)?)
    }

    fn read_stdin_up_to(&self, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match &self.0.streams {
            Streams::Captured { stdin, .. } => bytes.append(&mut lock(stdin)),
            Streams::Real => {
                io::stdin()
                    .lock()
                    .take(limit)
                    .read_to_end(&mut bytes)
                    .map_err(|source| Error::io("cannot read standard input", source))?;
            }
        }
        Ok(bytes)
    }

    /// One line from standard input without its end; `None` at the end of input.
    pub fn read_line(&self) -> Result<Option<String>> {
        let mut line = String::new();
        match &self.0.streams {
            Streams::Captured { stdin, .. } => {
                let mut bytes = lock(stdin);
                let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
                line = String::from_utf8_lossy(&bytes.drain(..end).collect::<Vec<_>>()).into_owned();
            }
            Streams::Real => {
                io::stdin().read_line(&mut line).map_err(|source| Error::io("cannot read standard input", source))?;
            }
        }
        Ok((!line.is_empty()).then(|| line.trim_end_matches(['\n', '\r']).to_string()))
    }

    /// Whether reading standard input reads the real one, which may keep a reader waiting.
    pub fn reads_real_stdin(&self) -> bool {
        matches!(self.0.streams, Streams::Real)
    }

    /// The same fake process with something on its standard input. A real one stays as it is.
    #[must_use]
    pub fn with_stdin(self, bytes: &[u8]) -> Process {
        if let Streams::Captured { stdin, .. } = &self.0.streams {
            *lock(stdin) = bytes.to_vec();
        }
        self
    }

    /// Writes what a captured process said to the real standard error: for words that come before there is a process.
    pub fn captured_to_stderr(&self) {
        io::stderr().lock().write_all(self.captured().1.as_bytes()).ok();
    }

    /// What a captured process wrote so far: answer and talk.
    pub fn captured(&self) -> (String, String) {
        match &self.0.streams {
            Streams::Captured { stdout, stderr, .. } => (
                String::from_utf8_lossy(&lock(stdout)).into_owned(),
                String::from_utf8_lossy(&lock(stderr)).into_owned(),
            ),
            Streams::Real => Default::default(),
        }
    }
}

fn into_text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::invalid("standard input is not UTF-8 text"))
}

fn lock(bytes: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_variable_counts_as_absent() {
        let process = Process::fake(["lazy"], &[("A", " "), ("B", "x"), ("HOME", "rel")], Path::new("/"), Millis(5));
        assert_eq!(process.var("A"), None);
        assert_eq!(process.var("B"), Some("x"));
        assert_eq!(process.home().expect_err("relative home").kind(), Kind::Unavailable);
        assert_eq!(process.now(), Millis(5));
    }
}
