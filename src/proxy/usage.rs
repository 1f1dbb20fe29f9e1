//! Token counts, read from a response as it passes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::http::sse;

/// The longest incomplete event that is kept; a longer one carries no counts.
const EVENT_LIMIT: usize = 1 << 20;
/// The longest plain body that is kept; a longer one is not read.
const BODY_LIMIT: usize = 8 << 20;

/// Token counts of one request, each `None` where the upstream said nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens read and not from a cache.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Tokens put into the cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: Option<u64>,
}

impl Usage {
    /// The sum of what is known; `None` when nothing is.
    pub fn total(&self) -> Option<u64> {
        self.counts().into_iter().flatten().reduce(u64::saturating_add)
    }

    fn counts(&self) -> [Option<u64>; 4] {
        [self.input_tokens, self.output_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens]
    }

    fn overlay(&mut self, later: &WireUsage) {
        let pairs = [
            (&mut self.input_tokens, later.input_tokens),
            (&mut self.output_tokens, later.output_tokens),
            (&mut self.cache_creation_input_tokens, later.cache_creation_input_tokens),
            (&mut self.cache_read_input_tokens, later.cache_read_input_tokens),
        ];
        for (known, later) in pairs {
            *known = later.or(*known);
        }
    }
}

/// What a response told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The counts; `None` when there was none.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
}

/// Reads counts from a response, chunk by chunk. What does not parse is skipped.
#[derive(Debug)]
pub struct Scanner {
    form: Form,
    usage: Usage,
    stop_reason: Option<String>,
}

#[derive(Debug)]
enum Form {
    Events(Box<sse::Reader>),
    Plain(Vec<u8>),
    Unread,
}

impl Scanner {
    /// A scanner for an event stream.
    pub fn events() -> Self {
        Scanner::of(Form::Events(Box::new(sse::Reader::new(EVENT_LIMIT))))
    }

    /// A scanner for a JSON body.
    pub fn plain() -> Self {
        Scanner::of(Form::Plain(Vec::new()))
    }

    /// A scanner that reads nothing.
    pub fn none() -> Self {
        Scanner::of(Form::Unread)
    }

    fn of(form: Form) -> Self {
        Scanner { form, usage: Usage::default(), stop_reason: None }
    }

    /// Looks at the next chunk.
    pub fn look(&mut self, chunk: &Bytes) {
        match &mut self.form {
            Form::Events(reader) => {
                reader.push(chunk);
                self.drain();
            }
            Form::Plain(body) if body.len() + chunk.len() <= BODY_LIMIT => body.extend_from_slice(chunk),
            Form::Plain(_) => self.form = Form::Unread,
            Form::Unread => {}
        }
    }

    /// The body ended, whole or not: what it told.
    pub fn finish(&mut self) -> Told {
        match &mut self.form {
            Form::Events(reader) => {
                reader.finish();
                self.drain();
            }
            Form::Plain(body) => {
                let body = std::mem::take(body);
                self.note(&body);
            }
            Form::Unread => {}
        }
        self.form = Form::Unread;
        let known = self.usage.counts().iter().any(Option::is_some);
        Told { usage: known.then_some(self.usage), stop_reason: self.stop_reason.take() }
    }

    fn drain(&mut self) {
        let Form::Events(mut reader) = std::mem::replace(&mut self.form, Form::Unread) else { return };
        while let Some(item) = reader.next() {
            if let sse::Item::Event(event) = item
                && tells(&event.data)
            {
                self.note(&event.data);
            }
        }
        self.form = Form::Events(reader);
    }

    fn note(&mut self, data: &[u8]) {
        let Ok(wire) = serde_json::from_slice::<Wire>(data) else { return };
        if let Some(message) = wire.message {
            self.usage.overlay(&message.usage.unwrap_or_default());
        }
        self.usage.overlay(&wire.usage.unwrap_or_default());
        let stop = wire.delta.and_then(|delta| delta.stop_reason).or(wire.stop_reason);
        self.stop_reason = stop.or(self.stop_reason.take());
    }
}

/// Whether an event can carry counts: only `message_start` and `message_delta` do, and most events are neither.
fn tells(data: &[u8]) -> bool {
    let head = &data[..data.len().min(64)];
    let is = |name: &[u8]| head.windows(name.len()).any(|window| window == name);
    // An upstream that orders keys otherwise is read by the slower test.
    is(b"message_") || (!is(b"content_block_") && data.windows(7).any(|window| window == b"\"usage\""))
}

#[derive(Debug, Deserialize)]
struct Wire {
    #[serde(default)]
    message: Option<WireMessage>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    delta: Option<WireDelta>,
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WireMessage {
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Debug, Deserialize)]
struct WireDelta {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct WireUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1,\"cache_read_input_tokens\":7}}}\n\n",
        "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        "data: {\"type\":\"message_delta\",\"usage\":{torn\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"é\"}}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":42,\"input_tokens\":null}}\n\n",
        "data: [DONE]",
    );

    fn told() -> Told {
        let usage = Usage {
            input_tokens: Some(10),
            output_tokens: Some(42),
            cache_creation_input_tokens: None,
            cache_read_input_tokens: Some(7),
        };
        Told { usage: Some(usage), stop_reason: Some("end_turn".into()) }
    }

    proptest! {
        #[test]
        fn any_cut_tells_the_same(cuts in prop::collection::vec(0..STREAM.len(), 0..30)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut scanner = Scanner::events();
            let mut at = 0;
            for cut in cuts.into_iter().chain([STREAM.len()]) {
                scanner.look(&Bytes::copy_from_slice(&STREAM.as_bytes()[at..cut]));
                at = cut;
            }
            prop_assert_eq!(scanner.finish(), told());
        }
    }

    #[test]
    fn an_unterminated_last_event_counts() {
        let mut scanner = Scanner::events();
        scanner.look(&Bytes::from_static(b"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":3}}"));
        assert_eq!(scanner.finish().usage.and_then(|usage| usage.total()), Some(3));
    }

    #[test]
    fn plain_bodies_are_read_up_to_a_bound() {
        let mut scanner = Scanner::plain();
        scanner.look(&Bytes::from_static(b"{\"stop_reason\":\"tool_use\",\"usage\":{\"input_to"));
        scanner.look(&Bytes::from_static(b"kens\":5}}"));
        let told = scanner.finish();
        assert_eq!((told.usage.and_then(|u| u.input_tokens), told.stop_reason.as_deref()), (Some(5), Some("tool_use")));
        let mut scanner = Scanner::plain();
        let chunk = Bytes::from(vec![b' '; BODY_LIMIT]);
        scanner.look(&chunk);
        scanner.look(&chunk);
        assert!(matches!(scanner.form, Form::Unread));
        assert_eq!(scanner.finish(), Told::default());
    }
}
