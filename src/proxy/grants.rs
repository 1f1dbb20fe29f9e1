//! Placeholder credentials: what agents hold instead of the real one, and who each of them stands for.
//!
//! `proxy-tokens.json`: `{version: 1, grants: [{token, role, taskId, label, envKey, createdAt}]}`, mode 0600. One grant for
//! each identity (role, task or label, variable); minting again returns the same placeholder. A lookup that misses reads
//! the file again if it has changed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::base::{Error, Kind, Millis, Result, hash, json};

/// The most builder grants that are kept; the oldest go first.
const BUILDER_CAP: usize = 50;
const PREFIXES: [&str; 4] = ["sk-ant-oat01-lazy-", "sk-ant-api03-lazy-", "key_lazy_", "lazy-placeholder-"];

/// A placeholder credential. Never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placeholder(String);

impl Placeholder {
    fn random(env_key: &str) -> Self {
        let prefix = match env_key {
            "CLAUDE_CODE_OAUTH_TOKEN" | "ANTHROPIC_AUTH_TOKEN" => PREFIXES[0],
            "ANTHROPIC_API_KEY" => PREFIXES[1],
            "CURSOR_API_KEY" => PREFIXES[2],
            _ => PREFIXES[3],
        };
        Placeholder(format!("{prefix}{}", &hash::secret()[..48]))
    }

    /// The value, for the environment of the agent that it is granted to.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether a value has the look of a placeholder. Says nothing about whether it is one.
    pub fn is_like(presented: &str) -> bool {
        PREFIXES.iter().any(|prefix| presented.starts_with(prefix))
    }
}

impl fmt::Debug for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Placeholder(…)")
    }
}

/// What kind of caller a placeholder was granted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallerRole {
    /// The agent of a task.
    Agent,
    /// A builder, pair or chat session.
    Builder,
}

impl CallerRole {
    /// The word used in records and headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            CallerRole::Agent => "agent",
            CallerRole::Builder => "builder",
        }
    }
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The placeholder.
    pub token: Placeholder,
    /// The kind of caller.
    pub role: CallerRole,
    /// The task's ref; `null` for builders.
    pub task_id: Option<String>,
    /// The run or session.
    pub label: String,
    /// The variable that holds the placeholder in the caller's environment.
    pub env_key: String,
    /// RFC 3339.
    pub created_at: String,
    /// The directory that the caller works in, as the daemon knows it; agents' relative paths start there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<PathBuf>,
}

/// Whom a placeholder is minted for.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// The kind of caller.
    pub role: CallerRole,
    /// The task's ref, for agents.
    pub task: Option<&'a str>,
    /// The run or session.
    pub label: &'a str,
    /// The variable that will hold the placeholder: the one the real credential came from.
    pub env_key: &'a str,
    /// The task's worktree, for agents.
    pub worktree: Option<&'a Path>,
}

impl Identity<'_> {
    fn owns(&self, grant: &Grant) -> bool {
        let (mine, its) = match self.role {
            CallerRole::Agent => (self.task.unwrap_or(self.label), grant.task_id.as_deref().unwrap_or(&grant.label)),
            CallerRole::Builder => (self.label, grant.label.as_str()),
        };
        grant.role == self.role && grant.env_key == self.env_key && mine == its
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Registry {
    version: u32,
    grants: Vec<Grant>,
}

#[derive(Debug, Default)]
struct Cache {
    registry: Registry,
    /// Time and size of the file when it was read.
    seen: Option<(SystemTime, u64)>,
}

/// The registry of grants. One process writes it; others may read the file.
#[derive(Debug)]
pub struct Grants {
    path: PathBuf,
    cache: Mutex<Cache>,
}

impl Grants {
    /// Opens the registry; a missing file is an empty one.
    ///
    /// # Errors
    /// [`Kind::Io`] when the file is there and is not a registry.
    pub fn open(path: PathBuf) -> Result<Grants> {
        let grants = Grants { path, cache: Mutex::default() };
        grants.refresh(&mut grants.lock())?;
        Ok(grants)
    }

    /// The placeholder of an identity: the one it has, else a fresh one.
    pub fn mint(&self, identity: Identity<'_>, now: Millis) -> Result<Placeholder> {
        let mut cache = self.lock();
        self.refresh(&mut cache)?;
        if let Some(at) = cache.registry.grants.iter().position(|grant| identity.owns(grant)) {
            let known = &cache.registry.grants[at];
            let token = known.token.clone();
            if known.worktree.as_deref() != identity.worktree {
                let mut grants = cache.registry.grants.clone();
                grants[at].worktree = identity.worktree.map(Path::to_path_buf);
                self.save(&mut cache, grants)?;
            }
            return Ok(token);
        }
        let token = Placeholder::random(identity.env_key);
        let mut grants = cache.registry.grants.clone();
        grants.push(Grant {
            token: token.clone(),
            role: identity.role,
            task_id: identity.task.map(str::to_string),
            label: identity.label.to_string(),
            env_key: identity.env_key.to_string(),
            created_at: now.iso(),
            worktree: identity.worktree.map(Path::to_path_buf),
        });
        let mut surplus =
            grants.iter().filter(|grant| grant.role == CallerRole::Builder).count().saturating_sub(BUILDER_CAP);
        // Grants are kept in the order in which they were minted: the oldest come first, the new one is last.
        grants.retain(|grant| {
            let goes = surplus > 0 && grant.role == CallerRole::Builder;
            surplus -= usize::from(goes);
            !goes
        });
        self.save(&mut cache, grants)?;
        Ok(token)
    }

    /// Revokes every grant of a task; says how many there were.
    pub fn revoke_task(&self, task: &str) -> Result<usize> {
        self.revoke(|grant| grant.role == CallerRole::Agent && grant.task_id.as_deref() == Some(task))
    }

    /// Revokes the grants of a builder session; says how many there were.
    pub fn revoke_builder(&self, label: &str) -> Result<usize> {
        self.revoke(|grant| grant.role == CallerRole::Builder && grant.label == label)
    }

    /// The grant a presented value stands for.
    ///
    /// # Errors
    /// [`Kind::Io`] when the registry changed into something that is none.
    pub fn lookup(&self, presented: &str) -> Result<Option<Grant>> {
        let mut cache = self.lock();
        // Compared by hash: how long it takes does not depend on where two secrets differ.
        let wanted = blake3::hash(presented.as_bytes());
        let find = |registry: &Registry| {
            registry.grants.iter().find(|grant| blake3::hash(grant.token.0.as_bytes()) == wanted).cloned()
        };
        if let Some(grant) = find(&cache.registry) {
            return Ok(Some(grant));
        }
        self.refresh(&mut cache)?;
        Ok(find(&cache.registry))
    }

    fn revoke(&self, goes: impl Fn(&Grant) -> bool) -> Result<usize> {
        let mut cache = self.lock();
        self.refresh(&mut cache)?;
        let stays: Vec<Grant> = cache.registry.grants.iter().filter(|grant| !goes(grant)).cloned().collect();
        let gone = cache.registry.grants.len() - stays.len();
        if gone > 0 {
            self.save(&mut cache, stays)?;
        }
        Ok(gone)
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again if it is not the one that was read last.
    fn refresh(&self, cache: &mut Cache) -> Result<()> {
        let seen = self.stamp();
        if seen == cache.seen && seen.is_some() {
            return Ok(());
        }
        let registry = json::load::<Registry>(&self.path).map_err(|error| {
            let remedy = format!("rm {} && lazy daemon restart", self.path.display());
            Error::new(Kind::Io, "the registry of proxy placeholders cannot be read").caused_by(error).hint(remedy)
        })?;
        cache.registry = registry.unwrap_or_default();
        cache.seen = seen;
        Ok(())
    }

    fn save(&self, cache: &mut Cache, grants: Vec<Grant>) -> Result<()> {
        let registry = Registry { version: 1, grants };
        json::save_private(&self.path, &registry)?;
        cache.registry = registry;
        cache.seen = self.stamp();
        Ok(())
    }

    fn stamp(&self) -> Option<(SystemTime, u64)> {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn agent<'a>(task: &'a str, env_key: &'a str) -> Identity<'a> {
        Identity { role: CallerRole::Agent, task: Some(task), label: "run", env_key, worktree: None }
    }

    fn builder(label: &str) -> Identity<'_> {
        Identity { role: CallerRole::Builder, task: None, label, env_key: "ANTHROPIC_API_KEY", worktree: None }
    }

    #[test]
    fn one_identity_has_one_placeholder() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("proxy-tokens.json");
        let grants = Grants::open(path.clone()).expect("opens");
        let first = grants.mint(agent("fix", "ANTHROPIC_API_KEY"), Millis(0)).expect("mints");
        assert_eq!(grants.mint(agent("fix", "ANTHROPIC_API_KEY"), Millis(9)).expect("again"), first);
        let oauth = grants.mint(agent("fix", "CLAUDE_CODE_OAUTH_TOKEN"), Millis(0)).expect("mints");
        assert_ne!(oauth, first);
        assert!(oauth.expose().starts_with("sk-ant-oat01-lazy-"));
        let hex = first.expose().strip_prefix("sk-ant-api03-lazy-").expect("prefix");
        assert!(hex.len() == 48 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(std::fs::metadata(&path).expect("file").permissions().mode() & 0o777, 0o600);
        let grant = Grants::open(path).expect("opens").lookup(first.expose()).expect("reads").expect("known");
        assert_eq!((grant.role, grant.task_id.as_deref()), (CallerRole::Agent, Some("fix")));
        assert!(!format!("{grant:?}").contains(hex));
    }

    #[test]
    fn revoking_a_task_leaves_the_others() {
        let dir = tempfile::tempdir().expect("temp dir");
        let grants = Grants::open(dir.path().join("p.json")).expect("opens");
        let gone = grants.mint(agent("a", "X"), Millis(0)).expect("mints");
        let stays = grants.mint(agent("b", "X"), Millis(0)).expect("mints");
        let session = grants.mint(builder("a"), Millis(0)).expect("mints");
        assert_eq!(grants.revoke_task("a").expect("revokes"), 1);
        assert_eq!(grants.lookup(gone.expose()).expect("reads"), None);
        assert!(grants.lookup(stays.expose()).expect("reads").is_some());
        assert_eq!(grants.revoke_builder("a").expect("revokes"), 1);
        assert_eq!(grants.lookup(session.expose()).expect("reads"), None);
    }

    #[test]
    fn another_process_may_have_written() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("p.json");
        let here = Grants::open(path.clone()).expect("opens");
        let there = Grants::open(path.clone()).expect("opens");
        let token = there.mint(builder("x"), Millis(0)).expect("mints");
        assert!(here.lookup(token.expose()).expect("reads").is_some());
        std::fs::write(&path, "{torn").expect("writes");
        let error = here.lookup("sk-ant-api03-lazy-0").expect_err("torn");
        assert!(error.hints()[0].contains("lazy daemon restart"), "{error:?}");
    }

    #[test]
    fn the_newest_builders_stay() {
        let dir = tempfile::tempdir().expect("temp dir");
        let grants = Grants::open(dir.path().join("p.json")).expect("opens");
        let task = grants.mint(agent("t", "X"), Millis(0)).expect("mints");
        let first = grants.mint(builder("b0"), Millis(0)).expect("mints");
        for n in 1..=BUILDER_CAP {
            grants.mint(builder(&format!("b{n}")), Millis(0)).expect("mints");
        }
        assert_eq!(grants.lookup(first.expose()).expect("reads"), None);
        assert!(grants.lookup(task.expose()).expect("reads").is_some());
        assert_eq!(grants.lock().registry.grants.len(), BUILDER_CAP + 1);
    }
}
