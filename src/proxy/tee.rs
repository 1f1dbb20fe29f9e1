//! The response on its way to the client: past the gate, seen by the scanner, entered into the trail.
//!
//! Each chunk is given to the connection before it is scanned: when the upstream has nothing more at the moment, the
//! body first lets the connection write, and looks at the chunk on its next turn. Whatever ends the body ends the entry:
//! the end of the upstream, a break, or the client's departure (the body is dropped).

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use super::audit::Entry;
use super::gate::decode::Decoder;
use super::gate::{Effect, Gate, Passage};
use super::pool::Lease;
use super::usage::Scanner;
use crate::base::{Error, Kind, Result};

/// A response body that passes on what its upstream sends.
pub(super) struct Tee {
    upstream: Incoming,
    /// For an encoded body whose plain bytes are needed.
    decoder: Option<Decoder>,
    gate: Box<dyn Gate>,
    scanner: Scanner,
    /// Chunks that may go out.
    ready: VecDeque<Bytes>,
    /// The chunk that went out last and was not looked at yet.
    unseen: Option<Bytes>,
    /// Whether the connection had its turn to write that chunk.
    written: bool,
    /// What the client's stream ends with, when it must not end as whole.
    broken: Option<Error>,
    /// Open until the response is over.
    under_way: Option<(Entry, Lease)>,
}

impl Tee {
    /// A body for a response whose head is being sent.
    pub fn new(upstream: Incoming, gate: Box<dyn Gate>, scanner: Scanner, entry: Entry, lease: Lease) -> Self {
        let mut tee = Tee {
            upstream,
            decoder: None,
            gate,
            scanner,
            ready: VecDeque::new(),
            unseen: None,
            written: false,
            broken: None,
            under_way: Some((entry, lease)),
        };
        // The connection never asks a body for frames when there are none.
        if tee.upstream.is_end_stream() {
            tee.end(None);
        }
        tee
    }

    /// The same body, decoded on the way.
    pub fn decoded(mut self, decoder: Option<Decoder>) -> Self {
        self.decoder = decoder;
        self
    }

    /// Gives the next bytes of the upstream to the gate and keeps them for the scanner.
    fn pass(&mut self, chunk: Bytes) -> Result<Passage> {
        let chunk = match &mut self.decoder {
            Some(decoder) => decoder.decode(&chunk)?,
            None => chunk,
        };
        self.see(chunk)
    }

    fn see(&mut self, chunk: Bytes) -> Result<Passage> {
        if chunk.is_empty() {
            return Ok(Passage::On);
        }
        self.unseen = Some(chunk.clone());
        self.gate.pass(chunk, &mut self.ready)
    }

    /// The upstream's body ended whole.
    fn pass_end(&mut self) -> Result<Passage> {
        let rest = self.decoder.as_mut().map_or_else(|| Ok(Bytes::new()), Decoder::finish)?;
        match self.see(rest)? {
            Passage::On => self.gate.end(&mut self.ready),
            over => Ok(over),
        }
    }

    fn look(&mut self) {
        self.written = false;
        if let Some(chunk) = self.unseen.take() {
            self.scanner.look(&chunk);
        }
    }

    fn end(&mut self, error: Option<String>) {
        self.look();
        let Some((entry, lease)) = self.under_way.take() else { return };
        if error.is_none() {
            lease.release();
        }
        entry.close(self.scanner.finish(), self.gate.findings(), error);
    }

    /// Ends both sides: the client's stream breaks after what may still go out.
    fn break_off(&mut self, error: Error, cx: &mut Context<'_>) {
        self.end(Some(error.full_message()));
        self.broken = Some(error);
        // hyper drops what it has buffered when a body fails: it gets a turn to write first.
        cx.waker().wake_by_ref();
    }
}

impl HttpBody for Tee {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        loop {
            if let Some(chunk) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            if let Some(error) = this.broken.take() {
                return Poll::Ready(Some(Err(error)));
            }
            if this.under_way.is_none() {
                return Poll::Ready(None);
            }
            match Pin::new(&mut this.upstream).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    this.look();
                    let chunk = match frame.into_data() {
                        Ok(chunk) => chunk,
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    };
                    match this.pass(chunk) {
                        Ok(Passage::On) => {}
                        Ok(Passage::Over(why)) => this.end(Some(why)),
                        Err(error) => {
                            this.break_off(error, cx);
                            if this.ready.is_empty() {
                                return Poll::Pending;
                            }
                        }
                    }
                }
                Poll::Ready(Some(Err(source))) => {
                    this.break_off(Error::new(Kind::Lost, "the upstream broke off its response").caused_by(source), cx);
                    return Poll::Pending;
                }
                Poll::Ready(None) => match this.pass_end() {
                    Ok(Passage::On) => this.end(None),
                    Ok(Passage::Over(why)) => this.end(Some(why)),
                    Err(error) => {
                        this.break_off(error, cx);
                        return Poll::Pending;
                    }
                },
                Poll::Pending => {
                    if this.unseen.is_some() && this.written {
                        this.look();
                    } else if this.unseen.is_some() {
                        this.written = true;
                        cx.waker().wake_by_ref();
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.under_way.is_none() && self.ready.is_empty() && self.broken.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.gate.effect() {
            Effect::Transparent => self.upstream.size_hint(),
            Effect::MayChange => SizeHint::default(),
        }
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        // With a known length the connection may stop asking once it has all: that is an end like any other.
        let whole = self.upstream.is_end_stream() && self.ready.is_empty() && self.broken.is_none();
        let error = (!whole).then(|| super::audit::DISCONNECTED.to_string());
        self.end(error);
    }
}
