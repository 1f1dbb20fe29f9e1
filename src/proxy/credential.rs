//! The real credential: asked for on each request, shown to no one but the upstream.

use std::fmt;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::base::Process;

/// The environment variable a credential came from; it decides the wire form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialVar {
    /// `CLAUDE_CODE_OAUTH_TOKEN`: `authorization: Bearer …`.
    OauthToken,
    /// `ANTHROPIC_API_KEY`: `x-api-key: …`.
    ApiKey,
}

impl CredentialVar {
    /// All of them, the preferred one first.
    pub const ALL: [CredentialVar; 2] = [CredentialVar::OauthToken, CredentialVar::ApiKey];

    /// The variable's name.
    pub const fn name(self) -> &'static str {
        match self {
            CredentialVar::OauthToken => "CLAUDE_CODE_OAUTH_TOKEN",
            CredentialVar::ApiKey => "ANTHROPIC_API_KEY",
        }
    }
}

/// A real credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    var: CredentialVar,
    secret: String,
}

impl Credential {
    /// The credential that `var` holds.
    pub fn new(var: CredentialVar, secret: impl Into<String>) -> Self {
        Credential { var, secret: secret.into() }
    }

    /// Where it came from.
    pub fn var(&self) -> CredentialVar {
        self.var
    }

    /// The secret, for a scrubber.
    pub(super) fn expose(&self) -> &str {
        &self.secret
    }

    /// Sets the header that carries it; `None` when its bytes cannot stand in a header.
    pub(super) fn apply(&self, headers: &mut HeaderMap) -> Option<()> {
        let (name, text) = match self.var {
            CredentialVar::OauthToken => (header::AUTHORIZATION, format!("Bearer {}", self.secret)),
            CredentialVar::ApiKey => (HeaderName::from_static("x-api-key"), self.secret.clone()),
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Some(())
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}, …)", self.var.name())
    }
}

/// Says what the real credential is right now.
pub trait CredentialSource: Send + Sync + 'static {
    /// The credential, or `None` when there is none at the moment.
    fn credential(&self) -> Option<Credential>;
}

/// The credential of the daemon's own environment.
#[derive(Debug, Clone)]
pub struct EnvCredentials(pub Process);

impl CredentialSource for EnvCredentials {
    fn credential(&self) -> Option<Credential> {
        CredentialVar::ALL.into_iter().find_map(|var| Some(Credential::new(var, self.0.var(var.name())?.trim())))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::Millis;

    #[test]
    fn the_form_follows_the_variable() {
        let process = Process::fake(
            ["lazy"],
            &[("CLAUDE_CODE_OAUTH_TOKEN", " "), ("ANTHROPIC_API_KEY", "key-real")],
            Path::new("/"),
            Millis(0),
        );
        let credential = EnvCredentials(process).credential().expect("a key");
        assert_eq!(format!("{credential:?}"), "Credential(ANTHROPIC_API_KEY, …)");
        let mut headers = HeaderMap::new();
        credential.apply(&mut headers).expect("fits");
        assert_eq!(headers["x-api-key"], "key-real");
        assert!(!format!("{headers:?}").contains("key-real"));
        Credential::new(CredentialVar::OauthToken, "tok").apply(&mut headers).expect("fits");
        assert_eq!(headers["authorization"], "Bearer tok");
        assert!(Credential::new(CredentialVar::ApiKey, "a\nb").apply(&mut headers).is_none());
    }
}
