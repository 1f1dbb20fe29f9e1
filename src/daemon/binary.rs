//! The id of the running binary: computed once, on a thread of its own, while the daemon starts.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use crate::base::Process;

/// How long an answer waits for an id that is not there yet.
const PATIENCE: Duration = Duration::from_millis(80);

/// The id, now or soon.
#[derive(Debug, Clone)]
pub(super) struct BinaryId(watch::Receiver<Option<String>>);

impl BinaryId {
    /// Begins to compute it.
    pub fn compute(process: &Process) -> BinaryId {
        let (sender, receiver) = watch::channel(None);
        // The program's own inode, also after its file has been replaced.
        let own = Path::new("/proc/self/exe");
        let path: PathBuf = if own.exists() { own.into() } else { process.executable().unwrap_or_default() };
        let spawned = std::thread::Builder::new().name("binary-id".into()).spawn(move || match content_id(&path) {
            Ok(id) => drop(sender.send(Some(id))),
            Err(error) => tracing::warn!(%error, "cannot read the running program"),
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start a thread");
        }
        BinaryId(receiver)
    }

    /// The id; empty when it is unknown, or not known within a moment.
    pub async fn soon(&self) -> String {
        let mut receiver = self.0.clone();
        match tokio::time::timeout(PATIENCE, receiver.wait_for(Option::is_some)).await {
            Ok(Ok(id)) => id.clone().unwrap_or_default(),
            _ => String::new(),
        }
    }
}

/// As [`crate::base::hash::content_id`], without holding the file in memory.
fn content_id(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex()[..16].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash;

    #[test]
    fn streaming_gives_the_same_id() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("program");
        let bytes: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
        std::fs::write(&path, &bytes).expect("writes");
        assert_eq!(content_id(&path).expect("reads"), hash::content_id(&bytes));
    }
}
