//! lazy.toml: any text loads or is refused with a message.

#![no_main]

use std::path::Path;

use lazy::base::{Millis, Process};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let process = Process::fake(["lazy"], &[("HOME", "/nowhere")], Path::new("/nowhere"), Millis(0));
    if let Err(error) = lazy::config::load_text(&process, Path::new("lazy.toml"), text) {
        assert!(!error.message().is_empty());
    }
});
