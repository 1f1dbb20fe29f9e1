//! The gate: what goes out of a stream, however it is cut.

mod properties;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config::schema;
use crate::proxy::policy::{Place, Policy};

fn court() -> Court {
    court_of(|_| {})
}

fn court_of(change: impl FnOnce(&mut schema::Policy)) -> Court {
    let mut settings = schema::Policy::default();
    change(&mut settings);
    let place = Place { worktree: Some("/w/t".into()), home: Some("/home/u".into()) };
    Court::new(Arc::new(Policy::from_settings(&settings, place.home.clone())), place)
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().expect("a type"))
}

fn begin() -> String {
    event(&json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}))
}

fn end(reason: &str) -> String {
    event(
        &json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}),
    ) + &event(&json!({"type": "message_stop"}))
}

fn start(index: u64, block: Value) -> String {
    event(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn delta(index: u64, delta: Value) -> String {
    event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn stop(index: u64) -> String {
    event(&json!({"type": "content_block_stop", "index": index}))
}

fn text(index: u64, text: &str) -> String {
    start(index, json!({"type": "text", "text": ""}))
        + &delta(index, json!({"type": "text_delta", "text": text}))
        + &stop(index)
}

fn tool_start(index: u64, name: &str) -> String {
    start(index, json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {}}))
}

fn tool(index: u64, name: &str, input: &str) -> String {
    let at = (input.len() / 2..).find(|at| input.is_char_boundary(*at)).expect("an end");
    let pieces = ["", &input[..at], &input[at..]];
    let deltas: String =
        pieces.iter().map(|piece| delta(index, json!({"type": "input_json_delta", "partial_json": piece}))).collect();
    tool_start(index, name) + &deltas + &stop(index)
}

const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
const SECRET: &str = r#"{"file_path":"~/.ssh/id_rsa"}"#;
const OPEN: &str = r#"{"file_path":"src/main.rs"}"#;

/// Everything that went out, whether the gate ended the stream, and what it found.
fn run_cut(court: Court, stream: &[u8], cuts: &[usize]) -> (Vec<u8>, bool, Findings) {
    let mut gate = Policed::stream(court);
    let mut out = VecDeque::new();
    let mut over = false;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.sort_unstable();
    let mut at = 0;
    for cut in cuts.into_iter().chain([stream.len()]) {
        if !over {
            let passage = gate.pass(Bytes::copy_from_slice(&stream[at..cut]), &mut out).expect("no break");
            over = passage != Passage::On;
        }
        at = cut;
    }
    over = over || gate.end(&mut out).expect("no break") != Passage::On;
    (out.into_iter().flatten().collect(), over, gate.findings())
}

fn run(court: Court, stream: &str) -> (String, bool, Findings) {
    let (out, over, findings) = run_cut(court, stream.as_bytes(), &[]);
    (String::from_utf8(out).expect("text"), over, findings)
}

fn passes(stream: &str) {
    let (out, over, findings) = run(court(), stream);
    assert_eq!((out.as_str(), over), (stream, false));
    assert!(findings.denials.is_empty());
}

/// The stream is ended by an error event after `before`.
fn is_ended(court: Court, stream: &str, before: &str) {
    let (out, over, _) = run(court, stream);
    let rest = out.strip_prefix(before).unwrap_or_else(|| panic!("{out}"));
    assert!(over && rest.starts_with("event: error\ndata: {\"type\":\"error\"") && rest.ends_with("}\n\n"), "{rest}");
    assert_eq!(rest.matches("event:").count(), 1, "{rest}");
}

/// The message that the events make, as the official clients build it: blocks are numbered by their starts.
fn assembled(stream: &str) -> Value {
    let mut message = Value::Null;
    let mut open = Vec::new();
    for data in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(data).expect("json");
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        match event["type"].as_str() {
            Some("message_start") => message = event["message"].clone(),
            Some("content_block_start") => {
                let blocks = message["content"].as_array_mut().expect("blocks");
                assert_eq!(blocks.len(), index, "starts in order");
                blocks.push(event["content_block"].clone());
                open.push((index, String::new()));
            }
            Some("content_block_delta") => {
                let told = &mut open.iter_mut().find(|(at, _)| *at == index).expect("an open block").1;
                for key in ["text", "partial_json", "thinking"] {
                    told.push_str(event["delta"][key].as_str().unwrap_or_default());
                }
            }
            Some("content_block_stop") => {
                let at = open.iter().position(|(at, _)| *at == index).expect("an open block");
                let (_, told) = open.remove(at);
                let block = &mut message["content"][index];
                match block["type"].as_str() {
                    Some("tool_use") if !told.is_empty() => {
                        block["input"] = serde_json::from_str(&told).expect("an input");
                    }
                    Some("text") => block["text"] = told.into(),
                    _ => {}
                }
            }
            Some("message_delta") => message["stop_reason"] = event["delta"]["stop_reason"].clone(),
            _ => {}
        }
    }
    assert!(open.is_empty(), "every block is stopped");
    message
}

#[test]
fn what_is_allowed_passes_unchanged() {
    passes(
        &(begin()
            + PING
            + &text(0, "é")
            + &tool(1, "Read", OPEN)
            + &tool(2, "Bash", "{\"command\":\"ls\"}")
            + &end("tool_use")),
    );
    passes(&(begin() + &tool(0, "Read", "") + &end("tool_use")));
    let thinking = start(0, json!({"type": "thinking", "thinking": "", "signature": ""}))
        + &delta(0, json!({"type": "thinking_delta", "thinking": "hm"}))
        + &delta(0, json!({"type": "signature_delta", "signature": "c2ln"}))
        + &stop(0)
        + &start(1, json!({"type": "redacted_thinking", "data": "x/y=="}))
        + &stop(1);
    passes(&(begin() + &thinking + &text(2, "x") + &end("end_turn")));
    let server =
        start(0, json!({"type": "server_tool_use", "id": "s", "name": "Read", "input": {"file_path": "/root/.ssh/x"}}))
            + &stop(0)
            + &start(
                1,
                json!({"type": "mcp_tool_use", "id": "s", "name": "mcp__claude_ai_x", "server_name": "y", "input": {}}),
            )
            + &stop(1)
            + &start(2, json!({"type": "block_of_the_future", "tool_use": SECRET}))
            + &delta(2, json!({"type": "delta_of_the_future"}))
            + &stop(2);
    passes(
        &(begin()
            + &server
            + "event: new\ndata: {\"type\":\"new\",\"index\":\"x\"}\n\n: comment\n\ndata: [DONE]\n\n"
            + &end("end_turn")),
    );
    passes("");
    passes("\n\n");
    passes("\u{feff}");
    passes("data: unfinished");
    passes(&(begin() + &event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}))));
}

#[test]
fn a_denied_call_becomes_a_text_at_its_index() {
    let stream = begin()
        + &text(0, "I look.")
        + &tool(1, "Read", SECRET)
        + &tool(2, "Read", OPEN)
        + &tool(3, "mcp__claude_ai_mail", "{}")
        + &end("tool_use");
    let (out, over, findings) = run(court(), &stream);
    assert!(!over && !out.contains("id_rsa\\\"}"), "{out}");
    let message = assembled(&out);
    let blocks = message["content"].as_array().expect("blocks");
    let kinds: Vec<_> = blocks.iter().map(|block| block["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["text", "text", "tool_use", "text"]);
    assert_eq!(blocks[2]["input"]["file_path"], "src/main.rs");
    let why = blocks[1]["text"].as_str().expect("text");
    assert!(why.starts_with("⛔ lazy proxy blocked tool \"Read\" (secret-path-read): "), "{why}");
    assert!(why.contains("did not run"), "{why}");
    assert_eq!(message["stop_reason"], "tool_use", "a call is left");
    let denied: Vec<_> = findings.denials.iter().map(|d| (d.tool_use_id.as_deref(), d.rule.as_str())).collect();
    assert_eq!(denied, [(Some("toolu_1"), "secret-path-read"), (Some("toolu_3"), "connector-deny-default")]);
    let judged: Vec<_> = findings.judged.iter().map(|j| (j.name.as_str(), j.verdict)).collect();
    assert_eq!(judged, [("Read", Verdict::Deny), ("Read", Verdict::Allow), ("mcp__claude_ai_mail", Verdict::Deny)]);
    assert_eq!(findings.judged[0].paths, ["~/.ssh/id_rsa", "/home/u/.ssh/id_rsa"]);
    let kept: String = begin() + &text(0, "I look.");
    assert!(out.starts_with(&kept) && out.contains(&tool(2, "Read", OPEN)) && out.ends_with(&end("tool_use")), "{out}");
}

#[test]
fn without_a_call_the_turn_ends() {
    let stream = begin() + &tool(0, "Read", SECRET) + &end("tool_use");
    let (out, _, _) = run(court(), &stream);
    assert_eq!(assembled(&out)["stop_reason"], "end_turn");
    assert!(out.ends_with(&end("end_turn")), "nothing else of the event changes: {out}");
    // Another reason stays.
    let (out, _, _) = run(court(), &(begin() + &tool(0, "Read", SECRET) + &end("max_tokens")));
    assert!(out.ends_with(&end("max_tokens")), "{out}");
    // Without a denial even an odd reason stays.
    passes(&(begin() + &text(0, "x") + &end("tool_use")));
    // An event of several data lines is written anew.
    let split =
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":\ndata: {\"stop_reason\":\"tool_use\"}}\n\n";
    let (out, _, _) = run(court(), &(begin() + &tool(0, "Read", SECRET) + split));
    assert!(
        out.ends_with("data: {\"type\":\"message_delta\",\"delta\":\ndata: {\"stop_reason\":\"end_turn\"}}\n\n"),
        "{out}"
    );
}

#[test]
fn only_the_held_block_waits() {
    let mut gate = StreamGate::new(court());
    let mut out = VecDeque::new();
    let mut feed = |bytes: &str| {
        assert_eq!(gate.feed(Bytes::copy_from_slice(bytes.as_bytes()), &mut out), Passage::On);
        out.drain(..).map(|piece| String::from_utf8(piece.to_vec()).expect("text")).collect::<String>()
    };
    let open = start(0, json!({"type": "text", "text": ""}));
    let more = delta(0, json!({"type": "text_delta", "text": "x"}));
    for piece in [begin(), open, more.clone(), PING.into()] {
        assert_eq!(feed(&piece), piece);
    }
    let held = tool(1, "Read", OPEN);
    let at = held.len() - stop(1).len();
    assert_eq!(feed(&held[..at]), "");
    assert_eq!(feed(PING), PING, "belongs to no block");
    assert_eq!(feed(&more), more, "started before");
    let later = text(2, "later");
    assert_eq!(feed(&later), "", "starts later: waits behind");
    let bash = tool(3, "Bash", "{}");
    assert_eq!(feed(&bash), "");
    assert_eq!(feed(&held[at..]), held.clone() + &later + &bash);
    let bash = tool_start(4, "Bash");
    assert_eq!(feed(&bash), bash, "no rule needs its input");
    assert!(feed(&tool_start(5, "mcp__claude_ai_x")).contains("lazy proxy blocked"), "its name is enough");
    assert_eq!(feed(&(delta(5, json!({"type": "input_json_delta", "partial_json": "{"})) + &stop(5))), "");
    assert_eq!(feed(&stop(0)), stop(0));
}

#[test]
fn a_denial_behind_a_held_block_keeps_the_order_of_starts() {
    let (first, second) = (tool(1, "Read", OPEN), tool(2, "Read", SECRET));
    let at = first.len() - stop(1).len();
    let stream = begin() + &text(0, "x") + &first[..at] + &second + &first[at..] + &text(3, "y") + &end("tool_use");
    let (out, over, _) = run(court(), &stream);
    assert!(!over);
    let kinds: Vec<String> =
        assembled(&out)["content"].as_array().expect("blocks").iter().map(|b| b["type"].to_string()).collect();
    assert_eq!(kinds, ["\"text\"", "\"tool_use\"", "\"text\"", "\"text\""]);
}

#[test]
fn the_input_may_stand_in_the_start() {
    let given =
        |input: Value| start(0, json!({"type": "tool_use", "id": "t", "name": "Read", "input": input})) + &stop(0);
    let secret = json!({"file_path": "/root/.ssh/x"});
    let (out, _, findings) = run(court(), &(begin() + &given(secret.clone()) + &end("tool_use")));
    assert_eq!((assembled(&out)["content"][0]["type"].as_str(), findings.denials.len()), (Some("text"), 1));
    passes(&(begin() + &given(json!({"file_path": "x"})) + &end("tool_use")));
    // A client may read either: both are judged.
    let both = start(0, json!({"type": "tool_use", "id": "t", "name": "Read", "input": secret}))
        + &delta(0, json!({"type": "input_json_delta", "partial_json": OPEN}))
        + &stop(0);
    assert_eq!(run(court(), &(begin() + &both)).2.denials.len(), 1);
    let other = start(0, json!({"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "x"}}))
        + &delta(0, json!({"type": "input_json_delta", "partial_json": SECRET}))
        + &stop(0);
    assert_eq!(run(court(), &(begin() + &other)).2.denials.len(), 1);
}

#[test]
fn odd_framing_is_read_like_a_client_reads_it() {
    let stream = begin() + &tool(0, "Read", SECRET) + &tool(1, "Read", OPEN) + &end("tool_use");
    let plain = run(court(), &stream).2;
    assert_eq!(plain.denials.len(), 1);
    let nameless: String =
        stream.lines().filter(|line| !line.starts_with("event:")).map(|line| format!("{line}\n")).collect();
    let broken_lines = stream.replace(",\"index\"", ",\ndata:\"index\"");
    for odd in [
        stream.replace('\n', "\r\n"),
        stream.replace('\n', "\r"),
        format!("\u{feff}{stream}"),
        stream.replace("data: ", "id: 7\ndata:"),
        stream.replace("event: ", ": tool_use\nretry: 1\nevent:"),
        stream.replace("\"tool_use\"", "\"tool\\u005fuse\""),
        nameless,
        broken_lines,
    ] {
        let (out, over, findings) = run(court(), &odd);
        assert!(!over, "{odd}");
        assert_eq!(findings, plain, "{odd}");
        assert!(!out.contains("toolu_0") && out.contains("toolu_1"), "{out}");
    }
}

#[test]
fn a_damaged_call_ends_the_stream() {
    let before = begin() + &text(0, "x");
    let after = |bad: &str| before.clone() + bad + &end("tool_use");
    let torn_input = tool(1, "Read", r#"{"file_path":"/root/.ss"#);
    let nameless = start(1, json!({"type": "tool_use", "id": "t"}));
    let two = tool_start(1, "Read");
    let inside = tool_start(1, "Read") + "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",torn\n\n";
    for bad in [
        torn_input.as_str(),
        &nameless,
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"type\":\"text\",\"name\":\"Read\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":\"1\",\"content_block\":{\"type\":\"tool_use\",\"name\":\"Read\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"name\":\"Read\"}}\n\n",
        &(two.clone() + &two),
        &inside,
        &(two.clone() + &delta(1, json!({"type": "input_json_delta", "partial_json": 7})) + &stop(1)),
        &tool(1, "Read", "[1]"),
        // Not stopped before the message ends.
        &(two.clone() + &delta(1, json!({"type": "input_json_delta", "partial_json": "{\"fi"}))),
    ] {
        is_ended(court(), &after(bad), &before);
    }
    let prefilled = json!({"type": "message_start", "message": {"content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]}});
    is_ended(court(), &event(&prefilled), "");
    let findings = run(court(), &after(&torn_input)).2;
    assert_eq!(findings.judged.last().map(|call| call.verdict), Some(Verdict::Damaged));
    // What no rule has to see may be as damaged as it likes.
    passes(&after(&tool(1, "Bash", "{\"command\":")));
    passes(&after("event: content_block_delta\ndata: {torn\n\n"));
    assert_eq!(run(court(), "data: {torn\n\n").2.unjudged.as_deref(), Some("an event that does not parse"));
}

#[test]
fn a_call_without_a_stop_is_judged_at_the_end_of_the_message() {
    let open =
        |input: &str| tool_start(0, "Read") + &delta(0, json!({"type": "input_json_delta", "partial_json": input}));
    passes(&(begin() + &open(OPEN) + &end("tool_use")));
    let (out, _, findings) = run(court(), &(begin() + &open(SECRET) + &end("tool_use")));
    assert!(out.ends_with(&end("end_turn")) && findings.denials.len() == 1, "{out}");
}

#[test]
fn a_stream_that_breaks_off_is_not_made_whole() {
    let before = begin() + &text(0, "x");
    let half = tool_start(1, "Read") + &delta(1, json!({"type": "input_json_delta", "partial_json": OPEN}));
    is_ended(court(), &(before.clone() + &half), &before);
    // The upstream's own error is enough of an end.
    let error = event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}));
    let (out, over, _) = run(court(), &(before.clone() + &half + &error));
    assert_eq!((out, over), (before.clone() + &error, false));
    // Between events nothing is added: the client sees that the end is missing.
    passes(&before);
}

#[test]
fn at_most_so_much_is_held() {
    let mut out = VecDeque::new();
    let mut gate = StreamGate::with_limit(court_of(|s| s.deny_path_globs = vec!["/etc/**".into()]), 2000);
    gate.feed(Bytes::from(begin() + &tool_start(0, "Write")), &mut out);
    let piece = delta(0, json!({"type": "input_json_delta", "partial_json": "x".repeat(300)}));
    let passages: Vec<Passage> = (0..9).map(|_| gate.feed(Bytes::from(piece.clone()), &mut out)).collect();
    assert_eq!(
        passages.iter().filter(|passage| matches!(passage, Passage::Over(why) if why.contains("too long"))).count(),
        1
    );
    let sent: Vec<u8> = out.drain(..).flatten().collect();
    assert!(String::from_utf8(sent).expect("text").ends_with("}\n\n"));
    // An event without end counts as well, also where nothing else is held.
    let mut gate = StreamGate::with_limit(court(), 2000);
    assert!(matches!(gate.feed(Bytes::from(vec![b'x'; 3000]), &mut out), Passage::Over(_)));
    // Text has no bound.
    let mut gate = StreamGate::with_limit(court(), 2000);
    let piece = delta(0, json!({"type": "text_delta", "text": "x".repeat(900)}));
    for _ in 0..20 {
        assert_eq!(gate.feed(Bytes::from(piece.clone()), &mut out), Passage::On);
    }
}

#[test]
fn events_within_a_chunk_go_out_as_that_chunk() {
    let chunk = Bytes::from(begin() + PING + &text(0, "x"));
    let mut out = VecDeque::new();
    StreamGate::new(court()).feed(chunk.clone(), &mut out);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].as_ptr(), chunk.as_ptr(), "not copied");
}

fn message(blocks: Value, reason: &str) -> String {
    // Odd blanks: what goes out must not be written anew.
    format!(
        " {{ \"type\" : \"message\", \"content\" :{blocks} , \"stop_reason\":\"{reason}\", \"usage\": {{\"x\": 1.0}} }}\n"
    )
}

fn plain(body: &str) -> Result<(String, Findings)> {
    let mut gate = Policed::plain(court());
    let mut out = VecDeque::new();
    for piece in body.as_bytes().chunks(7) {
        assert_eq!(gate.pass(Bytes::copy_from_slice(piece), &mut out)?, Passage::On);
        assert!(out.is_empty(), "held whole");
    }
    gate.end(&mut out)?;
    Ok((out.into_iter().flat_map(|piece| piece.to_vec()).map(char::from).collect(), gate.findings()))
}

#[test]
fn plain_bodies_are_judged_too() {
    let read = |path: &str| json!({"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": path}});
    for open in [
        message(json!([read("x")]), "tool_use"),
        message(json!([]), "tool_use"),
        "[1]".into(),
        "{\"a\":1}".into(),
        String::new(),
    ] {
        assert_eq!(plain(&open).expect("passes").0, open);
    }
    let (out, findings) =
        plain(&message(json!([{"type": "text", "text": "a"}, read("/x/.env"), read("x")]), "tool_use"))
            .expect("passes");
    let value: Value = serde_json::from_str(&out).expect("json");
    assert_eq!(
        (&value["content"][1]["type"], &value["content"][2]["type"], &value["stop_reason"]),
        (&json!("text"), &json!("tool_use"), &json!("tool_use"))
    );
    assert_eq!(findings.denials.len(), 1);
    let (out, _) = plain(&message(json!([read("/x/.env")]), "tool_use")).expect("passes");
    assert!(
        out.starts_with(" { \"type\" : \"message\", \"content\" :[{\"type\":\"text\"")
            && out.ends_with("\"stop_reason\":\"end_turn\", \"usage\": {\"x\": 1.0} }\n"),
        "{out}"
    );
    for damaged in [
        message(json!([read("x")]), "tool_use").trim_end_matches("}\n").to_string(),
        message(json!([{"type": "tool_use", "id": "t"}]), "tool_use"),
        message(json!([{"type": "tool_use", "name": "Read", "input": "x"}]), "tool_use"),
        message(json!([1]), "tool_use"),
    ] {
        assert!(plain(&damaged).is_err(), "{damaged}");
    }
}

#[test]
fn the_name_of_a_body_does_not_decide_what_it_is() {
    let stream = begin() + &tool(0, "Read", SECRET) + &end("tool_use");
    let (out, findings) = plain(&stream).expect("passes");
    assert!(findings.denials.len() == 1 && out.ends_with(&end("end_turn")), "{out}");
    let body = message(json!([{"type": "tool_use", "id": "t", "name": "mcp__claude_ai_x", "input": {}}]), "tool_use");
    let (out, over, findings) = run(court(), &body);
    assert!(!over && findings.denials.len() == 1 && out.contains("lazy proxy blocked"), "{out}");
    let (out, _, findings) = run(court(), &format!("\n\n{stream}"));
    assert!(findings.denials.len() == 1 && out.starts_with("\n\nevent: message_start"), "{out}");
}
