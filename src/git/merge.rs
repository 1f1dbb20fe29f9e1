//! Merging the upstream into a worktree.

use super::Worktree;
use super::commit::with_author;
use super::program::fields;
use crate::base::{Error, Result};

/// What became of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The target is already part of the branch.
    UpToDate,
    /// It is merged and committed.
    Merged {
        /// Full id of the merge commit.
        sha: String,
    },
    /// It is left in place for someone to resolve.
    Conflicts {
        /// The unmerged paths.
        files: Vec<String>,
    },
}

/// A merge that is neither concluded nor rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeState {
    /// Whether git knows of a merge, or only has unmerged paths.
    pub merge_in_progress: bool,
    /// Paths that still have conflicts.
    pub unmerged_files: Vec<String>,
    /// In words.
    pub summary: String,
}

impl Worktree {
    /// Merges the commit `target_sha` in, always with a merge commit. Conflicts stay in place. Hooks do not run.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] when a merge is already half-done or uncommitted files are in the way; then
    /// nothing was changed.
    pub async fn merge(&self, target_sha: &str, message: &str) -> Result<MergeOutcome> {
        if let Some(state) = self.merge_state().await? {
            return Err(Error::conflict(format!("cannot merge into {}: {}", self.path().display(), state.summary))
                .hint("conclude it or roll it back first: git merge --abort"));
        }
        self.clear_stale_locks()?;
        let target = self.repo().require_commit(target_sha)?;
        let before = self.head()?;
        if self.repo().is_ancestor(&target, &before)? {
            return Ok(MergeOutcome::UpToDate);
        }
        let git = with_author(self.git().await?, self.repo()).await?.without_hooks().slow();
        let git = git.args(["merge", "--no-ff", "--no-edit", "--no-autostash", "--no-rerere-autoupdate", "--no-log"]);
        let answer = git.args(["--no-stat", "--no-progress", "-m", message, &target]).run().await?;
        let unmerged = self.unmerged().await?;
        if !unmerged.is_empty() {
            return Ok(MergeOutcome::Conflicts { files: unmerged });
        }
        let after = self.head()?;
        if after != before && self.checkout().merge_head().is_none() {
            return Ok(MergeOutcome::Merged { sha: after });
        }
        if self.checkout().merge_head().is_some() {
            // merged without conflict, yet not committed (no author, a signing failure): leave nothing half-done
            self.abort_merge().await?;
        }
        Err(answer.refusal(&format!("cannot merge {} into {}", &target[..8], self.path().display())))
    }

    /// What is half-done; `None` when nothing is.
    pub async fn merge_state(&self) -> Result<Option<MergeState>> {
        let merging = self.checkout().merge_head();
        let unmerged_files = self.unmerged().await?;
        let of = merging.as_deref().map(|sha| format!(" of {}", sha.get(..8).unwrap_or(sha))).unwrap_or_default();
        let summary = match (&merging, unmerged_files.len()) {
            (None, 0) => return Ok(None),
            (Some(_), 0) => format!("a merge{of} is resolved but not committed"),
            (_, count) => {
                let shown: Vec<&str> = unmerged_files.iter().take(5).map(String::as_str).collect();
                let more =
                    if count > shown.len() { format!(" and {} more", count - shown.len()) } else { String::new() };
                let noun = if count == 1 { "file" } else { "files" };
                format!("an unresolved merge{of}, {count} {noun} in conflict: {}{more}", shown.join(", "))
            }
        };
        Ok(Some(MergeState { merge_in_progress: merging.is_some(), unmerged_files, summary }))
    }

    /// Commits a merge whose conflicts are all resolved, with the message git prepared and no hooks.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] when no merge is under way or paths are still unmerged.
    pub async fn commit_merge(&self) -> Result<String> {
        if self.checkout().merge_head().is_none() {
            return Err(Error::conflict(format!("no merge is under way in {}", self.path().display())));
        }
        self.clear_stale_locks()?;
        self.require_merged("conclude the merge").await?;
        let before = self.head()?;
        let git = with_author(self.git().await?, self.repo()).await?.without_hooks().slow();
        let answer = git.args(["commit", "--quiet", "--all", "--no-edit", "--cleanup=strip"]).run().await?;
        self.require_moved(Some(&before), &answer)
    }

    /// Rolls a merge back.
    ///
    /// # Errors
    /// What git says, e.g. when there is none, or when files it touches were changed since.
    pub async fn abort_merge(&self) -> Result<()> {
        self.clear_stale_locks()?;
        let git = self.git().await?.without_hooks().slow().args(["merge", "--abort"]);
        git.output(&format!("cannot roll back the merge in {}", self.path().display())).await.map(drop)
    }

    /// Makes index and tracked files equal to HEAD; untracked files stay.
    pub async fn reset_hard_head(&self) -> Result<()> {
        self.clear_stale_locks()?;
        let git = self.git().await?.without_hooks().slow().args(["reset", "--quiet", "--hard", "HEAD"]);
        git.output(&format!("cannot reset {}", self.path().display())).await.map(drop)
    }

    /// The paths with conflicts, sorted.
    pub(super) async fn unmerged(&self) -> Result<Vec<String>> {
        let git = self.git().await?.reading().args(["ls-files", "--unmerged", "-z"]);
        let bytes = git.output(&format!("cannot read the index of {}", self.path().display())).await?;
        // "<mode> <id> <stage>\t<path>", up to three for each path
        let mut paths: Vec<String> =
            fields(&bytes).iter().filter_map(|line| line.split_once('\t').map(|(_, path)| path.to_string())).collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }
}
