//! Splits a server-sent event stream, however it is cut into chunks, and keeps the exact extent of each event.
//!
//! The extents of all items follow one another without gap, so whoever forwards them one by one forwards the stream
//! byte for byte. Where an event ends depends on the bytes alone, never on how they were cut. Lines may end with LF,
//! CRLF or CR; a block of comments counts as an event without data. Memory is bounded: a block longer than the limit is
//! dropped from the buffer and reported as [`Item::Oversized`] when its end comes.

use std::borrow::Cow;
use std::ops::Range;

/// One event, or a block that was too long to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// A complete event.
    Event(Event<'a>),
    /// A block that was longer than the limit.
    Oversized {
        /// Where it stood in the stream.
        raw: Range<u64>,
    },
}

/// A complete event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    /// The value of the last `event:` line, if there was one in UTF-8.
    pub event: Option<&'a str>,
    /// The values of the `data:` lines, joined by line feeds.
    pub data: Cow<'a, [u8]>,
    /// Where the block, with the blank line that ends it, stands in the stream.
    pub raw: Range<u64>,
    /// The bytes of the block.
    pub bytes: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Lf,
    Cr,
    CrLf,
}

/// The incremental reader. Give it chunks by [`Reader::push`], then take items by [`Reader::next`] until there is none.
#[derive(Debug)]
pub struct Reader {
    limit: usize,
    buffer: Vec<u8>,
    /// Where the present block begins in `buffer`.
    head: usize,
    /// How far the present block has been searched for line ends.
    scanned: usize,
    /// Where the stream stood when the present block began.
    offset: u64,
    /// Bytes of the present block that were dropped.
    dropped: u64,
    /// Whether the present line has any byte yet.
    in_line: bool,
    /// How the last line of the present block ended; `None` before its first line.
    last_end: Option<End>,
    finished: bool,
}

impl Reader {
    /// A reader that keeps at most `limit` bytes of an incomplete event.
    pub fn new(limit: usize) -> Self {
        Reader {
            limit,
            buffer: Vec::new(),
            head: 0,
            scanned: 0,
            offset: 0,
            dropped: 0,
            in_line: false,
            last_end: None,
            finished: false,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.head > 0 {
            self.buffer.drain(..self.head);
            self.scanned -= self.head;
            self.head = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Says that no bytes follow: the next [`Reader::next`] also gives a last event that lacks its blank line.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// How many bytes of an incomplete event are kept.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.head
    }

    /// The next complete item.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Option<Item<'_>> {
        while let Some((line_end, next, end)) = self.line_end() {
            let blank = !self.in_line && line_end == self.scanned;
            self.scanned = next;
            self.in_line = false;
            if !blank {
                self.last_end = Some(end);
            } else if self.last_end.is_some() {
                return Some(self.take());
            }
        }
        if self.finished && self.pending() as u64 + self.dropped > 0 {
            self.scanned = self.buffer.len();
            return Some(self.take());
        }
        self.drop_excess();
        None
    }

    /// Finds the end of the present line: where it ends, where the next begins, and how it ended.
    fn line_end(&mut self) -> Option<(usize, usize, End)> {
        let found = self.buffer[self.scanned..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let Some(at) = found.map(|at| self.scanned + at) else {
            self.in_line |= self.scanned < self.buffer.len();
            self.scanned = self.buffer.len();
            return None;
        };
        if self.buffer[at] == b'\n' {
            return Some((at, at + 1, End::Lf));
        }
        let blank = !self.in_line && at == self.scanned;
        match self.buffer.get(at + 1) {
            // After a line that ended with a lone CR, a blank line ends with its CR: nobody has to wait for more.
            _ if blank && self.last_end == Some(End::Cr) => Some((at, at + 1, End::Cr)),
            Some(b'\n') => Some((at, at + 2, End::CrLf)),
            Some(_) => Some((at, at + 1, End::Cr)),
            None if self.finished => Some((at, at + 1, End::Cr)),
            None => {
                self.in_line |= at > self.scanned;
                self.scanned = at;
                None
            }
        }
    }

    /// Hands out the block `head..scanned` and begins the next.
    fn take(&mut self) -> Item<'_> {
        let (from, to) = (self.head, self.scanned);
        let raw = self.offset..self.offset + self.dropped + (to - from) as u64;
        let oversized = self.dropped > 0;
        let first = self.offset == 0;
        self.head = to;
        self.offset = raw.end;
        self.dropped = 0;
        self.in_line = false;
        self.last_end = None;
        if oversized {
            return Item::Oversized { raw };
        }
        parse(&self.buffer[from..to], raw, first)
    }

    fn drop_excess(&mut self) {
        let searched = self.scanned - self.head;
        if self.pending() > self.limit || self.dropped > 0 {
            self.dropped += searched as u64;
            self.head = self.scanned;
        }
    }
}

fn parse(bytes: &[u8], raw: Range<u64>, first: bool) -> Item<'_> {
    let text = if first { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) } else { bytes };
    let mut event = None;
    let mut data: Option<Cow<'_, [u8]>> = None;
    for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &line[line.len()..]),
        };
        match field {
            b"event" => event = std::str::from_utf8(value).ok(),
            b"data" => match &mut data {
                None => data = Some(Cow::Borrowed(value)),
                Some(data) => {
                    let data = data.to_mut();
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            },
            _ => {}
        }
    }
    Item::Event(Event { event, data: data.unwrap_or_default(), raw, bytes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Seen = (Option<String>, Vec<u8>, Range<u64>);

    /// Feeds `stream` cut at `cuts` and checks that the extents have no gap.
    fn read(stream: &[u8], cuts: &[usize], limit: usize) -> Vec<Seen> {
        let mut reader = Reader::new(limit);
        let mut seen = Vec::new();
        let mut drain = |reader: &mut Reader| {
            while let Some(item) = reader.next() {
                match item {
                    Item::Event(event) => {
                        let (from, to) = (event.raw.start as usize, event.raw.end as usize);
                        assert_eq!(event.bytes, &stream[from..to]);
                        seen.push((event.event.map(str::to_string), event.data.to_vec(), event.raw));
                    }
                    Item::Oversized { raw } => seen.push((Some("OVERSIZED".into()), Vec::new(), raw)),
                }
            }
        };
        let mut at = 0;
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
        cuts.sort_unstable();
        for cut in cuts.into_iter().chain([stream.len()]) {
            reader.push(&stream[at..cut]);
            drain(&mut reader);
            at = cut;
        }
        reader.finish();
        drain(&mut reader);
        let mut end = 0;
        for (_, _, raw) in &seen {
            assert_eq!(raw.start, end, "a gap");
            end = raw.end;
        }
        assert_eq!(end as usize, stream.len(), "the end is missing");
        seen
    }

    fn data(stream: &str) -> Vec<(Option<String>, String)> {
        read(stream.as_bytes(), &[], 1 << 20)
            .into_iter()
            .map(|(event, data, _)| (event, String::from_utf8(data).expect("text")))
            .collect()
    }

    #[test]
    fn the_three_line_ends_mean_the_same() {
        let want = vec![(Some("a".to_string()), "1\n2".to_string()), (None, "3".to_string())];
        for end in ["\n", "\r\n", "\r"] {
            let stream = "event: a\ndata: 1\ndata:2\n\ndata: 3\n\n".replace('\n', end);
            assert_eq!(data(&stream), want, "{end:?}");
        }
    }

    #[test]
    fn an_event_is_given_with_its_last_byte() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!("data: x{end}{end}");
            let mut reader = Reader::new(100);
            reader.push(&stream.as_bytes()[..stream.len() - 1]);
            assert_eq!(reader.next(), None, "{end:?}");
            reader.push(&stream.as_bytes()[stream.len() - 1..]);
            assert!(matches!(reader.next(), Some(Item::Event(e)) if &*e.data == b"x"), "{end:?}");
        }
    }

    #[test]
    fn comments_marks_and_odd_lines() {
        assert_eq!(data(": hello\n\ndata\n\n"), [(None, String::new()), (None, String::new())]);
        assert_eq!(data("\u{feff}data:  x\n\n"), [(None, " x".to_string())]);
        assert_eq!(data("data: unfinished"), [(None, "unfinished".to_string())]);
        assert_eq!(data("\n\n\n"), [(None, String::new())]);
        assert!(data("").is_empty());
    }

    #[test]
    fn a_long_block_is_dropped_and_the_next_one_read() {
        let stream = format!("data: a\n\ndata: {}\n\ndata: b\n\n", "x".repeat(10_000));
        let seen = read(stream.as_bytes(), &(0..stream.len()).step_by(7).collect::<Vec<_>>(), 64);
        let names: Vec<_> = seen.iter().map(|(event, data, _)| (event.as_deref(), data.as_slice())).collect();
        assert_eq!(names, [(None, &b"a"[..]), (Some("OVERSIZED"), b""), (None, b"b")]);
    }

    proptest! {
        #[test]
        fn cutting_changes_nothing(
            lines in prop::collection::vec("(data: [a-zé]{0,6}|event: [a-z]{0,3}|: c|x|)(\n|\r\n|\r)", 0..24),
            cuts in prop::collection::vec(any::<usize>(), 0..40),
        ) {
            let stream = lines.concat();
            prop_assert_eq!(read(stream.as_bytes(), &cuts, 1 << 20), read(stream.as_bytes(), &[], 1 << 20));
        }

        #[test]
        fn any_bytes_are_partitioned(stream in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(any::<usize>(), 0..9)) {
            read(&stream, &cuts, 16);
        }
    }
}
