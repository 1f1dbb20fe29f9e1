//! An MCP conversation: any lines from a client get whole lines of JSON back, and the server ends with its input.

#![no_main]

use std::path::Path;

use lazy::base::{Millis, Process};
use lazy::mcp::{Relay, Toolset, serve};
use lazy::rpc::mcp_config::McpConfig;
use lazy::rpc::tokens::Token;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let process = Process::fake(["lazy"], &[], Path::new("/nowhere"), Millis(0));
    // Nothing listens there, and the configuration cannot be read: a call is refused, never made.
    let config = McpConfig {
        token: Token::random(),
        project_root: "/nowhere".into(),
        task_id: String::new(),
        target: "http://127.0.0.1:9".into(),
        reach: Default::default(),
    };
    let relay = Relay::new("/nowhere/mcp.json".into(), config);
    // A clock that leaps over every pause.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let mut output = Vec::new();
    runtime.block_on(serve(&process, relay, Toolset::Read, input, &mut output)).expect("serves to the end");
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        let reply: Value = serde_json::from_slice(line).expect("a reply is JSON");
        assert_eq!(reply["jsonrpc"], "2.0");
    }
});
