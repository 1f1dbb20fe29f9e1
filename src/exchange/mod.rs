//! The mailbox between the daemon and a task's supervisor: one directory of small JSON files.
//!
//! | file | writer → reader | rule |
//! | --- | --- | --- |
//! | `command.json` | daemon → supervisor | one slot; gone as soon as the supervisor has read it |
//! | `response.json` | supervisor → daemon | the daemon removes it after it recorded the turn |
//! | `status.json` | supervisor → daemon | rewritten at each phase; gone on stop |
//! | `progress.json` | daemon → people | the agent's own word; gone with the next command |
//! | `superseded-response-<ms>-<8 hex>.json` | whoever found `response.json` in its way | an unread response, kept |
//! | `unreadable-<what>-<ms>-<8 hex>.json` | reader | a torn or foreign file, kept for a person to look at |
//! | `stream.jsonl` | supervisor → `lazy watch` | the agent's raw stream of the present command |
//! | `agent.json` | supervisor → the next supervisor | which process the agent is |
//!
//! Invariants
//! - Every file is written whole or not at all.
//! - An unread response is never destroyed, neither by the next command nor by the next response: it is renamed.
//! - A file that does not parse is reported once, moved aside, and never read again and again.
//!
//! Refuses: to go on when an unread response cannot be moved out of the way.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::base::time::Clock;
use crate::base::{Error, Kind, Process, Result, ResultExt, checkpoint, files, json as json_files};
use crate::model::TaskId;
use crate::model::exchange::{Command, ProgressFile, Response, StatusFile};

mod agent_record;
mod stream;

pub use agent_record::AgentRecord;
pub use stream::StreamFile;

const SUPERSEDED: &str = "superseded-response-";

/// The largest response that is read. An agent can write in the mailbox, so nothing in it is believed to be what it
/// should be: links are not followed, and neither a FIFO nor a file without an end holds the reader up.
const RESPONSE_LIMIT: u64 = 64 << 20;
/// The largest of the other files.
const FILE_LIMIT: u64 = 1 << 20;

/// The directory that holds all mailboxes: `LAZY_PROTOCOL_BASE`, else `~/.lazy/protocol`.
pub fn base(process: &Process) -> Result<PathBuf> {
    match process.var_os("LAZY_PROTOCOL_BASE").filter(|base| !base.is_empty()) {
        Some(base) => Ok(process.cwd().join(base)),
        None => Ok(process.home()?.join(".lazy/protocol")),
    }
}

/// One task's mailbox.
#[derive(Debug, Clone)]
pub struct Mailbox {
    dir: PathBuf,
}

impl Mailbox {
    /// The mailbox in `dir`, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>) -> Mailbox {
        Mailbox { dir: dir.into() }
    }

    /// The mailbox of a task: `<base>/<task uuid>`.
    pub fn of_task(process: &Process, task: TaskId) -> Result<Mailbox> {
        Ok(Mailbox::new(base(process)?.join(task.to_string())))
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the directory: a container mounts it before anything is written to it.
    pub fn create(&self) -> Result<()> {
        files::create_private_dir(&self.dir)
    }

    /// Where the agent's raw stream of the present command is.
    pub fn stream_path(&self) -> PathBuf {
        self.dir.join("stream.jsonl")
    }

    /// Puts a command into the slot. An unread response is renamed first, the old progress line is removed.
    pub fn write_command(&self, command: &Command) -> Result<()> {
        files::create_private_dir(&self.dir)?;
        self.supersede()?;
        checkpoint::reach("exchange.superseded");
        files::remove_file(&self.path("progress.json"))?;
        json_files::save_private(&self.path("command.json"), command)?;
        checkpoint::reach("exchange.command-written");
        Ok(())
    }

    /// Whether a command waits in the slot.
    pub fn has_command(&self) -> bool {
        self.path("command.json").exists()
    }

    /// Takes the command out of the slot; `None` when there is none.
    ///
    /// # Errors
    /// [`Kind::Io`] when the file is torn or foreign. It is moved aside then, so that the next call finds an empty
    /// slot; the details hold `command_id` and `protocol_version` as far as they can be read, and `path`.
    pub fn take_command(&self) -> Result<Option<Command>> {
        let (slot, taken) = (self.path("command.json"), self.path("command.taken.json"));
        // Renamed before it is read: a command written meanwhile stays in the slot.
        match fs::rename(&slot, &taken) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.io_context(|| format!("cannot take {}", slot.display()))?,
        }
        checkpoint::reach("exchange.command-taken");
        let bytes = files::read_optional(&taken)?.unwrap_or_default();
        match serde_json::from_slice(&bytes) {
            Ok(command) => {
                files::remove_file(&taken)?;
                Ok(Some(command))
            }
            Err(source) => {
                let kept = self.set_aside(&taken, "unreadable-command-")?;
                let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                Err(Error::new(Kind::Io, format!("the command was not readable and was moved to {}", kept.display()))
                    .caused_by(source)
                    .with_details(json!({
                        "command_id": value["command_id"], "protocol_version": value["protocol_version"], "path": kept,
                    })))
            }
        }
    }

    /// Leaves the response for the daemon. One that was not read yet is renamed first.
    pub fn write_response(&self, response: &Response) -> Result<()> {
        files::create_private_dir(&self.dir)?;
        self.supersede()?;
        checkpoint::reach("exchange.before-response");
        json_files::save_private(&self.path("response.json"), response)?;
        checkpoint::reach("exchange.response-written");
        Ok(())
    }

    /// Whether a response waits.
    pub fn has_response(&self) -> bool {
        self.path("response.json").symlink_metadata().is_ok()
    }

    /// The response; `None` when there is none.
    ///
    /// # Errors
    /// [`Kind::Io`] naming the file when it does not parse: see [`Mailbox::set_aside_response`].
    pub fn load_response(&self) -> Result<Option<Response>> {
        json_files::load_foreign(&self.path("response.json"), RESPONSE_LIMIT)
    }

    /// Moves a response that does not parse out of the way and returns where it is now.
    pub fn set_aside_response(&self) -> Result<PathBuf> {
        self.set_aside(&self.path("response.json"), "unreadable-response-")
    }

    /// Removes the response, once the turn is recorded.
    pub fn consume_response(&self) -> Result<()> {
        checkpoint::reach("exchange.before-consume");
        self.remove_durably(&self.path("response.json"))
    }

    /// Responses that were moved out of the way unread, oldest first. Those that do not parse stay on disk and are left
    /// out.
    pub fn superseded(&self) -> Vec<(PathBuf, Response)> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|n| n.starts_with(SUPERSEDED)))
            .collect();
        paths.sort();
        let read = |path: PathBuf| match json_files::load_foreign(&path, RESPONSE_LIMIT) {
            Ok(response) => response.map(|response| (path, response)),
            Err(error) => {
                tracing::warn!(%error, "a superseded response is not readable");
                None
            }
        };
        paths.into_iter().filter_map(read).collect()
    }

    /// Removes a superseded response, once its turn is recorded.
    pub fn discard_superseded(&self, path: &Path) -> Result<()> {
        let known = path.parent() == Some(&self.dir)
            && path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(SUPERSEDED));
        if !known {
            return Err(Error::internal(format!("{} is not a superseded response of this mailbox", path.display())));
        }
        self.remove_durably(path)
    }

    /// Writes the supervisor's checkpoint.
    pub fn write_status(&self, status: &StatusFile) -> Result<()> {
        json_files::save_private(&self.path("status.json"), status)
    }

    /// The supervisor's checkpoint; `None` when there is none.
    pub fn load_status(&self) -> Result<Option<StatusFile>> {
        json_files::load_foreign(&self.path("status.json"), FILE_LIMIT)
    }

    /// Removes the supervisor's checkpoint.
    pub fn clear_status(&self) -> Result<()> {
        files::remove_file(&self.path("status.json"))
    }

    /// Writes the agent's own word on how far it is.
    pub fn write_progress(&self, progress: &ProgressFile) -> Result<()> {
        json_files::save_private(&self.path("progress.json"), progress)
    }

    /// The agent's own word on how far it is; `None` when there is none or it is torn: nothing hangs on it.
    pub fn load_progress(&self) -> Option<ProgressFile> {
        json_files::load_foreign(&self.path("progress.json"), FILE_LIMIT).ok().flatten()
    }

    /// Removes the mailbox with all in it: the task has ended.
    pub fn remove(&self) -> Result<()> {
        files::remove_tree(&self.dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn supersede(&self) -> Result<()> {
        let response = self.path("response.json");
        if response.exists() {
            let kept = self.set_aside(&response, SUPERSEDED)?;
            tracing::warn!(path = %kept.display(), "an unread response was moved out of the way");
        }
        Ok(())
    }

    /// Renames `path` to `<prefix><ms>-<8 hex>.json` in the mailbox.
    fn set_aside(&self, path: &Path, prefix: &str) -> Result<PathBuf> {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let kept = self.dir.join(format!("{prefix}{}-{}.json", Clock::System.now().0, &unique[..8]));
        fs::rename(path, &kept)
            .io_context(|| format!("cannot move {} to {}; nothing was overwritten", path.display(), kept.display()))?;
        files::sync_directory(&self.dir)?;
        Ok(kept)
    }

    fn remove_durably(&self, path: &Path) -> Result<()> {
        files::remove_file(path)?;
        if self.dir.is_dir() { files::sync_directory(&self.dir) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
