//! The envelope of the daemon's replies: any bytes end in a result or a refusal.

#![no_main]

use bytes::Bytes;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;

use lazy::http::envelope::{Event, Reader, outcome};

fuzz_target!(|stream: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut reader = Reader::new(Full::new(Bytes::copy_from_slice(stream)));
        // Every event takes at least a line.
        for _ in 0..=stream.len() {
            match reader.next().await {
                Ok(Event::Done { status, body }) => {
                    outcome(status, body).ok();
                    return;
                }
                Ok(_) => {}
                Err(error) => {
                    assert!(!error.message().is_empty());
                    return;
                }
            }
        }
        panic!("more events than lines");
    });
});
