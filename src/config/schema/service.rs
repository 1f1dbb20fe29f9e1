//! Sections of what serves: storage, server, remote, proxy, limits, daemon.

use serde::Serialize;

use super::names;

/// `[storage]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Storage {
    /// Files or a database.
    pub backend: StorageBackend,
    /// Root of the file store, `~/` expanded; empty is `~/.lazy/<project name>`.
    pub external_path: String,
    /// Whether the database connection is TLS with verified certificates.
    pub postgres_ssl: bool,
}

impl Default for Storage {
    fn default() -> Self {
        Storage { backend: StorageBackend::External, external_path: String::new(), postgres_ssl: false }
    }
}

names!(
    /// Where tasks are stored.
    StorageBackend {
        /// A directory of JSON files outside the repository.
        External = "external",
        /// A PostgreSQL database named by the environment.
        Postgres = "postgres",
    }
);

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// The first port tried, of a window of 20; 0 lets the system choose.
    pub port: u16,
    /// The address listened on.
    pub bind: String,
    /// Seconds between background syncs; 0 is never.
    pub sync_interval: u64,
}

impl Default for Server {
    fn default() -> Self {
        Server { port: 26024, bind: "127.0.0.1".into(), sync_interval: 60 }
    }
}

/// `[remote]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remote {
    /// Which forge.
    pub driver: Driver,
    /// The git remote's name.
    pub git_remote: String,
    /// Whether accept approves its own review on a protected target.
    pub auto_approve: bool,
    /// Whether nothing is ever pushed or fetched.
    pub offline: bool,
    /// Push after each turn.
    pub github_auto_push: bool,
    /// Bring in comments that anybody on the internet may write.
    pub github_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection: bool,
    /// Push after each turn.
    pub gitlab_auto_push: bool,
    /// Bring in comments that anybody on the internet may write.
    pub gitlab_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection: bool,
}

impl Default for Remote {
    fn default() -> Self {
        Remote {
            driver: Driver::Local,
            git_remote: "origin".into(),
            auto_approve: false,
            offline: false,
            github_auto_push: true,
            github_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection: false,
            gitlab_auto_push: true,
            gitlab_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection: false,
        }
    }
}

names!(
    /// The forge a project works with.
    Driver {
        /// None: merges happen in this repository.
        Local = "local",
        /// GitHub, through `gh`.
        Github = "github",
        /// GitLab, through `glab`.
        Gitlab = "gitlab",
    }
);

/// `[proxy]`: tuning of what is always on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proxy {
    /// The port; `None` lets the system choose.
    pub port: Option<u16>,
    /// The address listened on.
    pub bind: String,
    /// The primary upstream, no trailing slash.
    pub upstream: String,
    /// Where Cursor's traffic goes, no trailing slash.
    pub cursor_upstream: String,
    /// Seconds of `Retry-After` worth waiting for before the first fallback is tried.
    pub retry_after_threshold: f64,
    /// Further targets, in order.
    pub fallback: Vec<Fallback>,
    /// What agents' tool calls may do.
    pub policy: Policy,
}

impl Default for Proxy {
    fn default() -> Self {
        Proxy {
            port: None,
            bind: "127.0.0.1".into(),
            upstream: "https://api.anthropic.com".into(),
            cursor_upstream: "https://api2.cursor.sh".into(),
            retry_after_threshold: 5.0,
            fallback: Vec::new(),
            policy: Policy::default(),
        }
    }
}

/// `[[proxy.fallback]]`: a target for requests the primary refuses for load, or that do not reach it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fallback {
    /// The target, no trailing slash.
    pub upstream: String,
    /// The model to ask for instead; `None` keeps the request's.
    pub model: Option<String>,
    /// What it is shown.
    pub credential: FallbackCredential,
}

names!(
    /// The credential a fallback is sent.
    FallbackCredential {
        /// The real one.
        Anthropic = "anthropic",
        /// None.
        None = "none",
    }
);

/// `[proxy.policy]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Policy {
    /// The master switch.
    pub enforce: bool,
    /// Exact names of `mcp__claude_ai_*` tools that are allowed after all.
    pub connector_allowlist: Vec<String>,
    /// Refuse reads of keys and credentials.
    pub deny_secret_path_reads: bool,
    /// Further absolute globs that file tools may not touch.
    pub deny_path_globs: Vec<String>,
    /// Hosts that may be fetched; empty is any.
    pub egress_allowlist: Vec<String>,
    /// Globs of commands that agents' shells may not run; empty is none.
    pub deny_command_globs: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            enforce: true,
            connector_allowlist: Vec::new(),
            deny_secret_path_reads: true,
            deny_path_globs: Vec::new(),
            egress_allowlist: Vec::new(),
            deny_command_globs: Vec::new(),
        }
    }
}

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limits {
    /// Tasks with a live run; at least 1.
    pub max_concurrent_agents: u32,
    /// Builder sessions; at least 1.
    pub max_concurrent_builders: u32,
    /// Minutes a blocked task's container stays warm; 0 is not at all.
    pub idle_grace_minutes: u32,
    /// Turns in a row that no person started; 0 is no limit.
    pub max_turns_without_human: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_concurrent_agents: 8,
            max_concurrent_builders: 8,
            idle_grace_minutes: 10,
            max_turns_without_human: 10,
        }
    }
}

/// `[daemon]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Daemon {
    /// Unblock a task whose CI failed.
    pub auto_react_ci: bool,
    /// Unblock a task whose review got comments.
    pub auto_react_comments: bool,
    /// Reactions per task and kind of trigger before a person must look.
    pub auto_react_max_retries: u32,
    /// How repeats are spaced.
    pub auto_react_backoff: Backoff,
    /// Turns started by reactions per local day.
    pub auto_react_daily_budget: u32,
    /// Turns in a row per task started by reactions.
    pub max_auto_turns: u32,
    /// Resume interrupted tasks.
    pub auto_resume: bool,
    /// Minutes between slow attempts for one task; at least 1.
    pub auto_resume_interval_minutes: u32,
    /// Minutes between any two attempts in the project; at least 1.
    pub auto_resume_gap_minutes: u32,
    /// Slow attempts for one task; at least 1.
    pub auto_resume_max_attempts: u32,
}

impl Default for Daemon {
    fn default() -> Self {
        Daemon {
            auto_react_ci: true,
            auto_react_comments: true,
            auto_react_max_retries: 3,
            auto_react_backoff: Backoff::Exponential,
            auto_react_daily_budget: 50,
            max_auto_turns: 3,
            auto_resume: true,
            auto_resume_interval_minutes: 30,
            auto_resume_gap_minutes: 5,
            auto_resume_max_attempts: 24,
        }
    }
}

names!(
    /// How repeated reactions are spaced.
    Backoff {
        /// At once.
        None = "none",
        /// By equal steps.
        Linear = "linear",
        /// By doubling steps.
        Exponential = "exponential",
    }
);
