//! Several files written whole or not at all.
//!
//! A write is a few files in `journal/`: `<n>.<m>`, the new content, durable, and then `<n>.json`, the intent, which says
//! where each belongs. With the intent durable the write is decided. The files are put in place as further links to the
//! staged ones, so that all of them can be put in place again for as long as the intent stands; at last the intent goes,
//! and the staged names with it. What no intent names was never decided and is thrown away.
//!
//! Everything that needs room on the disk happens before the intent. If putting in place fails all the same, what was
//! replaced is put back and the intent withdrawn, so that "not applied" is true; if even that fails, the journal says
//! [`Failed::Unclear`] and its owner must not write again before the store was opened anew.
//!
//! A withdrawn intent need not be durably gone at once: found again after a power cut, it puts in place what is there
//! already. It must be before anything else is written, and is: each write makes the directory durable first.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::layout;
use crate::base::{Error, Kind, Result, ResultExt, checkpoint, files, json};

/// A file with its new content.
#[derive(Debug, Clone)]
pub(super) struct NewFile {
    /// Relative to the root.
    pub(super) path: PathBuf,
    /// All of it.
    pub(super) bytes: Vec<u8>,
}

/// A write that happened.
#[derive(Debug)]
pub(super) enum Written {
    /// Nothing of it is left.
    Clean,
    /// Its intent could not be withdrawn: written again later, it would undo what came after. The owner must not write
    /// again before the store was opened anew.
    Stuck(Error),
}

/// Why a write is not known to have happened.
#[derive(Debug)]
pub(super) enum Failed {
    /// It did not happen: every file is as it was.
    NotApplied(Error),
    /// It may have happened in part; opening the store again completes it.
    Unclear(Error),
}

#[derive(Debug, Serialize, Deserialize)]
struct Intent {
    files: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// Relative to the root.
    path: PathBuf,
    /// The name of the staged file.
    staged: String,
    /// Of the content.
    blake3: String,
}

/// The directory of writes under way.
#[derive(Debug)]
pub(super) struct Journal {
    root: PathBuf,
    dir: PathBuf,
    next: u64,
    /// Whether the last write's intent may still come back after a power cut.
    withdrawn: bool,
}

/// The names of one write in the journal.
struct Names {
    intent: PathBuf,
    staged: Vec<PathBuf>,
}

impl Names {
    fn new(dir: &Path, number: u64, files: usize) -> Names {
        let staged = (0..files).map(|file| dir.join(format!("{number:08}.{file}"))).collect();
        Names { intent: dir.join(format!("{number:08}.json")), staged }
    }

    /// Ends the write: from here on it is not done again.
    fn withdraw(&self) -> Result<()> {
        files::remove_file(&self.intent)?;
        checkpoint::reach("store.after-intent-removed");
        // Without its intent a staged file means nothing; one that stays is thrown away by the next start.
        self.staged.iter().for_each(|path| drop(fs::remove_file(path)));
        Ok(())
    }
}

impl Journal {
    /// Opens the journal below `root`: completes what was decided, throws away what was not.
    pub(super) fn open(root: &Path) -> Result<Journal> {
        let dir = root.join(layout::JOURNAL);
        files::create_dir(&dir)?;
        let mut left: Vec<PathBuf> = fs::read_dir(&dir)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>())
            .io_context(|| format!("cannot read {}", dir.display()))?;
        left.sort();
        for intent in left.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
            replay(root, &dir, intent)?;
            files::remove_file(intent)?;
        }
        left.iter().try_for_each(|path| files::remove_file(path))?;
        files::sync_directory(&dir)?;
        Ok(Journal { root: root.to_path_buf(), dir, next: 1, withdrawn: false })
    }

    /// Writes all of `new` or nothing; durable when it returns.
    pub(super) fn write(&mut self, new: &[NewFile]) -> Result<Written, Failed> {
        match new {
            [] => Ok(Written::Clean),
            [one] if self.root.join(&one.path).parent().is_some_and(Path::exists) => self.write_one(one),
            _ => self.write_all(new),
        }
    }

    /// One file is whole or not by itself: no intent is needed.
    fn write_one(&mut self, new: &NewFile) -> Result<Written, Failed> {
        let path = self.root.join(&new.path);
        if self.withdrawn {
            files::sync_directory(&self.dir).map_err(Failed::NotApplied)?;
            self.withdrawn = false;
        }
        let old = files::read_optional(&path).map_err(Failed::NotApplied)?;
        files::write_atomic(&path, &new.bytes, files::Mode::Shared).map_err(|error| {
            match self.restore(std::slice::from_ref(new), &[old]) {
                Ok(()) => Failed::NotApplied(error),
                Err(second) => Failed::Unclear(twice(&error, &second)),
            }
        })?;
        Ok(Written::Clean)
    }

    fn write_all(&mut self, new: &[NewFile]) -> Result<Written, Failed> {
        let names = Names::new(&self.dir, self.next, new.len());
        self.next += 1;
        let mut made = Vec::new();
        let undo = |error: Error, undone: Result<()>, made: &[PathBuf]| {
            let undone = undone.and_then(|()| names.withdraw()).and_then(|()| files::sync_directory(&self.dir));
            remove_empty(made);
            match undone {
                Ok(()) => Failed::NotApplied(error),
                Err(second) => Failed::Unclear(twice(&error, &second)),
            }
        };
        let old = match self.stage(&names, new, &mut made) {
            Ok(old) => old,
            // Also when only its very last step failed: the intent must not be found by a later start.
            Err(error) => return Err(undo(error, Ok(()), &made)),
        };
        checkpoint::reach("store.after-intent");
        if let Err(error) = self.place_all(&names, new) {
            return Err(undo(error, self.restore(new, &old), &made));
        }
        checkpoint::reach("store.after-files");
        let withdrawn = names.withdraw();
        self.withdrawn = true;
        Ok(match withdrawn {
            Ok(()) => Written::Clean,
            Err(error) => Written::Stuck(error),
        })
    }

    /// Makes the new files and the intent durable; returns what stands now where the files belong.
    fn stage(&self, names: &Names, new: &[NewFile], made: &mut Vec<PathBuf>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut old = Vec::with_capacity(new.len());
        let mut entries = Vec::with_capacity(new.len());
        for (file, staged) in new.iter().zip(&names.staged) {
            let target = self.root.join(&file.path);
            old.push(files::read_optional(&target)?);
            write_durable(staged, &file.bytes).io_context(|| format!("cannot write {}", target.display()))?;
            let staged = staged.file_name().unwrap_or_default().to_string_lossy().into_owned();
            entries.push(Entry { path: file.path.clone(), staged, blake3: hash(&file.bytes) });
            checkpoint::reach("store.staged-file");
        }
        for file in new {
            let parent = self.root.join(&file.path).parent().map(Path::to_path_buf).unwrap_or_default();
            if !parent.exists() {
                files::create_dir(&parent)?;
                made.push(parent.clone());
                parent.parent().map(files::sync_directory).transpose()?;
            }
        }
        checkpoint::reach("store.before-intent");
        json::save(&names.intent, &Intent { files: entries })?;
        Ok(old)
    }

    fn place_all(&self, names: &Names, new: &[NewFile]) -> Result<()> {
        for (file, staged) in new.iter().zip(&names.staged) {
            place(staged, &self.root.join(&file.path))?;
            checkpoint::reach("store.between-files");
        }
        sync_parents(&self.root, new.iter().map(|file| file.path.as_path()))
    }

    fn restore(&self, new: &[NewFile], old: &[Option<Vec<u8>>]) -> Result<()> {
        let mut restored = Vec::new();
        for (file, old) in new.iter().zip(old) {
            let path = self.root.join(&file.path);
            if files::read_optional(&path).is_ok_and(|now| now == *old) {
                continue;
            }
            match old {
                Some(bytes) => files::write_atomic(&path, bytes, files::Mode::Shared)?,
                // Where a file could not be put in place something else may stand: that was not ours to remove.
                None if path.is_dir() => continue,
                None => files::remove_file(&path)?,
            }
            restored.push(file.path.as_path());
            checkpoint::reach("store.restored-file");
        }
        sync_parents(&self.root, restored.into_iter())
    }
}

/// A failure, and the failure of undoing it.
fn twice(first: &Error, second: &Error) -> Error {
    Error::new(Kind::Io, format!("{first}; and what was written could not be taken back: {second}"))
}

/// Completes a write that was decided.
fn replay(root: &Path, journal: &Path, intent: &Path) -> Result<()> {
    let Intent { files: entries } = match json::load(intent) {
        Ok(Some(intent)) => intent,
        Ok(None) => return Ok(()),
        Err(error) => {
            tracing::warn!(path = %intent.display(), %error, "a torn intent was thrown away");
            return Ok(());
        }
    };
    // All are looked at before one is touched: a write whose files are not whole any more is not begun.
    for entry in &entries {
        let plain = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain(&entry.path) || !entry.path.starts_with(layout::TASKS) || !plain(Path::new(&entry.staged)) {
            tracing::error!(path = %entry.path.display(), "an intent that names a foreign path was thrown away");
            return Ok(());
        }
        let is_new =
            |path: &Path| Ok::<bool, Error>(files::read_optional(path)?.is_some_and(|b| hash(&b) == entry.blake3));
        if !is_new(&journal.join(&entry.staged))? && !is_new(&root.join(&entry.path))? {
            tracing::error!(path = %entry.path.display(), "an intent whose content is gone was thrown away");
            return Ok(());
        }
    }
    for entry in &entries {
        let target = root.join(&entry.path);
        if let Some(parent) = target.parent() {
            files::create_dir(parent)?;
        }
        let staged = journal.join(&entry.staged);
        if staged.exists() {
            place(&staged, &target)?;
        }
        checkpoint::reach("store.replayed-file");
    }
    sync_parents(root, entries.iter().map(|entry| entry.path.as_path()))?;
    files::sync_directory(&root.join(layout::TASKS))?;
    tracing::info!(files = entries.len(), "a write that a crash interrupted was completed");
    Ok(())
}

/// Puts a further link to `staged` in the place of `target`; a file system without links gets a copy.
fn place(staged: &Path, target: &Path) -> Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = target.with_file_name(format!(".{name}.{}.tmp", uuid::Uuid::new_v4().simple()));
    let placed = fs::hard_link(staged, &temporary)
        .or_else(|_| fs::read(staged).and_then(|bytes| write_durable(&temporary, &bytes)))
        .and_then(|()| fs::rename(&temporary, target));
    // Also after a rename that succeeded: between two links to one file it does nothing and leaves both.
    fs::remove_file(&temporary).ok();
    placed.io_context(|| format!("cannot write {}", target.display()))
}

fn write_durable(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_parents<'a>(root: &Path, paths: impl Iterator<Item = &'a Path>) -> Result<()> {
    let parents: std::collections::BTreeSet<PathBuf> =
        paths.filter_map(|path| root.join(path).parent().map(Path::to_path_buf)).collect();
    parents.iter().try_for_each(|parent| files::sync_directory(parent))
}

fn remove_empty(made: &[PathBuf]) {
    for dir in made {
        // One that is not empty stays: `remove_dir` refuses it.
        fs::remove_dir(dir).ok();
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The refusal of every write after one whose end is unknown.
pub(super) fn poisoned(reason: &str) -> Error {
    Error::new(Kind::Io, format!("the task store takes no writes until it is opened again, because {reason}"))
        .hint("lazy daemon restart")
}
