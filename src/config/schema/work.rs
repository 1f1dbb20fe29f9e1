//! Sections about the repository and the work in it.

use serde::Serialize;

use super::names;
use crate::model::exchange::Maintain;

/// `[session]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Session {
    /// Show the run's output while it works.
    pub verbose: bool,
    /// Log more.
    pub debug: bool,
    /// Tell agents how to commit.
    pub auto_commit_instructions: bool,
}

impl Default for Session {
    fn default() -> Self {
        Session { verbose: false, debug: false, auto_commit_instructions: true }
    }
}

/// `[data]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Data {
    /// The project's data directory, relative to its root.
    pub path: String,
}

impl Default for Data {
    fn default() -> Self {
        Data { path: ".lazy".into() }
    }
}

/// `[git]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Git {
    /// First part of task branches' names.
    pub default_branch_prefix: String,
    /// What a start does when files of Git LFS are not there.
    pub lfs_check: LfsCheck,
}

impl Default for Git {
    fn default() -> Self {
        Git { default_branch_prefix: "lazy".into(), lfs_check: LfsCheck::Refuse }
    }
}

names!(
    /// What a start does when files of Git LFS are not there.
    LfsCheck {
        /// It does not start.
        Refuse = "refuse",
        /// It says so.
        Warn = "warn",
        /// Nothing.
        Off = "off",
    }
);

/// `[output]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Output {
    /// Characters of a short id, 4 to 32.
    pub shortid_length: usize,
}

impl Default for Output {
    fn default() -> Self {
        Output { shortid_length: 8 }
    }
}

/// `[documents]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Documents {
    /// A directory mounted into containers; empty is none.
    pub path: String,
}

/// `[docs]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Docs {
    /// Base of links to the documentation, no trailing slash; `None` prints no links.
    pub url: Option<String>,
}

impl Default for Docs {
    fn default() -> Self {
        let version = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
        Docs { url: Some(format!("https://docs.getlazy.dev/v{version}")) }
    }
}

/// `[worktree]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Worktree {
    /// Globs of untracked files copied into new worktrees.
    pub include: Vec<String>,
}

/// `[permissions]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Permissions {
    /// Globs of files agents may add but not change.
    pub protected: Vec<String>,
}

/// `[protection]`: inert while not enabled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Protection {
    /// The master switch.
    pub enabled: bool,
    /// Protect the repository's default branch.
    pub gate_default_branch: bool,
    /// Branches whose incoming merges need approval.
    pub protected_branches: Vec<String>,
    /// Codes or short ids of tasks whose outgoing merge needs approval.
    pub protected_tasks: Vec<String>,
}

impl Default for Protection {
    fn default() -> Self {
        Protection {
            enabled: false,
            gate_default_branch: true,
            protected_branches: Vec::new(),
            protected_tasks: Vec::new(),
        }
    }
}

/// `[automation]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Automation {
    /// Files to be kept up to date with the work, in order.
    pub maintain: Vec<Maintain>,
    /// A turn before every accept.
    pub pre_accept: PreAccept,
}

/// `[automation.pre_accept]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PreAccept {
    /// Whether it runs.
    pub enabled: bool,
    /// Commands that must pass, in order.
    pub commands: Vec<String>,
    /// Seconds for each.
    pub timeout: u64,
}

impl Default for PreAccept {
    fn default() -> Self {
        PreAccept { enabled: false, commands: Vec::new(), timeout: 600 }
    }
}

/// `[checks]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checks {
    /// A shell command run after each turn; empty is none.
    pub post_turn: String,
    /// Its limit in seconds.
    pub post_turn_timeout: u64,
}

impl Default for Checks {
    fn default() -> Self {
        Checks { post_turn: String::new(), post_turn_timeout: 300 }
    }
}

/// `[memory]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Memory {
    /// Bytes of injected memory above which a line is logged.
    pub warn_bytes: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { warn_bytes: 4096 }
    }
}
