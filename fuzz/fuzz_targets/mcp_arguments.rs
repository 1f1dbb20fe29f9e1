//! The arguments of every MCP tool, checked against its schema.

#![no_main]

use lazy::mcp::{catalogue, schema};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|text: &[u8]| {
    let Ok(arguments) = serde_json::from_slice::<Map<String, Value>>(text) else { return };
    for tool in catalogue::all() {
        if let Err(error) = schema::validate(&tool.schema, &arguments) {
            assert!(!error.message().is_empty());
        }
    }
});
