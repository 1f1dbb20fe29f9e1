//! Locks that a killed git left in a task's worktree.
//!
//! Git takes a lock by creating a file and leaves it when it is killed; every later command then fails. A lock names no
//! holder. In a task's worktree only lazy and its agent write, so there, and there alone, a lock that is some time old
//! while no git works in the worktree is removed, after what a call of lazy's had done under it was put back. Where other processes cannot be seen, only one that is very old is.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Worktree;
use super::checkout::Head;
use super::private::adopt;
use crate::base::{Result, files};
use crate::proc;

/// A lock that git has just taken is not looked at.
const YOUNG: Duration = Duration::from_secs(10);

/// How long lazy may hold a lock before and after the git it holds it for runs.
const MOMENT: Duration = Duration::from_millis(1500);

/// Older than any git call of lazy's may take, twice.
const ANCIENT: Duration = Duration::from_secs(20 * 60);

impl Worktree {
    /// Removes the locks in the way of a commit or a merge here that nobody holds any more, and says so in the log.
    /// Does nothing in the main checkout, which is a person's, and where the shared git directory is read-only:
    /// processes outside of a container cannot be seen from inside.
    pub(super) fn clear_stale_locks(&self) -> Result<()> {
        self.clear_locks_older_than(YOUNG)
    }

    /// The same at the end of a run, when everything that it had started has ended: what no git holds now was its, also
    /// when it is young.
    pub async fn clear_locks_of_ended_run(&self) -> Result<()> {
        if self.locks().iter().any(|lock| lock.symlink_metadata().is_ok()) {
            // a lock of lazy's own is held without a git for moments only
            tokio::time::sleep(MOMENT).await;
        }
        self.clear_locks_older_than(MOMENT)
    }

    fn clear_locks_older_than(&self, young: Duration) -> Result<()> {
        let found: Vec<PathBuf> = self.locks().into_iter().filter(|path| path.symlink_metadata().is_ok()).collect();
        if found.is_empty() || self.path() == self.repo().root() || !self.common_dir_writable() {
            return Ok(());
        }
        for lock in found {
            let Some(age) = age(&lock, self) else { continue };
            let orphaned = match proc::working_in("git", &self.places(&lock)) {
                Some(working) => working.is_empty() && age >= young,
                None => age > ANCIENT,
            };
            if orphaned {
                match lock.ends_with("index.lock") {
                    true => adopt(self.checkout(), &lock)?,
                    false => files::remove_file(&lock)?,
                }
                tracing::warn!(lock = %lock.display(), age_s = age.as_secs(), "removed a lock that a killed git had left");
            }
        }
        Ok(())
    }

    /// The files whose presence stops a commit or a merge here.
    fn locks(&self) -> Vec<PathBuf> {
        let checkout = self.checkout();
        let mut locks: Vec<PathBuf> = ["index.lock", "HEAD.lock", "MERGE_HEAD.lock", "ORIG_HEAD.lock"]
            .iter()
            .map(|name| checkout.git_dir.join(name))
            .collect();
        if let Ok(Head::Branch(branch)) = checkout.head()
            && branch.contains('/')
            && !branch.split('/').any(|part| part == "..")
        {
            locks.push(checkout.common_dir.join(format!("refs/heads/{branch}.lock")));
        }
        locks
    }

    /// Where a git that holds one of them would be. Branches can be moved from any checkout.
    fn places(&self, lock: &Path) -> Vec<&Path> {
        let mut places = vec![self.path(), self.checkout().git_dir.as_path()];
        if !lock.starts_with(&self.checkout().git_dir) {
            places.extend([self.repo().root(), self.repo().common_dir()]);
        }
        places
    }
}

/// How long ago the lock was taken. `None` for what is no file.
fn age(lock: &Path, worktree: &Worktree) -> Option<Duration> {
    let meta = fs::symlink_metadata(lock).ok().filter(|meta| meta.is_file())?;
    let taken = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(u64::try_from(worktree.repo().process().now().0).ok()?);
    now.checked_sub(taken)
}
