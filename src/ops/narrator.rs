//! What a long operation tells while it works.

use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The listener's end is optional: nobody may be there, or have left.
#[derive(Debug, Clone)]
pub struct Narrator(Option<mpsc::UnboundedSender<Value>>);

impl Narrator {
    /// Nobody listens.
    pub fn silent() -> Narrator {
        Narrator(None)
    }

    /// A narrator and what it says.
    pub fn channel() -> (Narrator, mpsc::UnboundedReceiver<Value>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Narrator(Some(sender)), receiver)
    }

    /// A phase begins; it also names the heartbeats until the next one.
    pub fn phase(&self, label: &str) {
        self.send(json!({ "kind": "phase", "id": label.replace(' ', "-"), "label": label, "state": "start" }));
    }

    /// A remark inside a phase.
    pub fn note(&self, text: &str) {
        self.send(json!({ "kind": "phase", "id": "note", "label": text, "state": "progress" }));
    }

    fn send(&self, event: Value) {
        if let Some(sender) = &self.0 {
            sender.send(event).ok();
        }
    }
}
