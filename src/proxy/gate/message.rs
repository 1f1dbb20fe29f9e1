//! The gate of a plain body: one message as JSON.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::court::Court;
use super::event::{offset, tool_of};
use super::words::{explanation, text_block};
use crate::base::{Error, Kind, Result};
use crate::proxy::policy::Need;

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
}

/// The body that goes out for a message: the same bytes, but for denied calls and, when no call is left, the reason why
/// the model stopped.
///
/// # Errors
/// [`Kind::Forbidden`] when a call may be in it and cannot be read.
pub fn judge_message(body: Bytes, court: &mut Court) -> Result<Bytes> {
    let damaged = || Error::new(Kind::Forbidden, "the response holds a tool call that cannot be judged");
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
    let Ok(wire) = serde_json::from_slice::<Wire<'_>>(text) else {
        // A body that breaks off or holds a key twice; something that is no object passes.
        let torn = text.trim_ascii_start().starts_with(b"{") && body.windows(8).any(|window| window == b"tool_use");
        court.unjudged("a body that is no message");
        return if torn { Err(damaged()) } else { Ok(body) };
    };
    let blocks = match wire.content.filter(|content| content.get().starts_with('[')) {
        Some(content) => serde_json::from_str::<Vec<&RawValue>>(content.get()).map_err(|_| damaged())?,
        None => return Ok(body),
    };
    let place_of = |place: &RawValue| {
        let at = offset(&body, place.get().as_bytes()).ok_or_else(damaged)?;
        Ok::<_, Error>(at..at + place.get().len())
    };
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    let mut kept = 0;
    for block in blocks {
        let Some(tool) = tool_of(block).map_err(|()| damaged())? else { continue };
        let denial = match court.open(&tool.call) {
            Need::Nothing => None,
            Need::Denied(denial) => Some(*denial),
            Need::Input => {
                let input = tool.input.map_or(&b"{}"[..], |input| input.get().as_bytes());
                court.judge(&tool.call, &[input]).map_err(|_| damaged())?
            }
        };
        match denial {
            None => kept += 1,
            Some(denial) => changes.push((place_of(block)?, text_block(&explanation(&tool.call.name, &denial)))),
        }
    }
    if changes.is_empty() {
        return Ok(body);
    }
    if let Some(reason) = wire.stop_reason.filter(|reason| kept == 0 && reason.get() == "\"tool_use\"") {
        changes.push((place_of(reason)?, "\"end_turn\"".into()));
    }
    changes.sort_by_key(|(place, _)| place.start);
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for (place, text) in changes {
        out.extend_from_slice(&body[at..place.start]);
        out.extend_from_slice(text.as_bytes());
        at = place.end;
    }
    out.extend_from_slice(&body[at..]);
    Ok(out.into())
}
