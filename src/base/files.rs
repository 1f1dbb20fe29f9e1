//! Files: written whole or not at all, durable before anyone is told.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Result, ResultExt, checkpoint};

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// 0644 less the umask.
    Shared,
    /// 0600: secrets.
    Private,
    /// 0755: programs.
    Program,
}

impl Mode {
    fn bits(self) -> u32 {
        match self {
            Mode::Shared => 0o644,
            Mode::Private => 0o600,
            Mode::Program => 0o755,
        }
    }
}

/// Replaces `path` with `bytes`: a temporary file beside it, fsync, rename, fsync of the directory.
///
/// A reader sees the old bytes or the new ones, also across a crash. On any failure the old file stands and the
/// temporary one is gone.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: Mode) -> Result<()> {
    let doing = || format!("cannot write {}", path.display());
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).io_context(|| format!("cannot create {}", directory.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.join(format!(".{name}.{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = (|| -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode.bits()).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        checkpoint::reach("files.before-rename");
        fs::rename(&temporary, path)
    })();
    if let Err(source) = written {
        fs::remove_file(&temporary).ok();
        return Err(source).io_context(doing);
    }
    sync_directory(directory)
}

/// Makes renames and removals inside a directory durable.
pub fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory)
        .and_then(|handle| handle.sync_all())
        .io_context(|| format!("cannot make the entries of {} durable", directory.display()))
}

/// The file's bytes; `None` when it does not exist.
pub fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(source).io_context(|| format!("cannot read {}", path.display())),
    }
}

/// The file's text, trimmed; `None` when it does not exist or is not UTF-8.
pub fn read_line_optional(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
}

/// Removes a file; one that is already gone is as good.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(source).io_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes a directory with all below it; one that is already gone is as good.
pub fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(source).io_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Creates a directory with its parents.
pub fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).io_context(|| format!("cannot create {}", path.display()))
}

/// Creates a directory that only its owner may enter.
pub fn create_private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)))
        .io_context(|| format!("cannot create {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_replaces_and_leaves_no_litter() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("deep/file.json");
        write_atomic(&path, b"one", Mode::Shared).expect("first");
        write_atomic(&path, b"two", Mode::Private).expect("second");
        assert_eq!(fs::read(&path).expect("reads"), b"two");
        assert_eq!(fs::read_dir(path.parent().expect("parent")).expect("lists").count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("taken");
        fs::create_dir(&path).expect("a directory stands where the file should be");
        fs::write(path.join("inside"), b"x").expect("it is not empty");
        let error = write_atomic(&path, b"new", Mode::Shared).expect_err("cannot replace a directory");
        assert!(error.to_string().contains("taken"));
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 1);
    }
}
