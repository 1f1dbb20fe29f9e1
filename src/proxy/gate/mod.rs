//! What may hold back or change a response on its way to the client.
//!
//! The response body asks its gate for every chunk before it goes out. [`Open`] lets all pass and looks at nothing: it
//! stands wherever no rule is active. [`Policed`] judges tool calls:
//!
//! - **Streams** ([`stream`]). Text, thinking, pings, unknown events and unknown blocks go out with the chunk that
//!   completes them, in their own bytes. A `tool_use` block is held from its start to its stop, and only if its input
//!   decides ([`Policy::need`](super::policy::Policy::need)); then it goes out unchanged, or a text block that says why
//!   takes its index. If no call is left, the `tool_use` in `stop_reason` becomes `end_turn`, and no other byte changes.
//! - **Order.** What arrives while a block is held and belongs to no block, or to one that had started before, goes ahead;
//!   a block that starts later waits behind it, for clients number blocks in the order of their starts. Within a block the
//!   order never changes. So with nothing denied the bytes are the upstream's; a ping in the middle of a held block comes
//!   before the block instead of inside.
//! - **Plain bodies** ([`message`]) are held whole, judged, and go out as they came but for the denied blocks.
//! - **Encodings.** The proxy asks for none. An upstream that encodes all the same is decoded ([`decode`]): the client
//!   gets the plain bytes and no `content-encoding`. An encoding that is not known gets a 502. Where no rule is active,
//!   encoded bytes pass untouched.
//! - **What cannot be parsed** passes unchanged and its record says `unjudged`. But where it may be, or may belong to, a
//!   call that a rule has to see (a torn start of a block, a torn event while a block is held, an input that is no JSON
//!   object at the block's end, a message that ends inside a held block), the stream ends with an `error` event, and a
//!   plain body breaks off.
//! - **Bounds.** At most [`HELD`] bytes of a response are held back, in blocks and in an event without end; a response
//!   that needs more ends with an `error` event. That is the longest request the API takes, so no longer block could be
//!   sent back to it.
//! - **Judged once.** Verdicts ([`Findings`]) stand in the request's record, without inputs beyond the arguments that the
//!   rules looked at, cut short and scrubbed.
//!
//! Tools that the upstream runs itself (`server_tool_use`, `mcp_tool_use`, and their results) pass: they have run.

mod court;
pub(super) mod decode;
mod event;
mod findings;
mod held;
mod message;
mod policed;
mod stream;
mod words;

use std::collections::VecDeque;

use bytes::Bytes;

pub use court::Court;
pub use findings::{Enforcement, Findings, Judged, Verdict};
pub use message::judge_message;
pub use policed::Policed;
pub use stream::StreamGate;

use crate::base::Result;

/// The most bytes of a response that are held back.
pub const HELD: usize = 32 << 20;

/// Whether a gate may change the length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Bytes pass as they are: `content-length` stays true.
    Transparent,
    /// Bytes may be replaced: `content-length` is dropped.
    MayChange,
}

/// Whether a response goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passage {
    /// It does.
    On,
    /// It ends with what was given out, which tells the client so; the text is for the record.
    Over(String),
}

/// Decides what of a response reaches the client, chunk by chunk.
pub trait Gate: Send + Sync {
    /// Takes the next chunk of the upstream's body and appends to `out` what may go out now, in order.
    ///
    /// # Errors
    /// A verdict that the rest must not pass: the client's stream is ended as broken after what `out` holds.
    fn pass(&mut self, chunk: Bytes, out: &mut VecDeque<Bytes>) -> Result<Passage>;

    /// The upstream's body ended whole: appends what was still held back.
    ///
    /// # Errors
    /// As for [`Gate::pass`].
    fn end(&mut self, out: &mut VecDeque<Bytes>) -> Result<Passage>;

    /// Whether bytes may be replaced.
    fn effect(&self) -> Effect;

    /// What was found so far.
    fn findings(&mut self) -> Findings;
}

/// Lets everything pass.
#[derive(Debug, Default)]
pub struct Open;

impl Gate for Open {
    fn pass(&mut self, chunk: Bytes, out: &mut VecDeque<Bytes>) -> Result<Passage> {
        out.push_back(chunk);
        Ok(Passage::On)
    }

    fn end(&mut self, _: &mut VecDeque<Bytes>) -> Result<Passage> {
        Ok(Passage::On)
    }

    fn effect(&self) -> Effect {
        Effect::Transparent
    }

    fn findings(&mut self) -> Findings {
        Findings::default()
    }
}

#[cfg(test)]
mod tests;
