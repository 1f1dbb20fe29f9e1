//! lazy's own files inside a worktree: never committed, never counted as a change.

use std::path::{Component, Path};

use crate::base::files::{self, Mode};
use crate::base::{Error, Result};

/// The agent's own directory in its worktree.
pub const SANDBOX_DIR: &str = ".lazy-task-sandbox";
/// The file that [`super::WorktreeLock`] stands on.
pub const LOCK_FILE: &str = ".lazy-lock";
/// Where a rolled back merge is saved, inside the worktree.
pub const RECOVERY_DIR: &str = ".lazy/recovery";

const EXCLUDES: [&str; 3] = ["/.lazy-task-sandbox/", "/.lazy-lock", "/.lazy/recovery/"];

/// Whether a path from the root of a worktree is one of lazy's own.
pub(super) fn is_reserved(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    [SANDBOX_DIR, LOCK_FILE, RECOVERY_DIR]
        .iter()
        .any(|own| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Adds the missing lines to `<common>/info/exclude`, which git reads for every worktree.
pub(super) fn write_excludes(common_dir: &Path) -> Result<()> {
    let path = common_dir.join("info/exclude");
    let mut bytes = files::read_optional(&path)?.unwrap_or_default();
    let missing: Vec<&str> = EXCLUDES
        .into_iter()
        .filter(|line| !bytes.split(|b| *b == b'\n').any(|have| have.trim_ascii() == line.as_bytes()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    for line in missing {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    files::write_atomic(&path, &bytes, Mode::Shared)
}

/// A path that a caller named, as a path from the root of the worktree.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] when it leads out of the worktree or is one of lazy's own.
pub(super) fn require_inside(worktree: &Path, named: &str) -> Result<String> {
    let path = Path::new(named.trim_start_matches("./"));
    let path = path.strip_prefix(worktree).unwrap_or(path);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let text = path.to_string_lossy().into_owned();
    match text.is_empty() && named.trim().is_empty() || !inside {
        true => Err(Error::invalid(format!("{named:?} is not a path inside the worktree {}", worktree.display()))),
        false if is_reserved(&text) => {
            Err(Error::invalid(format!("{named:?} belongs to lazy itself and is never committed")))
        }
        false => Ok(text),
    }
}
