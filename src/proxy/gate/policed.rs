//! The gate of one judged response, whichever form its body has.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{Court, Effect, Findings, Gate, HELD, Passage, StreamGate, judge_message};
use crate::base::{Error, Kind, Result};

/// A gate that judges tool calls.
#[derive(Debug)]
pub struct Policed {
    court: Court,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Nothing but blanks so far, of what is called an event stream.
    Beginning(BytesMut),
    Stream(Box<StreamGate>),
    Plain(BytesMut),
}

impl Policed {
    /// For a response that is called an event stream.
    pub fn stream(court: Court) -> Policed {
        Policed { court, form: Form::Beginning(BytesMut::new()) }
    }

    /// For any other response.
    pub fn plain(court: Court) -> Policed {
        Policed { court, form: Form::Plain(BytesMut::new()) }
    }

    /// Tells by the first byte what a stream is: a client that expects one message may be sent one under that name.
    fn begin(&mut self, chunk: &Bytes) -> Option<Bytes> {
        let Form::Beginning(blanks) = &mut self.form else { return Some(chunk.clone()) };
        blanks.extend_from_slice(chunk);
        let text = blanks.strip_prefix(b"\xef\xbb\xbf").unwrap_or(blanks);
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
        let all = match blanks.len() == chunk.len() {
            true => chunk.clone(),
            false => Bytes::copy_from_slice(blanks),
        };
        match first {
            // Blanks, or a part of the mark: nothing can be told yet.
            None => return None,
            Some(b'\xef' | b'\xbb') if all.len() < 3 => return None,
            Some(b'{' | b'[') => self.form = Form::Plain(BytesMut::new()),
            Some(_) => self.form = Form::Stream(Box::new(StreamGate::new(self.court.clone()))),
        }
        Some(all)
    }
}

impl Gate for Policed {
    fn pass(&mut self, chunk: Bytes, out: &mut VecDeque<Bytes>) -> Result<Passage> {
        let Some(chunk) = self.begin(&chunk) else { return Ok(Passage::On) };
        match &mut self.form {
            Form::Stream(stream) => Ok(stream.feed(chunk, out)),
            Form::Plain(body) | Form::Beginning(body) => {
                if body.len() + chunk.len() > HELD {
                    let text = format!("a response of more than {HELD} bytes cannot be judged");
                    return Err(Error::new(Kind::Forbidden, text));
                }
                body.extend_from_slice(&chunk);
                Ok(Passage::On)
            }
        }
    }

    fn end(&mut self, out: &mut VecDeque<Bytes>) -> Result<Passage> {
        let body = match &mut self.form {
            Form::Stream(stream) => return Ok(stream.end(out)),
            Form::Plain(body) | Form::Beginning(body) => std::mem::take(body).freeze(),
        };
        let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
        if text.trim_ascii_start().starts_with(b"{") {
            let judged = judge_message(body, &mut self.court)?;
            out.push_back(judged);
            return Ok(Passage::On);
        }
        // A client that asked for a stream reads one, whatever it is called.
        let mut stream = Box::new(StreamGate::new(self.court.clone()));
        let passage = match stream.feed(body, out) {
            Passage::On => stream.end(out),
            over => over,
        };
        self.form = Form::Stream(stream);
        Ok(passage)
    }

    fn effect(&self) -> Effect {
        Effect::MayChange
    }

    fn findings(&mut self) -> Findings {
        match &mut self.form {
            Form::Stream(stream) => stream.findings(),
            Form::Plain(_) | Form::Beginning(_) => self.court.findings(),
        }
    }
}
