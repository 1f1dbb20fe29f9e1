//! A git directory of lazy's own for every call in a linked worktree.
//!
//! The git directory of a task's worktree (`<common>/worktrees/<name>`) is writable for its agent, in a container too,
//! and git trusts it: it appends to `logs/HEAD` and writes `COMMIT_EDITMSG` and `MERGE_MSG` through whatever link it
//! finds there, runs the filters that `config.worktree` names, and moves whatever branch `HEAD` says. So git never gets
//! to see that directory from here. A call gets a fresh one with a `HEAD` that was read once, the settings of a sparse
//! checkout and nothing else of the configuration; one that writes gets a copy of the index and of what tells of a
//! half-done merge as well, and what it changed is put back afterwards, file by file, by renames, which follow no link.
//!
//! Git's own lock on the index, `index.lock`, is held meanwhile, so that an agent's git and ours never write it at once.
//! The directory of a call that writes lies at a fixed place, `<common>/lazy/<name>`: when this process is killed and
//! git comes to its end alone, what git left there is put back by whoever finds the orphaned lock ([`adopt`]).

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use super::checkout::{Checkout, Head};
use super::worktrees::quoted;
use crate::base::files::{self, Mode};
use crate::base::{Error, Result, ResultExt};

/// What tells of something half-done, and what git needs to end it.
const STATE: [&str; 8] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "AUTO_MERGE",
    "ORIG_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "SQUASH_MSG",
];

/// Bytes of a file of the git directory that are believed to be one, but for the index.
const STATE_LIMIT: u64 = 4 << 20;

/// Bytes of an index.
const INDEX_LIMIT: u64 = 2 << 30;

/// How long an index that somebody else holds is waited for, and how often it is looked at.
const PATIENCE: u32 = 20;
const LOOK: Duration = Duration::from_millis(50);

/// The git directory of one call. Removed when dropped.
#[derive(Debug)]
pub(super) struct Private {
    checkout: Checkout,
    dir: PathBuf,
    head: String,
    writing: Option<Writing>,
}

/// The index as it was, and the lock on it.
#[derive(Debug)]
struct Writing {
    lock: PathBuf,
    before: Option<Stamp>,
}

/// Tells a rewritten file from an untouched one: git replaces files, so the inode differs.
type Stamp = (u64, u64, i64, i64);

impl Private {
    /// One for a call that changes nothing: the index is read where it is.
    pub fn reading(temporary: &Path, checkout: &Checkout) -> Result<Private> {
        Private::prepare(checkout, fresh(temporary), None)
    }

    /// One for a call that may change index or branch. Waits a moment for the index.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] naming the lock when somebody holds the index.
    pub async fn writing(temporary: &Path, checkout: &Checkout) -> Result<Private> {
        let lock = checkout.git_dir.join("index.lock");
        let mut tries = 0;
        while let Err(error) = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&lock) {
            tries += 1;
            if error.kind() != std::io::ErrorKind::AlreadyExists {
                return Err(Error::io(format!("cannot lock the index: {}", lock.display()), error));
            }
            if tries >= PATIENCE {
                return Err(Error::conflict(format!("the index is in use: {} exists", lock.display()))
                    .hint(format!("when no git command runs there any more: rm {}", quoted(&lock))));
            }
            tokio::time::sleep(LOOK).await;
        }
        let dir = match place(checkout) {
            // in a container the shared directory is read-only; there the calls that write only refresh the index
            dir if prepare_place(&dir).is_err() => fresh(temporary),
            dir => dir,
        };
        let writing = Writing { lock: lock.clone(), before: None };
        Private::prepare(checkout, dir, Some(writing)).inspect_err(|_| drop(fs::remove_file(&lock)))
    }

    /// `GIT_DIR` of the call.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// `GIT_INDEX_FILE` of the call, where it is not in its place.
    pub fn index(&self) -> Option<PathBuf> {
        self.writing.is_none().then(|| self.checkout.git_dir.join("index"))
    }

    fn set(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.dir.join(name), text).io_context(|| format!("cannot write {}", self.dir.join(name).display()))
    }

    /// Puts back what the call changed.
    pub fn publish(mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let lock = writing.lock.clone();
        let done = self.put_back(&writing);
        // gone when it became the index
        fs::remove_file(&lock).ok();
        done
    }

    fn put_back(&self, writing: &Writing) -> Result<()> {
        put_back_state(&self.checkout, &self.dir)?;
        let head = plain(&self.dir.join("HEAD"), STATE_LIMIT).unwrap_or_default();
        if self.checkout.pin.is_none() && head != self.head.as_bytes() && !head.is_empty() {
            files::write_atomic(&self.checkout.git_dir.join("HEAD"), &head, Mode::Shared)?;
        }
        if stamp(&self.dir.join("index")) == writing.before {
            return Ok(());
        }
        put_back_index(&self.checkout, &self.dir, &writing.lock)
    }

    fn prepare(checkout: &Checkout, dir: PathBuf, writing: Option<Writing>) -> Result<Private> {
        let doing = || format!("cannot prepare {}", dir.display());
        let head = match checkout.head()? {
            Head::Branch(name) => format!("ref: refs/heads/{name}\n"),
            Head::Ref(name) => format!("ref: {name}\n"),
            Head::Detached(sha) => format!("{sha}\n"),
        };
        if writing.is_some() {
            files::remove_tree(&dir)?;
        }
        files::create_private_dir(&dir)?;
        let mut private = Private { checkout: checkout.clone(), dir: dir.clone(), head, writing: None };
        private.set("HEAD", &private.head)?;
        // refs are found by this file alone, whatever GIT_COMMON_DIR says
        let common = [checkout.common_dir.as_os_str().as_encoded_bytes(), b"\n"].concat();
        fs::write(dir.join("commondir"), common).io_context(doing)?;
        private.take_sparse()?;
        // parts of a split index are only read
        for entry in fs::read_dir(&checkout.git_dir).io_context(doing)?.flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with("sharedindex.")) {
                symlink(entry.path(), dir.join(entry.file_name())).io_context(doing)?;
            }
        }
        let Some(mut writing) = writing else { return Ok(private) };
        for name in STATE {
            let pinned = checkout.pin.as_ref().filter(|_| name == "MERGE_HEAD");
            let bytes = match pinned.map(|pin| &pin.merging) {
                // as it was judged, if it is still under way; and never several at once
                Some(merging) => merging
                    .clone()
                    .filter(|_| checkout.merge_head() == *merging)
                    .map(|sha| format!("{sha}\n").into_bytes()),
                None => plain(&checkout.git_dir.join(name), STATE_LIMIT),
            };
            if let Some(bytes) = bytes {
                fs::write(dir.join(name), bytes).io_context(doing)?;
            }
        }
        copy(&checkout.git_dir.join("index"), &dir.join("index"))?;
        writing.before = stamp(&dir.join("index"));
        private.writing = Some(writing);
        Ok(private)
    }

    /// A sparse checkout stays one; nothing else that the worktree's own configuration says is taken over.
    fn take_sparse(&self) -> Result<()> {
        let own = &self.checkout.git_dir;
        let Some(bytes) = plain(&own.join("config.worktree"), STATE_LIMIT) else { return Ok(()) };
        let Some(config) = std::str::from_utf8(&bytes).ok().and_then(|text| gix::config::File::try_from(text).ok())
        else {
            return Ok(());
        };
        let is_set = |key: &str| matches!(config.boolean(key), Ok(Some(true)));
        if !is_set("core.sparseCheckout") {
            return Ok(());
        }
        let cone = is_set("core.sparseCheckoutCone");
        self.set("config.worktree", &format!("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = {cone}\n"))?;
        if let Some(patterns) = plain(&own.join("info/sparse-checkout"), STATE_LIMIT) {
            files::create_dir(&self.dir.join("info"))?;
            let to = self.dir.join("info/sparse-checkout");
            fs::write(&to, patterns).io_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(())
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // a call that was given up may have got far
        if let Some(writing) = self.writing.take() {
            self.put_back(&writing).ok();
            fs::remove_file(&writing.lock).ok();
        }
        files::remove_tree(&self.dir).ok();
    }
}

/// Puts back what a git left whose caller was killed, and frees the index. Only for a lock that nobody holds.
pub(super) fn adopt(checkout: &Checkout, lock: &Path) -> Result<()> {
    let dir = place(checkout);
    let left = plain(&dir.join("HEAD"), STATE_LIMIT).is_some() && dir.join("index").exists();
    let done = match left {
        true => put_back_state(checkout, &dir).and_then(|()| put_back_index(checkout, &dir, lock)),
        false => Ok(()),
    };
    files::remove_tree(&dir)?;
    files::remove_file(lock)?;
    done
}

/// Forgets what may be left of a worktree that is removed.
pub(super) fn forget(checkout: &Checkout) {
    files::remove_tree(&place(checkout)).ok();
}

/// The bytes of a regular file. `None` for a link, a pipe, and anything larger than `limit`.
pub(super) fn plain(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let file = open_plain(path, limit)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn open_plain(path: &Path, limit: u64) -> Option<File> {
    // NONBLOCK: a named pipe must not hang the caller
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    (meta.is_file() && meta.len() <= limit).then_some(file)
}

fn fresh(temporary: &Path) -> PathBuf {
    temporary.join(format!("lazy-git-{}", uuid::Uuid::new_v4().simple()))
}

/// Where the git directory of a call that writes lies: out of the agent's reach.
fn place(checkout: &Checkout) -> PathBuf {
    checkout.common_dir.join("lazy").join(checkout.git_dir.file_name().unwrap_or_default())
}

fn prepare_place(dir: &Path) -> Result<()> {
    files::remove_tree(dir)?;
    files::create_private_dir(dir)
}

fn put_back_state(checkout: &Checkout, from: &Path) -> Result<()> {
    for name in STATE {
        let to = checkout.git_dir.join(name);
        match plain(&from.join(name), STATE_LIMIT) {
            Some(bytes) if plain(&to, STATE_LIMIT).as_ref() == Some(&bytes) => {}
            Some(bytes) => files::write_atomic(&to, &bytes, Mode::Shared)?,
            None if to.symlink_metadata().is_ok() => files::remove_file(&to)?,
            None => {}
        }
    }
    Ok(())
}

/// The new index becomes the worktree's, as git does it: written beside it, then renamed. Its time is kept, because git
/// tells by it which files to look at again.
fn put_back_index(checkout: &Checkout, from: &Path, lock: &Path) -> Result<()> {
    let index = checkout.git_dir.join("index");
    let doing = || format!("cannot write {}", index.display());
    let beside = checkout.git_dir.join(format!(".index.{}.tmp", uuid::Uuid::new_v4().simple()));
    if !copy(&from.join("index"), &beside)? {
        return Ok(());
    }
    fs::rename(&beside, &index).inspect_err(|_| drop(fs::remove_file(&beside))).io_context(doing)?;
    fs::remove_file(lock).io_context(doing)
}

/// Copies a regular file with its time to one that does not exist yet; whether there was one.
fn copy(from: &Path, to: &Path) -> Result<bool> {
    let doing = || format!("cannot copy {}", from.display());
    let Some(mut source) = open_plain(from, INDEX_LIMIT) else { return Ok(false) };
    let modified = source.metadata().and_then(|meta| meta.modified()).io_context(doing)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o644).open(to).io_context(doing)?;
    std::io::copy(&mut source, &mut target).io_context(doing)?;
    target.flush().and_then(|()| target.set_modified(modified)).io_context(doing)?;
    Ok(true)
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = path.symlink_metadata().ok()?;
    Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}
