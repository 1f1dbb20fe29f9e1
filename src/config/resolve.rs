//! Which of several sources of a setting counts: pure functions of the configuration and the caller's values.

use super::schema::{Backend, Chattiness, Config, FEATURES, Role};
use crate::base::Process;
use crate::model::Effort;

/// Who a model is launched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaunchRole {
    /// `lazy builder`, `lazy pair`, `lazy chat`.
    Builder,
    /// A task's turns, whoever started them.
    Agent,
}

/// What an agent program brings to the choice of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentTraits<'a> {
    /// The model it picks itself when none is named; `None` when it follows `models.default`.
    pub default_model: Option<&'a str>,
    /// Which backends it works with.
    pub backends: Backends,
}

/// The backends an agent program works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backends {
    /// Every one that speaks the Messages API.
    Any,
    /// The real API only, whatever the configuration says.
    AnthropicOnly,
}

/// Where the proxy sends a role's traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// The base URL, no trailing slash.
    pub url: String,
    /// What is presented there.
    pub credential: UpstreamCredential,
}

/// The credential an upstream is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamCredential {
    /// The real one.
    Anthropic,
    /// None.
    None,
}

/// The role's target as an agent can use it.
pub fn role(config: &Config, role: LaunchRole, agent: AgentTraits<'_>) -> Role {
    match agent.backends {
        Backends::Any => configured(config, role).clone(),
        Backends::AnthropicOnly => Role::default(),
    }
}

/// The model to ask for.
///
/// A local backend's configured model is authoritative: names of the real API mean nothing there. Otherwise the first
/// of: the command's `--model`; the task's model or that of its previous turn; the role's; the agent's own; the default.
pub fn model(
    config: &Config,
    for_role: LaunchRole,
    agent: AgentTraits<'_>,
    asked: Option<&str>,
    sticky: Option<&str>,
) -> String {
    let target = role(config, for_role, agent);
    if target.backend != Backend::Anthropic {
        return target.model;
    }
    [asked, sticky, Some(target.model.as_str()), agent.default_model, Some(config.models.default.as_str())]
        .into_iter()
        .flatten()
        .find(|model| !model.trim().is_empty())
        .unwrap_or_default()
        .to_string()
}

/// How hard to think: what the command asks, what the task carries, what the role's section says.
pub fn effort(config: &Config, role: LaunchRole, asked: Option<Effort>, task: Option<Effort>) -> Effort {
    asked.or(task).unwrap_or(match role {
        LaunchRole::Builder => config.builder.effort,
        LaunchRole::Agent => config.agent.effort,
    })
}

/// How much to say; `None` adds no guidance.
pub fn chattiness(config: &Config, role: LaunchRole) -> Option<Chattiness> {
    let levels = &config.chattiness;
    match role {
        LaunchRole::Builder => levels.builder,
        LaunchRole::Agent => levels.agent,
    }
    .or(levels.default)
}

/// Where the proxy sends a role's traffic, and with what.
pub fn upstream(config: &Config, role: LaunchRole) -> Upstream {
    let target = configured(config, role);
    let credential = match target.backend {
        Backend::Anthropic | Backend::Proxy => UpstreamCredential::Anthropic,
        Backend::Ollama => UpstreamCredential::None,
    };
    let url = match target.endpoint.is_empty() {
        true => config.proxy.upstream.clone(),
        false => target.endpoint.clone(),
    };
    Upstream { url, credential }
}

/// The known feature flags in force, in alphabetical order: none under `LAZY_VANILLA=1`, every one under `all`.
pub fn features(config: &Config, process: &Process) -> Vec<&'static str> {
    if process.var("LAZY_VANILLA") == Some("1") {
        return Vec::new();
    }
    let on = |name: &str| config.features.get(name) == Some(&true);
    let mut flags: Vec<&'static str> = FEATURES.iter().copied().filter(|name| on("all") || on(name)).collect();
    flags.sort_unstable();
    flags
}

fn configured(config: &Config, role: LaunchRole) -> &Role {
    match role {
        LaunchRole::Builder => &config.models.roles.builder,
        LaunchRole::Agent => &config.models.roles.agent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use std::path::Path;

    const CLAUDE: AgentTraits<'_> = AgentTraits { default_model: None, backends: Backends::Any };
    const CURSOR: AgentTraits<'_> = AgentTraits { default_model: Some("auto"), backends: Backends::AnthropicOnly };

    fn local(backend: Backend, endpoint: &str) -> Role {
        Role { backend, model: "qwen".into(), endpoint: endpoint.into() }
    }

    #[test]
    fn models_in_order() {
        let mut config = Config::default();
        config.models.default = "default".into();
        let pick = |config: &Config, agent, asked, sticky| model(config, LaunchRole::Agent, agent, asked, sticky);
        assert_eq!(pick(&config, CLAUDE, Some("asked"), Some("sticky")), "asked");
        assert_eq!(pick(&config, CLAUDE, None, Some("sticky")), "sticky");
        assert_eq!(pick(&config, CLAUDE, Some(" "), None), "default");
        assert_eq!(pick(&config, CURSOR, None, None), "auto");
        assert_eq!(pick(&config, CURSOR, None, Some("sticky")), "sticky");
        config.models.roles.agent.model = "role".into();
        assert_eq!(pick(&config, CLAUDE, None, None), "role");
        assert_eq!(pick(&config, CLAUDE, None, Some("sticky")), "sticky");
        assert_eq!(model(&config, LaunchRole::Builder, CLAUDE, None, None), "default");
    }

    #[test]
    fn a_local_model_is_never_replaced() {
        let mut config = Config::default();
        config.models.roles.agent = local(Backend::Ollama, "http://localhost:11434");
        assert_eq!(model(&config, LaunchRole::Agent, CLAUDE, Some("claude-x"), Some("claude-y")), "qwen");
        assert_eq!(model(&config, LaunchRole::Agent, CURSOR, None, None), "auto");
    }

    #[test]
    fn each_role_has_its_upstream() {
        let mut config = Config::default();
        let primary = "https://api.anthropic.com".to_string();
        let real = UpstreamCredential::Anthropic;
        assert_eq!(upstream(&config, LaunchRole::Builder), Upstream { url: primary.clone(), credential: real });
        config.models.roles.agent = local(Backend::Ollama, "http://localhost:11434");
        let ollama = upstream(&config, LaunchRole::Agent);
        assert_eq!(ollama, Upstream { url: "http://localhost:11434".into(), credential: UpstreamCredential::None });
        config.models.roles.agent = local(Backend::Proxy, "");
        assert_eq!(upstream(&config, LaunchRole::Agent), Upstream { url: primary, credential: real });
        config.models.roles.agent = local(Backend::Proxy, "https://gate.example");
        assert_eq!(upstream(&config, LaunchRole::Agent).url, "https://gate.example");
    }

    #[test]
    fn effort_and_chattiness_by_role() {
        let mut config = Config::default();
        assert_eq!(effort(&config, LaunchRole::Agent, None, None), Effort::Medium);
        assert_eq!(effort(&config, LaunchRole::Builder, None, None), Effort::High);
        assert_eq!(effort(&config, LaunchRole::Agent, None, Some(Effort::Low)), Effort::Low);
        assert_eq!(effort(&config, LaunchRole::Agent, Some(Effort::Max), Some(Effort::Low)), Effort::Max);
        assert_eq!(chattiness(&config, LaunchRole::Agent), None);
        config.chattiness.default = Some(Chattiness::Normal);
        config.chattiness.agent = Some(Chattiness::Terse);
        assert_eq!(chattiness(&config, LaunchRole::Agent), Some(Chattiness::Terse));
        assert_eq!(chattiness(&config, LaunchRole::Builder), Some(Chattiness::Normal));
    }

    #[test]
    fn vanilla_beats_all_beats_each() {
        let plain = Process::fake(["lazy"], &[], Path::new("/"), Millis(0));
        let vanilla = Process::fake(["lazy"], &[("LAZY_VANILLA", "1")], Path::new("/"), Millis(0));
        let mut config = Config::default();
        assert!(features(&config, &plain).is_empty());
        config.features.insert("auto_sync_after_turn".into(), true);
        config.features.insert("unheard_of".into(), true);
        assert_eq!(features(&config, &plain), ["auto_sync_after_turn"]);
        config.features.insert("auto_sync_after_turn".into(), false);
        assert!(features(&config, &plain).is_empty());
        config.features.insert("all".into(), true);
        assert_eq!(features(&config, &plain), FEATURES);
        assert!(features(&config, &vanilla).is_empty());
    }
}
