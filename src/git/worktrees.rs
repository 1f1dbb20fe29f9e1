//! Making and removing worktrees and their branches. What fails leaves nothing behind.

use std::fs;
use std::path::Path;

use super::checkout::Checkout;
use super::reserved;
use super::{Repo, Worktree};
use crate::base::{Error, Result, ResultExt, files};

impl Repo {
    /// A new worktree at `path` on the new `branch`, which starts at `start`; no upstream is set. Writes lazy's own files into the
    /// repository's `info/exclude`, so that no `.gitignore` needs them.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] when the branch, a ref that stands in its way, or the directory exists already.
    pub async fn add_worktree(&self, path: &Path, branch: &str, start: &str) -> Result<Worktree> {
        require_branch_name(branch)?;
        let start = self.require_commit(start)?;
        let _making = self.making().await;
        self.require_free_branch(branch)?;
        self.prepare(path).await?;
        let git = self.trusted_hooks(self.git().await?, path).await?.slow();
        let existed = path.exists();
        let git = git.args(["worktree", "add", "--quiet", "--no-track", "-b", branch]).arg(path).arg(&start);
        let made = git.output(&format!("cannot make the worktree {}", path.display())).await;
        match made.and_then(|_| self.worktree(path)) {
            Ok(worktree) => Ok(worktree),
            Err(error) => {
                self.undo_add(path, existed).await;
                // only our own branch: it did not exist before, and still stands where we put it
                if self.branch_sha(branch)?.is_some_and(|sha| sha == start) {
                    self.delete_branch(branch).await.ok();
                }
                Err(error)
            }
        }
    }

    /// A worktree at `path` on the existing `branch`.
    ///
    /// # Errors
    /// [`crate::base::Kind::NotFound`] when there is no such branch; [`crate::base::Kind::Conflict`] when it is
    /// checked out elsewhere or the directory exists already.
    pub async fn restore_worktree(&self, path: &Path, branch: &str) -> Result<Worktree> {
        let _making = self.making().await;
        if self.branch_sha(branch)?.is_none() {
            return Err(Error::not_found(format!("there is no branch {branch:?}")).hint("git branch --list"));
        }
        self.prepare(path).await?;
        if let Some(other) = self.checkouts().iter().find(|checkout| checkout.holds(branch)) {
            return Err(Error::conflict(format!("the branch {branch:?} is checked out in {}", other.path.display()))
                .hint(format!("git worktree remove {}", quoted(&other.path))));
        }
        let existed = path.exists();
        let git = self.trusted_hooks(self.git().await?, path).await?.slow();
        let git = git.args(["worktree", "add", "--quiet"]).arg(path).arg(branch);
        let made = git.output(&format!("cannot make the worktree {}", path.display())).await;
        match made.and_then(|_| self.worktree(path)) {
            Ok(worktree) => Ok(worktree),
            Err(error) => {
                self.undo_add(path, existed).await;
                Err(error)
            }
        }
    }

    /// The worktree at `path`; the main checkout is one too.
    ///
    /// # Errors
    /// [`crate::base::Kind::NotFound`] when the directory is gone; [`crate::base::Kind::Conflict`] when it is not a
    /// worktree of this repository, or its `.git` file was changed.
    pub fn worktree(&self, path: &Path) -> Result<Worktree> {
        if !path.is_dir() {
            return Err(Error::not_found(format!("the worktree {} does not exist", path.display())));
        }
        let full = path.canonicalize().io_context(|| format!("cannot enter {}", path.display()))?;
        if full == self.root() {
            return Ok(Worktree::new(self.clone(), self.checkout().clone()));
        }
        let checkout =
            Checkout::linked(&full, self.common_dir()).ok_or_else(|| {
                Error::conflict(format!("{} is not a worktree of {}", path.display(), self.root().display()))
                    .hint(format!("git -C {} worktree repair {}", quoted(self.root()), quoted(&full)))
            })?;
        Ok(Worktree::new(self.clone(), checkout))
    }

    /// Removes the worktree at `path` with everything in it, and git's record of it. One that is already gone is as
    /// good. Other worktrees whose directories are away are left alone.
    pub async fn remove_worktree(&self, path: &Path) -> Result<()> {
        let full = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if self.root().starts_with(&full) || self.common_dir().starts_with(&full) {
            return Err(Error::invalid(format!("{} holds the project itself and is not removed", path.display())));
        }
        let was_ours = Checkout::linked(&full, self.common_dir()).is_some();
        self.forget(&full).await?;
        if !full.exists() {
            return Ok(());
        }
        // git left something, or never knew it: what is left of a worktree goes, any other directory stays
        if !was_ours && !is_inside_data_dir(&full, self.root()) {
            return Err(Error::conflict(format!("{} is not a worktree of this project", path.display()))
                .hint(format!("ls -la {}", quoted(&full))));
        }
        files::remove_tree(&full)
    }

    /// Deletes the local `branch`, merged or not. One that is already gone is as good.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] when it is checked out somewhere.
    pub async fn delete_branch(&self, branch: &str) -> Result<()> {
        if self.branch_sha(branch)?.is_none() {
            return Ok(());
        }
        let git = self.git().await?.args(["branch", "--quiet", "-D", "--", branch]);
        match git.output(&format!("cannot delete the branch {branch:?}")).await {
            Err(error) if self.branch_sha(branch)?.is_some() => Err(error),
            _ => Ok(()),
        }
    }

    /// Every checkout, the main one first.
    pub(super) fn checkouts(&self) -> Vec<Checkout> {
        let main = self.checkout().clone();
        let linked = Checkout::registered(self.common_dir());
        let others = linked.into_iter().filter(|checkout| checkout.path != main.path);
        let mut all: Vec<Checkout> = others.collect();
        all.insert(0, main);
        all
    }

    /// The branch name is free, and no other ref stands in its way.
    fn require_free_branch(&self, branch: &str) -> Result<()> {
        if self.branch_sha(branch)?.is_some() {
            return Err(Error::conflict(format!("the branch {branch:?} exists already"))
                .hint(format!("git branch -m {branch} {branch}-old"))
                .hint(format!("git branch -D {branch}   # when its commits are not needed")));
        }
        // git keeps refs as paths: a branch "lazy" leaves no room for "lazy/fix", and the other way round
        let above = branch.match_indices('/').map(|(at, _)| &branch[..at]);
        for parent in above {
            if self.branch_sha(parent)?.is_some() {
                return Err(Error::conflict(format!(
                    "the branch {parent:?} leaves no room for {branch:?}: git cannot keep both names"
                ))
                .hint(format!("git branch -m {parent} {parent}-branch")));
            }
        }
        let repo = self.open()?;
        let prefix = format!("refs/heads/{branch}/");
        let below = repo.references().ok().and_then(|refs| {
            let mut found = refs.prefixed(prefix.as_str()).ok()?;
            found.find_map(|entry| entry.ok().map(|entry| entry.name().shorten().to_string()))
        });
        match below {
            None => Ok(()),
            Some(child) => Err(Error::conflict(format!(
                "the branch {child:?} leaves no room for {branch:?}: git cannot keep both names"
            ))
            .hint(format!("git branch -m {child} {}", child.replace('/', "-")))),
        }
    }

    /// Room for a worktree at `path`: excludes written, no directory in the way, no record of an earlier one.
    async fn prepare(&self, path: &Path) -> Result<()> {
        reserved::write_excludes(self.common_dir())?;
        let taken =
            path.symlink_metadata().is_ok() && !fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if taken {
            return Err(Error::conflict(format!("{} exists already", path.display())).hint(format!(
                "mv {} {}",
                quoted(path),
                quoted(&path.with_extension("old"))
            )));
        }
        if let Some(parent) = path.parent() {
            files::create_dir(parent)?;
        }
        self.forget(path).await
    }

    /// Drops git's record of the worktree at `path`, and the directory.
    async fn forget(&self, path: &Path) -> Result<()> {
        let full = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let parent = full.parent().and_then(|parent| parent.canonicalize().ok());
        let full = match (parent, full.file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => full,
        };
        for checkout in Checkout::registered(self.common_dir()).into_iter().filter(|checkout| checkout.path == full) {
            let git = self.git().await?.slow().args(["worktree", "remove", "--force", "--force"]).arg(&full);
            let answer = git.run().await?;
            super::private::forget(&checkout);
            if !answer.success() && checkout.git_dir.exists() {
                // a directory with files of another user, or a record too broken for git: finish by hand or say so
                files::remove_tree(&full)?;
                files::remove_tree(&checkout.git_dir)?;
            }
        }
        Ok(())
    }

    async fn undo_add(&self, path: &Path, existed: bool) {
        self.forget(path).await.ok();
        match existed {
            false => files::remove_tree(path).ok(),
            true => files::remove_tree(path).and_then(|()| files::create_dir(path)).ok(),
        };
    }
}

/// Whether a directory is one of lazy's own, below `<root>/.lazy/`.
fn is_inside_data_dir(path: &Path, root: &Path) -> bool {
    path.strip_prefix(root.join(".lazy")).is_ok_and(|rest| rest.components().count() >= 2)
}

/// A path as one word of a shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+@%:,".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn require_branch_name(branch: &str) -> Result<()> {
    let full = format!("refs/heads/{branch}");
    let fine =
        !branch.starts_with('-') && branch != "HEAD" && gix::validate::reference::name(full.as_str().into()).is_ok();
    if fine { Ok(()) } else { Err(Error::invalid(format!("{branch:?} cannot be the name of a branch"))) }
}
