//! A checkout: a work tree with the git directory behind it. Which ones a repository has, which branch each holds, and
//! what is half-done in it.
//!
//! All of this is read from the files in the common directory, never by way of the work tree's own `.git` file alone:
//! that file must name a git directory of this repository which points back to it.

use std::fs;
use std::path::{Path, PathBuf};

use super::private::plain;
use crate::base::{Error, Result, files};

/// Bytes of a file that holds a line or a few.
const LINE_LIMIT: u64 = 64 << 10;

/// The three directories that name a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkout {
    /// The work tree.
    pub path: PathBuf,
    /// Its own git directory: index, HEAD, MERGE_HEAD.
    pub git_dir: PathBuf,
    /// The git directory of the repository: refs, objects, configuration.
    pub common_dir: PathBuf,
    /// What was once read of it and judged, and counts from then on.
    pub pin: Option<Pin>,
}

/// What HEAD and MERGE_HEAD are taken to be, whatever their files say by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pin {
    /// The branch checked out.
    pub branch: String,
    /// The one commit being merged in.
    pub merging: Option<String>,
}

/// Where a checkout's HEAD points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    /// To a branch, which may not have a commit yet.
    Branch(String),
    /// To another ref that is not a branch.
    Ref(String),
    /// To a commit.
    Detached(String),
}

/// Whether the work tree at `path` seems to be in the middle of a merge, by its files alone: a cheap look, for telling a
/// person. Nothing may be decided by it, because the work tree's own `.git` file is believed.
pub fn seems_to_merge(path: &Path) -> bool {
    let link = path.join(".git");
    let git_dir = match files::read_line_optional(&link) {
        Some(text) => path.join(text.strip_prefix("gitdir:").unwrap_or_default().trim()),
        None => link,
    };
    git_dir.join("MERGE_HEAD").exists()
}

impl Checkout {
    /// The checkout at `path`, if its `.git` file and the repository's own files agree that it is one.
    pub fn linked(path: &Path, common_dir: &Path) -> Option<Checkout> {
        let path = path.canonicalize().ok()?;
        let link = path.join(".git");
        if !fs::symlink_metadata(&link).ok()?.is_file() {
            return None;
        }
        let text = files::read_line_optional(&link)?;
        let named = path.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
        let registered = common_dir.join("worktrees").canonicalize().ok()?;
        if named.parent()? != registered || work_tree_of(&named)?.canonicalize().ok()? != path {
            return None;
        }
        Some(Checkout { path, git_dir: named, common_dir: common_dir.to_path_buf(), pin: None })
    }

    /// Every linked checkout that is registered, also those whose directory is gone.
    pub fn registered(common_dir: &Path) -> Vec<Checkout> {
        let Ok(entries) = fs::read_dir(common_dir.join("worktrees")) else { return Vec::new() };
        let mut found: Vec<Checkout> = entries
            .flatten()
            .filter_map(|entry| {
                let path = work_tree_of(&entry.path())?;
                Some(Checkout { path, git_dir: entry.path(), common_dir: common_dir.to_path_buf(), pin: None })
            })
            .collect();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    /// Where HEAD points.
    pub fn head(&self) -> Result<Head> {
        if let Some(pin) = &self.pin {
            return Ok(Head::Branch(pin.branch.clone()));
        }
        let path = self.git_dir.join("HEAD");
        let text = match self.is_linked() {
            // an agent can write this one
            true => plain(&path, LINE_LIMIT).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_string()),
            false => files::read_line_optional(&path),
        };
        let text = text.filter(|text| !text.contains(char::is_control)).ok_or_else(|| {
            Error::conflict(format!("{} is missing or not readable", path.display())).hint("git fsck")
        })?;
        Ok(match text.strip_prefix("ref:").map(str::trim) {
            Some(name) => match name.strip_prefix("refs/heads/") {
                Some(branch) => Head::Branch(branch.to_string()),
                None => Head::Ref(name.to_string()),
            },
            None => Head::Detached(text),
        })
    }

    /// Whether its git directory is one beside others, and not the repository's own.
    pub fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Whether moving `branch` would pull the ground from under this checkout: it is checked out, or a rebase that
    /// will come back to it is under way.
    pub fn holds(&self, branch: &str) -> bool {
        let full = format!("refs/heads/{branch}");
        matches!(self.head(), Ok(Head::Branch(name)) if name == branch)
            || ["rebase-merge/head-name", "rebase-apply/head-name"]
                .iter()
                .any(|file| files::read_line_optional(&self.git_dir.join(file)).is_some_and(|name| name == full))
    }

    /// What is half-done here, in a person's words, with the command that ends it.
    pub fn half_done(&self) -> Option<(&'static str, &'static str)> {
        let known = [
            ("MERGE_HEAD", "merge", "git merge --abort"),
            ("rebase-merge", "rebase", "git rebase --abort"),
            ("rebase-apply", "rebase or am", "git rebase --abort"),
            ("CHERRY_PICK_HEAD", "cherry-pick", "git cherry-pick --abort"),
            ("REVERT_HEAD", "revert", "git revert --abort"),
        ];
        known.iter().find(|(file, ..)| self.git_dir.join(file).exists()).map(|(_, what, end)| (*what, *end))
    }

    /// The commit being merged in, if a merge is under way.
    pub fn merge_head(&self) -> Option<String> {
        let bytes = plain(&self.git_dir.join("MERGE_HEAD"), LINE_LIMIT)?;
        String::from_utf8_lossy(&bytes).lines().next().map(|line| line.trim().to_string())
    }

    /// Whether a person asked git to keep this checkout although its directory may be away.
    pub fn is_locked(&self) -> bool {
        self.git_dir.join("locked").exists()
    }
}

fn work_tree_of(git_dir: &Path) -> Option<PathBuf> {
    let link = files::read_line_optional(&git_dir.join("gitdir"))?;
    // a relative link counts from the git directory
    let link = git_dir.join(link);
    let parent = link.parent()?;
    Some(parent.canonicalize().unwrap_or_else(|_| parent.to_path_buf()))
}
