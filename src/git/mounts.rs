//! Where a worktree's git data lies, for whoever shows it to a container piece by piece.

use std::path::{Path, PathBuf};

use super::{Repo, Worktree};
use crate::base::{Error, Result, files};

/// How deep alternate object stores may refer to each other; git itself stops at 5.
const ALTERNATE_DEPTH: usize = 5;

/// The directories behind a linked worktree, absolute and free of symbolic links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitPaths {
    /// What all checkouts share: refs, configuration, hooks.
    pub common_dir: PathBuf,
    /// The object store in it: content-addressed, only ever added to.
    pub objects: PathBuf,
    /// The worktree's own: index, HEAD, MERGE_HEAD.
    pub git_dir: PathBuf,
    /// Object stores outside that the repository borrows from.
    pub alternates: Vec<PathBuf>,
}

impl Worktree {
    /// The directories behind it.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] when it has no git directory of its own: nothing could be split off then that
    /// keeps its index writable and its refs not.
    pub fn git_paths(&self) -> Result<GitPaths> {
        let checkout = self.checkout();
        if checkout.git_dir == checkout.common_dir {
            return Err(Error::conflict(format!(
                "{} is not a linked worktree: its index and its refs cannot be told apart",
                self.path().display()
            )));
        }
        let objects = canonical(&checkout.common_dir.join("objects"))?;
        let mut alternates = Vec::new();
        borrowed(&objects, ALTERNATE_DEPTH, &mut alternates);
        Ok(GitPaths {
            common_dir: checkout.common_dir.clone(),
            objects,
            git_dir: canonical(&checkout.git_dir)?,
            alternates,
        })
    }
}

impl Repo {
    /// The name and the address that git would put under a commit here; what the user told git, if anything.
    pub async fn identity(&self) -> Result<(Option<String>, Option<String>)> {
        Ok((self.setting("--no-type", "user.name").await?, self.setting("--no-type", "user.email").await?))
    }
}

fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|source| Error::io(format!("cannot find {}", path.display()), source))
}

/// Adds the stores named in `objects/info/alternates`, and those they name.
fn borrowed(objects: &Path, depth: usize, into: &mut Vec<PathBuf>) {
    let Ok(Some(text)) = files::read_optional(&objects.join("info/alternates")) else { return };
    for line in String::from_utf8_lossy(&text).lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Ok(path) = objects.join(line).canonicalize()
            && !into.contains(&path)
        {
            into.push(path.clone());
            if depth > 1 {
                borrowed(&path, depth - 1, into);
            }
        }
    }
}
