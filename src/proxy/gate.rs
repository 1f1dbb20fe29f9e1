//! What may hold back or change a response on its way to the client.
//!
//! The response body asks its gate for every chunk before it goes out. [`Open`] lets all pass. The gate that judges tool
//! calls keeps the bytes of a `tool_use` block until its input is complete and lets everything else pass at once; it fits
//! behind the same trait, because [`Gate::pass`] may emit nothing, the chunk, or other bytes.

use std::collections::VecDeque;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::base::Result;

/// One verdict against a tool call, as it stands in the audit record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enforcement {
    /// The id of the `tool_use` block.
    pub tool_use_id: Option<String>,
    /// The tool.
    pub name: String,
    /// The rule that denied it.
    pub rule: String,
    /// Why, in words.
    pub reason: String,
}

/// Whether a gate may change the length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Bytes pass as they are: `content-length` stays true.
    Transparent,
    /// Bytes may be replaced: `content-length` is dropped.
    MayChange,
}

/// Decides what of a response reaches the client, chunk by chunk.
pub trait Gate: Send + Sync {
    /// Takes the next chunk of the upstream's body and appends to `out` what may go out now, in order.
    ///
    /// # Errors
    /// A verdict that the rest must not pass: the client's stream is ended as broken after what `out` holds.
    fn pass(&mut self, chunk: Bytes, out: &mut VecDeque<Bytes>) -> Result<()>;

    /// The upstream's body ended whole: appends what was still held back.
    ///
    /// # Errors
    /// As for [`Gate::pass`].
    fn end(&mut self, out: &mut VecDeque<Bytes>) -> Result<()>;

    /// Whether bytes may be replaced.
    fn effect(&self) -> Effect;

    /// What was denied so far.
    fn denials(&mut self) -> Vec<Enforcement>;
}

/// Lets everything pass.
#[derive(Debug, Default)]
pub struct Open;

impl Gate for Open {
    fn pass(&mut self, chunk: Bytes, out: &mut VecDeque<Bytes>) -> Result<()> {
        out.push_back(chunk);
        Ok(())
    }

    fn end(&mut self, _: &mut VecDeque<Bytes>) -> Result<()> {
        Ok(())
    }

    fn effect(&self) -> Effect {
        Effect::Transparent
    }

    fn denials(&mut self) -> Vec<Enforcement> {
        Vec::new()
    }
}
