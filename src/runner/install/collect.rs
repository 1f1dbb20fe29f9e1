//! Removing installs that nobody uses any more, and taking over the single file of older versions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::source::{Source, identity_of, off_thread};
use super::write::{self, Judgement};
use super::{CURRENT, Install, Installs, LEGACY, PREFIX, hold};
use crate::base::{Error, Result, ResultExt};

impl Installs {
    /// Removes the installs that are neither current, nor in `in_use` (the paths that running containers mount), nor
    /// held by a live process of lazy; and the file of older versions once no container mounts it. Returns what was
    /// removed.
    ///
    /// # Errors
    /// [`crate::base::Kind::Io`] when one cannot be removed; the others are tried all the same.
    pub async fn collect(&self, in_use: &BTreeSet<PathBuf>) -> Result<Vec<PathBuf>> {
        let used: BTreeSet<PathBuf> = in_use.iter().flat_map(|path| [path.clone(), real(path)]).collect();
        let current = fs::read_link(self.dir.join(CURRENT)).ok();
        let (mut removed, mut failed) = (Vec::new(), None);
        for path in all(&self.dir) {
            let is_current = current.as_deref().is_some_and(|current| path.file_name() == current.file_name());
            if is_current || used.contains(&path) || used.contains(&real(&path)) {
                continue;
            }
            match hold::remove_unheld(&path).io_context(|| format!("cannot remove {}", path.display())) {
                Ok(true) => removed.push(path),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(removed), Err)
    }
}

/// Regular files of the directory that are installs, or the file of older versions.
pub(super) fn all(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name == LEGACY || is_install(name)))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

fn is_install(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|id| id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// Copies the file of older versions into the present layout, if it is lazy's program and not there yet.
pub(super) async fn adopt(installs: &Installs) -> Result<()> {
    let legacy = installs.dir.join(LEGACY);
    if !legacy.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(());
    }
    let source = Source::File(legacy.clone());
    let reading = source.clone();
    let wanted = off_thread(move || identity_of(reading.open()?)).await?;
    let install = Install { path: installs.dir.join(format!("{PREFIX}{}", wanted.id)), id: wanted.id.clone() };
    if write::judge(&install.path, &wanted).await? == Judgement::Whole {
        return Ok(());
    }
    write::write_from(&installs.process, &source, &install, &wanted)
        .await
        .map_err(|error| Error::new(error.kind(), format!("{}: {}", legacy.display(), error.full_message())))
}
