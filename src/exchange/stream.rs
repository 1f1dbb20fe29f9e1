//! The agent's raw stream, for `lazy watch`: bounded in each line and in all.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use serde_json::json;

use super::Mailbox;
use crate::base::{Result, ResultExt, files};

const LINE_LIMIT: usize = 64 << 10;
const FILE_LIMIT: usize = 8 << 20;

/// The open stream file of one command. Writing to it never fails a turn.
#[derive(Debug)]
pub struct StreamFile {
    file: Option<File>,
    written: usize,
}

impl Mailbox {
    /// Empties the stream file and opens it for the lines of a new command.
    pub fn open_stream(&self) -> Result<StreamFile> {
        files::create_private_dir(&self.dir)?;
        let path = self.stream_path();
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .io_context(|| format!("cannot write {}", path.display()))?;
        Ok(StreamFile { file: Some(file), written: 0 })
    }
}

impl StreamFile {
    /// A stream file that keeps nothing.
    pub fn closed() -> StreamFile {
        StreamFile { file: None, written: 0 }
    }

    /// Appends a line. One over 64 KiB is replaced by `{"type":"lazy_line_dropped","bytes":…}`; the first one that
    /// would make the file longer than 8 MiB by `{"type":"lazy_stream_full"}`, after which nothing more is written.
    pub fn line(&mut self, line: &[u8]) {
        if line.len() > LINE_LIMIT { self.dropped(line.len() as u64) } else { self.append(line) }
    }

    /// Notes a line that was too long to be kept.
    pub fn dropped(&mut self, bytes: u64) {
        self.append(json!({"type": "lazy_line_dropped", "bytes": bytes}).to_string().as_bytes());
    }

    fn append(&mut self, line: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let full = self.written + line.len() + 1 > FILE_LIMIT;
        let mut bytes = if full { br#"{"type":"lazy_stream_full"}"#.to_vec() } else { line.to_vec() };
        bytes.push(b'\n');
        self.written += bytes.len();
        if file.write_all(&bytes).is_err() || full {
            self.file = None;
        }
    }
}
