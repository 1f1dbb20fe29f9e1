//! A worktree: where it stands, and what is uncommitted in it.

use std::path::Path;

use rustix::fs::{Access, access};

use super::Repo;
use super::checkout::{Checkout, Head, Pin};
use super::diff::plain_diff;
use super::program::{Git, fields};
use super::reserved::{self, LOCK_FILE, RECOVERY_DIR, SANDBOX_DIR};
use crate::base::{Error, Result};
use crate::model::TaskId;
use crate::model::exchange::TurnTag;

/// A worktree of a [`Repo`]. Cheap to clone.
///
/// Every call names the worktree's git directory and the shared one to git, so that a `.git` or `commondir` file which
/// an agent rewrote leads nowhere.
#[derive(Debug, Clone)]
pub struct Worktree {
    repo: Repo,
    checkout: Checkout,
}

/// What is uncommitted in a worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorktreeStatus {
    /// One line a path as `git status --porcelain` has it, without lazy's own files.
    pub entries: Vec<String>,
}

impl WorktreeStatus {
    /// Whether everything is committed.
    pub fn is_clean(&self) -> bool {
        self.entries.is_empty()
    }
}

/// One changed path: the two letters of `git status`, and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub letters: String,
    pub path: String,
}

impl Worktree {
    pub(super) fn new(repo: Repo, checkout: Checkout) -> Worktree {
        Worktree { repo, checkout }
    }

    /// Its directory, absolute and free of symbolic links.
    pub fn path(&self) -> &Path {
        &self.checkout.path
    }

    /// The repository it belongs to.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// The full id of HEAD's commit.
    pub fn head(&self) -> Result<String> {
        let sha = match self.checkout.head()? {
            Head::Branch(name) => self.repo.branch_sha(&name)?,
            Head::Ref(name) => self.repo.ref_sha(&name)?,
            Head::Detached(sha) => self.repo.resolve(&sha)?,
        };
        sha.ok_or_else(|| {
            Error::conflict(format!("HEAD of the worktree {} points to no commit", self.path().display()))
                .hint(format!("git -C {} log -1", super::worktrees::quoted(self.path())))
        })
    }

    /// The branch checked out; `None` when HEAD is detached.
    pub fn branch(&self) -> Result<Option<String>> {
        match self.checkout.head()? {
            Head::Branch(name) => Ok(Some(name)),
            Head::Ref(_) | Head::Detached(_) => Ok(None),
        }
    }

    /// The same worktree taken to be on `branch` and in the merge it is in now: every later call works on that, whatever
    /// HEAD and MERGE_HEAD, which an agent can write, say by then.
    ///
    /// # Errors
    /// `Err(branch)` naming the one that is checked out now, when it is another; [`crate::base::Kind::Conflict`] inside when HEAD
    /// cannot be read.
    pub fn pinned(mut self, branch: &str) -> Result<std::result::Result<Worktree, Option<String>>> {
        let now = self.branch()?;
        if now.as_deref() != Some(branch) {
            return Ok(Err(now));
        }
        let merging = self.checkout.merge_head();
        self.checkout.pin = Some(Pin { branch: branch.to_string(), merging });
        Ok(Ok(self))
    }

    /// The commit being merged in, or that was when the worktree was [`Self::pinned`]; `None` when no merge is under way.
    pub fn merge_head(&self) -> Option<String> {
        match &self.checkout.pin {
            Some(pin) => pin.merging.clone(),
            None => self.checkout.merge_head(),
        }
    }

    /// What is uncommitted. A merge that is not concluded shows as its unmerged and staged paths.
    pub async fn status(&self) -> Result<WorktreeStatus> {
        let entries = self.entries(Untracked::Folded, &[]).await?;
        Ok(WorktreeStatus {
            entries: entries.iter().map(|entry| format!("{} {}", entry.letters, entry.path)).collect(),
        })
    }

    /// What is uncommitted, as text: the staged and the unstaged difference and the names of untracked files, each
    /// under a heading; empty when there is nothing.
    pub async fn uncommitted_diff(&self) -> Result<String> {
        let own = [SANDBOX_DIR, LOCK_FILE, RECOVERY_DIR].map(|path| format!(":(top,exclude){path}"));
        let mut sections = Vec::new();
        for (title, staged) in [("staged", "--cached"), ("unstaged", "--patch")] {
            let git = plain_diff(self.git().await?).args([staged, "--", ":(top)"]).args(&own);
            let text = git.text("cannot read what is uncommitted").await?;
            if !text.trim().is_empty() {
                sections.push(format!("# {title}\n{text}"));
            }
        }
        let entries = self.entries(Untracked::Each, &[]).await?;
        let names: Vec<String> =
            entries.into_iter().filter(|e| e.letters == "??").map(|entry| format!("{}\n", entry.path)).collect();
        if !names.is_empty() {
            sections.push(format!("# untracked\n{}", names.concat()));
        }
        Ok(sections.join("\n"))
    }

    /// Tags a commit of a turn as `turn/<task>/<phase>/<commit>`, ids cut to 8 digits; replaces an earlier tag.
    pub async fn tag_turn(&self, task: TaskId, tag: TurnTag, sha: &str) -> Result<()> {
        let sha = self.repo.require_commit(sha)?;
        self.repo.tag(&format!("turn/{}/{}/{}", task.short(), tag.as_str(), &sha[..8]), &sha, None).await
    }

    /// Whether refs can be moved from here; in a container the shared git directory is mounted read-only.
    pub fn common_dir_writable(&self) -> bool {
        let common = self.repo.common_dir();
        [common, &common.join("refs/heads")].iter().all(|path| access(*path, Access::WRITE_OK).is_ok())
    }

    /// A call of git in this worktree.
    pub(super) async fn git(&self) -> Result<Git> {
        self.repo.git_in(&self.checkout).await
    }

    pub(super) fn checkout(&self) -> &Checkout {
        &self.checkout
    }

    /// The changed paths at or below `files` (all when empty), lazy's own left out, renames taken apart.
    pub(super) async fn entries(&self, untracked: Untracked, files: &[String]) -> Result<Vec<Entry>> {
        let git = self.git().await?.reading().args(["--literal-pathspecs", "status", "--porcelain=v1", "-z"]);
        let git = git.args(["--no-renames", "--ignore-submodules=dirty", untracked.flag(), "--"]).args(files);
        let bytes = git.output(&format!("cannot read the state of {}", self.path().display())).await?;
        let parsed = fields(&bytes).into_iter().filter_map(|field| {
            let (letters, path) = (field.get(..2)?.to_string(), field.get(3..)?.to_string());
            Some(Entry { letters, path })
        });
        Ok(parsed.filter(|entry| !reserved::is_reserved(&entry.path)).collect())
    }
}

/// How untracked directories are listed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Untracked {
    /// As one entry.
    Folded,
    /// Each file in them.
    Each,
}

impl Untracked {
    fn flag(self) -> &'static str {
        match self {
            Untracked::Folded => "--untracked-files=normal",
            Untracked::Each => "--untracked-files=all",
        }
    }
}
