//! Which upstream a caller's requests go to, and what each upstream is shown.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use tokio_rustls::TlsConnector;

use crate::base::{Process, Result};
use crate::proxy::caller::Caller;
use crate::proxy::grants::{CallerRole, Grant};
use crate::proxy::origin::{Base, Origin};
use crate::proxy::settings::{ProxyConfig, TargetCredential};
use crate::proxy::{misconfigured, tls};

/// One upstream.
#[derive(Debug, Clone)]
pub(in crate::proxy) struct Target {
    pub base: Base,
    pub credential: TargetCredential,
}

/// All upstreams.
#[derive(Debug)]
pub(in crate::proxy) struct Targets {
    primary: Target,
    roles: HashMap<CallerRole, Target>,
}

impl Targets {
    /// Reads the addresses and refuses contradictions. `own` is where the proxy listens.
    pub fn resolve(config: &ProxyConfig, own: SocketAddr) -> Result<Targets> {
        let base = Base::parse(&config.upstream, "[proxy] upstream")?;
        if is_own(&base.origin, own) {
            return Err(misconfigured(format!("[proxy] upstream = {:?} is the proxy itself", config.upstream)));
        }
        let primary = Target { base, credential: TargetCredential::Anthropic };
        let mut roles = HashMap::new();
        for target in &config.role_targets {
            let setting = format!("[models.roles.{}] endpoint", target.role.as_str());
            let base = Base::parse(&target.upstream, &setting)?;
            if is_own(&base.origin, own) {
                // An older way to say "through the proxy": it would go round in circles for ever.
                tracing::warn!("{setting} is the proxy itself: the primary upstream is used");
                continue;
            }
            roles.insert(target.role, Target { base, credential: target.credential });
        }
        let targets = Targets { primary, roles };
        targets.require_consistent()?;
        Ok(targets)
    }

    /// A connector, if any target needs one.
    pub fn tls(&self, process: &Process) -> Result<Option<TlsConnector>> {
        self.all().any(|target| target.base.origin.is_secure()).then(|| tls::connector(process)).transpose()
    }

    /// Where a grant's requests go; without one, to the primary.
    pub fn for_grant(&self, grant: Option<&Grant>) -> &Target {
        grant.and_then(|grant| self.roles.get(&grant.role)).unwrap_or(&self.primary)
    }

    /// Where a caller's requests go.
    pub fn for_caller(&self, caller: Option<&Caller>) -> &Target {
        match caller {
            Some(Caller::Granted(grant)) => self.for_grant(Some(grant)),
            _ => &self.primary,
        }
    }

    /// The map as log lines: which slot goes where and is shown what.
    pub fn describe(&self) -> Vec<String> {
        let line = |slot: &str, target: &Target| {
            let shown = match target.credential {
                TargetCredential::Anthropic => "the real credential",
                TargetCredential::None => "none",
            };
            format!("proxy target {slot}: {} → {shown}", target.base.text)
        };
        let roles = self.roles.iter().map(|(role, target)| line(role.as_str(), target));
        [line("primary", &self.primary)].into_iter().chain(roles).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Target> {
        [&self.primary].into_iter().chain(self.roles.values())
    }

    /// Credentials are a matter of origins: one origin cannot get one and none.
    fn require_consistent(&self) -> Result<()> {
        let mut shown: HashMap<&Origin, (TargetCredential, &str)> = HashMap::new();
        for target in self.all() {
            let known = shown.entry(&target.base.origin).or_insert((target.credential, &target.base.text));
            if known.0 != target.credential {
                return Err(misconfigured(format!(
                    "{} and {} are the same server, and only one of them may get the credential",
                    known.1, target.base.text
                ))
                .hint("give the one without a credential another host or port, or backend = \"proxy\""));
            }
        }
        Ok(())
    }
}

fn is_own(origin: &Origin, own: SocketAddr) -> bool {
    let local = origin.host() == "localhost"
        || origin.host().parse::<IpAddr>().is_ok_and(|ip| ip == own.ip() || ip.is_loopback() || ip.is_unspecified());
    local && origin.port() == own.port() && !origin.is_secure()
}
