//! Making an install, and judging one that is there.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::source::{Identity, Source, identity_of, off_thread};
use super::{Install, Installs};
use crate::base::{Error, Kind, Process, Result, checkpoint, files, text};
use crate::proc::Cmd;

/// How long `selfcheck` may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How `selfcheck` begins its answer.
pub(crate) const SENTINEL: &str = "lazy-agent ok ";

/// What stands at an install's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    /// What its name promises.
    Whole,
    /// Nothing.
    Absent,
    /// Something else; why, in words.
    Damaged(String),
}

/// A file as it was when its bytes were last read: device, inode, size, time of the last change of any kind.
type Seen = (u64, u64, u64, i64, i64);

/// Looks at an install. Its bytes are read once per process, and again whenever the file changed in any way.
///
/// # Errors
/// [`Kind::Conflict`] for a thing of that name that lazy did not make, and one that somebody else could change.
pub(super) async fn judge(path: &Path, wanted: &Identity) -> Result<Judgement> {
    static READ: Mutex<BTreeSet<Seen>> = Mutex::new(BTreeSet::new());
    let meta = match path.symlink_metadata() {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Judgement::Absent),
        Err(source) => return Err(Error::io(format!("cannot look at {}", path.display()), source)),
        Ok(meta) => meta,
    };
    if !meta.is_file() {
        return Err(Error::conflict(format!("{} is not a file, and a program belongs there", path.display()))
            .hint(format!("mv {0} {0}.aside", path.display())));
    }
    let (own, owner) = (rustix::process::geteuid().as_raw(), meta.uid());
    if owner != own && owner != 0 {
        return Err(Error::conflict(format!(
            "{} belongs to user {owner}, who could change what containers run",
            path.display()
        ))
        .hint(format!("sudo rm {}", path.display())));
    }
    if meta.size() != wanted.size {
        return Ok(Judgement::Damaged(format!("it has {} bytes instead of {}", meta.size(), wanted.size)));
    }
    if meta.mode() & 0o022 != 0 || meta.mode() & 0o555 != 0o555 {
        return Ok(Judgement::Damaged(format!("its mode is {:o} instead of 755", meta.mode() & 0o7777)));
    }
    let seen = (meta.dev(), meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec());
    if READ.lock().unwrap_or_else(PoisonError::into_inner).contains(&seen) {
        return Ok(Judgement::Whole);
    }
    let at = path.to_path_buf();
    let found = off_thread(move || {
        let file = File::open(&at).map_err(|source| Error::io(format!("cannot read {}", at.display()), source))?;
        identity_of(file)
    });
    if found.await?.id != wanted.id {
        return Ok(Judgement::Damaged("its bytes are not those its name stands for".into()));
    }
    READ.lock().unwrap_or_else(PoisonError::into_inner).insert(seen);
    Ok(Judgement::Whole)
}

/// Writes an install: a temporary file, durable, verified, then renamed into its place.
pub(super) async fn write(installs: &Installs, install: &Install, wanted: &Identity) -> Result<()> {
    write_from(&installs.process, &installs.source, install, wanted).await
}

/// The same from any source.
pub(super) async fn write_from(process: &Process, source: &Source, install: &Install, wanted: &Identity) -> Result<()> {
    let temporary = Temporary(sibling(&install.path));
    let (source, at, expected) = (source.clone(), temporary.0.clone(), wanted.clone());
    off_thread(move || copy(&source, &at, &expected)).await?;
    selfcheck(process, &temporary.0).await?;
    checkpoint::reach("install.before-rename");
    // A link takes no place that is taken: who comes second of two at once leaves the file of the first alone. What is
    // damaged is replaced, and so is it done where the file system has no links.
    let placed = match fs::hard_link(&temporary.0, &install.path) {
        Err(_) if judge(&install.path, wanted).await? == Judgement::Whole => Ok(()),
        Err(_) => fs::rename(&temporary.0, &install.path),
        Ok(()) => Ok(()),
    };
    placed.map_err(|source| not_writable(&install.path, source))?;
    files::sync_directory(install.path.parent().unwrap_or(Path::new("/")))
}

fn sibling(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", uuid::Uuid::new_v4().simple()))
}

fn copy(source: &Source, to: &Path, wanted: &Identity) -> Result<()> {
    let directory = to.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(|source| not_writable(directory, source))?;
    let failed = |error: io::Error| not_writable(to, error);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(to).map_err(failed)?;
    let copied = io::copy(&mut source.open()?, &mut file).map_err(failed)?;
    // The umask has no say: every user of a container must be able to run it.
    file.set_permissions(fs::Permissions::from_mode(0o755)).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    drop(file);
    let written = identity_of(File::open(to).map_err(failed)?)?;
    if copied != wanted.size || written.id != wanted.id {
        return Err(Error::new(Kind::Io, format!("what was written to {} reads back differently", to.display()))
            .hint("check the disk: dmesg | tail"));
    }
    Ok(())
}

/// Removes what is left of an attempt.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// Runs a program's `selfcheck` on this machine, if it can run here.
pub(super) async fn selfcheck(process: &Process, program: &Path) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let output = Cmd::new(program)
        .env_of(process)
        .env_remove("LAZY_CHECKPOINT")
        .arg("selfcheck")
        .cwd(Path::new("/"))
        .timeout(PATIENCE)
        .output_limit(1 << 16)
        .output();
    let output = output.await.map_err(|error| {
        let directory = program.parent().unwrap_or(Path::new("/")).display().to_string();
        Error::unavailable(format!("lazy's program does not run from {directory}"))
            .caused_by(error)
            .hint(format!("is it on a file system mounted noexec? findmnt -T {directory}"))
    })?;
    if output.success() && output.stdout_text().starts_with(SENTINEL) {
        return Ok(());
    }
    let said = format!("{} {}", output.stdout_text(), output.stderr_text());
    let said = text::truncate_chars(&text::one_line(&said), 200);
    Err(Error::unavailable(format!("lazy's own program does not pass its selfcheck: {said}"))
        .hint("build and install lazy again: make static install"))
}

/// Why something below `~/.lazy/bin` could not be made, with who owns what.
pub(super) fn not_writable(path: &Path, source: io::Error) -> Error {
    let directory = path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let owner = directory.metadata().map(|meta| meta.uid()).unwrap_or_default();
    let denied = source.kind() == io::ErrorKind::PermissionDenied;
    let error = Error::io(format!("cannot write {}", path.display()), source);
    match denied && owner != rustix::process::geteuid().as_raw() {
        true => error.hint(format!(
            "{0} belongs to user {owner}; take it over: sudo chown -R \"$(id -u):$(id -g)\" {0}",
            directory.display()
        )),
        false => error,
    }
}
