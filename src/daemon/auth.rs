//! Who calls: pure decisions over the presented token and what the request claims.
//!
//! | token | `/rpc` | `/daemon/shutdown` | `/mcp/<its task>` | `/mcp/<other>` | `/mcp/_` |
//! | --- | --- | --- | --- | --- | --- |
//! | none, unknown, revoked | 401 | 401 | 401 | 401 | 401 |
//! | shared | control | yes | 401 | 401 | 401 |
//! | control | control | yes | 401 | 401 | 401 |
//! | user | that person | 403 | 401 | 401 | 401 |
//! | task | 401 | 401 | that task | 403 | 403 |
//! | builder | 401 | 401 | – | 403 | builder |
//!
//! A mismatch is refused, never corrected: a caller that acts on one task and believes to act on another is worse off
//! than one with an error.

use hyper::header::{self, HeaderMap};
use serde_json::{Map, Value};

use super::dispatch::Named;
use crate::base::{Error, Kind, Result};
use crate::model::{Actor, By, TaskId};
use crate::ops::{Caller, CallerKind};
use crate::rpc::tokens::{Identity, IdentityKind, Token, Tokens};

/// The longest task segment.
const SEGMENT_LIMIT: usize = 80;

/// What a presented token turned out to be.
#[derive(Debug)]
pub(super) enum Presented {
    /// No usable `Authorization` header.
    Nothing,
    /// A token that is not, or no longer, known.
    Unknown,
    /// The daemon's shared token.
    Shared,
    /// A minted one.
    Minted(Box<Identity>),
}

/// The token of `Authorization: Bearer <token>`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Looks the presented token up.
///
/// # Errors
/// [`Kind::Io`] when the registry cannot be read.
pub(super) fn present(headers: &HeaderMap, shared: &Token, tokens: &Tokens) -> Result<Presented> {
    let Some(token) = bearer(headers) else { return Ok(Presented::Nothing) };
    if shared.matches(token) {
        return Ok(Presented::Shared);
    }
    Ok(tokens.identify(token)?.map_or(Presented::Unknown, |identity| Presented::Minted(Box::new(identity))))
}

/// Who may call `/rpc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Principal {
    /// The machine's owner or a control plane: may say in whose name.
    Control,
    /// A person, and nobody else.
    Person {
        /// Address.
        email: Option<String>,
        /// Name.
        name: Option<String>,
    },
}

/// Who calls `/rpc`.
///
/// # Errors
/// [`Kind::Unauthorized`].
pub(super) fn principal(presented: Presented) -> Result<Principal> {
    match presented {
        Presented::Shared => Ok(Principal::Control),
        Presented::Minted(identity) => match identity.kind {
            IdentityKind::Control => Ok(Principal::Control),
            IdentityKind::User => Ok(Principal::Person { email: identity.email, name: identity.name }),
            IdentityKind::Task | IdentityKind::Builder => {
                Err(unauthorized("this token belongs to an agent session: it is good for /mcp and not for /rpc"))
            }
        },
        Presented::Nothing => Err(unauthorized("the request carries no token").hint("Authorization: Bearer <token>")),
        Presented::Unknown => Err(unauthorized("the token is not one of this daemon's")),
    }
}

/// Only control may end the daemon.
pub(super) fn require_control(presented: Presented, doing: &str) -> Result<()> {
    match principal(presented)? {
        Principal::Control => Ok(()),
        Principal::Person { .. } => {
            Err(Error::new(Kind::Forbidden, format!("a person's token may not {doing}: that takes a control token")))
        }
    }
}

/// Takes `actor`, `actor_email` and `actor_name` out of the parameters and decides in whose name the call is made.
///
/// # Errors
/// [`Kind::Invalid`] for an actor that is none; [`Kind::Forbidden`] when a person names someone else.
pub(super) fn take_caller(principal: Principal, params: &mut Map<String, Value>) -> Result<Caller> {
    let actor = match take_text(params, "actor")? {
        None => None,
        Some(text) => Some(Actor::parse(&text).ok_or_else(|| {
            let all: Vec<&str> = Actor::ALL.iter().map(|actor| actor.as_str()).collect();
            Error::invalid(format!("{text:?} is not an actor; actors are: {}", all.join(", ")))
        })?),
    };
    let actor_email = take_text(params, "actor_email")?;
    let actor_name = take_text(params, "actor_name")?;
    match principal {
        Principal::Control => Ok(Caller {
            by: By { actor: actor.unwrap_or_default(), actor_email, actor_name },
            kind: CallerKind::Control,
        }),
        Principal::Person { email, name } => {
            let foreign = |claimed: &Option<String>, own: &Option<String>| claimed.is_some() && claimed != own;
            if actor.is_some_and(|actor| actor != Actor::Human)
                || foreign(&actor_email, &email)
                || foreign(&actor_name, &name)
            {
                let own = email.or(name).unwrap_or_else(|| "a person".into());
                return Err(Error::new(
                    Kind::Forbidden,
                    format!("this token is {own}'s and cannot act in the name of another"),
                ));
            }
            let by = By { actor: Actor::Human, actor_email: email, actor_name: name };
            Ok(Caller { by, kind: CallerKind::User })
        }
    }
}

fn take_text(params: &mut Map<String, Value>, key: &str) -> Result<Option<String>> {
    match params.shift_remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Error::invalid(format!("{key} must be a string"))),
    }
}

/// Whom an agent session's token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// The agent of a task.
    Task(TaskId),
    /// A builder.
    Builder,
}

/// Who calls `/mcp`.
///
/// # Errors
/// [`Kind::Unauthorized`].
pub(super) fn session(presented: Presented) -> Result<Session> {
    match presented {
        Presented::Nothing => Err(unauthorized("the request carries no token").hint("Authorization: Bearer <token>")),
        Presented::Unknown => {
            Err(unauthorized("this session's token is not known any more: the session has ended, or never was"))
        }
        Presented::Shared => Err(unauthorized("the daemon's shared token is good for /rpc and not for /mcp")),
        Presented::Minted(identity) => match (identity.kind, identity.task_id) {
            (IdentityKind::Task, Some(task)) => Ok(Session::Task(task)),
            (IdentityKind::Builder, _) => Ok(Session::Builder),
            (IdentityKind::Task, None) => Err(unauthorized("this token is bound to no task")),
            (IdentityKind::Control | IdentityKind::User, _) => {
                Err(unauthorized("this token is good for /rpc and not for /mcp"))
            }
        },
    }
}

/// What the first path segment of `/mcp` claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// `_`
    Builder,
    /// A name of a task.
    Task(String),
}

/// Reads that segment.
///
/// # Errors
/// [`Kind::Invalid`] for what cannot name a task, above all a token that was put into the path. The message never
/// repeats the segment.
pub(super) fn claim(segment: &str) -> Result<Claim> {
    if segment == "_" {
        return Ok(Claim::Builder);
    }
    if looks_like_token(segment) {
        return Err(Error::invalid(
            "a token stands in the path where the task belongs; a token goes into the Authorization header",
        )
        .hint("POST /mcp/<task>/<tool>"));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if segment.len() > SEGMENT_LIMIT
        || !segment.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !segment.chars().all(legal)
    {
        return Err(Error::invalid("the path does not name a task: it takes an id, a code, or _ for the builder")
            .hint("POST /mcp/<task>/<tool>"));
    }
    Ok(Claim::Task(segment.to_string()))
}

/// Whether a text could be one of the secrets that pass through the daemon.
pub(super) fn looks_like_token(text: &str) -> bool {
    let hex_run = text.split(|c: char| !c.is_ascii_hexdigit()).any(|run| run.len() >= 40);
    hex_run || ["sk-ant-", "key_lazy_", "lazy-placeholder-"].iter().any(|prefix| text.contains(prefix))
}

/// Whether the session may make this claim; `own` are the names of its task, `None` when that is gone.
///
/// # Errors
/// [`Kind::Forbidden`] naming both; [`Kind::NotFound`] when the session's own task is gone.
pub(super) fn authorize(session: Session, claim: &Claim, own: Option<&Named>) -> Result<Caller> {
    let forbidden = |message: String| Err(Error::new(Kind::Forbidden, message));
    match (session, claim) {
        (Session::Builder, Claim::Builder) => Ok(Caller { by: Actor::Builder.into(), kind: CallerKind::Builder }),
        (Session::Builder, Claim::Task(claimed)) => {
            forbidden(format!("a builder's token cannot act as task {claimed}: its calls go to /mcp/_"))
        }
        (Session::Task(id), Claim::Builder) => {
            let name = own.map_or_else(|| id.short(), Named::shown);
            forbidden(format!("the token of task {name} cannot act as the builder (_)"))
        }
        (Session::Task(id), Claim::Task(claimed)) => match own {
            Some(named) if named.is(claimed) => Ok(Caller::agent(id)),
            Some(named) => forbidden(format!("the token of task {} cannot act as task {claimed}", named.shown())),
            None if claimed.eq_ignore_ascii_case(&id.to_string()) || *claimed == id.short() => {
                Err(Error::not_found(format!("task {claimed} does not exist any more")))
            }
            None => forbidden(format!("the token of task {} cannot act as task {claimed}", id.short())),
        },
    }
}

fn unauthorized(message: impl Into<String>) -> Error {
    Error::new(Kind::Unauthorized, message)
}

#[cfg(test)]
mod tests;
