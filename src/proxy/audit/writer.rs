//! The one task that writes the trail.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::chain::{self, Head, Opened};
use super::entry::Closing;
use super::{Record, SEGMENT, older};
use crate::base::{Error, Result, ResultExt};
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
                let mut records = records;
                let outcome = trail.append(&mut records);
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

/// The live file and the end of the chain in it.
#[derive(Debug)]
pub(super) struct Trail {
    path: PathBuf,
    live: Option<Opened>,
    /// The end of the chain, as far as this process wrote it.
    head: Option<Head>,
}

impl Trail {
    /// The trail at `path`, which may not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Trail { path, live: None, head: None }
    }

    /// Appends the records and gives each its place in the chain.
    pub fn append(&mut self, records: &mut [Record]) -> Result<()> {
        let mut lines = Vec::new();
        let mut head = self.ready()?;
        for record in records {
            (record.n, record.prev) = (Some(head.n + 1), Some(head.last.clone()));
            let at = lines.len();
            if serde_json::to_writer(&mut lines, record).is_err() {
                lines.truncate(at);
                continue;
            }
            head = Head { n: head.n + 1, last: chain::hash(&lines[at..]), ..head };
            lines.push(b'\n');
            if lines.len() as u64 >= SEGMENT / 4 {
                head.begins = self.write(&lines, &head)?;
                lines.clear();
            }
        }
        if !lines.is_empty() {
            self.write(&lines, &head)?;
        }
        Ok(())
    }

    /// Opens the live file when it is not open, or gone: it may be deleted at any time.
    fn ready(&mut self) -> Result<Head> {
        if self.live.is_none() || !self.path.exists() {
            let swept = !self.path.exists() && Head::load(&self.path).is_none();
            let mut opened = chain::open(&self.path)?;
            // A write that failed half-way may have left whole lines.
            if let Some(known) = self.head.take().filter(|known| known.n >= opened.head.n) {
                // With the head the whole past was thrown away, not a part of it.
                let begins = if swept { known.n + 1 } else { known.begins };
                opened.head = Head { begins, ..known };
            }
            self.live = Some(opened);
        }
        let opened = self.live.as_ref().ok_or_else(|| Error::internal("the audit trail is not open"))?;
        Ok(opened.head.clone())
    }

    /// Appends whole lines, after which the chain ends in `head`; tells where the kept chain begins. A failure forgets
    /// the file, so that the next batch opens it anew.
    fn write(&mut self, lines: &[u8], head: &Head) -> Result<u64> {
        let outcome = self.try_write(lines, head);
        if outcome.is_err() {
            self.live = None;
        }
        outcome
    }

    fn try_write(&mut self, lines: &[u8], head: &Head) -> Result<u64> {
        let doing = || format!("cannot write {}", self.path.display());
        let mut live = self.live.take().ok_or_else(|| Error::internal("the audit trail is not open"))?;
        if live.size > 0 && live.size + lines.len() as u64 > SEGMENT {
            std::fs::rename(&self.path, older(&self.path)).io_context(doing)?;
            let begins = live.first;
            live = Opened { head: Head { begins, ..live.head }, ..chain::open(&self.path)? };
            live.first = live.head.n + 1;
        }
        live.file.write_all(lines).io_context(doing)?;
        live.size += lines.len() as u64;
        live.head = Head { begins: live.head.begins, ..head.clone() };
        live.head.save(&self.path)?;
        let begins = live.head.begins;
        self.head = Some(live.head.clone());
        self.live = Some(live);
        Ok(begins)
    }
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
            trail.append(&mut [record(seq, "x".repeat(1 << 19))]).expect("writes");
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
        trail.append(&mut [record(1, "a".into())]).expect("writes");
        drop(trail);
        std::fs::OpenOptions::new().append(true).open(&path).expect("opens").write_all(b"{\"id\":\"to").expect("tears");
        Trail::new(path.clone()).append(&mut [record(2, "b".into())]).expect("writes");
        assert_eq!(read(&path, 10).expect("reads").iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_deleted_trail_begins_anew() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("audit.jsonl");
        let mut trail = Trail::new(path.clone());
        trail.append(&mut [record(1, "a".into())]).expect("writes");
        std::fs::remove_file(&path).expect("removes");
        trail.append(&mut [record(2, "b".into())]).expect("writes");
        assert_eq!(read(&path, 10).expect("reads").len(), 1);
    }
}
