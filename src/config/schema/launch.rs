//! Sections that decide how an agent is launched: models, agent, builder, chattiness, runner, docker, ollama, mounts.

use serde::Serialize;

use super::names;
use crate::model::link::Endpoint;
use crate::model::{Effort, RunnerKind};

/// `[models]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Models {
    /// A raw model id, for agents that speak Anthropic's names.
    pub default: String,
    /// Per-role targets.
    pub roles: Roles,
}

impl Default for Models {
    fn default() -> Self {
        Models { default: "claude-opus-4-7".into(), roles: Roles::default() }
    }
}

/// `[models.roles]`: what each role talks to. A role whose table the file does not have follows `[ollama]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Roles {
    /// `lazy builder`, `lazy pair`, `lazy chat`.
    pub builder: Role,
    /// The supervisor of a task and every turn that starts by itself.
    pub agent: Role,
}

/// `[models.roles.<role>]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Role {
    /// Which kind of upstream.
    pub backend: Backend,
    /// The model; empty only for [`Backend::Anthropic`], where the usual chain decides.
    pub model: String,
    /// Where lazy's proxy forwards this role, as the host reaches it; empty is the proxy's primary upstream.
    pub endpoint: String,
}

impl Default for Role {
    fn default() -> Self {
        Role { backend: Backend::Anthropic, model: String::new(), endpoint: String::new() }
    }
}

names!(
    /// The upstream of a role.
    Backend {
        /// The real API, with the real credential.
        Anthropic = "anthropic",
        /// A local Ollama, with no credential.
        Ollama = "ollama",
        /// Another endpoint of the same API, with the real credential.
        Proxy = "proxy",
    }
);

/// `[agent]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agent {
    /// The agent of tasks made from scratch.
    pub agent_id: String,
    /// Milliseconds without a completed step before the agent is killed; 0 is the agent's own default.
    pub watchdog_output_timeout_ms: u64,
    /// Milliseconds for the agent to exit after its final result; 0 waits for ever.
    pub wind_down_timeout_ms: u64,
    /// How hard the model thinks.
    pub effort: Effort,
}

impl Default for Agent {
    fn default() -> Self {
        Agent {
            agent_id: "claude-code".into(),
            watchdog_output_timeout_ms: 30 * 60 * 1000,
            wind_down_timeout_ms: 60_000,
            effort: Effort::Medium,
        }
    }
}

impl Agent {
    /// The ids `agent_id` may hold.
    pub const IDS: &[&str] = &["claude-code", "cursor", "demo"];
}

/// `[builder]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Builder {
    /// How hard the model thinks.
    pub effort: Effort,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { effort: Effort::High }
    }
}

/// `[chattiness]`: unset adds no guidance.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ChattinessLevels {
    /// Both roles.
    pub default: Option<Chattiness>,
    /// The builder, before `default`.
    pub builder: Option<Chattiness>,
    /// Task agents, before `default`.
    pub agent: Option<Chattiness>,
}

names!(
    /// How much an agent narrates.
    Chattiness {
        /// Little.
        Terse = "terse",
        /// Some.
        Normal = "normal",
        /// Much.
        Chatty = "chatty",
    }
);

/// `[runner]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Runner {
    /// What a run lives in.
    #[serde(rename = "type")]
    pub kind: RunnerKind,
    /// The posture of the host runner.
    pub permission_mode: PermissionMode,
    /// Domains that commands reach without a prompt; not a wall.
    pub sandbox_allowed_domains: Vec<String>,
    /// Paths whose reading is refused, beside the built-in ones.
    pub sandbox_deny_read: Vec<String>,
    /// Paths whose writing is refused, beside the built-in ones.
    pub sandbox_deny_write: Vec<String>,
    /// Accept the weaker sandbox that works in an unprivileged container.
    pub sandbox_allow_weaker_nested: bool,
    /// What containers reach.
    pub network: Network,
    /// With [`Network::ProxyOnly`]: what else they reach, `host:port` by name.
    pub egress_allow: Vec<Endpoint>,
}

impl Default for Runner {
    fn default() -> Self {
        Runner {
            kind: RunnerKind::Docker,
            permission_mode: PermissionMode::Sandbox,
            sandbox_allowed_domains: vec!["*.anthropic.com".into()],
            sandbox_deny_read: Vec::new(),
            sandbox_deny_write: Vec::new(),
            sandbox_allow_weaker_nested: false,
            network: Network::Open,
            egress_allow: Vec::new(),
        }
    }
}

names!(
    /// What containers reach.
    Network {
        /// Whatever the engine's usual network reaches.
        Open = "open",
        /// lazy's proxy and daemon, and what `egress_allow` names.
        ProxyOnly = "proxy-only",
    }
);

names!(
    /// What confines an agent that runs on the host.
    PermissionMode {
        /// The operating system's sandbox and rules for the file tools.
        Sandbox = "sandbox",
        /// Nothing.
        Bypass = "bypass",
    }
);

/// `[docker]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Docker {
    /// A Dockerfile, relative to the project root; empty is the built-in image.
    pub dockerfile: String,
    /// A PEM file that image builds and runs trust beside the usual authorities, relative to the project root; empty is
    /// none.
    pub ca_certificates: String,
}

/// `[ollama]`: the older block that sends every role to Ollama.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ollama {
    /// Whether it is in force; also lifts the daemon's credential gate.
    pub enabled: bool,
    /// The model; not empty when enabled.
    pub model: String,
    /// Where it listens, as the host reaches it.
    pub endpoint: String,
}

impl Ollama {
    /// Where Ollama listens unless told otherwise.
    pub const ENDPOINT: &str = "http://localhost:11434";
}

impl Default for Ollama {
    fn default() -> Self {
        Ollama { enabled: false, model: String::new(), endpoint: Ollama::ENDPOINT.into() }
    }
}

/// `[[mounts]]`: a further mount of task containers. `source` and `target` may hold `{worktree}` and `{repo}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mount {
    /// A host path or a volume.
    #[serde(rename = "type")]
    pub kind: MountKind,
    /// The host path of a bind, absolute or relative to the project root; `None` for a volume.
    pub source: Option<String>,
    /// The name of a volume; `None` is anonymous.
    pub name: Option<String>,
    /// Where it appears: absolute, or starting with a placeholder.
    pub target: String,
    /// Whether the container may only read it.
    pub readonly: bool,
}

names!(
    /// What a mount brings in.
    MountKind {
        /// A path of the host.
        Bind = "bind",
        /// A volume of the engine.
        Volume = "volume",
    }
);
