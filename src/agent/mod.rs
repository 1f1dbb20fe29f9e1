//! What differs between agents: argv, environment, stream, results, failure classes, credentials; and the prompts they
//! are given.
//!
//! An [`Agent`] is a value without state: every method is a function of its arguments, so that the supervisor can ask
//! before, during and after a run. Nothing here spawns a process or opens a connection.
//!
//! Invariants
//! - The prompt goes to the agent's standard input, never into argv: it may be long and may begin with a dash.
//! - An agent reads and writes its settings and sessions below the task's sandbox directory only
//!   (`<sandbox>/.claude/`, `<sandbox>/.demo/`), never in the user's home.
//! - An agent sees only the MCP servers of the file lazy wrote for the turn.
//! - A line of foreign output never makes a method fail: what cannot be read is [`StreamEvent::Ignored`] or
//!   [`Unusable`].
//!
//! Files owned, all mode 0600: the turn's MCP configuration ([`AgentTurn::mcp_config`]) and
//! `<sandbox>/system-prompt.md`.

mod credential;
mod failure;
mod launch;
mod outcome;
pub mod prompts;
mod stream;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::{Error, Result};

pub use credential::require_sound_credentials;
pub use failure::{Classified, RunFailure};
pub use launch::{AgentTurn, CLAUDE_WRITING_TOOLS, McpServer, Program, RunningAs, TurnMode};
pub use outcome::{AgentResult, Unusable};
pub use stream::{StreamEvent, Streaming, ToolsVerdict};

/// The key of lazy's own MCP server in an agent's configuration.
pub const MCP_SERVER: &str = "lazy";

/// What the tools of lazy's MCP server are called inside an agent: this, then the tool's name.
pub const MCP_TOOL_PREFIX: &str = "mcp__lazy__";

/// A program that works on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Agent {
    /// The Claude Code command line.
    ClaudeCode,
    /// The small agent inside lazy: needs no install.
    Demo,
}

impl Agent {
    /// Every agent, the default first.
    pub const ALL: [Agent; 2] = [Agent::ClaudeCode, Agent::Demo];

    /// The agent of an id, as the configuration and the task store write it.
    ///
    /// # Errors
    /// [`crate::base::Kind::Invalid`] listing the ids that exist.
    pub fn parse(id: &str) -> Result<Agent> {
        Agent::ALL.into_iter().find(|agent| agent.id() == id).ok_or_else(|| {
            let ids = Agent::ALL.map(Agent::id).join(", ");
            let error = Error::invalid(format!("{id:?} is not an agent; choose one of {ids}"));
            match crate::base::text::nearest(id, Agent::ALL.map(Agent::id)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error,
            }
        })
    }

    /// The stored name.
    pub const fn id(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "claude-code",
            Agent::Demo => "demo",
        }
    }

    /// The name people read.
    pub const fn display_name(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "Claude Code",
            Agent::Demo => "Demo agent",
        }
    }

    /// What to execute; `lazy` is the running executable, which the demo agent is a part of.
    pub fn program(self, lazy: &Path) -> Program {
        match self {
            Agent::ClaudeCode => Program {
                path: PathBuf::from("claude"),
                first_args: Vec::new(),
                install_hint: "npm install -g @anthropic-ai/claude-code",
            },
            Agent::Demo => Program {
                path: lazy.to_path_buf(),
                first_args: vec![OsString::from("demo-agent")],
                install_hint: "the demo agent is part of lazy: reinstall lazy",
            },
        }
    }

    /// The environment variables that may hold its credential, in order of preference.
    pub const fn credential_vars(self) -> &'static [&'static str] {
        match self {
            Agent::ClaudeCode | Agent::Demo => &["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"],
        }
    }

    /// The model it wants when a task names none; `None` leaves it to `models.default`.
    pub const fn default_model(self) -> Option<&'static str> {
        match self {
            Agent::ClaudeCode | Agent::Demo => None,
        }
    }

    /// How long it may run without a completed step when the configuration is silent; `None` is without limit.
    ///
    /// Both agents stream their steps but may think or run one command for very long, so neither has a limit.
    pub const fn default_watchdog(self) -> Option<Duration> {
        match self {
            Agent::ClaudeCode | Agent::Demo => None,
        }
    }

    /// How its standard output is to be read.
    pub const fn streams(self) -> Streaming {
        match self {
            Agent::ClaudeCode | Agent::Demo => Streaming::JsonLines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    #[test]
    fn ids_read_back_and_a_wrong_one_lists_them() {
        for agent in Agent::ALL {
            assert_eq!(Agent::parse(agent.id()).expect("its own id"), agent);
        }
        let error = Agent::parse("claude-cod").expect_err("a slip");
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.message().contains("claude-code, demo"), "{error}");
        assert_eq!(error.hints(), ["did you mean claude-code?"]);
        assert!(Agent::parse("").is_err());
    }

    #[test]
    fn the_demo_agent_is_lazy_itself() {
        let program = Agent::Demo.program(Path::new("/opt/lazy"));
        assert_eq!(program.path, Path::new("/opt/lazy"));
        assert_eq!(program.first_args, ["demo-agent"]);
        assert_eq!(Agent::ClaudeCode.program(Path::new("/opt/lazy")).path, Path::new("claude"));
    }
}
