//! The one task that writes the trail.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::entry::Closing;
use super::{Record, SEGMENT, older};
use crate::base::{Result, ResultExt, files};
use crate::proxy::activity::{Activity, Event};

/// How many records are written with one call.
const BATCH: usize = 128;

#[derive(Debug)]
enum Message {
    Record(Box<Closing>),
    Flush(oneshot::Sender<()>),
}

/// Where finished records go. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::proxy) struct Ledger(mpsc::UnboundedSender<Message>);

impl Ledger {
    /// Starts the writer of the trail at `path`; every record also becomes a `close` event.
    pub fn start(path: PathBuf, activity: Arc<Activity>) -> Ledger {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(write_all(receiver, Trail::new(path), activity));
        Ledger(sender)
    }

    /// Hands over a record; never waits.
    pub(super) fn put(&self, closing: Closing) {
        self.0.send(Message::Record(Box::new(closing))).ok();
    }

    /// Waits until everything that was handed over is in the file.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.0.send(Message::Flush(done)).is_ok() {
            wait.await.ok();
        }
    }
}

async fn write_all(mut receiver: mpsc::UnboundedReceiver<Message>, mut trail: Trail, activity: Arc<Activity>) {
    let mut batch = Vec::with_capacity(BATCH);
    while receiver.recv_many(&mut batch, BATCH).await > 0 {
        let mut records = Vec::new();
        let mut waiting = Vec::new();
        for message in batch.drain(..) {
            match message {
                Message::Record(closing) => records.push(closing.complete().await),
                Message::Flush(done) => waiting.push(done),
            }
        }
        if !records.is_empty() {
            let written = tokio::task::spawn_blocking(move || {
                let outcome = trail.append(&records);
                (trail, records, outcome)
            });
            // The task fails only when the runtime ends, and the trail with it.
            let Ok((back, records, outcome)) = written.await else { return };
            trail = back;
            if let Err(error) = outcome {
                tracing::warn!(%error, lost = records.len(), "audit records could not be written");
            }
            for record in &records {
                activity.publish(Event::close(record));
            }
        }
        for done in waiting {
            done.send(()).ok();
        }
    }
}

/// The live file and its size.
#[derive(Debug)]
struct Trail {
    path: PathBuf,
    live: Option<(File, u64)>,
}

impl Trail {
    fn new(path: PathBuf) -> Self {
        Trail { path, live: None }
    }

    fn append(&mut self, records: &[Record]) -> Result<()> {
        let mut lines = Vec::new();
        for record in records {
            let at = lines.len();
            if serde_json::to_writer(&mut lines, record).is_err() {
                lines.truncate(at);
                continue;
            }
            lines.push(b'\n');
            if lines.len() as u64 >= SEGMENT / 4 {
                self.write(&lines)?;
                lines.clear();
            }
        }
        if lines.is_empty() { Ok(()) } else { self.write(&lines) }
    }

    /// Appends whole lines; a failure forgets the file, so that the next batch opens it anew.
    fn write(&mut self, lines: &[u8]) -> Result<()> {
        let outcome = self.try_write(lines);
        if outcome.is_err() {
            self.live = None;
        }
        outcome
    }

    fn try_write(&mut self, lines: &[u8]) -> Result<()> {
        let doing = || format!("cannot write {}", self.path.display());
        // Somebody may have deleted the file, which is allowed at any time.
        let (mut file, mut size) = match self.live.take().filter(|_| self.path.exists()) {
            Some(live) => live,
            None => open(&self.path)?,
        };
        if size > 0 && size + lines.len() as u64 > SEGMENT {
            std::fs::rename(&self.path, older(&self.path)).io_context(doing)?;
            (file, size) = open(&self.path)?;
        }
        file.write_all(lines).io_context(doing)?;
        self.live = Some((file, size + lines.len() as u64));
        Ok(())
    }
}

fn open(path: &Path) -> Result<(File, u64)> {
    if let Some(parent) = path.parent() {
        files::create_dir(parent)?;
    }
    let doing = || format!("cannot open {}", path.display());
    // Read as well: a line that a crash cut short gets its end before anything follows it.
    let mut file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path).io_context(doing)?;
    let mut size = file.metadata().io_context(doing)?.len();
    if size > 0 && !ends_with_line(&file, size).io_context(doing)? {
        file.write_all(b"\n").io_context(doing)?;
        size += 1;
    }
    Ok((file, size))
}

fn ends_with_line(file: &File, size: u64) -> std::io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut last = [0];
    file.read_exact_at(&mut last, size - 1)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn record(seq: u64, path: String) -> Record {
        Record { id: format!("id-{seq}"), seq, path, ..Record::default() }
    }

    #[test]
    fn the_trail_is_bounded_and_keeps_the_newest() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("logs/audit.jsonl");
        let mut trail = Trail::new(path.clone());
        for seq in 0..30 {
            trail.append(&[record(seq, "x".repeat(1 << 19))]).expect("writes");
        }
        let sizes: Vec<u64> =
            [path.clone(), older(&path)].iter().map(|p| std::fs::metadata(p).expect("segment").len()).collect();
        assert!(sizes.iter().all(|size| *size <= SEGMENT && *size > 0), "{sizes:?}");
        let records = read(&path, usize::MAX).expect("reads");
        assert!(records.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq));
        assert_eq!(records.last().map(|record| record.seq), Some(29));
        assert_eq!(read(&path, 2).expect("reads").iter().map(|r| r.seq).collect::<Vec<_>>(), [28, 29]);
    }

    #[test]
    fn torn_lines_cost_only_themselves() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("audit.jsonl");
        assert!(read(&path, 10).expect("missing is empty").is_empty());
        let mut trail = Trail::new(path.clone());
        trail.append(&[record(1, "a".into())]).expect("writes");
        drop(trail);
        std::fs::OpenOptions::new().append(true).open(&path).expect("opens").write_all(b"{\"id\":\"to").expect("tears");
        Trail::new(path.clone()).append(&[record(2, "b".into())]).expect("writes");
        assert_eq!(read(&path, 10).expect("reads").iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_deleted_trail_begins_anew() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("audit.jsonl");
        let mut trail = Trail::new(path.clone());
        trail.append(&[record(1, "a".into())]).expect("writes");
        std::fs::remove_file(&path).expect("removes");
        trail.append(&[record(2, "b".into())]).expect("writes");
        assert_eq!(read(&path, 10).expect("reads").len(), 1);
    }
}
