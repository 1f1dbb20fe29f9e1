//! One event of the Messages API, as far as a gate has to understand it.
//!
//! Nothing but the outline is read: values that no rule needs are skipped as they stand, whatever their strings hold.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::court::Call;
use crate::http::sse;

/// What an event means.
#[derive(Debug)]
pub(super) enum Meaning<'a> {
    /// Nothing that a gate has to know.
    Other,
    /// A message begins that already holds a call.
    Prefilled,
    /// A block begins. `tool` is `None` for every type but `tool_use`.
    Start { index: u64, tool: Option<Tool<'a>> },
    /// A part of a block.
    Delta { index: u64, delta: &'a RawValue },
    /// A block ends.
    Stop { index: u64 },
    /// The message's end, with the place of its stop reason.
    MessageDelta { stop_reason: Option<&'a RawValue> },
    /// Nothing follows.
    MessageStop,
    /// The upstream gave up.
    Error,
    /// It does not parse.
    Unreadable(Harm),
}

/// What an event that does not parse may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// Nothing that any client looks into.
    None,
    /// A part of a block that is held.
    InsideBlock,
    /// A call, or the beginning of one.
    Call,
}

/// The beginning of a tool call.
#[derive(Debug)]
pub(super) struct Tool<'a> {
    pub call: Call,
    /// The input that stands in the start already, unless it is empty.
    pub input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireKind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct WireTool<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireMessage<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireEnd<'a> {
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
}

/// A piece of a tool's input; `None` for deltas that carry none.
///
/// # Errors
/// The delta does not parse.
pub(super) fn input_piece(delta: &RawValue) -> Result<Option<Cow<'_, str>>, ()> {
    #[derive(Deserialize)]
    struct Piece<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        partial_json: Cow<'a, str>,
    }
    let piece: Piece<'_> = serde_json::from_str(delta.get()).map_err(|_| ())?;
    Ok((piece.kind == "input_json_delta").then_some(piece.partial_json))
}

/// What a block of a whole message is: a call, or something else.
///
/// # Errors
/// It does not parse, or is a call without a name.
pub(super) fn tool_of(block: &RawValue) -> Result<Option<Tool<'_>>, ()> {
    let kind: WireKind<'_> = serde_json::from_str(block.get()).map_err(|_| ())?;
    if kind.kind != "tool_use" {
        return Ok(None);
    }
    let wire: WireTool<'_> = serde_json::from_str(block.get()).map_err(|_| ())?;
    let id = wire.id.and_then(|id| serde_json::from_str::<String>(id.get()).ok());
    let is_empty = |input: &RawValue| {
        let text = input.get();
        text == "null" || text == "\"\"" || (text.starts_with('{') && text[1..].trim_start() == "}")
    };
    Ok(Some(Tool {
        call: Call { id, name: wire.name.into_owned() },
        input: wire.input.filter(|input| !is_empty(input)),
    }))
}

/// Reads an event.
pub(super) fn meaning<'a>(event: Option<&str>, data: &'a [u8]) -> Meaning<'a> {
    // The official clients never look into a ping, and nothing can be made of an event without data.
    if data.is_empty() {
        return Meaning::Other;
    }
    let Ok(wire) = serde_json::from_slice::<Wire<'a>>(data) else {
        let is = |word: &[u8]| data.windows(word.len()).any(|window| window == word);
        let suspicious = event == Some("content_block_start") || is(b"content_block_start") || is(b"tool_use");
        return Meaning::Unreadable(match (event, suspicious) {
            (Some("ping"), _) => Harm::None,
            (_, true) => Harm::Call,
            (_, false) => Harm::InsideBlock,
        });
    };
    let kind = if wire.kind.is_empty() { event.unwrap_or_default() } else { &wire.kind };
    match (kind, wire.index, wire.content_block, wire.delta) {
        ("content_block_start", index, Some(block), _) => match (tool_of(block), index) {
            (Ok(tool), Some(index)) => Meaning::Start { index, tool },
            (Ok(None), None) => Meaning::Other,
            _ => Meaning::Unreadable(Harm::Call),
        },
        ("content_block_delta", Some(index), _, Some(delta)) => Meaning::Delta { index, delta },
        ("content_block_stop", Some(index), ..) => Meaning::Stop { index },
        ("message_start", ..) => match wire.message.map_or(Ok(false), holds_call) {
            Ok(false) => Meaning::Other,
            Ok(true) => Meaning::Prefilled,
            Err(()) => Meaning::Unreadable(Harm::Call),
        },
        ("message_delta", _, _, delta) => match delta.map(|delta| serde_json::from_str::<WireEnd<'a>>(delta.get())) {
            Some(Err(_)) => Meaning::Unreadable(Harm::InsideBlock),
            Some(Ok(end)) => Meaning::MessageDelta { stop_reason: end.stop_reason },
            None => Meaning::MessageDelta { stop_reason: None },
        },
        ("message_stop", ..) => Meaning::MessageStop,
        ("error", ..) => Meaning::Error,
        _ => Meaning::Other,
    }
}

/// Whether a message that begins holds a call.
fn holds_call(message: &RawValue) -> Result<bool, ()> {
    let message: WireMessage<'_> = serde_json::from_str(message.get()).map_err(|_| ())?;
    let Some(content) = message.content.filter(|content| content.get().starts_with('[')) else { return Ok(false) };
    let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).map_err(|_| ())?;
    let mut calls = blocks.into_iter().map(|block| Ok(tool_of(block)?.is_some()));
    calls.try_fold(false, |any, is: Result<bool, ()>| Ok(any | is?))
}

/// The bytes of an event with the value at `place`, a part of its data, replaced by `value`.
pub(super) fn mended(event: &sse::Event<'_>, place: &RawValue, value: &str) -> bytes::Bytes {
    if let Some(at) = offset(event.bytes, place.get().as_bytes()) {
        return [&event.bytes[..at], value.as_bytes(), &event.bytes[at + place.get().len()..]].concat().into();
    }
    // Several data lines were joined: the event is written anew with the same data.
    match offset(&event.data, place.get().as_bytes()) {
        Some(at) => {
            let data = [&event.data[..at], value.as_bytes(), &event.data[at + place.get().len()..]].concat();
            super::words::data_event(event.event.unwrap_or("message_delta"), &data)
        }
        None => bytes::Bytes::copy_from_slice(event.bytes),
    }
}

/// Where `part` stands in `whole`, if it is a part of that very memory.
pub(super) fn offset(whole: &[u8], part: &[u8]) -> Option<usize> {
    let at = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (at + part.len() <= whole.len()).then_some(at)
}
