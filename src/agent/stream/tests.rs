use proptest::prelude::*;

use super::*;

/// Lines of the real Claude Code 2.1.197, shortened.
const INIT: &[u8] = br#"{"type":"system","subtype":"init","cwd":"/w","session_id":"f281f4d1-6ac5-4544-bee1-a5fae85e2b8a","tools":["Task","Bash","Edit","Read","Write","mcp__lazy__lazy_status"],"mcp_servers":[{"name":"lazy","status":"connected"}],"model":"claude-opus-4-7","permissionMode":"bypassPermissions","slash_commands":["clear"],"apiKeySource":"ANTHROPIC_API_KEY","claude_code_version":"2.1.197","output_style":"default","uuid":"a8057880-c854-4646-abe2-a07b8b8c59a1","fast_mode_state":"off"}"#;
const WRITE: &[u8] = br#"{"type":"assistant","message":{"id":"msg_0000","type":"message","role":"assistant","model":"claude-opus-4-7","content":[{"type":"tool_use","id":"toolu_0000","name":"Write","input":{"file_path":"/w/a.txt","content":"hello"}}],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1},"context_management":null},"parent_tool_use_id":null,"session_id":"f281f4d1-6ac5-4544-bee1-a5fae85e2b8a","uuid":"9acc791e-c8fe-42be-bd84-d8a9d88a5559"}"#;
const WRITTEN: &[u8] = br#"{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_0000","type":"tool_result","content":"File created successfully at: /w/a.txt"}]},"parent_tool_use_id":null,"session_id":"f281f4d1-6ac5-4544-bee1-a5fae85e2b8a","timestamp":"2026-12-01T01:18:45.893Z","tool_use_result":{"type":"create","filePath":"/w/a.txt"}}"#;
const FAILED: &[u8] = br#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"Exit code 3\nhi","is_error":true,"tool_use_id":"toolu_0001"}]},"parent_tool_use_id":null,"tool_use_result":"Error: Exit code 3\nhi"}"#;
const SAID: &[u8] = br#"{"type":"assistant","message":{"id":"msg_0003","type":"message","role":"assistant","content":[{"type":"text","text":"All\ndone."}]},"session_id":"f281f4d1"}"#;
const RETRY: &[u8] = br#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":1,"retry_delay_ms":511.9,"error_status":401,"error":"authentication_failed","session_id":"b30b5769"}"#;
const RESULT: &[u8] =
    br#"{"type":"result","subtype":"success","is_error":false,"result":"All done.","session_id":"f281f4d1"}"#;

fn event(line: &[u8]) -> StreamEvent {
    Agent::ClaudeCode.parse_line(line)
}

fn start(tools: Option<&[&str]>, servers: Option<&[(&str, &str)]>) -> StreamEvent {
    StreamEvent::SessionStart {
        session_id: "s".into(),
        model: None,
        tools: tools.map(|tools| tools.iter().map(ToString::to_string).collect()),
        mcp_servers: servers.map(|all| all.iter().map(|(name, state)| (name.to_string(), state.to_string())).collect()),
    }
}

#[test]
fn real_lines_become_events() {
    let init = event(INIT);
    let StreamEvent::SessionStart { session_id, model, tools, mcp_servers } = &init else { panic!("{init:?}") };
    assert_eq!(session_id, "f281f4d1-6ac5-4544-bee1-a5fae85e2b8a");
    assert_eq!(model.as_deref(), Some("claude-opus-4-7"));
    assert_eq!(tools.as_ref().map(Vec::len), Some(6));
    assert_eq!(mcp_servers.as_deref(), Some(&[("lazy".to_string(), "connected".to_string())][..]));
    assert_eq!(init.mcp_summary().as_deref(), Some("lazy=connected tools=1"));

    let call = StreamEvent::ToolStart { id: "toolu_0000".into(), name: "Write".into(), summary: "/w/a.txt".into() };
    assert_eq!(event(WRITE), call);
    assert_eq!(event(WRITTEN), StreamEvent::ToolEnd { id: "toolu_0000".into() });
    assert_eq!(event(FAILED), StreamEvent::ToolEnd { id: "toolu_0001".into() });
    assert_eq!(event(SAID), StreamEvent::Progress { text: Some("All\ndone.".into()) });
    assert_eq!(event(RETRY), StreamEvent::Progress { text: None });
    assert_eq!(event(RESULT), StreamEvent::Result);
    assert_eq!(
        event(b"{\"type\":\"user\",\"message\":{\"content\":\"plain\"}}\r\n"),
        StreamEvent::Progress { text: None }
    );
}

#[test]
fn only_steps_reset_the_watchdog() {
    for line in [INIT, WRITE, WRITTEN, SAID, RETRY, RESULT, b"{\"type\":\"novelty\"}", b"{}"] {
        assert!(event(line).is_progress(), "{}", String::from_utf8_lossy(line));
    }
    let beat = br#"{"type":"tool_progress","tool_use_id":"t","tool_name":"Bash","parent_tool_use_id":null,"elapsed_time_seconds":30}"#;
    assert_eq!(event(beat), StreamEvent::Heartbeat);
    for line in [&beat[..], b"", b"  \n", b"hello", b"[1]", b"{\"type\":\"assistant\"", b"{\"type\":7}", b"\xff\xfe{"] {
        assert!(!event(line).is_progress(), "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn lazy_tools_are_missing_only_on_evidence() {
    use ToolsVerdict::{Missing, Present, Unknown};
    type Case = (Option<&'static [&'static str]>, Option<&'static [(&'static str, &'static str)]>, ToolsVerdict);
    let cases: [Case; 9] = [
        (Some(&["Bash", "mcp__lazy__lazy_show", "mcp__lazy__lazy_list"]), None, Present(2)),
        (Some(&["mcp__lazy__lazy_show"]), Some(&[("lazy", "failed")]), Present(1)),
        (Some(&["Bash"]), Some(&[("lazy", "connected")]), Missing),
        (Some(&["Bash", "mcp__lazybones__x"]), Some(&[("lazy", "failed")]), Missing),
        (Some(&["Bash"]), Some(&[("lazy", "pending")]), Unknown),
        (None, Some(&[("other", "connected")]), Missing),
        (None, Some(&[("lazy", "failed")]), Missing),
        (None, Some(&[("lazy", "connected")]), Unknown),
        (None, None, Unknown),
    ];
    for (tools, servers, verdict) in cases {
        assert_eq!(start(tools, servers).lazy_tools(), verdict, "{tools:?} {servers:?}");
    }
    assert_eq!(event(SAID).lazy_tools(), Unknown);
}

#[test]
fn odd_fields_do_not_hide_a_session() {
    let line = br#"{"type":"system","subtype":"init","session_id":"s","tools":{"a":1},"mcp_servers":"x","model":7}"#;
    assert_eq!(event(line), start(None, None));
}

#[test]
fn a_huge_line_is_read() {
    let mut line =
        br#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t9","content":""#.to_vec();
    line.extend(std::iter::repeat_n(b'a', 8 << 20));
    line.extend_from_slice(br#""}]}}"#);
    assert_eq!(event(&line), StreamEvent::ToolEnd { id: "t9".into() });
}

proptest! {
    #[test]
    fn no_line_makes_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        event(&bytes);
    }

    #[test]
    fn a_torn_line_is_ignored(cut in 1..WRITE.len() - 1) {
        prop_assert_eq!(event(&WRITE[..cut]), StreamEvent::Ignored);
    }
}
