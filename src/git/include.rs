//! `[worktree].include`: untracked files of the main checkout that a new worktree needs, such as `.env`.

use std::fs;
use std::io;
use std::path::{Component, Path};

use globset::GlobSet;

use super::Repo;
use super::globs::{self, Bare};
use super::program::fields;
use crate::base::{Error, Result, ResultExt, files};

impl Repo {
    /// Copies the untracked files of the main checkout (ignored ones too) that match `patterns` to the same places
    /// below `into`, and names them. What is there already stays. A symbolic link is copied as a link when it is
    /// relative and what it names lies inside the checkout, and is left out otherwise; nothing is ever read or written
    /// outside of the two directories. A pattern without a `/` names a file or directory in the root.
    pub async fn copy_untracked(&self, patterns: &[String], into: &Path) -> Result<Vec<String>> {
        let globs = globs::compile(patterns, Bare::RootOnly)?;
        if globs.is_empty() {
            return Ok(Vec::new());
        }
        // only what can match is listed: an untracked directory of dependencies may hold a million files
        let git = self.git().await?.reading().args(["ls-files", "--others", "-z", "--"]);
        let git = git.args(patterns.iter().filter_map(|pattern| globs::pathspec(pattern))).output_limit(512 << 20);
        let listed = fields(&git.output("cannot list the untracked files").await?);
        let (root, into) = (self.root().to_path_buf(), into.to_path_buf());
        let work = tokio::task::spawn_blocking(move || copy_all(&root, &into, &listed, &globs));
        work.await.map_err(|source| Error::internal(format!("copying untracked files broke off: {source}")))?
    }
}

fn copy_all(root: &Path, into: &Path, listed: &[String], globs: &GlobSet) -> Result<Vec<String>> {
    let mut copied = Vec::new();
    // git names a repository inside the checkout by its directory, with a slash: not a file
    let wanted =
        listed.iter().filter(|path| !path.ends_with('/') && !path.starts_with(".lazy/") && globs.is_match(path));
    for path in wanted {
        if copy_one(root, into, path).io_context(|| format!("cannot copy {path} into {}", into.display()))? {
            copied.push(path.clone());
        }
    }
    copied.sort();
    Ok(copied)
}

/// Copies one file; `false` when it is left out.
fn copy_one(root: &Path, into: &Path, path: &str) -> io::Result<bool> {
    let (from, to) = (root.join(path), into.join(path));
    let Ok(kind) = from.symlink_metadata() else { return Ok(false) };
    if to.symlink_metadata().is_ok() || !leads_through_directories(into, path) {
        return Ok(false);
    }
    let is_link = kind.file_type().is_symlink();
    if is_link && !stays_inside(root, &from) || !is_link && !kind.is_file() {
        return Ok(false);
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if is_link {
        std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        return Ok(true);
    }
    if let Err(source) = fs::copy(&from, &to) {
        // half a file is worse than none
        files::remove_file(&to).ok();
        return Err(source);
    }
    Ok(true)
}

/// Whether every existing directory on the way is one, and not a link to somewhere else.
fn leads_through_directories(into: &Path, path: &str) -> bool {
    let mut at = into.to_path_buf();
    let parents = Path::new(path).parent().unwrap_or(Path::new(""));
    parents.components().all(|part| {
        at.push(part);
        matches!(part, Component::Normal(_)) && at.symlink_metadata().map_or(true, |found| found.is_dir())
    })
}

fn stays_inside(root: &Path, link: &Path) -> bool {
    let relative = fs::read_link(link).is_ok_and(|target| target.is_relative());
    relative && link.canonicalize().is_ok_and(|target| target.starts_with(root))
}
