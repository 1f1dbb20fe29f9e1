//! Identity tokens: who is calling is decided by the token presented, never by what the caller says.

use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::base::{Error, Kind, Process, Result, files, hash, json};
use crate::model::TaskId;

/// A bearer token: 64 hex digits. Never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A fresh random one.
    pub fn random() -> Token {
        Token(hash::secret())
    }

    /// A presented or stored one.
    pub fn read(text: impl Into<String>) -> Token {
        Token(text.into())
    }

    /// The secret itself, for a header or a file.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in time that does not depend on where the two differ.
    pub fn matches(&self, presented: &str) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(presented.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What kind of identity a token is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdentityKind {
    /// The agent of one task.
    Task,
    /// One builder session.
    Builder,
    /// A control plane or script with every right.
    Control,
    /// A person.
    User,
}

/// One record of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The secret.
    pub token: Token,
    /// What it is bound to.
    pub kind: IdentityKind,
    /// The task, for task tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The person's address, for user tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The person's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The run, builder or control plane.
    pub label: String,
    /// RFC 3339.
    pub created_at: String,
    /// The process that owns a builder session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_pid: Option<u32>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Registry {
    version: u32,
    tokens: Vec<Identity>,
}

/// The registry file `mcp-tokens.json`, 0600, cached and re-read only when a token is not found.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    cache: Mutex<Registry>,
}

impl Tokens {
    /// Opens the registry; a missing file is an empty one.
    ///
    /// # Errors
    /// A file that is not a registry: deleting it makes every running session ask for a new token.
    pub fn open(path: PathBuf) -> Result<Tokens> {
        let cache = Mutex::new(load(&path)?);
        Ok(Tokens { path, cache })
    }

    /// The token of a task's agent: the one it has, else a fresh one.
    pub fn mint_task(&self, process: &Process, task: TaskId, label: &str) -> Result<Token> {
        let mut registry = self.lock();
        let known =
            registry.tokens.iter().find(|entry| entry.kind == IdentityKind::Task && entry.task_id == Some(task));
        if let Some(entry) = known {
            return Ok(entry.token.clone());
        }
        let token = Token::random();
        registry.version = 1;
        registry.tokens.push(Identity {
            token: token.clone(),
            kind: IdentityKind::Task,
            task_id: Some(task),
            email: None,
            name: None,
            label: label.to_string(),
            created_at: process.now().iso(),
            owner_pid: None,
        });
        json::save_private(&self.path, &*registry)?;
        Ok(token)
    }

    /// The identity a presented token proves.
    pub fn identify(&self, presented: &str) -> Result<Option<Identity>> {
        let mut registry = self.lock();
        if let Some(found) = find(&registry, presented) {
            return Ok(Some(found));
        }
        *registry = load(&self.path)?;
        Ok(find(&registry, presented))
    }

    /// Ends a task's token; its agent is refused from now on.
    pub fn revoke_task(&self, task: TaskId) -> Result<()> {
        let mut registry = self.lock();
        let before = registry.tokens.len();
        registry.tokens.retain(|entry| entry.task_id != Some(task));
        if registry.tokens.len() == before { Ok(()) } else { json::save_private(&self.path, &*registry) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn find(registry: &Registry, presented: &str) -> Option<Identity> {
    registry.tokens.iter().find(|entry| entry.token.matches(presented)).cloned()
}

fn load(path: &std::path::Path) -> Result<Registry> {
    json::load(path)
        .map(|found| found.unwrap_or(Registry { version: 1, tokens: Vec::new() }))
        .map_err(|error| error.hint(format!("delete it and restart: rm '{}' && lazy daemon restart", path.display())))
}

/// The daemon's shared token: made once, reused across restarts.
pub fn load_or_create_shared(path: &std::path::Path) -> Result<Token> {
    if let Some(text) = files::read_line_optional(path) {
        return Ok(Token::read(text));
    }
    let token = Token::random();
    files::write_atomic(path, token.expose().as_bytes(), files::Mode::Private)?;
    Ok(token)
}

/// The shared token of a daemon that has started before.
pub fn load_shared(path: &std::path::Path) -> Result<Token> {
    files::read_line_optional(path).map(Token::read).ok_or_else(|| {
        Error::new(Kind::Unavailable, "the daemon of this project has never started").hint("lazy daemon start")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;

    #[test]
    fn one_token_for_each_task_until_it_is_revoked() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("mcp-tokens.json");
        let process = Process::fake(["lazy"], &[], dir.path(), Millis(0));
        let tokens = Tokens::open(path.clone()).expect("opens");
        let task = TaskId::random();
        let first = tokens.mint_task(&process, task, "lazy-a").expect("mints");
        assert!(first == tokens.mint_task(&process, task, "lazy-a").expect("mints again"));
        let again = Tokens::open(path).expect("opens again");
        assert_eq!(again.identify(first.expose()).expect("reads").and_then(|found| found.task_id), Some(task));
        tokens.revoke_task(task).expect("revokes");
        assert!(tokens.identify(first.expose()).expect("reads").is_none());
        assert!(!format!("{first:?}").contains(first.expose()));
    }
}
