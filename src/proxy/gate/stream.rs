//! The gate of an event stream: bytes in, bytes out, nothing held but a call that is not complete.
//!
//! Pure: no clock, no I/O but the links that the rules follow. What goes out depends on the bytes alone, never on how they
//! were cut; only when it goes out does.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::court::Court;
use super::event::{Harm, Meaning, Tool, input_piece, meaning, mended};
use super::held::{Pending, Queue, State};
use super::words::{error_event, explanation, text_events};
use super::{Findings, HELD, Passage};
use crate::http::sse::{Event, Item, Reader};
use crate::proxy::policy::Need;

/// The state of one stream.
#[derive(Debug)]
pub struct StreamGate {
    reader: Reader,
    limit: usize,
    /// Where the next chunk stands in the stream.
    position: u64,
    judge: Judge,
}

/// Everything but the reader, which lends out the events.
#[derive(Debug)]
struct Judge {
    court: Court,
    queue: Queue,
    /// Calls that went out or will.
    kept: usize,
    denied: usize,
    /// Whether the upstream said that it gave up.
    failed: bool,
    over: bool,
}

/// Why a stream is ended here.
struct Cut(&'static str);

const TORN: Cut = Cut("a tool call that has to be judged arrived damaged");
const UNFINISHED: Cut = Cut("it broke off inside a tool call that has to be judged");
const TOO_LONG: Cut = Cut("it holds a tool call or an event that is too long to be judged");

impl StreamGate {
    /// A gate at the beginning of a stream.
    pub fn new(court: Court) -> StreamGate {
        StreamGate::with_limit(court, HELD)
    }

    /// The same, holding at most `limit` bytes.
    pub fn with_limit(court: Court, limit: usize) -> StreamGate {
        let judge = Judge { court, queue: Queue::default(), kept: 0, denied: 0, failed: false, over: false };
        StreamGate { reader: Reader::new(usize::MAX), limit, position: 0, judge }
    }

    /// Takes the next bytes; appends to `out` what may go out.
    pub fn feed(&mut self, chunk: Bytes, out: &mut VecDeque<Bytes>) -> Passage {
        if self.judge.over {
            return Passage::On;
        }
        self.reader.push(&chunk);
        let mut way = Way { chunk_at: self.position, run: None, chunk, out };
        self.position += way.chunk.len() as u64;
        let mut outcome = self.drain(&mut way);
        if outcome.is_ok() && self.reader.pending() + self.judge.queue.size() > self.limit {
            outcome = Err(TOO_LONG);
        }
        self.settle(outcome, way)
    }

    /// The stream ended; appends what is left.
    pub fn end(&mut self, out: &mut VecDeque<Bytes>) -> Passage {
        if self.judge.over {
            return Passage::On;
        }
        self.reader.finish();
        let mut way = Way { chunk_at: self.position, run: None, chunk: Bytes::new(), out };
        let outcome = self.drain(&mut way).and_then(|()| match self.judge.queue.is_empty() || self.judge.failed {
            true => Ok(()),
            // An upstream that ends like this has not said all: nothing may look as if it had.
            false => Err(UNFINISHED),
        });
        self.settle(outcome, way)
    }

    /// What was found; nothing is left.
    pub fn findings(&mut self) -> Findings {
        self.judge.court.findings()
    }

    fn drain(&mut self, way: &mut Way<'_>) -> Result<(), Cut> {
        while let Some(item) = self.reader.next() {
            match item {
                Item::Event(event) => self.judge.take(&event, way)?,
                // The reader has no limit; this gate has.
                Item::Oversized { .. } => return Err(TOO_LONG),
            }
        }
        Ok(())
    }

    fn settle(&mut self, outcome: Result<(), Cut>, mut way: Way<'_>) -> Passage {
        let Err(Cut(why)) = outcome else {
            way.finish();
            return Passage::On;
        };
        way.give(error_event(why));
        self.judge.over = true;
        let calls: Vec<_> = self.judge.queue.judging().map(|slot| slot.state.take_call()).collect();
        for call in calls.into_iter().flatten() {
            self.judge.court.damaged(&call);
        }
        self.reader = Reader::new(0);
        self.judge.queue = Queue::default();
        Passage::Over(format!("response ended by policy: {why}"))
    }
}

impl State {
    fn take_call(&mut self) -> Option<super::court::Call> {
        match self {
            State::Judging(pending) => Some(std::mem::take(&mut pending.call)),
            _ => None,
        }
    }
}

impl Judge {
    /// One event on its way.
    fn take(&mut self, event: &Event<'_>, way: &mut Way<'_>) -> Result<(), Cut> {
        match meaning(event.event, &event.data) {
            Meaning::Other => way.pass(event),
            Meaning::Error => {
                self.failed = true;
                way.pass(event);
            }
            Meaning::Start { index, tool } => self.start(index, tool, event, way)?,
            Meaning::Delta { index, delta } => self.delta(index, delta, event, way)?,
            Meaning::Stop { index } => self.stop(index, event, way)?,
            Meaning::MessageDelta { stop_reason } => {
                self.close(way)?;
                let called = stop_reason.filter(|reason| reason.get() == "\"tool_use\"");
                match called.filter(|_| self.denied > 0 && self.kept == 0) {
                    Some(place) => way.give(mended(event, place, "\"end_turn\"")),
                    None => way.pass(event),
                }
            }
            Meaning::MessageStop => {
                self.close(way)?;
                way.pass(event);
            }
            Meaning::Prefilled => return Err(TORN),
            Meaning::Unreadable(harm) => {
                let inside = !self.queue.is_idle();
                if harm == Harm::Call || (harm == Harm::InsideBlock && inside) {
                    return Err(TORN);
                }
                self.court.unjudged("an event that does not parse");
                way.pass(event);
            }
        }
        Ok(())
    }

    fn start(&mut self, index: u64, tool: Option<Tool<'_>>, event: &Event<'_>, way: &mut Way<'_>) -> Result<(), Cut> {
        // A second start of a block that is held or gone: what a client makes of that cannot be told.
        if self.queue.find(index).is_some() || self.queue.swallows(index) {
            return Err(TORN);
        }
        let state = match tool {
            None => State::Free,
            Some(tool) => match self.court.open(&tool.call) {
                Need::Nothing => {
                    self.kept += 1;
                    State::Free
                }
                Need::Denied(denial) => {
                    self.denied += 1;
                    State::Denied(text_events(index, &explanation(&tool.call.name, &denial)))
                }
                Need::Input => State::Judging(Pending {
                    call: tool.call,
                    given: tool.input.map(|input| Bytes::copy_from_slice(input.get().as_bytes())),
                    told: String::new(),
                }),
            },
        };
        if self.queue.is_empty() && matches!(state, State::Free) {
            way.pass(event);
            return Ok(());
        }
        self.queue.push(index, state, event.bytes);
        self.queue.release(|bytes| way.give(bytes));
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: &RawValue, event: &Event<'_>, way: &mut Way<'_>) -> Result<(), Cut> {
        if self.queue.swallows(index) {
            return Ok(());
        }
        let Some(slot) = self.queue.find(index) else {
            way.pass(event);
            return Ok(());
        };
        if let State::Judging(pending) = &mut slot.state
            && let Some(piece) = input_piece(delta).map_err(|()| TORN)?
        {
            pending.told.push_str(&piece);
        }
        self.queue.append(index, event.bytes);
        Ok(())
    }

    fn stop(&mut self, index: u64, event: &Event<'_>, way: &mut Way<'_>) -> Result<(), Cut> {
        if self.queue.swallows(index) {
            self.queue.forget(index);
            return Ok(());
        }
        if self.queue.find(index).is_none() {
            way.pass(event);
            return Ok(());
        }
        self.queue.append(index, event.bytes);
        if let Some(slot) = self.queue.find(index) {
            slot.done = true;
        }
        self.decide(index)?;
        self.queue.release(|bytes| way.give(bytes));
        Ok(())
    }

    /// The message is ending: what was not stopped is judged by what there is.
    fn close(&mut self, way: &mut Way<'_>) -> Result<(), Cut> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let open: Vec<u64> = self.queue.judging().map(|slot| slot.index).collect();
        for index in open {
            self.decide(index)?;
        }
        self.queue.release(|bytes| way.give(bytes));
        Ok(())
    }

    /// Judges a call by its input so far.
    fn decide(&mut self, index: u64) -> Result<(), Cut> {
        let Some(slot) = self.queue.judging().find(|slot| slot.index == index) else { return Ok(()) };
        let State::Judging(pending) = &mut slot.state else { return Ok(()) };
        let told = pending.told.trim_ascii();
        // What stands in the start counts for clients that read no deltas, what the deltas tell for all others.
        let inputs = [pending.given.as_deref(), (!told.is_empty()).then_some(told.as_bytes())];
        let inputs: Vec<&[u8]> = inputs.into_iter().flatten().collect();
        let verdict = match inputs.is_empty() {
            true => self.court.judge(&pending.call, &[b"{}"]),
            false => self.court.judge(&pending.call, &inputs),
        };
        let name = std::mem::take(&mut pending.call.name);
        match verdict {
            // Recorded as damaged already.
            Err(_) => {
                slot.state = State::Free;
                Err(TORN)
            }
            Ok(None) => {
                slot.state = State::Free;
                self.kept += 1;
                Ok(())
            }
            Ok(Some(denial)) => {
                self.denied += 1;
                self.queue.deny(index, text_events(index, &explanation(&name, &denial)));
                Ok(())
            }
        }
    }
}

/// The way out of one chunk. Events that follow one another go out as one slice of the chunk.
struct Way<'a> {
    chunk: Bytes,
    chunk_at: u64,
    run: Option<Range<u64>>,
    out: &'a mut VecDeque<Bytes>,
}

impl Way<'_> {
    /// Lets an event go out as it is.
    fn pass(&mut self, event: &Event<'_>) {
        if event.raw.start < self.chunk_at || event.raw.end > self.chunk_at + self.chunk.len() as u64 {
            // It began in an earlier chunk.
            self.finish();
            self.out.push_back(Bytes::copy_from_slice(event.bytes));
            return;
        }
        match &mut self.run {
            Some(run) if run.end == event.raw.start => run.end = event.raw.end,
            _ => {
                self.finish();
                self.run = Some(event.raw.clone());
            }
        }
    }

    /// Lets other bytes go out.
    fn give(&mut self, bytes: Bytes) {
        self.finish();
        if !bytes.is_empty() {
            self.out.push_back(bytes);
        }
    }

    fn finish(&mut self) {
        let Some(run) = self.run.take() else { return };
        let at = |offset: u64| usize::try_from(offset - self.chunk_at).expect("within a chunk");
        self.out.push_back(self.chunk.slice(at(run.start)..at(run.end)));
    }
}
