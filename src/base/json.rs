//! JSON files: pretty on disk, and a reader that tells a missing file from a torn one.

use std::path::Path;

use serde::{Serialize, de::DeserializeOwned};

use super::{Error, Kind, Result, files};

/// Two-space indented JSON with a final newline.
pub fn pretty(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|source| Error::internal("cannot encode a record as JSON").caused_by(source))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a JSON file; `None` when it does not exist.
///
/// # Errors
/// [`Kind::Io`] when it cannot be read or does not parse; the message names the file, line and column.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(bytes) = files::read_optional(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|source| {
        Error::new(Kind::Io, format!("{} is not the JSON it should be", path.display())).caused_by(source)
    })
}

/// Reads a JSON file from a directory that somebody else can write, as [`files::read_foreign`].
///
/// # Errors
/// [`Kind::Io`] when it cannot be read, is no regular file, is larger than `limit` bytes, or does not parse.
pub fn load_foreign<T: DeserializeOwned>(path: &Path, limit: u64) -> Result<Option<T>> {
    let unfit = |error: Error| match error.kind() {
        Kind::Invalid => Error::new(Kind::Io, error.message().to_string()),
        _ => error,
    };
    let Some(bytes) = files::read_foreign(path, limit).map_err(unfit)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|source| {
        Error::new(Kind::Io, format!("{} is not the JSON it should be", path.display())).caused_by(source)
    })
}

/// Writes a JSON file whole or not at all.
pub fn save(path: &Path, value: &impl Serialize) -> Result<()> {
    files::write_atomic(path, &pretty(value)?, files::Mode::Shared)
}

/// Writes a JSON file that only its owner may read.
pub fn save_private(path: &Path, value: &impl Serialize) -> Result<()> {
    files::write_atomic(path, &pretty(value)?, files::Mode::Private)
}
