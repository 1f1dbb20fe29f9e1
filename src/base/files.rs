//! Files: written whole or not at all, durable before anyone is told.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::{Error, Result, ResultExt, checkpoint};

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

/// The largest file that people name and that is read whole: more than anybody writes by hand.
pub const WRITTEN_LIMIT: u64 = 1 << 20;

/// The bytes of a file that a person named or keeps, at most [`WRITTEN_LIMIT`] of them; `None` when it does not exist.
///
/// # Errors
/// [`super::Kind::Invalid`] naming the file when it is a directory, FIFO, device or socket (which may never end, and is not
/// waited for), or when it is larger; [`super::Kind::Io`] when it cannot be read.
pub fn read_written(path: &Path) -> Result<Option<Vec<u8>>> {
    read_bounded(path, WRITTEN_LIMIT, OFlags::empty())
}

/// The bytes of a file in a directory that somebody else can write, at most `limit` of them; `None` when it does not
/// exist. The same as [`read_written`], and a symbolic link at the end of the path is not followed.
///
/// # Errors
/// As [`read_written`]; [`super::Kind::Io`] for a link.
pub fn read_foreign(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    read_bounded(path, limit, OFlags::NOFOLLOW)
}

/// Opens such a file for reading; `None` when it does not exist.
///
/// # Errors
/// As [`read_foreign`], but for its size.
pub fn open_foreign(path: &Path) -> Result<Option<File>> {
    open_regular(path, OFlags::NOFOLLOW)
}

fn read_bounded(path: &Path, limit: u64, flags: OFlags) -> Result<Option<Vec<u8>>> {
    let Some(file) = open_regular(path, flags)? else { return Ok(None) };
    let mut bytes = Vec::new();
    // The length is not believed: files of /proc have none, others may grow.
    file.take(limit + 1).read_to_end(&mut bytes).io_context(|| format!("cannot read {}", path.display()))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
        return Err(Error::invalid(format!("{} is larger than {} MiB", path.display(), limit >> 20))
            .hint(format!("ls -l {}", path.display())));
    }
    Ok(Some(bytes))
}

fn open_regular(path: &Path, flags: OFlags) -> Result<Option<File>> {
    let doing = || format!("cannot read {}", path.display());
    // Opening a FIFO without this waits for somebody who writes.
    let flags = i32::try_from((flags | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        // A socket cannot be opened at all.
        Err(_) if path.metadata().is_ok_and(|facts| facts.file_type().is_socket()) => {
            return Err(not_a_file(path, "a socket"));
        }
        Err(source) => return Err(source).io_context(doing),
    };
    let kind = file.metadata().io_context(doing)?.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(Some(file)),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a FIFO",
        () => "a device",
    };
    Err(not_a_file(path, what))
}

fn not_a_file(path: &Path, what: &str) -> Error {
    Error::invalid(format!("{} is {what}, not a regular file", path.display()))
        .hint(format!("ls -ld {}", path.display()))
}

/// The file's text, trimmed; `None` when it does not exist, is not a regular file of at most [`WRITTEN_LIMIT`] bytes, is
/// empty or not UTF-8.
pub fn read_line_optional(path: &Path) -> Option<String> {
    let bytes = read_written(path).ok().flatten()?;
    String::from_utf8(bytes).ok().map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
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
    fn what_has_no_end_is_not_read() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = |name: &str| dir.path().join(name);
        assert_eq!(read_written(&path("none")).expect("absent"), None);
        fs::write(path("good"), b"text").expect("writes");
        assert_eq!(read_written(&path("good")).expect("reads").as_deref(), Some(&b"text"[..]));
        let fifo = std::process::Command::new("mkfifo").arg(path("fifo")).status().expect("mkfifo runs");
        assert!(fifo.success());
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("binds");
        std::os::unix::fs::symlink("/dev/zero", path("link")).expect("links");
        File::create(path("large")).and_then(|file| file.set_len(WRITTEN_LIMIT + 1)).expect("a sparse file");
        let cases = [
            ("fifo", "a FIFO"),
            ("socket", "a socket"),
            ("link", "a device"),
            (".", "a directory"),
            ("large", "1 MiB"),
        ];
        for (name, what) in cases {
            let error = read_written(&path(name)).expect_err(name);
            assert!(error.message().contains(what) && error.message().contains(name), "{error}");
        }
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
