//! Who is calling, by what it presents.

use hyper::header::{self, HeaderMap, HeaderName};

use super::grants::{Grant, Grants, Placeholder};
use crate::base::Result;

/// Every header that may carry a credential.
pub(super) const CREDENTIAL_HEADERS: [HeaderName; 4] = [
    HeaderName::from_static("x-api-key"),
    header::AUTHORIZATION,
    HeaderName::from_static("x-cursor-api-key"),
    HeaderName::from_static("api-key"),
];
const ROLE: &str = "x-lazy-role";
const TASK: &str = "x-lazy-task-id";

/// What the credentials of a request say.
#[derive(Debug)]
pub(super) enum Caller {
    /// A placeholder with a grant.
    Granted(Grant),
    /// A placeholder that is unknown or revoked.
    Refused,
    /// No credential, or one of its own; role and task are what it claims.
    Foreign {
        /// The claimed role.
        role: Option<String>,
        /// The claimed task.
        task: Option<String>,
    },
}

/// Tells who is calling.
pub(super) fn identify(headers: &HeaderMap, grants: &Grants) -> Result<Caller> {
    let mut placeholder_seen = false;
    for value in CREDENTIAL_HEADERS.iter().flat_map(|name| headers.get_all(name)) {
        let Ok(value) = value.to_str() else { continue };
        for candidate in bearer(value).into_iter().chain([value]) {
            if let Some(grant) = grants.lookup(candidate)? {
                return Ok(Caller::Granted(grant));
            }
            placeholder_seen |= Placeholder::is_like(candidate);
        }
    }
    if placeholder_seen {
        return Ok(Caller::Refused);
    }
    let claim = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_string);
    Ok(Caller::Foreign { role: claim(ROLE), task: claim(TASK) })
}

/// The token of `Bearer <token>`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use crate::proxy::grants::{CallerRole, Identity};

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("value"))).collect()
    }

    #[test]
    fn the_grant_decides_and_headers_only_without_one() {
        let dir = tempfile::tempdir().expect("temp dir");
        let grants = Grants::open(dir.path().join("p.json")).expect("opens");
        let identity = Identity {
            role: CallerRole::Agent,
            task: Some("t"),
            label: "r",
            env_key: "ANTHROPIC_API_KEY",
            worktree: None,
        };
        let token = grants.mint(identity, Millis(0)).expect("mints");
        let bearer = format!("bearer {}", token.expose());
        for pair in [("x-api-key", token.expose()), ("authorization", &bearer), ("api-key", token.expose())] {
            let caller = identify(&headers(&[pair, ("x-lazy-role", "builder")]), &grants).expect("reads");
            assert!(matches!(caller, Caller::Granted(grant) if grant.role == CallerRole::Agent), "{pair:?}");
        }
        let caller = identify(&headers(&[("x-api-key", "sk-ant-api03-lazy-beef")]), &grants).expect("reads");
        assert!(matches!(caller, Caller::Refused));
        let caller = identify(&headers(&[("x-api-key", "sk-ant-real"), ("x-lazy-task-id", "t9")]), &grants);
        assert!(matches!(caller, Ok(Caller::Foreign { role: None, task: Some(t) }) if t == "t9"));
        assert!(matches!(identify(&HeaderMap::new(), &grants), Ok(Caller::Foreign { role: None, task: None })));
    }
}
