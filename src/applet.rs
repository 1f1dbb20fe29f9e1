//! Which program am I: `argv[0]`, then the first word.
//!
//! | started as | runs |
//! | --- | --- |
//! | `lazy-agent…` (also through a symlink) | the agent side: `mcp`, `selfcheck`, `init`, or the supervisor |
//! | `lazy supervise`, `lazy mcp`, `lazy demo-agent`, `lazy demo-model` | the same, as hidden verbs |
//! | `lazy daemon start --foreground` | the daemon |
//! | anything else | the command line |
//!
//! Here the runtime is chosen, an error is printed, and the exit code is made.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::base::{Error, Kind, Process, Result, checkpoint, log};
use crate::config::project::Project;
use crate::model::RunnerKind;
use crate::{cli, container, daemon, demo, mcp, supervisor};

/// The whole program.
pub fn main() -> ExitCode {
    let process = match Process::real() {
        Ok(process) => process,
        Err(error) => {
            last_words(&error);
            return ExitCode::from(error.kind().exit_code());
        }
    };
    let marker = process.var_os("LAZY_CHECKPOINT_FILE").map(PathBuf::from);
    checkpoint::arm(process.var("LAZY_CHECKPOINT"), marker.as_deref());
    let code = match dispatch(&process) {
        Ok(code) => code,
        // Whoever read our output has gone: nobody is left to tell.
        Err(error) if error.kind() == Kind::Canceled && error.message().is_empty() => 0,
        Err(error) => {
            cli::render_error(&process, &error);
            error.kind().exit_code()
        }
    };
    ExitCode::from(code)
}

fn dispatch(process: &Process) -> Result<u8> {
    let words: Vec<String> = process.args().iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let first = words.first().map(String::as_str);
    let name = process.args().first().map(PathBuf::from).and_then(|path| path.file_name().map(OsStr::to_os_string));
    if name.is_some_and(|name| name.to_string_lossy().starts_with("lazy-agent")) {
        return agent_side(process, first, &words);
    }
    match first {
        Some("selfcheck") => selfcheck(process),
        Some("supervise") => supervise(process, &words[1..]),
        Some("mcp" | "demo-agent" | "demo-model") => agent_side(process, first, &words),
        Some("daemon") if is_foreground(&words) => foreground(process, &words[2..]),
        _ => {
            log::to_stderr(process);
            small_runtime()?.block_on(cli::main(process))
        }
    }
}

fn agent_side(process: &Process, first: Option<&str>, words: &[String]) -> Result<u8> {
    match first {
        Some("selfcheck" | "--version" | "-v" | "-V" | "--revision") => selfcheck(process),
        Some("init") => first_process(process, &words[1..]),
        Some("mcp" | "demo-agent" | "demo-model") => {
            process.require_cwd()?;
            small_program(process, first, words)
        }
        Some("supervise") => supervise(process, &words[1..]),
        Some("-h" | "--help") | None => {
            process.out(
                "lazy-agent --protocol-dir <dir> --worktree <dir> [--runner <type>] [--one-shot]\n\
                 lazy-agent mcp --daemon-config <file> [--task-id <id>] --worktree <dir> [--read-only]\n\
                 lazy-agent init --protocol-dir <dir> --worktree <dir> --runner <type> [--uid <n> --gid <n>]\n  \
                 [--image-user <name>] [--link] [--egress <host:port>=<address>]...\n\
                 lazy-agent selfcheck\n",
            )?;
            Ok(0)
        }
        Some(_) => supervise(process, words),
    }
}

fn small_program(process: &Process, name: Option<&str>, words: &[String]) -> Result<u8> {
    match name {
        Some("mcp") => small_runtime()?.block_on(mcp::run(process, mcp::Args::parse(&words[1..])?)),
        Some("demo-agent") => small_runtime()?.block_on(demo::agent::run(process, &process.args()[2..])),
        _ => small_runtime()?.block_on(demo::model::run(process, &process.args()[2..])),
    }
}

/// The line by which a mounted file is known to be this program.
fn selfcheck(process: &Process) -> Result<u8> {
    process.out_line(format!("lazy-agent ok {}", env!("CARGO_PKG_VERSION")))?;
    Ok(0)
}

fn supervise(process: &Process, words: &[String]) -> Result<u8> {
    process.require_cwd()?;
    let (mut protocol, mut worktree, mut runner, mut mode) = (None, None, RunnerKind::Host, supervisor::Mode::Loop);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| Error::usage(format!("supervise: {word} needs a value")));
        match word.as_str() {
            "--protocol-dir" => protocol = Some(PathBuf::from(value()?)),
            "--worktree" => worktree = Some(PathBuf::from(value()?)),
            "--runner" => runner = RunnerKind::parse_alias(value()?)?,
            "--one-shot" => mode = supervisor::Mode::OneShot,
            other => return Err(Error::usage(format!("supervise: unknown argument {other}"))),
        }
    }
    let missing = |flag: &str| Error::usage(format!("supervise: {flag} is missing"));
    let args = supervisor::Args {
        protocol_dir: protocol.ok_or_else(|| missing("--protocol-dir"))?,
        worktree: worktree.ok_or_else(|| missing("--worktree"))?,
        runner,
        mode,
    };
    log::to_stderr(process);
    small_runtime()?.block_on(supervisor::run(process, args))
}

fn first_process(process: &Process, words: &[String]) -> Result<u8> {
    log::to_stderr(process);
    small_runtime()?.block_on(container::run(process, container::Args::parse(words)?))
}

fn is_foreground(words: &[String]) -> bool {
    words.get(1).is_some_and(|word| word == "start") && words.iter().any(|word| word == "--foreground")
}

fn foreground(process: &Process, words: &[String]) -> Result<u8> {
    let at = words.iter().position(|word| word == "--project");
    let inline = words.iter().find_map(|word| word.strip_prefix("--project="));
    let named = inline.or_else(|| at.and_then(|at| words.get(at + 1)).map(String::as_str));
    process.require_cwd()?;
    // Refused here, before anything is made for it: a directory that is no project gets no state directory.
    let project_root = match named {
        Some(path) => {
            let path = process.cwd().join(path);
            Project::find(process, &path)?;
            path
        }
        None => Project::find(process, process.cwd())?.root,
    };
    // Two threads: one can be in the store's files while the other answers.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .map_err(|source| Error::io("cannot start the runtime", source))?;
    runtime.block_on(daemon::run(process, daemon::Options { project_root }))
}

fn small_runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::io("cannot start the runtime", source))
}

/// The one error that comes before there is a process to print with.
fn last_words(error: &Error) {
    let process = Process::fake(["lazy"], &[], std::path::Path::new("/"), crate::base::Millis(0));
    cli::render_error(&process, error);
    process.captured_to_stderr();
}
