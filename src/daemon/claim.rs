//! The daemon's claim on its project: the lock, and the small files that say who holds it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::base::files::{self, Mode};
use crate::base::lock::{Attempt, FileLock};
use crate::base::{Error, Result};
use crate::rpc::StateDir;
use crate::rpc::tokens::{Token, load_or_create_shared};

/// A prober takes the lock for a moment: this outlasts it.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// Held while the daemon lives; dropping it removes the pid file and then lets the lock go.
#[derive(Debug)]
pub(super) struct Claim {
    state: StateDir,
    token: Token,
    /// One lock; a second one when the file was deleted under us and made again.
    locks: Mutex<Vec<(FileLock, u64)>>,
}

impl Claim {
    /// Takes the lock and writes pid, root and token.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] naming the daemon that holds it.
    pub async fn take(state: &StateDir) -> Result<Claim> {
        let lock = lock(state).await?;
        let inode = inode(&state.lock_path());
        // From here on dropping the claim cleans up.
        let mut claim = Claim { state: state.clone(), token: Token::read(""), locks: Mutex::new(vec![(lock, inode)]) };
        claim.token = load_or_create_shared(&state.token_path())?;
        claim.write_pid()?;
        files::write_atomic(&state.root_path(), root_text(state).as_bytes(), Mode::Shared)?;
        Ok(claim)
    }

    /// The shared token.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Puts back what was deleted from the state directory: without it no command finds this daemon.
    pub fn repair(&self, port: u16) {
        let missing = |path: &Path| !path.exists();
        let mended = (|| {
            if missing(&self.state.pid_path()) {
                tracing::warn!("the pid file was gone; it is back");
                self.write_pid()?;
            }
            if missing(&self.state.token_path()) {
                tracing::warn!("the token file was gone; it is back");
                files::write_atomic(&self.state.token_path(), self.token.expose().as_bytes(), Mode::Private)?;
            }
            if missing(&self.state.port_path()) {
                write_port(&self.state, port)?;
            }
            if missing(&self.state.root_path()) {
                files::write_atomic(&self.state.root_path(), root_text(&self.state).as_bytes(), Mode::Shared)?;
            }
            self.hold_the_lock_that_is_there()
        })();
        if let Err(error) = mended {
            tracing::warn!(%error, "the state directory could not be repaired");
        }
    }

    fn write_pid(&self) -> Result<()> {
        files::write_atomic(&self.state.pid_path(), own_pid().as_bytes(), Mode::Shared)
    }

    /// A deleted lock file no longer keeps anyone out: the one that others would see is taken as well.
    fn hold_the_lock_that_is_there(&self) -> Result<()> {
        let path = self.state.lock_path();
        let mut locks = self.locks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let there = inode(&path);
        if there != 0 && locks.iter().any(|(_, held)| *held == there) {
            return Ok(());
        }
        match FileLock::try_take(&path, &own_pid())? {
            Attempt::Taken(lock) => {
                tracing::warn!("the lock file was gone; it is back");
                locks.push((lock, inode(&path)));
            }
            Attempt::Held(holder) => {
                tracing::error!(%holder, "the lock file was deleted, and another process holds the new one");
            }
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.state.pid() == Some(std::process::id()) {
            files::remove_file(&self.state.pid_path()).ok();
        }
    }
}

/// Writes the port down for clients and for the next start.
pub(super) fn write_port(state: &StateDir, port: u16) -> Result<()> {
    files::write_atomic(&state.port_path(), port.to_string().as_bytes(), Mode::Private)
}

/// Leaves the reason of a refused start for whoever asked for it.
pub(super) fn write_startup_error(state: &StateDir, error: &Error) {
    let mut text = error.full_message();
    for hint in error.hints() {
        text.push_str("\n  ");
        text.push_str(hint);
    }
    text.push('\n');
    if let Err(error) = files::write_atomic(&state.startup_error_path(), text.as_bytes(), Mode::Shared) {
        tracing::warn!(%error, "the reason could not be written down");
    }
}

async fn lock(state: &StateDir) -> Result<FileLock> {
    let mut holder = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        match FileLock::try_take(&state.lock_path(), &own_pid())? {
            Attempt::Taken(lock) => return Ok(lock),
            Attempt::Held(by) => holder = by,
        }
    }
    let who = if holder.is_empty() { String::new() } else { format!(" (pid {holder})") };
    Err(Error::conflict(format!("a daemon of {} is already running{who}", state.project_root().display()))
        .hint("lazy daemon status")
        .hint("lazy daemon stop"))
}

fn own_pid() -> String {
    std::process::id().to_string()
}

fn root_text(state: &StateDir) -> std::borrow::Cow<'_, str> {
    state.project_root().to_string_lossy()
}

fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.ino())
}

/// Which project a store belongs to, `<store>/project.json`.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Owner {
    project_root: PathBuf,
}

/// Refuses a store that another project uses: two repositories of one name would share their tasks. A store whose
/// project is gone (moved, deleted) is taken over.
pub(super) fn require_own_store(store: &Path, root: &Path) -> Result<()> {
    let path = store.join("project.json");
    let known = crate::base::json::load::<Owner>(&path)?;
    match known {
        Some(owner) if owner.project_root == root => return Ok(()),
        Some(owner) if owner.project_root.exists() => {
            let own = crate::base::hash::slug_hash(&root.to_string_lossy());
            return Err(Error::conflict(format!(
                "the task store {} belongs to the project {}",
                store.display(),
                owner.project_root.display()
            ))
            .hint(format!(
                "give this one its own, in lazy.toml: [storage] external_path = \"{}-{own}\"",
                store.display()
            )));
        }
        _ => {}
    }
    crate::base::json::save(&path, &Owner { project_root: root.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Kind, Millis, Process};

    fn state(dir: &Path) -> StateDir {
        let process = Process::fake(["lazy"], &[("HOME", dir.to_str().expect("utf-8"))], dir, Millis(0));
        StateDir::for_project(&process, &dir.join("app")).expect("a home")
    }

    #[tokio::test]
    async fn the_second_claim_is_refused_and_harms_nothing() {
        let dir = tempfile::tempdir().expect("temp dir");
        let state = state(dir.path());
        let first = Claim::take(&state).await.expect("takes");
        let error = Claim::take(&state).await.expect_err("taken");
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.message().contains(&own_pid()), "{error}");
        assert!(error.hints().contains(&"lazy daemon stop".to_string()));
        assert_eq!(state.pid(), Some(std::process::id()));
        assert!(state.is_daemon_running());
        let token = first.token().clone();
        drop(first);
        assert!(!state.is_daemon_running());
        assert_eq!(state.pid(), None);
        assert!(*Claim::take(&state).await.expect("free again").token() == token, "the token outlives a restart");
    }

    #[tokio::test]
    async fn deleted_files_come_back() {
        let dir = tempfile::tempdir().expect("temp dir");
        let state = state(dir.path());
        let claim = Claim::take(&state).await.expect("takes");
        write_port(&state, 4711).expect("writes");
        let token = std::fs::read(state.token_path()).expect("a token");
        let files = [state.pid_path(), state.token_path(), state.port_path(), state.root_path(), state.lock_path()];
        files.iter().for_each(|path| std::fs::remove_file(path).expect("was there"));
        assert!(!state.is_daemon_running(), "nobody would see the old lock");
        claim.repair(4711);
        assert!(state.is_daemon_running());
        assert_eq!((state.pid(), state.port()), (Some(std::process::id()), Some(4711)));
        assert_eq!(std::fs::read(state.token_path()).expect("a token"), token);
        drop(claim);
        assert!(!state.is_daemon_running());
    }

    #[tokio::test]
    async fn a_foreign_pid_file_is_left_alone() {
        let dir = tempfile::tempdir().expect("temp dir");
        let state = state(dir.path());
        let claim = Claim::take(&state).await.expect("takes");
        std::fs::write(state.pid_path(), "1").expect("writes");
        drop(claim);
        assert_eq!(state.pid(), Some(1));
    }

    #[tokio::test]
    async fn an_error_left_behind_carries_its_hints() {
        let dir = tempfile::tempdir().expect("temp dir");
        let state = state(dir.path());
        write_startup_error(&state, &Error::conflict("no").hint("lazy doctor"));
        assert_eq!(std::fs::read_to_string(state.startup_error_path()).expect("reads"), "no\n  lazy doctor\n");
    }
}
