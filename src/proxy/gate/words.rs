//! What a gate says in the upstream's stead.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::base::text::truncate_chars;
use crate::proxy::policy::Denial;

/// The text that takes the place of a denied call.
pub(super) fn explanation(tool: &str, denial: &Denial) -> String {
    format!(
        "⛔ lazy proxy blocked tool {:?} ({}): {}. The call did not run, and the same call will be blocked again. \
         Take another approach; if there is none, say what you need and why.",
        truncate_chars(tool, 200),
        denial.rule.id(),
        denial.reason
    )
}

/// The text block that takes the place of a denied call in a message.
pub(super) fn text_block(text: &str) -> String {
    json!({"type": "text", "text": text}).to_string()
}

/// The events of that block in a stream.
pub(super) fn text_events(index: u64, text: &str) -> Bytes {
    let events = [
        json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": index}),
    ];
    events.iter().map(event).collect::<String>().into()
}

/// The event that ends a stream that must not go on.
pub(super) fn error_event(message: &str) -> Bytes {
    let error = json!({"type": "proxy_error", "message": format!("lazy's proxy ended this response: {message}")});
    event(&json!({"type": "error", "error": error})).into()
}

/// An event of these data lines.
pub(super) fn data_event(name: &str, data: &[u8]) -> Bytes {
    let mut bytes = format!("event: {name}\n").into_bytes();
    for line in data.split(|byte| *byte == b'\n') {
        bytes.extend_from_slice(b"data: ");
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    bytes.push(b'\n');
    bytes.into()
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}
