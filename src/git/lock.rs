//! One worker at a time in a worktree.

use std::path::Path;

use super::reserved::LOCK_FILE;
use crate::base::lock::{Attempt, FileLock};
use crate::base::{Error, Process, Result};

/// The right to work in a worktree: an operating system lock on `<worktree>/.lazy-lock`, released when dropped or when
/// the process ends, however it ends.
#[derive(Debug)]
pub struct WorktreeLock {
    _lock: FileLock,
}

impl WorktreeLock {
    /// Takes the lock without waiting. `label` says who takes it, e.g. `lazy start`.
    ///
    /// # Errors
    /// [`crate::base::Kind::NotFound`] when the worktree is gone; [`crate::base::Kind::Conflict`] naming the pid and
    /// the label of the process that holds it.
    pub fn take(worktree: &Path, label: &str, process: &Process) -> Result<WorktreeLock> {
        if !worktree.is_dir() {
            return Err(Error::not_found(format!("the worktree {} does not exist", worktree.display())));
        }
        let note = format!("{}\n{label}\n{}\n", std::process::id(), process.now().iso());
        match FileLock::try_take(&worktree.join(LOCK_FILE), &note)? {
            Attempt::Taken(lock) => Ok(WorktreeLock { _lock: lock }),
            Attempt::Held(holder) => Err(held(worktree, &holder)),
        }
    }
}

fn held(worktree: &Path, holder: &str) -> Error {
    let mut lines = holder.lines();
    let who = match (lines.next(), lines.next(), lines.next()) {
        (Some(pid), Some(label), since) => {
            let since = since.map(|at| format!(", since {at}")).unwrap_or_default();
            format!("{label:?} (pid {pid}{since})")
        }
        _ => "another process".to_string(),
    };
    let error = Error::conflict(format!("the worktree {} is in use by {who}", worktree.display()));
    match holder.lines().next() {
        Some(pid) => error.hint(format!("wait for it to end, or look at it: ps -fp {pid}")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Kind, Millis};

    #[test]
    fn the_holder_is_named() {
        let dir = tempfile::tempdir().expect("temp dir");
        let process = Process::fake(["lazy"], &[], dir.path(), Millis(0));
        let first = WorktreeLock::take(dir.path(), "lazy start", &process).expect("free");
        let error = WorktreeLock::take(dir.path(), "lazy chat", &process).expect_err("held");
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.message().contains("lazy start"), "{error}");
        assert!(error.message().contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        WorktreeLock::take(dir.path(), "lazy chat", &process).expect("free again");
    }

    #[test]
    fn a_missing_worktree_is_not_made() {
        let dir = tempfile::tempdir().expect("temp dir");
        let gone = dir.path().join("gone");
        let process = Process::fake(["lazy"], &[], dir.path(), Millis(0));
        assert_eq!(WorktreeLock::take(&gone, "x", &process).expect_err("gone").kind(), Kind::NotFound);
        assert!(!gone.exists());
    }
}
