//! The program that containers mount: this very executable, kept under the name of its own bytes.
//!
//! `~/.lazy/bin/lazy-agent-<id>`, where the id is the first 16 hex of blake3 of the bytes, is written once (a temporary
//! file, `selfcheck`, a rename) and never written again: a container that mounts it never sees other bytes, whatever is
//! upgraded meanwhile. That a file has that name therefore means that it was verified.
//!
//! Invariants
//! - The bytes come from the running executable's own inode, so that a program replaced on disk does not matter; or from
//!   a Linux build compiled in with `LAZY_EMBED_AGENT=<path>`, which wins where there is one.
//! - An install that this process handed out is kept from collection by a shared lock on it, for the life of the process.
//! - A damaged install (its size or bytes are not what its name promises) is replaced by a rename, whoever mounts it: on
//!   Linux a container keeps the file it started with, and elsewhere the right bytes can only mend it.
//! - The single file of older versions, `~/.lazy/bin/lazy-agent`, is copied here once and then removed as soon as no
//!   container mounts it.
//!
//! Files owned: `~/.lazy/bin/lazy-agent-<id>`, `~/.lazy/bin/lazy-agent-current` (a relative link, for people).
//!
//! Refused: a directory that may not be written, an install that somebody else could change, a program whose
//! `selfcheck` does not pass, a host that is not Linux without an embedded Linux build.

mod collect;
mod hold;
mod source;
mod usage;
mod write;

use std::path::{Path, PathBuf};

use crate::base::{Process, Result, files};
use source::Source;

pub use usage::mounted;
pub(crate) use write::SENTINEL;

/// The pointer for people, beside the installs.
const CURRENT: &str = "lazy-agent-current";
/// The single file of older versions.
const LEGACY: &str = "lazy-agent";
/// What the names of installs begin with; 16 hex digits follow.
const PREFIX: &str = "lazy-agent-";

/// The installs below one home. Cheap to make.
#[derive(Debug, Clone)]
pub struct Installs {
    process: Process,
    dir: PathBuf,
    source: Source,
}

/// A verified program to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Install {
    /// The first 16 hex digits of blake3 of its bytes.
    pub id: String,
    /// Where it is, absolute.
    pub path: PathBuf,
}

/// How the installs are, for `lazy doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// This program is installed, whole.
    Installed(Install),
    /// It is not yet: the first launch does it.
    Absent(Install),
    /// A file of that name is not what it should be; why, in words.
    Damaged(Install, String),
}

impl Installs {
    /// The installs of this user, in `~/.lazy/bin`. Nothing is touched.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] without a home.
    pub fn new(process: &Process) -> Result<Installs> {
        Ok(Installs { process: process.clone(), dir: process.home()?.join(".lazy/bin"), source: Source::default() })
    }

    /// The directory they are in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The install of this program, made when it is not there. Callers at the same time, in this process and in others,
    /// all get the same.
    ///
    /// # Errors
    /// [`crate::base::Kind::Io`] when it cannot be written (disk full, read-only home, foreign owner),
    /// [`crate::base::Kind::Unavailable`] when the program's `selfcheck` fails or no Linux build is at hand,
    /// [`crate::base::Kind::Conflict`] when something else has its name.
    pub async fn ensure(&self) -> Result<Install> {
        let install = self.prepare().await?;
        self.point(&install)?;
        Ok(install)
    }

    /// As [`Installs::ensure`], and leaves `lazy-agent-current` where it points: for an upgrade that may yet be given up.
    ///
    /// # Errors
    /// As [`Installs::ensure`].
    pub async fn prepare(&self) -> Result<Install> {
        let wanted = self.source.identity().await?;
        let install = Install { path: self.dir.join(format!("{PREFIX}{}", wanted.id)), id: wanted.id.clone() };
        for _ in 0..8 {
            if write::judge(&install.path, &wanted).await? != write::Judgement::Whole {
                self.adopt_legacy().await;
                write::write(self, &install, &wanted).await?;
            }
            // Between the look and the lock it may have been collected: then it is made again.
            if hold::hold(&install.path) {
                return Ok(install);
            }
        }
        Err(crate::base::Error::conflict(format!("{} is removed as fast as it is made", install.path.display()))
            .hint(format!("ls -l {}", self.dir.display())))
    }

    /// How the install of this program is, without touching anything.
    pub async fn state(&self) -> Result<State> {
        let wanted = self.source.identity().await?;
        let install = Install { path: self.dir.join(format!("{PREFIX}{}", wanted.id)), id: wanted.id.clone() };
        Ok(match write::judge(&install.path, &wanted).await? {
            write::Judgement::Whole => State::Installed(install),
            write::Judgement::Absent => State::Absent(install),
            write::Judgement::Damaged(why) => State::Damaged(install, why),
        })
    }

    /// Every install there is, in the order of their names; with the legacy file.
    pub fn all(&self) -> Vec<PathBuf> {
        collect::all(&self.dir)
    }

    /// Makes `lazy-agent-current` point here, in one step.
    fn point(&self, install: &Install) -> Result<()> {
        let link = self.dir.join(CURRENT);
        let target = PathBuf::from(format!("{PREFIX}{}", install.id));
        if std::fs::read_link(&link).is_ok_and(|now| now == target) {
            return Ok(());
        }
        let temporary = self.dir.join(format!(".{CURRENT}.{}.tmp", uuid::Uuid::new_v4().simple()));
        let swapped = std::os::unix::fs::symlink(&target, &temporary).and_then(|()| std::fs::rename(&temporary, &link));
        if let Err(source) = swapped {
            std::fs::remove_file(&temporary).ok();
            return Err(write::not_writable(&link, source));
        }
        files::sync_directory(&self.dir)
    }

    /// Copies the single file of older versions into the present layout. Nothing depends on it: what goes wrong is
    /// logged.
    async fn adopt_legacy(&self) {
        if let Err(error) = collect::adopt(self).await {
            tracing::warn!(%error, "the program of an older version was not taken over");
        }
    }
}

#[cfg(test)]
mod tests;
