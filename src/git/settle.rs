//! Out of a half-done merge, without losing what someone put into it.
//!
//! Nothing is discarded that was not saved first; where saving failed, either nothing is discarded ([`Worktree::settle`])
//! or the record says so ([`Worktree::recover`], because a turn cannot start on a half-merged worktree).

use std::path::PathBuf;

use super::diff::plain_diff;
use super::reserved::RECOVERY_DIR;
use super::worktrees::quoted;
use super::{MergeState, Worktree};
use crate::base::files::{self, Mode};
use crate::base::{Error, Millis, Result};
use crate::model::exchange::{MergeSettled, WorktreeRecovery};

/// Who takes the steps out of a merge that touch refs: the worktree itself, or somebody who may where it may not (in a
/// container the shared git directory is read-only).
pub trait Rollback: Sync {
    /// Rolls the merge back, as [`Worktree::abort_merge`].
    fn abort_merge(&self) -> impl Future<Output = Result<()>> + Send;

    /// Makes index and tracked files equal to HEAD, as [`Worktree::reset_hard_head`].
    fn reset_hard_head(&self) -> impl Future<Output = Result<()>> + Send;
}

impl Rollback for Worktree {
    async fn abort_merge(&self) -> Result<()> {
        Worktree::abort_merge(self).await
    }

    async fn reset_hard_head(&self) -> Result<()> {
        Worktree::reset_hard_head(self).await
    }
}

impl Worktree {
    /// Before a turn: rolls back a half-done merge if there is one, after saving its difference to HEAD under
    /// `.lazy/recovery/` in the worktree. `context` names the command that found it, `by` who rolls back.
    ///
    /// # Errors
    /// When the worktree is still half-merged afterwards, or its state cannot be read.
    pub async fn recover(&self, by: &impl Rollback, context: &str, at: Millis) -> Result<Option<WorktreeRecovery>> {
        let Some(state) = self.merge_state().await? else { return Ok(None) };
        let saved = self.save_patch("merge-rollback", at).await;
        if by.abort_merge().await.is_err() || self.merge_state().await?.is_some() {
            by.reset_hard_head().await?;
        }
        if let Some(left) = self.merge_state().await? {
            return Err(Error::conflict(format!(
                "{} could not be taken out of {}",
                self.path().display(),
                left.summary
            ))
            .hint(format!("git -C {} reset --hard HEAD", quoted(self.path()))));
        }
        Ok(Some(describe(&state, saved, context)))
    }

    /// After a failed merge: out of it in three steps, the first that works. Roll back; refresh the index (a file
    /// rewritten with its own bytes no longer counts as changed) and roll back; save the difference and reset.
    /// Whatever happens is said in the answer; it never fails. `by` is who rolls back and resets.
    pub async fn settle(&self, by: &impl Rollback, at: Millis) -> MergeSettled {
        match self.merge_state().await {
            Ok(None) => return settled("no merge was left in the worktree"),
            Ok(Some(_)) => {}
            Err(error) => return self.unsettled(&format!("the state of the worktree cannot be read: {error}")),
        }
        by.abort_merge().await.ok();
        if self.is_out().await {
            return settled("the merge was rolled back; the files are as before it");
        }
        self.refresh_index().await;
        by.abort_merge().await.ok();
        if self.is_out().await {
            return settled("the merge was rolled back after refreshing the index; the files are as before it");
        }
        let patch = match self.save_patch("merge-settle", at).await {
            Ok(patch) => patch,
            Err(error) => {
                return self.unsettled(&format!(
                    "git would not roll the merge back, and it was not reset because its difference could not be saved ({error})"
                ));
            }
        };
        match by.reset_hard_head().await {
            Ok(()) if self.is_out().await => settled(&match patch {
                Some(patch) => format!(
                    "git would not roll the merge back, so the worktree was reset to HEAD; what was in it is saved, \
                     see it with: git -C {} apply --stat {}",
                    quoted(self.path()),
                    quoted(&patch)
                ),
                None => "the worktree was reset to HEAD; nothing differed from it".to_string(),
            }),
            Ok(()) => self.unsettled("the worktree is still in the merge after a reset"),
            Err(error) => self.unsettled(&format!("git would neither roll the merge back nor reset: {error}")),
        }
    }

    async fn is_out(&self) -> bool {
        matches!(self.merge_state().await, Ok(None))
    }

    /// Looks at the files again; their content decides, so nothing can be lost.
    async fn refresh_index(&self) {
        if let Ok(git) = self.git().await {
            // exit code 1 only says that some files did change
            git.slow().args(["update-index", "-q", "--unmerged", "--refresh"]).run().await.ok();
        }
    }

    /// Writes `git diff HEAD` beside the work; `None` when nothing differs.
    async fn save_patch(&self, kind: &str, at: Millis) -> Result<Option<PathBuf>> {
        let git = plain_diff(self.git().await?).args(["--binary", "--full-index", "HEAD"]).output_limit(1 << 30);
        let patch = git.output("cannot read the difference to HEAD").await?;
        if patch.is_empty() {
            return Ok(None);
        }
        let directory = self.path().join(RECOVERY_DIR);
        self.require_plain_directories()?;
        let stamp = at.iso().replace([':', '.'], "-");
        let names =
            std::iter::once(format!("{kind}-{stamp}.patch")).chain((2..).map(|n| format!("{kind}-{stamp}-{n}.patch")));
        let path = names.map(|name| directory.join(name)).find(|path| !super::commit::exists(path));
        let path = path.ok_or_else(|| Error::internal("no name is left for the patch"))?;
        files::write_atomic(&path, &patch, Mode::Shared)?;
        Ok(Some(path))
    }

    /// An agent can turn a directory into a link that leads elsewhere.
    fn require_plain_directories(&self) -> Result<()> {
        for part in [".lazy", RECOVERY_DIR] {
            let path = self.path().join(part);
            if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
                return Err(Error::conflict(format!("{} is not a directory", path.display())));
            }
        }
        Ok(())
    }

    fn unsettled(&self, why: &str) -> MergeSettled {
        let path = quoted(self.path());
        let detail = format!(
            "{why}. The worktree {} may still be half-merged; by hand: git -C {path} status, then git -C {path} merge --abort, \
             or to give up what is in it: git -C {path} reset --hard HEAD",
            self.path().display()
        );
        MergeSettled { settled: false, detail }
    }
}

fn settled(detail: &str) -> MergeSettled {
    MergeSettled { settled: true, detail: detail.to_string() }
}

fn describe(state: &MergeState, saved: Result<Option<PathBuf>>, context: &str) -> WorktreeRecovery {
    let found = if state.merge_in_progress { "merge_in_progress" } else { "unmerged_files" };
    let (fate, patch_path) = match saved {
        Ok(Some(path)) => ("what it held is saved".to_string(), Some(path.display().to_string())),
        Ok(None) => ("nothing in it differed from HEAD".to_string(), None),
        Err(error) => (format!("what it held could not be saved and is lost ({error})"), None),
    };
    WorktreeRecovery {
        found: found.to_string(),
        summary: format!("found {} and rolled it back; {fate}", state.summary),
        files: state.unmerged_files.clone(),
        patch_path,
        context: context.to_string(),
    }
}
