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
    /// How that address leads to the daemon.
    #[serde(default, skip_serializing_if = "Reach::is_direct")]
    pub reach: Reach,
}

/// How a run's address of the daemon leads there; it decides what the address is after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// It is the listener's own.
    #[default]
    Direct,
    /// It is that of the engine's gateway to the host, with the listener's port.
    Gateway,
    /// It is the relay inside the container, wherever the daemon listens: see [`crate::model::link`].
    Link,
}

impl Reach {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_direct(&self) -> bool {
        *self == Reach::Direct
    }
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
