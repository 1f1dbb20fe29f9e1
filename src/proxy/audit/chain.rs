//! How the lines of the trail hold together.
//!
//! Each line carries its number in the chain (`n`, from 1) and the blake3 hash of the line before it (`prev`, over the
//! exact bytes without the line's end). `proxy-audit.head` names the number and the hash of the last line and the number
//! of the first one that is kept; it is written after the lines it speaks of, so a process that is killed leaves it
//! behind the trail and never in front of it. What a kill leaves of a line that was being written is set aside in
//! `proxy-audit.torn`.
//!
//! This finds accidents, and whoever edits the trail. Who rewrites every later line and the head as well is not found:
//! there is no key that such a writer would not have.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::{Result, ResultExt, files, json};

/// The end of the chain, as its file tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Head {
    /// The number of the last line; 0 when there was none.
    pub n: u64,
    /// Its hash; empty when there was none.
    pub last: String,
    /// The number of the first line that was not rotated away.
    pub begins: u64,
}

/// What a line says of its place.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Place {
    /// The record.
    pub id: String,
    /// Its number; lines of older versions have none.
    pub n: Option<u64>,
    /// The hash of the line before it.
    pub prev: Option<String>,
}

/// The hash of a line, without the line's end.
pub(super) fn hash(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

impl Place {
    /// What a line says; `None` when it is no record.
    pub fn of(line: &[u8]) -> Option<Place> {
        serde_json::from_slice::<Place>(line).ok().filter(|place| !place.id.is_empty())
    }

    /// Number and predecessor of a line that is in the chain.
    pub fn link(&self) -> Option<(u64, &str)> {
        Some((self.n?, self.prev.as_deref()?))
    }
}

impl Head {
    /// The head of the trail at `path`; `None` when there is none that can be read.
    pub fn load(path: &Path) -> Option<Head> {
        json::load(&beside(path, "head")).ok().flatten()
    }

    /// Replaces it. Whoever reads it meanwhile sees the old one or the new one.
    pub fn save(&self, path: &Path) -> Result<()> {
        let target = beside(path, "head");
        let doing = || format!("cannot write {}", target.display());
        let text = serde_json::to_vec(self).map_err(std::io::Error::other).io_context(doing)?;
        let fresh = beside(path, "head.new");
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh).io_context(doing)?;
        file.write_all(&text).io_context(doing)?;
        std::fs::rename(&fresh, &target).io_context(doing)
    }
}

/// `proxy-audit.<name>` beside `proxy-audit.jsonl`.
pub(super) fn beside(path: &Path, name: &str) -> PathBuf {
    path.with_extension(name)
}

/// The live file, ready for the next line, with what is known of the chain so far.
#[derive(Debug)]
pub(super) struct Opened {
    pub file: File,
    pub size: u64,
    pub head: Head,
    /// The number of the first line of the live file, or of the next one when it is empty.
    pub first: u64,
}

/// Opens the trail at `path` and mends what a kill left.
pub(super) fn open(path: &Path) -> Result<Opened> {
    if let Some(parent) = path.parent() {
        files::create_dir(parent)?;
    }
    let doing = || format!("cannot open {}", path.display());
    let mut file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path).io_context(doing)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).io_context(doing)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        if Place::of(&bytes[whole..]).is_some() {
            // Only its end is missing.
            file.write_all(b"\n").io_context(doing)?;
            bytes.push(b'\n');
        } else {
            set_aside(path, &bytes[whole..])?;
            file.set_len(whole as u64).io_context(doing)?;
            file.seek(SeekFrom::End(0)).io_context(doing)?;
            bytes.truncate(whole);
        }
    }
    let known = Head::load(path);
    let lines = || bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let number = |line: &&[u8]| Place::of(line).and_then(|place| place.n);
    let last = lines().next_back().map(|line| Head {
        n: number(&line).unwrap_or_default(),
        last: hash(line),
        begins: known.as_ref().map_or_else(|| lines().find_map(|line| number(&line)).unwrap_or(1), |head| head.begins),
    });
    let head = match (last, known) {
        // What the trail lacks stays visible: the next line refers to what the head knows.
        (Some(last), Some(known)) if last.n < known.n => known,
        (Some(last), _) => last,
        (None, Some(known)) => known,
        (None, None) => Head { begins: 1, ..Head::default() },
    };
    let first = lines().find_map(|line| number(&line)).unwrap_or(head.n + 1);
    Ok(Opened { file, size: bytes.len() as u64, head, first })
}

/// Keeps what was written of a line, where it can be looked at; only the last one is kept.
fn set_aside(path: &Path, torn: &[u8]) -> Result<()> {
    let target = beside(path, "torn");
    tracing::warn!(bytes = torn.len(), file = %target.display(), "an audit record that a kill cut short is set aside");
    let doing = || format!("cannot write {}", target.display());
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&target).io_context(doing)?;
    file.write_all(torn).io_context(doing)
}
