//! The shape of `lazy.toml`: one struct a section, one field a key, named as in the file (`type` is `kind`).
//!
//! The `Default` impls are the only place that holds defaults; `lazy.toml.example` is tested to equal them. Values here
//! are checked: what a loaded [`Config`] holds is legal, paths have `~/` expanded, URLs carry no trailing slash.

mod launch;
mod service;
mod work;

use std::collections::BTreeMap;

use serde::Serialize;

pub use launch::{
    Agent, Backend, Builder, Chattiness, ChattinessLevels, Docker, Models, Mount, MountKind, Network, Ollama,
    PermissionMode, Role, Roles, Runner,
};
pub use service::{
    Backoff, Daemon, Driver, Fallback, FallbackCredential, Limits, Policy, Proxy, Remote, Server, Storage,
    StorageBackend,
};
pub use work::{
    Automation, Checks, Data, Docs, Documents, Git, LfsCheck, Memory, Output, Permissions, PreAccept, Protection,
    Session, Worktree,
};

/// The feature flags that exist; any other name in `[features]` is only reported by `lazy doctor`.
pub const FEATURES: &[&str] = &["auto_sync_after_turn"];

/// Everything `lazy.toml` says, defaults filled in.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Config {
    /// Which model each role asks for, and where it is.
    pub models: Models,
    /// Logging and guidance of a session.
    pub session: Session,
    /// Where the project's own data directory is.
    pub data: Data,
    /// Where tasks are stored.
    pub storage: Storage,
    /// Branches and large files.
    pub git: Git,
    /// How output looks.
    pub output: Output,
    /// How task agents run.
    pub agent: Agent,
    /// How builder sessions run.
    pub builder: Builder,
    /// How much agents say.
    pub chattiness: ChattinessLevels,
    /// The daemon's own listener.
    pub server: Server,
    /// What a run lives in.
    pub runner: Runner,
    /// The forge.
    pub remote: Remote,
    /// The container image.
    pub docker: Docker,
    /// The older way to use Ollama for every role.
    pub ollama: Ollama,
    /// The model proxy.
    pub proxy: Proxy,
    /// A directory of documents for the agents.
    pub documents: Documents,
    /// Where the documentation is.
    pub docs: Docs,
    /// Further mounts of task containers, in order.
    pub mounts: Vec<Mount>,
    /// Experimental behaviour by name; `all` switches on every one.
    pub features: BTreeMap<String, bool>,
    /// What a new worktree is given.
    pub worktree: Worktree,
    /// Files agents may add but not change.
    pub permissions: Permissions,
    /// Merges that need a person's approval.
    pub protection: Protection,
    /// Work that happens by itself around a turn and an accept.
    pub automation: Automation,
    /// Commands after each turn.
    pub checks: Checks,
    /// Shared memory.
    pub memory: Memory,
    /// How much runs at once.
    pub limits: Limits,
    /// What the daemon does by itself.
    pub daemon: Daemon,
}

/// An enumeration of the file: its names in one place.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every value.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The name in the file.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
use names;
