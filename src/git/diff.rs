//! Differences between commits, for people and for machines.

use super::Repo;
use super::program::{Git, fields};
use crate::base::{Error, Result};

/// What is compared with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffRange {
    /// What `head` did since it parted from `base`.
    ThreeDot {
        /// Where the work merges into.
        base: String,
        /// The work.
        head: String,
    },
    /// The difference of two states.
    TwoDot {
        /// Before.
        from: String,
        /// After.
        to: String,
    },
}

/// How a difference is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffFormat {
    /// A line with a bar for each file, and the sum.
    Stat,
    /// The whole patch.
    Patch,
    /// A letter and a path for each file.
    NameStatus,
    /// The sum alone.
    ShortStat,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content, mode or type changed.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another name.
    Renamed {
        /// The one it had.
        from: String,
    },
}

/// A file that differs between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Path from the root of the repository, its present one.
    pub path: String,
    /// What happened.
    pub change: ChangeKind,
}

impl Repo {
    /// The difference as text; empty when there is none. `files` are paths from the root, all when empty.
    ///
    /// # Errors
    /// [`crate::base::Kind::NotFound`] when an end of the range names no commit.
    pub async fn diff(&self, range: &DiffRange, format: DiffFormat, files: &[String]) -> Result<String> {
        let range = match range {
            DiffRange::ThreeDot { base, head } => {
                format!("{}...{}", self.require_commit(base)?, self.require_commit(head)?)
            }
            DiffRange::TwoDot { from, to } => format!("{}..{}", self.require_commit(from)?, self.require_commit(to)?),
        };
        let flag = match format {
            DiffFormat::Stat => "--stat",
            DiffFormat::Patch => "--patch",
            DiffFormat::NameStatus => "--name-status",
            DiffFormat::ShortStat => "--shortstat",
        };
        let git = plain_diff(self.git().await?.arg("--literal-pathspecs"));
        git.args(["--find-renames", flag, &range, "--"]).args(files).text("cannot compare").await
    }

    /// The files that differ between two commits, renames recognised.
    pub async fn changed_files(&self, from: &str, to: &str) -> Result<Vec<ChangedFile>> {
        let (from, to) = (self.require_commit(from)?, self.require_commit(to)?);
        let git = plain_diff(self.git().await?).args(["--find-renames", "--name-status", "-z", &from, &to, "--"]);
        let bytes = git.output("cannot compare").await?;
        let mut rest = fields(&bytes).into_iter();
        let mut found = Vec::new();
        while let Some(letter) = rest.next() {
            let mut path =
                || rest.next().ok_or_else(|| Error::internal("git diff broke off in the middle of a file name"));
            let first = path()?;
            found.push(match letter.as_bytes().first() {
                Some(b'R') => ChangedFile { path: path()?, change: ChangeKind::Renamed { from: first } },
                Some(b'C') => ChangedFile { path: path()?, change: ChangeKind::Added },
                Some(b'A') => ChangedFile { path: first, change: ChangeKind::Added },
                Some(b'D') => ChangedFile { path: first, change: ChangeKind::Deleted },
                _ => ChangedFile { path: first, change: ChangeKind::Modified },
            });
        }
        Ok(found)
    }

    /// The paths that `head` changed since it last took something from `upstream`: what was merged in from there is not
    /// among them. A rename counts as both of its names.
    pub async fn own_paths(&self, upstream: &str, head: &str) -> Result<Vec<String>> {
        let (upstream, head) = (self.require_commit(upstream)?, self.require_commit(head)?);
        let base = self.merge_base(&upstream, &head)?.unwrap_or(upstream);
        self.changed_paths(&base, &head, "--diff-filter=ACDMRTUXB").await
    }

    /// The paths that differ between two commits; a rename counts as both of its names.
    pub(super) async fn changed_paths(&self, from: &str, to: &str, filter: &str) -> Result<Vec<String>> {
        let git = plain_diff(self.git().await?).args(["--no-renames", "--name-only", "-z", filter, from, to, "--"]);
        Ok(fields(&git.output("cannot compare").await?))
    }
}

/// `git diff` that no setting of the user changes the form of, and that runs no program of theirs.
pub(super) fn plain_diff(git: Git) -> Git {
    git.reading().args([
        "diff",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-relative",
        "--submodule=short",
        "--ignore-submodules=dirty",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    ])
}
