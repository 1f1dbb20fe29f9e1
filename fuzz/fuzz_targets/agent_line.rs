//! A line of an agent's output: never fails, and what it tells stays short.

#![no_main]

use libfuzzer_sys::fuzz_target;

use lazy::agent::{Agent, StreamEvent};

fuzz_target!(|line: &[u8]| {
    for agent in Agent::ALL {
        if let StreamEvent::Progress { text: Some(text) } = agent.parse_line(line) {
            assert!(text.chars().count() <= 4_000, "{text}");
        }
    }
});
