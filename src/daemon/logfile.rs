//! The daemon's log does not grow without end.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::base::{Result, ResultExt, files};

/// The size at which a new segment begins.
pub(super) const LIMIT: u64 = 10 << 20;
/// Older segments kept: `daemon.log.1` is the youngest.
pub(super) const KEPT: u32 = 3;

/// Begins a new segment when the log has reached `limit` bytes; whether it did.
///
/// The file is copied and then emptied instead of renamed: whoever has it open (this process, and standard error of a
/// daemon in the background) goes on writing to it, at its new end.
pub(super) fn rotate(path: &Path, limit: u64, kept: u32) -> Result<bool> {
    if fs::metadata(path).map_or(0, |metadata| metadata.len()) < limit {
        return Ok(false);
    }
    for older in (1..kept).rev() {
        let from = segment(path, older);
        if from.exists() {
            fs::rename(&from, segment(path, older + 1)).io_context(|| format!("cannot move {}", from.display()))?;
        }
    }
    let (fresh, half) = (segment(path, 1), path.with_extension("log.half"));
    let copied = (|| {
        let mut log = OpenOptions::new().read(true).write(true).open(path)?;
        std::io::copy(&mut log, &mut File::create(&half)?)?;
        fs::rename(&half, &fresh)?;
        log.set_len(0)
    })();
    if copied.is_err() {
        files::remove_file(&half).ok();
    }
    copied.io_context(|| format!("cannot begin a new segment of {}", path.display()))?;
    Ok(true)
}

fn segment(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn three_older_segments_are_kept_and_writers_go_on() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("daemon.log");
        assert!(!rotate(&path, 10, 3).expect("no log yet"));
        let mut writer = OpenOptions::new().create(true).append(true).open(&path).expect("opens");
        for round in 0..5 {
            writeln!(writer, "round {round}, long enough").expect("writes");
            assert!(rotate(&path, 10, 3).expect("rotates"));
            assert!(!rotate(&path, 10, 3).expect("empty now"));
        }
        writer.write_all(b"after").expect("writes");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect(name);
        assert_eq!(read("daemon.log"), "after");
        assert!(read("daemon.log.1").starts_with("round 4"));
        assert!(read("daemon.log.3").starts_with("round 2"));
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 4);
    }
}
