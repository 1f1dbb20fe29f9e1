//! The small file through which a run reaches the daemon: its own token and the daemon's address.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::tokens::Token;
use crate::base::{Error, Result, files, json};

/// One identity's way to the daemon. Mode 0600. The address is rewritten in place at every start of the daemon (a
/// single-file bind mount pins the inode); the token never is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpConfig {
    /// Bound to exactly one identity by the daemon.
    pub token: Token,
    /// The project.
    pub project_root: String,
    /// The task; empty for the builder.
    pub task_id: String,
    /// `http://host:port`.
    pub target: String,
}

impl McpConfig {
    /// Reads a minted file.
    ///
    /// # Errors
    /// When it is missing or torn; a reader may meet it in the middle of a rewrite and should try again shortly.
    pub fn load(path: &Path) -> Result<McpConfig> {
        json::load(path)?.ok_or_else(|| {
            Error::unavailable(format!("the daemon's configuration for this run is missing: {}", path.display()))
                .hint("lazy daemon status")
        })
    }

    /// Writes the file: in place when it exists, so that a mount of it sees the change.
    pub fn save_in_place(&self, path: &Path) -> Result<()> {
        if !path.exists() {
            if let Some(parent) = path.parent() {
                files::create_private_dir(parent)?;
            }
            return json::save_private(path, self);
        }
        let bytes = json::pretty(self)?;
        std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(path)
            .and_then(|mut file| {
                use std::io::Write;
                file.write_all(&bytes)?;
                file.sync_all()
            })
            .map_err(|source| Error::io(format!("cannot rewrite {}", path.display()), source))
    }
}
