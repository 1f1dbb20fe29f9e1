//! Lines from a stream, with a bound on each line and on all that is remembered.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// The longest line that is kept.
pub const LINE_LIMIT: usize = 64 << 20;

/// The bytes of the end of the stream that are kept.
pub const TAIL_LIMIT: usize = 256 << 10;

/// What the stream brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// A line longer than the limit. Its bytes are gone; `bytes` is how many there were.
    Dropped {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// A bounded line splitter.
#[derive(Debug)]
pub struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    dropped: u64,
    limit: usize,
    tail: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most [`LINE_LIMIT`] bytes.
    pub fn new(reader: R) -> Lines<R> {
        Lines::with_limit(reader, LINE_LIMIT)
    }

    /// Lines of at most `limit` bytes.
    pub fn with_limit(reader: R, limit: usize) -> Lines<R> {
        Lines {
            reader: BufReader::with_capacity(32 << 10, reader),
            line: Vec::new(),
            dropped: 0,
            limit,
            tail: Vec::new(),
        }
    }

    /// The next line; `None` at the end of the stream. A last line without an end counts. May be dropped and called
    /// again without losing bytes.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                let open = !self.line.is_empty() || self.dropped > 0;
                return Ok(open.then(|| self.finish()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let used = end.map_or(chunk.len(), |at| at + 1);
            remember(&mut self.tail, &chunk[..used]);
            if self.dropped > 0 {
                self.dropped += part.len() as u64;
            } else if self.line.len() + part.len() > self.limit {
                self.dropped = (self.line.len() + part.len()) as u64;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.finish()));
            }
        }
    }

    /// The last bytes of the stream so far, at most [`TAIL_LIMIT`].
    pub fn tail(&self) -> &[u8] {
        &self.tail[self.tail.len().saturating_sub(TAIL_LIMIT)..]
    }

    fn finish(&mut self) -> Line {
        match std::mem::take(&mut self.dropped) {
            0 => Line::Whole(std::mem::take(&mut self.line)),
            bytes => Line::Dropped { bytes },
        }
    }
}

/// Appends and forgets the oldest; it moves bytes only once per limit, so a long stream costs no more than a copy.
fn remember(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes);
    if tail.len() > 2 * TAIL_LIMIT {
        tail.drain(..tail.len() - TAIL_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn all(bytes: &[u8], limit: usize) -> Vec<Line> {
        let mut lines = Lines::with_limit(bytes, limit);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.expect("memory reads") {
            found.push(line);
        }
        found
    }

    proptest! {
        #[test]
        fn lines_are_those_of_a_plain_split(text in "[ab\n]{0,300}", limit in 0_usize..12) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
            let found = runtime.block_on(all(text.as_bytes(), limit));
            let plain: Vec<Line> = text.split_terminator('\n').map(|line| match line.len() {
                n if n > limit => Line::Dropped { bytes: n as u64 },
                _ => Line::Whole(line.as_bytes().to_vec()),
            }).collect();
            prop_assert_eq!(found, plain);
        }
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_dropped_and_the_next_one_is_whole() {
        let mut bytes = vec![b'x'; LINE_LIMIT + 1];
        bytes.extend_from_slice(b"\nnext\n");
        let mut lines = Lines::new(bytes.as_slice());
        assert_eq!(lines.next().await.expect("reads"), Some(Line::Dropped { bytes: LINE_LIMIT as u64 + 1 }));
        assert_eq!(lines.next().await.expect("reads"), Some(Line::Whole(b"next".to_vec())));
        assert_eq!(lines.next().await.expect("reads"), None);
        assert_eq!(lines.tail().len(), TAIL_LIMIT);
        assert!(lines.tail().ends_with(b"xxx\nnext\n"));
    }
}
