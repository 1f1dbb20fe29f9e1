//! Responses that are encoded although nobody asked for it, decoded chunk by chunk.

use std::fmt;
use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use zstd::stream::raw::{self, Operation as _};
use zstd::zstd_safe::{InBuffer, OutBuffer};

use super::HELD;
use crate::base::{Error, Kind, Result};

/// A coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum Coding {
    /// None at all.
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    /// The coding that a `content-encoding` names; `None` for one that is not known, or several.
    pub fn of(header: Option<&str>) -> Option<Coding> {
        match header.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Coding::Identity),
            "gzip" | "x-gzip" => Some(Coding::Gzip),
            "deflate" => Some(Coding::Deflate),
            "br" => Some(Coding::Brotli),
            "zstd" => Some(Coding::Zstd),
            _ => None,
        }
    }

    /// A decoder; `None` where there is nothing to decode.
    ///
    /// # Errors
    /// [`Kind::Internal`] when none can be made.
    pub fn decoder(self) -> Result<Option<Decoder>> {
        let sink = Sink::default;
        let form = match self {
            Coding::Identity => return Ok(None),
            Coding::Gzip => Form::Gzip(Box::new(MultiGzDecoder::new(sink()))),
            Coding::Deflate => Form::Deflate,
            Coding::Brotli => Form::Brotli(Box::new(brotli_decompressor::DecompressorWriter::new(sink(), 16 << 10))),
            Coding::Zstd => Form::Zstd {
                decoder: Box::new(
                    raw::Decoder::new().map_err(|source| Error::internal("cannot make a decoder").caused_by(source))?,
                ),
                at_end: true,
            },
        };
        Ok(Some(Decoder(form)))
    }
}

/// Decodes one body. What a chunk completes comes out with it.
pub(in crate::proxy) struct Decoder(Form);

enum Form {
    Gzip(Box<MultiGzDecoder<Sink>>),
    /// Not begun: the first byte tells whether it is wrapped, as the standard says, or bare, as many do it.
    Deflate,
    Zlib(Box<ZlibDecoder<Sink>>),
    Bare(Box<DeflateDecoder<Sink>>),
    Brotli(Box<brotli_decompressor::DecompressorWriter<Sink>>),
    Zstd {
        decoder: Box<raw::Decoder<'static>>,
        at_end: bool,
    },
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// What the chunk gives.
    ///
    /// # Errors
    /// [`Kind::Lost`] when it is no such encoding, or gives more than may be held.
    pub fn decode(&mut self, chunk: &[u8]) -> Result<Bytes> {
        self.write(chunk).map(Bytes::from).map_err(broken)
    }

    /// What is left at the end of the body.
    ///
    /// # Errors
    /// [`Kind::Lost`] when the body is not whole.
    pub fn finish(&mut self) -> Result<Bytes> {
        let sink = match &mut self.0 {
            Form::Gzip(decoder) => decoder.try_finish().map(|()| decoder.get_mut()),
            Form::Deflate => return Ok(Bytes::new()),
            Form::Zlib(decoder) => decoder.try_finish().map(|()| decoder.get_mut()),
            Form::Bare(decoder) => decoder.try_finish().map(|()| decoder.get_mut()),
            Form::Brotli(decoder) => decoder.close().map(|()| decoder.get_mut()),
            Form::Zstd { at_end: true, .. } => return Ok(Bytes::new()),
            Form::Zstd { .. } => return Err(broken(io::ErrorKind::UnexpectedEof.into())),
        };
        sink.map(|sink| std::mem::take(&mut sink.0).into()).map_err(broken)
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<Vec<u8>> {
        if let (Form::Deflate, Some(first)) = (&self.0, chunk.first()) {
            self.0 = match first & 0x0f == 8 {
                true => Form::Zlib(Box::new(ZlibDecoder::new(Sink::default()))),
                false => Form::Bare(Box::new(DeflateDecoder::new(Sink::default()))),
            };
        }
        let sink = match &mut self.0 {
            Form::Deflate => return Ok(Vec::new()),
            Form::Gzip(decoder) => push(&mut **decoder, chunk).map(|()| decoder.get_mut())?,
            Form::Zlib(decoder) => push(&mut **decoder, chunk).map(|()| decoder.get_mut())?,
            Form::Bare(decoder) => push(&mut **decoder, chunk).map(|()| decoder.get_mut())?,
            Form::Brotli(decoder) => push(&mut **decoder, chunk).map(|()| decoder.get_mut())?,
            Form::Zstd { decoder, at_end } => return inflate(decoder, at_end, chunk),
        };
        Ok(std::mem::take(&mut sink.0))
    }
}

/// Writes the chunk, and has what it completed written on.
fn push(decoder: &mut impl Write, chunk: &[u8]) -> io::Result<()> {
    decoder.write_all(chunk)?;
    decoder.flush()
}

fn inflate(decoder: &mut raw::Decoder<'static>, at_end: &mut bool, chunk: &[u8]) -> io::Result<Vec<u8>> {
    let mut sink = Sink::default();
    let mut buffer = vec![0; 32 << 10];
    let mut input = InBuffer::around(chunk);
    loop {
        let before = input.pos();
        let mut output = OutBuffer::around(&mut buffer[..]);
        let hint = decoder.run(&mut input, &mut output)?;
        let written = output.pos();
        *at_end = hint == 0;
        sink.write_all(&buffer[..written])?;
        if input.pos() == chunk.len() && written < buffer.len() {
            return Ok(sink.0);
        }
        if hint == 0 {
            decoder.reinit()?;
        } else if input.pos() == before && written == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Where decoded bytes are collected, up to a bound.
#[derive(Debug, Default)]
struct Sink(Vec<u8>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > HELD {
            return Err(io::Error::other("it decodes to more than can be held"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(source: io::Error) -> Error {
    Error::new(Kind::Lost, "the upstream's encoded response cannot be decoded").caused_by(source)
}
