//! Locks that the operating system releases when their holder dies.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{Result, ResultExt, files};

/// An exclusive `flock`, held until dropped or until the process ends, however it ends.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

/// What an attempt to take a lock found.
#[derive(Debug)]
pub enum Attempt {
    /// The lock is ours.
    Taken(FileLock),
    /// Another process holds it; the text is what that process wrote into the file, usually its pid.
    Held(String),
}

impl FileLock {
    /// Tries once, without waiting, and writes `note` (usually the pid) into the file when it succeeds.
    pub fn try_take(path: &Path, note: &str) -> Result<Attempt> {
        if let Some(parent) = path.parent() {
            files::create_dir(parent)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(path)
            .io_context(|| format!("cannot open the lock file {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let written =
                    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(note.as_bytes()));
                written.io_context(|| format!("cannot write the lock file {}", path.display()))?;
                Ok(Attempt::Taken(FileLock { file, path: path.to_path_buf() }))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).ok();
                Ok(Attempt::Held(holder.trim().to_string()))
            }
            Err(source) => Err(std::io::Error::from(source)).io_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Whether some process holds the lock now. A missing file is not held. Never creates the file.
    pub fn is_held(path: &Path) -> bool {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return false };
        matches!(flock(&file, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK))
    }

    /// The file the lock stands on.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.file.set_len(0).ok();
        flock(&self.file, FlockOperation::Unlock).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_learns_who_holds_it() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("lock");
        let Attempt::Taken(first) = FileLock::try_take(&path, "4711").expect("takes") else { panic!("free lock") };
        assert!(FileLock::is_held(&path));
        match FileLock::try_take(&path, "1").expect("asks") {
            Attempt::Held(holder) => assert_eq!(holder, "4711"),
            Attempt::Taken(_) => panic!("taken twice"),
        }
        drop(first);
        assert!(!FileLock::is_held(&path));
    }
}
