//! The audit trail: any bytes are read line by line, and what is read can be replayed and written again.

#![no_main]

use lazy::config::schema;
use lazy::proxy::audit::{Record, parse};
use lazy::proxy::policy::{Place, Policy, replay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let records = parse(bytes);
    for record in &records {
        let line = serde_json::to_vec(record).expect("a record is JSON");
        let again: Record = serde_json::from_slice(&line).expect("and reads back");
        assert_eq!(&again, record);
    }
    let policy = Policy::from_settings(&schema::Policy::default(), None);
    let outcome = replay(&records, &policy, |_| Place::default());
    assert!(outcome.denied.len() + outcome.unknown <= outcome.calls);
});
