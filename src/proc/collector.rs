//! One pipe, read to its end by a task of its own, of which one end is kept.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinHandle;

/// Which end of an output longer than the limit is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The first bytes.
    Head,
    /// The last bytes.
    Tail,
}

/// A pipe being read.
#[derive(Debug)]
pub struct Collector {
    task: JoinHandle<()>,
    kept: Arc<Mutex<Kept>>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

impl Collector {
    /// Begins to read; at most `limit` bytes are kept.
    pub fn start(mut pipe: impl AsyncRead + Unpin + Send + 'static, limit: usize, keep: Keep) -> Collector {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = kept.clone();
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; 16 << 10];
            while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
                shared.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..read], limit, keep);
            }
        });
        Collector { task, kept, limit }
    }

    /// What was read until the pipe closed or the moment came; and whether something is missing.
    pub async fn finish(&mut self, until: tokio::time::Instant) -> (Vec<u8>, bool) {
        let open = tokio::time::timeout_at(until, &mut self.task).await.is_err();
        if open {
            self.task.abort();
        }
        let mut kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.trim(self.limit);
        (kept.bytes, kept.cut || open)
    }
}

impl Kept {
    fn add(&mut self, bytes: &[u8], limit: usize, keep: Keep) {
        match keep {
            Keep::Head => {
                let room = limit.saturating_sub(self.bytes.len()).min(bytes.len());
                self.bytes.extend_from_slice(&bytes[..room]);
                self.cut |= room < bytes.len();
            }
            Keep::Tail => {
                // Cut only at twice the limit, so that a long output costs no more than a copy.
                self.bytes.extend_from_slice(bytes);
                if self.bytes.len() / 2 > limit {
                    self.trim(limit);
                }
            }
        }
    }
}

impl Kept {
    fn trim(&mut self, limit: usize) {
        let excess = self.bytes.len().saturating_sub(limit);
        self.cut |= excess > 0;
        self.bytes.drain(..excess);
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}
