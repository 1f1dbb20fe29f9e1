//! A command and a response of the mailbox: what was read is written and read as the same.

#![no_main]

use lazy::model::exchange::{Command, Response};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fuzz_target!(|bytes: &[u8]| {
    again::<Command>(bytes);
    again::<Response>(bytes);
});

fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&value).expect("what was read can be written");
    let read: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(value, read);
}
