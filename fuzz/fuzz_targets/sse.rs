//! Server-sent events: however a stream is cut, the items are the same, and their extents leave no gap.

#![no_main]

use libfuzzer_sys::fuzz_target;

use lazy::http::sse::{Item, Reader};

/// Small, so that the fuzzer reaches it.
const LIMIT: usize = 256;

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (stream, mut cuts) = input;
    let cut = read(&stream, &mut cuts, usize::MAX);
    assert_eq!(cut, read(&stream, &mut Vec::new(), usize::MAX));
    read(&stream, &mut cuts, LIMIT);
});

fn read(stream: &[u8], cuts: &mut Vec<u16>, limit: usize) -> Vec<(Option<String>, Vec<u8>, std::ops::Range<u64>)> {
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
                Item::Oversized { raw } => {
                    assert_ne!(limit, usize::MAX, "nothing is too long without a limit");
                    seen.push((None, Vec::new(), raw));
                }
            }
        }
    };
    cuts.sort_unstable();
    let mut at = 0;
    for cut in cuts.iter().map(|cut| usize::from(*cut) % (stream.len() + 1)).chain([stream.len()]) {
        if cut > at {
            reader.push(&stream[at..cut]);
            drain(&mut reader);
            at = cut;
        }
    }
    reader.finish();
    drain(&mut reader);
    let end = seen.iter().fold(0, |end, (_, _, raw)| {
        assert_eq!(raw.start, end, "a gap");
        raw.end
    });
    assert_eq!(end, stream.len() as u64, "the end is missing");
    seen
}
