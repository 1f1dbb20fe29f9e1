//! Installs that this process handed out are held by a shared lock until it ends, so that no other process collects them
//! between the moment they are handed out and the moment a container mounts them.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

static HELD: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Holds the file; `false` when it is not there, or another file by now.
pub(super) fn hold(path: &Path) -> bool {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.get(path).is_some_and(|file| is_at(file, path)) {
        return true;
    }
    let Ok(file) = File::open(path) else { return false };
    // A file system without locks protects nothing, and stops nobody either.
    flock(&file, FlockOperation::NonBlockingLockShared).ok();
    let there = is_at(&file, path);
    if there {
        held.insert(path.to_path_buf(), file);
    }
    there
}

/// Removes the file unless some process holds it. Whether it was removed.
pub(super) fn remove_unheld(path: &Path) -> std::io::Result<bool> {
    let file = File::open(path)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        return Ok(false);
    }
    std::fs::remove_file(path).map(|()| true)
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}
