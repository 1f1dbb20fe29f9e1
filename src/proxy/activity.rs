//! What passes the proxy, live: a ring of the last events and a feed of the next ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::broadcast;

use super::audit::Record;

/// How many events are kept for late subscribers.
const RING: usize = 200;
/// How far a subscriber may fall behind before it misses events.
const FEED: usize = 1024;

/// Whether a request begins or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// It is about to be forwarded.
    Open,
    /// Its record is complete.
    Close,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Begin or end.
    pub kind: EventKind,
    /// The record's id.
    pub id: String,
    /// The record's number in this process.
    pub seq: u64,
    /// Receipt of the request, unix milliseconds.
    pub ts: i64,
    /// `agent`, `builder`, or what a caller without a grant claims.
    pub role: Option<String>,
    /// The task's ref.
    pub task_id: Option<String>,
    /// `proxy` or `cursor`.
    pub backend: String,
    /// The method.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The model asked for.
    pub model: Option<String>,
    /// How it ended, for [`EventKind::Close`].
    #[serde(flatten)]
    pub end: Option<End>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// The status; `null` when there was no response.
    pub status: Option<u16>,
    /// Milliseconds to the head of the response.
    pub duration_ms: u64,
    /// What went wrong.
    pub error: Option<String>,
    /// All tokens together.
    pub total_tokens: Option<u64>,
    /// How many tool calls were denied.
    pub denials: usize,
    /// Whether it went to another target than the first.
    pub rerouted: bool,
    /// An error, or a status of 400 or more.
    pub failed: bool,
}

impl Event {
    /// The event that says that the request of `record` begins.
    pub fn open(record: &Record) -> Event {
        Event {
            kind: EventKind::Open,
            id: record.id.clone(),
            seq: record.seq,
            ts: record.ts,
            role: record.role.clone(),
            task_id: record.task_id.clone(),
            backend: record.backend.clone(),
            method: record.method.clone(),
            path: record.path.split('?').next().unwrap_or_default().to_string(),
            model: record.model.clone(),
            end: None,
        }
    }

    /// The event that says how the request of `record` ended.
    pub fn close(record: &Record) -> Event {
        let end = End {
            status: record.status,
            duration_ms: record.duration_ms,
            error: record.error.clone(),
            total_tokens: record.usage.and_then(|usage| usage.total()),
            denials: record.enforcement.as_ref().map_or(0, Vec::len),
            rerouted: record.reroute.is_some(),
            failed: record.is_failure(),
        };
        Event { kind: EventKind::Close, end: Some(end), ..Event::open(record) }
    }
}

/// The bus.
#[derive(Debug)]
pub struct Activity {
    ring: Mutex<VecDeque<Arc<Event>>>,
    feed: broadcast::Sender<Arc<Event>>,
}

impl Default for Activity {
    fn default() -> Self {
        Activity { ring: Mutex::default(), feed: broadcast::Sender::new(FEED) }
    }
}

impl Activity {
    /// The last events, oldest first, and a feed of every later one.
    pub fn subscribe(&self) -> (Vec<Arc<Event>>, broadcast::Receiver<Arc<Event>>) {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        (ring.iter().cloned().collect(), self.feed.subscribe())
    }

    /// Tells everybody.
    pub(super) fn publish(&self, event: Event) {
        let event = Arc::new(event);
        // The lock is held while sending, so that a subscriber gets each event once: from the ring or from the feed.
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == RING {
            ring.pop_front();
        }
        ring.push_back(event.clone());
        self.feed.send(event).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest() {
        let activity = Activity::default();
        let (_, mut feed) = activity.subscribe();
        for seq in 0..250 {
            activity.publish(Event::open(&Record { seq, path: "/v1/x?secret=1".into(), ..Record::default() }));
        }
        let (ring, _) = activity.subscribe();
        assert_eq!((ring.len(), ring[0].seq, ring[0].path.as_str()), (200, 50, "/v1/x"));
        assert_eq!(feed.try_recv().expect("the first").seq, 0);
        let json =
            serde_json::to_value(Event::close(&Record { status: Some(500), ..Record::default() })).expect("json");
        assert_eq!((&json["kind"], &json["failed"], &json["totalTokens"]), (&"close".into(), &true.into(), &().into()));
    }
}
