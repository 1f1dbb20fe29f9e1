//! What a proxy is started with.

use std::path::PathBuf;
use std::sync::Arc;

use super::credential::CredentialSource;
use super::grants::CallerRole;
use super::misconfigured;
use super::policy::Policy;
use crate::base::{Process, Result};
use crate::config::schema;

/// What a target is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetCredential {
    /// The real credential.
    Anthropic,
    /// None at all.
    None,
}

/// Where the requests of one role go instead of the primary upstream.
#[derive(Debug, Clone)]
pub struct RoleTarget {
    /// Whose requests.
    pub role: CallerRole,
    /// The base address, as the host reaches it.
    pub upstream: String,
    /// What it is shown.
    pub credential: TargetCredential,
}

/// What a proxy is started with.
#[derive(Clone)]
pub struct ProxyConfig {
    /// The address to listen on, usually `127.0.0.1`.
    pub bind: String,
    /// The port; `None` lets the system choose.
    pub port: Option<u16>,
    /// The primary upstream.
    pub upstream: String,
    /// Roles that go elsewhere.
    pub role_targets: Vec<RoleTarget>,
    /// The audit trail: `<data>/logs/proxy-audit.jsonl`.
    pub audit_path: PathBuf,
    /// Where the real credential comes from.
    pub credential: Arc<dyn CredentialSource>,
    /// What tool calls may do.
    pub policy: Arc<Policy>,
    /// Clock, `SSL_CERT_FILE`, and the home that `~` stands for.
    pub process: Process,
}

impl ProxyConfig {
    /// The configuration that `[proxy]` and `[models.roles.*]` ask for.
    ///
    /// # Errors
    /// [`Kind::Config`](crate::base::Kind::Config) when a setting asks for protection or routing that this proxy does
    /// not give: to ignore it would let its author believe in it.
    pub fn from_settings(
        settings: &schema::Config,
        audit_path: PathBuf,
        credential: Arc<dyn CredentialSource>,
        process: Process,
    ) -> Result<ProxyConfig> {
        let proxy = &settings.proxy;
        if !proxy.fallback.is_empty() {
            let key = "[[proxy.fallback]]";
            return Err(misconfigured(format!("{key} is set, and this version of lazy's proxy does not obey it yet"))
                .hint(format!("remove {key} from lazy.toml")));
        }
        let roles = &settings.models.roles;
        let role_targets = [(CallerRole::Builder, &roles.builder), (CallerRole::Agent, &roles.agent)]
            .into_iter()
            .filter_map(|(caller, role)| role_target(caller, role, &settings.ollama))
            .collect();
        Ok(ProxyConfig {
            bind: proxy.bind.clone(),
            port: proxy.port,
            upstream: proxy.upstream.clone(),
            role_targets,
            audit_path,
            credential,
            policy: Arc::new(Policy::from_settings(&proxy.policy, process.home().ok())),
            process,
        })
    }
}

fn role_target(caller: CallerRole, role: &schema::Role, legacy: &schema::Ollama) -> Option<RoleTarget> {
    let ollama = |endpoint: &str| {
        let endpoint = if endpoint.is_empty() { "http://localhost:11434" } else { endpoint };
        (endpoint.to_string(), TargetCredential::None)
    };
    let (endpoint, credential) = match role.backend {
        schema::Backend::Ollama => ollama(&role.endpoint),
        // The older block speaks for every role that has no table of its own.
        _ if *role == schema::Role::default() && legacy.enabled => ollama(&legacy.endpoint),
        _ if role.endpoint.is_empty() => return None,
        _ => (role.endpoint.clone(), TargetCredential::Anthropic),
    };
    // That name means this host, and only inside a container; the proxy runs on the host.
    let upstream = endpoint.replacen("://host.docker.internal", "://localhost", 1);
    if upstream != endpoint {
        tracing::warn!("endpoint {endpoint} is read as {upstream}: the proxy runs on the host");
    }
    Some(RoleTarget { role: caller, upstream, credential })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::{Kind, Millis};
    use crate::proxy::EnvCredentials;

    fn read(change: impl FnOnce(&mut schema::Config)) -> Result<ProxyConfig> {
        let mut settings = schema::Config::default();
        change(&mut settings);
        let process = Process::fake(["lazy"], &[], Path::new("/"), Millis(0));
        ProxyConfig::from_settings(&settings, "/a".into(), Arc::new(EnvCredentials(process.clone())), process)
    }

    #[test]
    fn the_defaults_go_to_anthropic() {
        let config = read(|_| {}).expect("reads");
        assert_eq!((config.upstream.as_str(), config.port), ("https://api.anthropic.com", None));
        assert!(config.role_targets.is_empty());
        assert!(config.policy.is_active(), "enforced unless switched off");
        assert!(!read(|settings| settings.proxy.policy.enforce = false).expect("reads").policy.is_active());
    }

    #[test]
    fn roles_get_their_target_and_credential() {
        let config = read(|settings| {
            settings.models.roles.agent.backend = schema::Backend::Ollama;
            settings.models.roles.builder.backend = schema::Backend::Proxy;
            settings.models.roles.builder.endpoint = "http://host.docker.internal:9".into();
        })
        .expect("reads");
        let seen: Vec<_> = config.role_targets.iter().map(|t| (t.role, t.upstream.as_str(), t.credential)).collect();
        assert_eq!(
            seen,
            [
                (CallerRole::Builder, "http://localhost:9", TargetCredential::Anthropic),
                (CallerRole::Agent, "http://localhost:11434", TargetCredential::None),
            ]
        );
        let config = read(|settings| settings.ollama.enabled = true).expect("reads");
        assert!(config.role_targets.iter().all(|target| target.credential == TargetCredential::None));
        assert_eq!(config.role_targets.len(), 2);
    }

    #[test]
    fn what_is_not_obeyed_is_refused() {
        let fallback = |settings: &mut schema::Config| {
            settings.proxy.fallback = vec![schema::Fallback {
                upstream: "http://localhost:1".into(),
                model: None,
                credential: schema::FallbackCredential::None,
            }];
        };
        let error = read(fallback).map(|_| ()).expect_err("refused");
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.to_string().contains("proxy.fallback"));
    }
}
