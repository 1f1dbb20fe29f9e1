//! The message of a step, as one body or as the events of a stream.

use serde_json::{Value, json};

use super::facts::Facts;
use super::scenario::{Block, Counts, Reply};

/// How much text one delta carries, in characters.
const PIECE: usize = 24;

/// The message that `reply` means for this request.
pub(super) fn message(reply: &Reply, facts: &Facts, body_len: usize) -> Value {
    let content: Vec<Value> = reply.content.iter().map(|block| content(block, facts)).collect();
    let calls = content.iter().any(|block| block["type"] == "tool_use");
    let stop = reply.stop_reason.clone().unwrap_or_else(|| if calls { "tool_use" } else { "end_turn" }.into());
    let written: usize = content.iter().map(|block| block.to_string().len()).sum();
    json!({
        "id": format!("msg_{}", uuid::Uuid::new_v4().simple()),
        "type": "message",
        "role": "assistant",
        "model": facts.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": usage(&reply.usage, body_len, written),
    })
}

fn content(block: &Block, facts: &Facts) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": facts.fill(text)}),
        Block::Thinking(text) => {
            let signature = format!("demo-{}", uuid::Uuid::new_v4().simple());
            json!({"type": "thinking", "thinking": facts.fill(text), "signature": signature})
        }
        Block::ToolUse(calls) => {
            let calls = calls.as_slice();
            let chosen = match calls {
                [only] => Some(only),
                _ => calls.iter().find(|call| facts.tools.contains(&call.name)),
            };
            match chosen {
                Some(call) => {
                    let id = format!("toolu_{}", uuid::Uuid::new_v4().simple());
                    let input = match facts.fill_value(&call.input) {
                        Value::Null => json!({}),
                        input => input,
                    };
                    json!({"type": "tool_use", "id": id, "name": call.name, "input": input})
                }
                None => {
                    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
                    json!({"type": "text", "text": format!("(none of these tools is offered: {})", names.join(", "))})
                }
            }
        }
    }
}

fn usage(given: &Counts, read: usize, written: usize) -> Value {
    // About four bytes a token.
    let tokens = |bytes: usize| (bytes as u64).div_ceil(4);
    json!({
        "input_tokens": given.input_tokens.unwrap_or_else(|| tokens(read)),
        "output_tokens": given.output_tokens.unwrap_or_else(|| tokens(written)),
        "cache_creation_input_tokens": given.cache_creation_input_tokens.unwrap_or(0),
        "cache_read_input_tokens": given.cache_read_input_tokens.unwrap_or(0),
    })
}

/// The events that stream a message.
pub(super) fn events(message: &Value) -> Vec<String> {
    let mut start = message.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = json!(1);
    let mut events = vec![event(&json!({"type": "message_start", "message": start})), event(&json!({"type": "ping"}))];
    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let mut begin = block.clone();
        let deltas: Vec<Value> = match block["type"].as_str() {
            Some("tool_use") => {
                begin["input"] = json!({});
                let delta = |piece: &str| json!({"type": "input_json_delta", "partial_json": piece});
                [""].into_iter().chain(pieces(&block["input"].to_string())).map(delta).collect()
            }
            Some("thinking") => {
                begin["thinking"] = json!("");
                begin["signature"] = json!("");
                let delta = |piece: &str| json!({"type": "thinking_delta", "thinking": piece});
                let signature = json!({"type": "signature_delta", "signature": block["signature"]});
                pieces(block["thinking"].as_str().unwrap_or_default()).map(delta).chain([signature]).collect()
            }
            _ => {
                begin["text"] = json!("");
                let delta = |piece: &str| json!({"type": "text_delta", "text": piece});
                pieces(block["text"].as_str().unwrap_or_default()).map(delta).collect()
            }
        };
        events.push(event(&json!({"type": "content_block_start", "index": index, "content_block": begin})));
        let delta = |delta: Value| event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.extend(deltas.into_iter().map(delta));
        events.push(event(&json!({"type": "content_block_stop", "index": index})));
    }
    let end = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    events.push(event(&json!({"type": "message_delta", "delta": end, "usage": message["usage"]})));
    events.push(event(&json!({"type": "message_stop"})));
    events
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// A text in pieces of at most [`PIECE`] characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = rest.char_indices().nth(PIECE).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(at);
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::super::scenario::{Call, OneOrMore};
    use super::*;

    #[test]
    fn the_offered_tool_is_called() {
        let call = |name: &str| Call { name: name.into(), input: json!({"from": name}) };
        let reply = Reply::of([Block::ToolUse(OneOrMore::More(vec![call("Write"), call("write_file")]))]);
        let facts = Facts { tools: vec!["write_file".into()], ..Facts::default() };
        let called = message(&reply, &facts, 0);
        assert_eq!((&called["content"][0]["name"], &called["stop_reason"]), (&json!("write_file"), &json!("tool_use")));
        let lacking = message(&reply, &Facts::default(), 0);
        assert_eq!((&lacking["content"][0]["type"], &lacking["stop_reason"]), (&json!("text"), &json!("end_turn")));
        let only = message(&Reply::of([Block::call("Hidden", Value::Null)]), &facts, 0);
        assert_eq!((&only["content"][0]["name"], &only["content"][0]["input"]), (&json!("Hidden"), &json!({})));
    }

    #[test]
    fn the_events_carry_the_whole_message() {
        let text = "ä".repeat(100);
        let reply = Reply::of([
            Block::Thinking("hm".into()),
            Block::Text(text.clone()),
            Block::call("T", json!({"k": "v".repeat(60)})),
        ]);
        let message = message(&reply, &Facts::default(), 400);
        let parsed: Vec<Value> = events(&message)
            .iter()
            .map(|event| serde_json::from_str(event.split("data: ").nth(1).expect("data")).expect("json"))
            .collect();
        let joined = |index: usize, key: &str| -> String {
            parsed
                .iter()
                .filter(|event| event["index"] == index)
                .filter_map(|event| event["delta"][key].as_str())
                .collect()
        };
        assert_eq!((joined(0, "thinking").as_str(), joined(1, "text")), ("hm", text));
        let input: Value = serde_json::from_str(&joined(2, "partial_json")).expect("whole input");
        assert_eq!(input, message["content"][2]["input"]);
        assert_eq!(parsed[0]["message"]["usage"]["input_tokens"], 100);
        assert_eq!(parsed.last().map(|event| &event["type"]), Some(&json!("message_stop")));
    }
}
