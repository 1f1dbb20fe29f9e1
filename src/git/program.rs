//! One call of the git program: a clean environment, no prompts, no colours, no surprises from the user's settings.
//!
//! The environment comes from [`Process`], never from the real one. Variables that would point git at another
//! repository are dropped, and a checkout is always named by its three directories (`GIT_DIR`, `GIT_COMMON_DIR`,
//! `GIT_WORK_TREE`): an agent can rewrite the `.git` file of its worktree, and must not lead git by it. For a linked
//! checkout `GIT_DIR` is a [`Private`] one, because the agent can write the real one too.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::checkout::Checkout;
use super::private::Private;
use super::worktrees::quoted;
use crate::base::{Error, Kind, Process, Result, text};
use crate::proc::Cmd;

/// How long a git call may take unless it says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long a call may take that writes a work tree or runs hooks: checkouts of large repositories, linters.
const SLOW_TIMEOUT: Duration = Duration::from_secs(600);

/// Variables that point git at another repository, index or object store, or change what a path means.
const FOREIGN: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Settings of every call. Submodules are never entered: their `.git` is a file that an agent can write, and git runs
/// what the configuration it finds there says.
const SETTINGS: [&str; 14] = [
    "-c",
    "core.quotePath=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "color.ui=false",
    "-c",
    "diff.ignoreSubmodules=dirty",
    "-c",
    "submodule.recurse=false",
    "-c",
    "diff.orderFile=/dev/null",
    "-c",
    "i18n.commitEncoding=UTF-8",
];

/// A call being put together.
#[derive(Debug)]
pub(super) struct Git {
    env: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    args: Vec<OsString>,
    stdin: Vec<u8>,
    timeout: Duration,
    limit: Option<usize>,
    access: Access,
    /// The linked checkout whose own git directory git must not see.
    linked: Option<Checkout>,
}

/// Whether a call changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Its answer is what counts: one that was cut short is none.
    Reads,
    /// Its effect is what counts.
    Writes,
}

/// What git answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    command: String,
}

impl Git {
    /// A call that finds its repository from `cwd`, as a person's would.
    pub fn found_from(process: &Process, cwd: &Path) -> Git {
        let mut env: BTreeMap<OsString, OsString> =
            process.env().map(|(key, value)| (key.to_os_string(), value.to_os_string())).collect();
        for name in FOREIGN {
            env.remove(OsStr::new(name));
        }
        for (name, value) in
            [("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C"), ("GIT_EDITOR", "true"), ("GIT_PAGER", "cat")]
        {
            env.insert(name.into(), value.into());
        }
        let args = SETTINGS.iter().map(OsString::from).collect();
        Git {
            env,
            cwd: cwd.to_path_buf(),
            args,
            stdin: Vec::new(),
            timeout: TIMEOUT,
            limit: None,
            access: Access::Writes,
            linked: None,
        }
    }

    /// A call in one checkout.
    pub fn within(process: &Process, checkout: &Checkout) -> Git {
        let mut git = Git::found_from(process, &checkout.path);
        git.env.insert("GIT_DIR".into(), checkout.git_dir.clone().into());
        git.env.insert("GIT_WORK_TREE".into(), checkout.path.clone().into());
        if checkout.is_linked() {
            git.env.insert("GIT_COMMON_DIR".into(), checkout.common_dir.clone().into());
            git.linked = Some(checkout.clone());
            // an index in one piece can be put back by one rename
            git = git.setting("core.splitIndex=false");
        }
        git
    }

    /// Takes no lock that is not needed: for calls that only read.
    pub fn reading(mut self) -> Git {
        self.env.insert("GIT_OPTIONAL_LOCKS".into(), "0".into());
        self.access = Access::Reads;
        self
    }

    /// Runs no hook.
    pub fn without_hooks(self) -> Git {
        self.setting("core.hooksPath=/dev/null")
    }

    /// One more `-c name=value`; before any other argument.
    pub fn setting(mut self, setting: &str) -> Git {
        self.args.push("-c".into());
        self.args.push(setting.into());
        self
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Git {
        self.args.push(arg.as_ref().to_os_string());
        self
    }

    /// More arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Git {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_os_string()));
        self
    }

    /// One more variable.
    pub fn env(mut self, name: &str, value: &str) -> Git {
        self.env.insert(name.into(), value.into());
        self
    }

    /// What git reads from its standard input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Git {
        self.stdin = bytes.into();
        self
    }

    /// May take ten minutes instead of one: it writes a work tree, or runs hooks.
    pub fn slow(mut self) -> Git {
        self.timeout = SLOW_TIMEOUT;
        self
    }

    /// Another limit than 64 MiB of output.
    pub fn output_limit(mut self, bytes: usize) -> Git {
        self.limit = Some(bytes);
        self
    }

    /// Runs it; any exit code is an answer.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when there is no git, [`Kind::Timeout`], [`Kind::Io`] when a signal ended it.
    pub async fn run(self) -> Result<Answer> {
        let command = self.name();
        let mut env = self.env;
        let private = match &self.linked {
            None => None,
            Some(checkout) => {
                let temporary = env.get(OsStr::new("TMPDIR")).map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
                let private = match self.access {
                    Access::Reads => Private::reading(&temporary, checkout)?,
                    Access::Writes => Private::writing(&temporary, checkout).await?,
                };
                env.insert("GIT_DIR".into(), private.dir().into());
                if let Some(index) = private.index() {
                    env.insert("GIT_INDEX_FILE".into(), index.into());
                }
                Some(private)
            }
        };
        let mut cmd = Cmd::new("git").env_clear().args(&self.args).cwd(&self.cwd).timeout(self.timeout);
        for (name, value) in &env {
            cmd = cmd.env(name, value);
        }
        if !self.stdin.is_empty() {
            cmd = cmd.stdin_bytes(self.stdin);
        }
        if let Some(limit) = self.limit {
            cmd = cmd.output_limit(limit);
        }
        let output = cmd.output().await?;
        private.map_or(Ok(()), Private::publish)?;
        match output.code {
            _ if output.timed_out => Err(timed_out(&command, self.timeout)),
            None => Err(Error::new(Kind::Io, format!("{command} was ended by a signal"))),
            Some(_) if output.truncated && self.access == Access::Reads => {
                Err(Error::new(Kind::Io, format!("{command} has more to say than can be kept"))
                    .hint("ask for less of it, e.g. for single files"))
            }
            Some(code) => Ok(Answer { code, stdout: output.stdout, stderr: output.stderr, command }),
        }
    }

    /// Runs it and takes its standard output; every exit code but 0 is a refusal that says what was being `doing`.
    pub async fn output(self, doing: &str) -> Result<Vec<u8>> {
        let answer = self.run().await?;
        if answer.code == 0 { Ok(answer.stdout) } else { Err(answer.refusal(doing)) }
    }

    /// The same, as text.
    pub async fn text(self, doing: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.output(doing).await?).into_owned())
    }

    /// `git <verb>`, for messages.
    fn name(&self) -> String {
        let mut rest = self.args.iter();
        while let Some(arg) = rest.next() {
            match arg.to_str() {
                Some("-c") => drop(rest.next()),
                Some(flag) if flag.starts_with('-') => {}
                _ => return format!("git {}", arg.to_string_lossy()),
            }
        }
        "git".into()
    }
}

impl Answer {
    /// Whether git succeeded.
    pub fn success(&self) -> bool {
        self.code == 0
    }

    /// The refusal this answer stands for: what was being done, what git says, and a hint where the cause is known.
    pub fn refusal(&self, doing: &str) -> Error {
        let said = self.said();
        let message = match said.is_empty() {
            true => format!("{doing}: {} ended with exit code {}", self.command, self.code),
            false => format!("{doing}: {said}"),
        };
        let has = |needle: &str| said.contains(needle);
        if has("No space left on device") || has("Disk quota exceeded") {
            Error::new(Kind::Io, message).hint("free some disk space and run the command again")
        } else if has("dubious ownership") {
            Error::new(Kind::Forbidden, message).hint("git config --global --add safe.directory <path>")
        } else if has(".lock': File exists") || has("index.lock") {
            let hint = match locked(&said) {
                Some(lock) => format!("when no git command runs there any more: rm {}", quoted(Path::new(lock))),
                None => "another git command is running there; try again when it is done".to_string(),
            };
            Error::conflict(message).hint(hint)
        } else if has("Permission denied") || has("Read-only file system") {
            Error::new(Kind::Io, message).hint("check who owns the path and its mode: ls -ld <path>")
        } else {
            Error::conflict(message)
        }
    }

    /// What git said went wrong, at most 12 lines: the lines it marks as errors, else the last ones.
    fn said(&self) -> String {
        let all = String::from_utf8_lossy(&self.stderr);
        let all = if all.trim().is_empty() { String::from_utf8_lossy(&self.stdout) } else { all };
        let lines: Vec<&str> = all.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
        let mut follows = false;
        let marked: Vec<&str> = lines
            .iter()
            .filter_map(|line| {
                // a list of files follows its error on indented lines
                let kept = marked(line).or_else(|| line.strip_prefix('\t').filter(|_| follows));
                follows = kept.is_some();
                kept
            })
            .collect();
        let chosen = if marked.is_empty() { lines } else { marked };
        let from = chosen.len().saturating_sub(12);
        text::truncate_chars(&text::escape_controls(&chosen[from..].join("\n")), 2000)
    }
}

/// The lock file that git found in its way.
fn locked(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("Unable to create '")?;
    rest.split_once("': File exists").map(|(path, _)| path)
}

fn marked(line: &str) -> Option<&str> {
    line.strip_prefix("fatal: ").or_else(|| line.strip_prefix("error: "))
}

fn timed_out(command: &str, limit: Duration) -> Error {
    Error::new(Kind::Timeout, format!("{command} took longer than {} seconds and was stopped", limit.as_secs()))
        .hint("a hook, a filter or a signing prompt may be waiting; run the command by hand to see which")
}

/// The NUL-separated fields of a `-z` answer, as text.
pub(super) fn fields(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|field| String::from_utf8_lossy(field).into_owned()).collect()
}
