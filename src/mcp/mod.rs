//! The MCP server over stdio: messages, tool catalogue, argument validator, relay to the daemon.
//!
//! `lazy mcp --daemon-config <file> [--task-id <id>] --worktree <dir> [--read-only]` is started by the agent's client and
//! lives as long as its standard input. It validates and relays; it cannot act: every tool runs in the daemon, under the
//! identity of the token in the configuration file.
//!
//! **Invariants.** Requests run concurrently: a call that takes minutes holds up no other. Each reply is one line in one
//! write. A call is repeated only when it provably never reached the daemon, because tools are not idempotent. A call
//! with wrong arguments does nothing at all. Once it serves, the process does not end on a failure: clients do not
//! restart a server that does.
//!
//! **Protocol.** Both eras: `initialize` with negotiation (2024-11-05 to 2025-11-25), and the handshake-less revision
//! 2026-07-28 with `server/discover`.
//!
//! **Refused:** a task or worktree other than the one the turn was prepared for (`LAZY_MCP_EXPECTED_TASK_ID`,
//! `LAZY_MCP_EXPECTED_WORKTREE`), a missing configuration file, tools that write on a read-only turn.

pub mod catalogue;
mod message;
mod relay;
pub mod schema;
mod server;

use std::path::PathBuf;

use crate::base::{Error, Process, Result};
use crate::rpc::mcp_config::McpConfig;

pub use relay::Relay;
pub use server::serve;

/// The key of the server in every client's configuration.
pub const SERVER_KEY: &str = "lazy";

/// Which tools a turn gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolset {
    /// All.
    Full,
    /// Those that change nothing: questions.
    Read,
}

/// The arguments of `lazy mcp`.
#[derive(Debug, Clone)]
pub struct Args {
    /// The minted configuration.
    pub daemon_config: PathBuf,
    /// The task; empty for the builder.
    pub task_id: String,
    /// The worktree.
    pub worktree: PathBuf,
    /// Which tools.
    pub toolset: Toolset,
}

impl Args {
    /// Reads the words after `mcp`.
    pub fn parse(words: &[String]) -> Result<Args> {
        let (mut config, mut task, mut worktree, mut toolset) = (None, String::new(), None, Toolset::Full);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().ok_or_else(|| Error::usage(format!("mcp: {word} needs a value")));
            match word.as_str() {
                "--daemon-config" => config = Some(PathBuf::from(value()?)),
                "--task-id" => task = value()?,
                "--worktree" => worktree = Some(PathBuf::from(value()?)),
                "--read-only" => toolset = Toolset::Read,
                other => return Err(Error::usage(format!("mcp: unknown argument {other}"))),
            }
        }
        let missing = |flag: &str| Error::usage(format!("mcp: {flag} is missing"));
        Ok(Args {
            daemon_config: config.ok_or_else(|| missing("--daemon-config"))?,
            task_id: task,
            worktree: worktree.ok_or_else(|| missing("--worktree"))?,
            toolset,
        })
    }
}

/// Serves one client until its end of input.
pub async fn run(process: &Process, args: Args) -> Result<u8> {
    require_expected(process, &args)?;
    let config = relay::load_config(&args.daemon_config).await?;
    let config =
        McpConfig { task_id: if args.task_id.is_empty() { config.task_id } else { args.task_id.clone() }, ..config };
    let relay = relay::Relay::new(args.daemon_config.clone(), config);
    serve(process, relay, args.toolset, tokio::io::stdin(), tokio::io::stdout()).await?;
    Ok(0)
}

/// The turn names the task and worktree it prepared; a configuration of another turn must not be served.
fn require_expected(process: &Process, args: &Args) -> Result<()> {
    let differs =
        |name: &str, actual: &str| process.var(name).filter(|expected| *expected != actual).map(str::to_string);
    if let Some(expected) = differs("LAZY_MCP_EXPECTED_TASK_ID", &args.task_id) {
        return Err(Error::conflict(format!(
            "this turn is for task {expected}, but the server was configured for {}",
            args.task_id
        )));
    }
    match differs("LAZY_MCP_EXPECTED_WORKTREE", &args.worktree.to_string_lossy()) {
        Some(expected) => Err(Error::conflict(format!(
            "this turn works in {expected}, but the server was configured for {}",
            args.worktree.display()
        ))),
        None => Ok(()),
    }
}
