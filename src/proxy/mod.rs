//! The model proxy: placeholder in, real credential out, streaming untouched, one record for each request.
//!
//! - A caller is known by the placeholder it presents ([`Grants`]); role and task come from the grant and never from a
//!   header when there is one. A value that looks like a placeholder and is none gets 401. No credential at all, or a
//!   real one, passes as it is: a client's first probe carries nothing.
//! - The real credential is asked from the [`CredentialSource`] for each request and set only on targets that the
//!   configuration maps to it. It is in no record, log line, error or `Debug` output.
//! - Bytes pass unchanged in both directions and each chunk is given to the client before anybody looks at it
//!   ([`tee`]). What may hold a chunk back is a [`Gate`]: where a rule is active, a tool call waits until its input is
//!   complete and judged ([`gate`], [`policy`]); where none is, nothing is looked at.
//! - A client that goes away cancels the upstream request at once; its record is still written. An upstream that breaks
//!   ends the client's stream as broken. A request is sent a second time only if no byte of it was written.
//! - Each request gives exactly one record ([`audit`]) in `<data>/logs/proxy-audit.jsonl`, written by one task off the
//!   request's path, and an `open` and a `close` event ([`activity`]).
//!
//! Files owned: `proxy-tokens.json` (0600) in the daemon's state directory, the audit trail and its one older segment.
//! Refused: the `/_lazy/` paths, upstreams that are not `http(s)://host[:port][/prefix]`, a target that would get the
//! credential although the configuration says it gets none, and settings that this proxy would not obey
//! ([`ProxyConfig::from_settings`]).

pub mod activity;
pub mod audit;
mod caller;
pub mod credential;
pub mod extract;
mod forward;
pub mod gate;
pub mod grants;
mod origin;
pub mod policy;
mod pool;
mod settings;
mod tee;
mod tls;
pub mod usage;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use activity::Activity;
pub use credential::{Credential, CredentialSource, CredentialVar, EnvCredentials};
pub use gate::Gate;
pub use grants::{CallerRole, Grant, Grants, Placeholder};
pub use settings::{ProxyConfig, RoleTarget, TargetCredential};

use crate::base::{Error, Kind, Result};
use crate::http::{Drain, Limits, Server, bind_window};

/// How long a client's connection may stay idle.
const CLIENT_IDLE: Duration = Duration::from_secs(240);

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    server: Server,
    drain: Drain,
    activity: Arc<Activity>,
    ledger: audit::Ledger,
    upstream: String,
}

impl Proxy {
    /// Binds and serves.
    ///
    /// # Errors
    /// [`Kind::Config`] when the configuration contradicts itself, [`Kind::Conflict`] or [`Kind::Unavailable`] when the
    /// address cannot be bound. Nothing is left behind.
    pub async fn start(config: ProxyConfig, grants: Arc<Grants>) -> Result<Proxy> {
        let listener = bind_window(&config.bind, config.port.unwrap_or(0), 1).await.map_err(|error| {
            error.context("the proxy cannot start").hint("set [proxy] port to a free one, or remove it")
        })?;
        let address = listener
            .local_addr()
            .map_err(|source| Error::io("cannot read the address of the proxy's listener", source))?;
        let targets = forward::Targets::resolve(&config, address)?;
        let (drain, activity) = (Drain::new(), Arc::new(Activity::default()));
        let pool = pool::Pool::new(targets.tls(&config.process)?);
        let ledger = audit::Ledger::start(config.audit_path.clone(), activity.clone());
        for line in targets.describe() {
            tracing::info!("{line}");
        }
        tracing::info!(%address, rules = config.policy.is_active(), "the proxy listens");
        let upstream = config.upstream.clone();
        let sweep = pool.clone();
        let ends = drain.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = sweep.sweep_for_ever() => {}
                () = ends.begun() => {}
            }
        });
        let forwarder = forward::Forwarder::new(config, targets, grants, pool, ledger.clone(), activity.clone());
        let limits = Limits { idle: CLIENT_IDLE };
        let server = Server::serve_within(listener, Arc::new(forwarder), drain.clone(), limits)?;
        Ok(Proxy { server, drain, activity, ledger, upstream })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The primary upstream.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// What passes now and what passed last.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Waits until every record of the requests that ended so far is in the file.
    pub async fn flush(&self) {
        self.ledger.flush().await;
    }

    /// Stops accepting, lets running requests end within `grace`, cuts the rest, and writes the last records.
    pub async fn stop(self, grace: Duration) {
        self.drain.begin(grace);
        self.server.drained().await;
        self.ledger.flush().await;
    }
}

/// The kind of a configuration that cannot be served.
fn misconfigured(message: impl Into<String>) -> Error {
    Error::new(Kind::Config, message)
}

#[cfg(test)]
mod tests;
