//! Protected files: an agent may add them, and lines to them, but not otherwise change or remove them.

use std::collections::BTreeMap;

use super::Worktree;
use super::diff::plain_diff;
use super::globs::{self, Bare};
use super::program::fields;
use super::reserved::require_inside;
use crate::base::{Error, Result};
use crate::model::{Violation, ViolationStatus};

/// What a difference says about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathChange {
    /// `A`, `M`, `D` or `T`.
    letter: u8,
    /// Whether the mode bits differ.
    mode_changed: bool,
    /// Lines added and removed; `None` for a binary file.
    lines: Option<(u64, u64)>,
}

impl Worktree {
    /// The protected files that changed between two commits in a way an agent may not change them.
    ///
    /// A file counts when it matches a pattern and exists at `branch_point`: what the task itself made is its own. A
    /// new file, and one that only gained lines, does not count; a removed one does. A renamed file is a removed and
    /// a new one, so a protected file cannot leave by another name. Without a `/`, a pattern matches a name in any
    /// directory.
    ///
    /// # Errors
    /// When a commit is unknown, a pattern cannot be read, or git fails: never an empty answer instead.
    pub async fn violations(
        &self,
        patterns: &[String],
        from: &str,
        to: &str,
        branch_point: &str,
    ) -> Result<Vec<Violation>> {
        let (from, to) = (self.repo().require_commit(from)?, self.repo().require_commit(to)?);
        let globs = globs::compile(patterns, Bare::AnyDirectory)?;
        if globs.is_empty() || from == to {
            return Ok(Vec::new());
        }
        let git =
            plain_diff(self.repo().git().await?).args(["--no-renames", "--raw", "--numstat", "-z", &from, &to, "--"]);
        let bytes = git.output("cannot scan for protected files").await?;
        let at_branch_point = self.repo().tree_paths(branch_point)?;
        let mut found = Vec::new();
        for (path, change) in parse(&fields(&bytes))? {
            if globs.is_match(&path) && !is_allowed(change) && at_branch_point.contains(&path)? {
                found.push(Violation { file: path, base_sha: from.clone(), status: ViolationStatus::Pending });
            }
        }
        Ok(found)
    }

    /// Gives `file` the content it has in `base_sha`, in the index and on disk; removes it when it is not there.
    pub async fn revert_file(&self, file: &str, base_sha: &str) -> Result<()> {
        self.clear_stale_locks()?;
        let file = require_inside(self.path(), file)?;
        let base = self.repo().require_commit(base_sha)?;
        let git = self.git().await?.without_hooks().arg("--literal-pathspecs");
        let doing = format!("cannot revert {file:?}");
        let in_base = self.repo().tree_paths(&base)?.contains(&file)?;
        match in_base {
            true => git.args(["checkout", "--quiet", &base, "--", &file]).output(&doing).await.map(drop),
            false => git
                .args(["rm", "--quiet", "-r", "--force", "--ignore-unmatch", "--", &file])
                .output(&doing)
                .await
                .map(drop),
        }
    }
}

/// What needs no reviewer: a new file, or one that only gained lines.
fn is_allowed(change: PathChange) -> bool {
    match change.letter {
        b'A' => true,
        b'M' => !change.mode_changed && matches!(change.lines, Some((added, 0)) if added > 0),
        _ => false,
    }
}

/// Reads `git diff --raw --numstat -z --no-renames`: first `:<mode> <mode> <id> <id> <letter>` and a path for each
/// file, then `<added>\t<removed>\t<path>` for each.
fn parse(fields: &[String]) -> Result<BTreeMap<String, PathChange>> {
    let broken = || Error::internal("git diff answered in a form that was not expected");
    let mut found = BTreeMap::new();
    let mut rest = fields.iter();
    while let Some(field) = rest.next() {
        if let Some(raw) = field.strip_prefix(':') {
            let path = rest.next().ok_or_else(broken)?;
            let parts: Vec<&str> = raw.split(' ').collect();
            let [before, after, _, _, status] = parts[..] else { return Err(broken()) };
            let letter = *status.as_bytes().first().ok_or_else(broken)?;
            found.insert(path.clone(), PathChange { letter, mode_changed: before != after, lines: None });
        } else {
            let mut parts = field.splitn(3, '\t');
            let (Some(added), Some(removed), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(broken());
            };
            found.get_mut(path).ok_or_else(broken)?.lines = added.parse().ok().zip(removed.parse().ok());
        }
    }
    Ok(found)
}
