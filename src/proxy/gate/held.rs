//! The blocks that wait, in the order of their starts.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::court::Call;

/// A block that waits.
#[derive(Debug)]
pub(super) struct Slot {
    pub index: u64,
    pub state: State,
    /// Its events so far, unless they will not go out.
    pub bytes: BytesMut,
    /// Whether its stop was seen.
    pub done: bool,
}

/// Why a block waits.
#[derive(Debug)]
pub(super) enum State {
    /// Its input is not complete.
    Judging(Pending),
    /// It may go out, behind those before it.
    Free,
    /// It will not go out; this text will, behind those before it.
    Denied(Bytes),
}

/// A call whose input is not complete.
#[derive(Debug)]
pub(super) struct Pending {
    pub call: Call,
    /// The input that stood in the start.
    pub given: Option<Bytes>,
    /// The input that the deltas told.
    pub told: String,
}

/// The waiting blocks, and the indexes of denied ones whose stop is still to come.
#[derive(Debug, Default)]
pub(super) struct Queue {
    slots: VecDeque<Slot>,
    swallowed: Vec<u64>,
    /// Bytes in the slots.
    size: usize,
}

impl Queue {
    /// Whether nothing waits and nothing is swallowed.
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.swallowed.is_empty()
    }

    /// Whether no block waits.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many bytes are held.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Puts a block at the end.
    pub fn push(&mut self, index: u64, state: State, event: &[u8]) {
        let bytes = match state {
            State::Denied(_) => BytesMut::new(),
            _ => BytesMut::from(event),
        };
        self.size += bytes.len();
        self.slots.push_back(Slot { index, state, bytes, done: false });
    }

    /// The waiting block of an index.
    pub fn find(&mut self, index: u64) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.index == index && !slot.done)
    }

    /// Keeps an event of a waiting block.
    pub fn append(&mut self, index: u64, event: &[u8]) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == index && !slot.done) else { return };
        if !matches!(slot.state, State::Denied(_)) {
            slot.bytes.extend_from_slice(event);
            self.size += event.len();
        }
    }

    /// Whether events of this index do not go out any more.
    pub fn swallows(&self, index: u64) -> bool {
        self.swallowed.contains(&index)
    }

    /// The stop of a denied block was seen.
    pub fn forget(&mut self, index: u64) {
        self.swallowed.retain(|swallowed| *swallowed != index);
    }

    /// Blocks that are still judged, whether or not their stop was seen.
    pub fn judging(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().filter(|slot| matches!(slot.state, State::Judging(_)))
    }

    /// Replaces what will go out of a denied block.
    pub fn deny(&mut self, index: u64, text: Bytes) {
        if let Some(slot) = self.slots.iter_mut().rfind(|slot| slot.index == index) {
            self.size -= slot.bytes.len();
            slot.bytes = BytesMut::new();
            slot.state = State::Denied(text);
        }
    }

    /// Takes out what may go: everything up to the first block that is still judged.
    pub fn release(&mut self, mut give: impl FnMut(Bytes)) {
        while let Some(slot) = self.slots.pop_front() {
            match slot.state {
                State::Judging(_) => {
                    self.slots.push_front(slot);
                    return;
                }
                State::Free => {
                    self.size -= slot.bytes.len();
                    give(slot.bytes.freeze());
                }
                State::Denied(text) => {
                    give(text);
                    if !slot.done {
                        self.swallowed.push(slot.index);
                    }
                }
            }
        }
    }
}
