//! What a request to the Messages API says about itself, for its record.
//!
//! Only the newest exchange is looked into (the last assistant message and what follows it): a request repeats its whole
//! history, and each tool call should stand in the trail once. Every text is scrubbed of credentials before it is cut.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::base::text::truncate_chars;

const TOOL_NAMES: usize = 40;
const ROLES: usize = 100;
const INPUT_PREVIEW: usize = 512;
const RESULT_PREVIEW: usize = 256;
/// The longest path, command or target that is kept.
const FIELD: usize = 4096;

/// Which door of the upstream a request knocks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// `/v1/messages`.
    Messages,
    /// `/v1/messages/count_tokens`.
    CountTokens,
    /// Anything else.
    #[default]
    Other,
    /// The cursor route.
    Cursor,
}

impl Endpoint {
    /// The class of a path.
    pub fn of(path: &str) -> Endpoint {
        match path {
            _ if path.contains("count_tokens") => Endpoint::CountTokens,
            _ if path.starts_with("/v1/messages") => Endpoint::Messages,
            _ => Endpoint::Other,
        }
    }

    /// Whether its requests have a shape to read.
    pub fn is_read(self) -> bool {
        matches!(self, Endpoint::Messages | Endpoint::CountTokens)
    }
}

/// The outline of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestShape {
    /// Whether there is a system prompt.
    pub has_system: bool,
    /// Characters of its text blocks.
    pub system_len: usize,
    /// How many messages.
    pub num_messages: usize,
    /// Their roles; the last 100.
    pub message_roles: Vec<String>,
    /// How many tools are offered.
    pub num_tools: usize,
    /// Their names; the first 40.
    pub tool_names: Vec<String>,
    /// The limit that was asked for.
    pub max_tokens: Option<u64>,
    /// Bytes of the body.
    pub body_bytes: usize,
}

/// A tool call that the model made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolUse {
    /// The block's id.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// `path`, else `file_path`, else `notebook_path` of the input.
    pub path: Option<String>,
    /// `command` of the input.
    pub command: Option<String>,
    /// `url`, else `query` of the input.
    pub target: Option<String>,
    /// Whether it is a connector inherited from a claude.ai account.
    pub connector: bool,
    /// The beginning of the input as JSON.
    pub input_preview: String,
}

/// What a tool call gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolResult {
    /// The call it answers.
    pub tool_use_id: Option<String>,
    /// Whether it failed.
    pub is_error: bool,
    /// The beginning of its text.
    pub content_preview: String,
    /// Characters of its text.
    pub content_len: usize,
}

/// Everything that is read from a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extract {
    /// The model asked for.
    pub model: Option<String>,
    /// Whether a stream was asked for.
    pub stream: Option<bool>,
    /// The outline; `None` when the body is not a request.
    pub shape: Option<RequestShape>,
    /// Calls of the last assistant message.
    pub tool_uses: Vec<ToolUse>,
    /// Results that follow it.
    pub tool_results: Vec<ToolResult>,
}

/// Replaces credentials in text.
#[derive(Clone, Default)]
pub struct Scrubber(Vec<String>);

impl Scrubber {
    /// A scrubber that knows these secrets, and the look of Anthropic's keys besides.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        Scrubber(secrets.into_iter().filter(|secret| secret.len() >= 8).collect())
    }

    /// The text without credentials.
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        static KEYS: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"sk-ant-[A-Za-z0-9_-]{6,}").expect("the pattern is a constant"));
        let mut text = KEYS.replace_all(text, "[credential]");
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = Cow::Owned(text.replace(secret.as_str(), "[credential]"));
            }
        }
        text
    }

    /// The first `limit` characters without credentials, also without the first part of one.
    fn preview(&self, text: &str, limit: usize) -> String {
        // Secrets are shorter than this margin: one that starts inside the limit is seen whole.
        let window = text.char_indices().nth(limit + 4096).map_or(text, |(at, _)| &text[..at]);
        let scrubbed = self.scrub(window);
        match window.len() < text.len() {
            true => format!("{}…", scrubbed.chars().take(limit).collect::<String>()),
            false => truncate_chars(&scrubbed, limit + 1),
        }
    }
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scrubber({} secrets)", self.0.len())
    }
}

/// `haiku`, `sonnet`, `opus` or `other`.
pub fn tier(model: &str) -> &'static str {
    ["haiku", "sonnet", "opus"].into_iter().find(|tier| model.contains(tier)).unwrap_or("other")
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

/// Reads a request body. What is not as expected is left out; nothing fails.
pub fn extract(body: &[u8], scrubber: &Scrubber) -> Extract {
    let Ok(wire) = serde_json::from_slice::<Wire<'_>>(body) else { return Extract::default() };
    let messages: Vec<Message<'_>> = read(wire.messages)
        .map(|raw: Vec<&RawValue>| raw.into_iter().filter_map(|one| serde_json::from_str(one.get()).ok()).collect())
        .unwrap_or_default();
    let tools: Vec<Named> = read(wire.tools)
        .map(|raw: Vec<&RawValue>| raw.into_iter().filter_map(|one| serde_json::from_str(one.get()).ok()).collect())
        .unwrap_or_default();
    let system = read::<Value>(wire.system).filter(|system| !system.is_null());
    let shape = RequestShape {
        has_system: system.is_some(),
        system_len: system.as_ref().map_or(0, text_len),
        num_messages: messages.len(),
        message_roles: messages.iter().skip(messages.len().saturating_sub(ROLES)).map(|m| m.role.to_string()).collect(),
        num_tools: tools.len(),
        tool_names: tools.into_iter().take(TOOL_NAMES).map(|tool| tool.name).collect(),
        max_tokens: read(wire.max_tokens),
        body_bytes: body.len(),
    };
    let newest = messages.iter().rposition(|message| message.role == "assistant").unwrap_or(0);
    let (mut tool_uses, mut tool_results) = (Vec::new(), Vec::new());
    for block in messages[newest..].iter().filter_map(|message| read::<Vec<Value>>(message.content)).flatten() {
        match block["type"].as_str() {
            Some("tool_use") => tool_uses.push(tool_use(&block, scrubber)),
            Some("tool_result") => tool_results.push(tool_result(&block, scrubber)),
            _ => {}
        }
    }
    Extract { model: read(wire.model), stream: read(wire.stream), shape: Some(shape), tool_uses, tool_results }
}

fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

fn tool_use(block: &Value, scrubber: &Scrubber) -> ToolUse {
    let name = block["name"].as_str().unwrap_or_default().to_string();
    let input = &block["input"];
    let field =
        |keys: &[&str]| keys.iter().find_map(|key| input[*key].as_str()).map(|text| scrubber.preview(text, FIELD));
    ToolUse {
        id: block["id"].as_str().map(str::to_string),
        path: field(&["path", "file_path", "notebook_path"]),
        command: field(&["command"]),
        target: field(&["url", "query"]),
        connector: name.starts_with("mcp__claude_ai_"),
        input_preview: scrubber.preview(&input.to_string(), INPUT_PREVIEW),
        name,
    }
}

fn tool_result(block: &Value, scrubber: &Scrubber) -> ToolResult {
    let content = &block["content"];
    let text: Cow<'_, str> = match content {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(blocks) => Cow::Owned(blocks.iter().filter_map(|block| block["text"].as_str()).collect()),
        _ => Cow::Borrowed(""),
    };
    ToolResult {
        tool_use_id: block["tool_use_id"].as_str().map(str::to_string),
        is_error: block["is_error"].as_bool().unwrap_or(false),
        content_preview: scrubber.preview(&text, RESULT_PREVIEW),
        content_len: text.chars().count(),
    }
}

fn text_len(system: &Value) -> usize {
    match system {
        Value::String(text) => text.chars().count(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).map(|text| text.chars().count()).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_exchange_is_read() {
        let body = json!({
            "model": "claude-opus-4-7", "stream": true, "max_tokens": 99, "system": [{"type": "text", "text": "sys"}],
            "tools": [{"name": "Bash"}, {"name": "Read"}],
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "old", "name": "Bash", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "old", "content": "x"}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "hm"},
                    {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "/etc/hosts"}},
                    {"type": "tool_use", "id": "b", "name": "mcp__claude_ai_mail", "input": {"query": "q"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": [{"type": "text", "text": "é".repeat(300)}]},
                ]},
            ],
        });
        let extract = extract(body.to_string().as_bytes(), &Scrubber::default());
        assert_eq!((extract.model.as_deref(), extract.stream), (Some("claude-opus-4-7"), Some(true)));
        let shape = extract.shape.expect("a request");
        assert_eq!((shape.num_messages, shape.system_len, shape.num_tools, shape.max_tokens), (5, 3, 2, Some(99)));
        let uses: Vec<_> = extract.tool_uses.iter().map(|call| (call.id.as_deref(), call.connector)).collect();
        assert_eq!(uses, [(Some("a"), false), (Some("b"), true)]);
        assert_eq!(extract.tool_uses[0].path.as_deref(), Some("/etc/hosts"));
        assert_eq!(extract.tool_uses[1].target.as_deref(), Some("q"));
        let result = &extract.tool_results[0];
        assert_eq!((result.content_len, result.is_error, extract.tool_results.len()), (300, true, 1));
        assert_eq!(result.content_preview, format!("{}…", "é".repeat(256)));
    }

    #[test]
    fn wrong_types_cost_only_their_field() {
        let extract =
            extract(br#"{"model":7,"messages":"x","tools":[1,{"name":"A"}],"stream":false}"#, &Scrubber::default());
        assert_eq!((extract.model, extract.stream), (None, Some(false)));
        assert_eq!(extract.shape.expect("shape").tool_names, ["A"]);
    }

    #[test]
    fn credentials_are_scrubbed_before_the_cut() {
        let scrubber = Scrubber::new(["real-credential-value".to_string()]);
        let text = format!("{}real-credential-value sk-ant-api03-abcdef-1 {}", "x".repeat(500), "y".repeat(9000));
        let preview = scrubber.preview(&text, INPUT_PREVIEW);
        assert!(preview.starts_with(&"x".repeat(500)) && preview.ends_with('…'), "{preview}");
        assert!(!preview.contains("real-c") && !preview.contains("sk-ant"), "{preview}");
    }

    #[test]
    fn classes_and_tiers() {
        assert_eq!(Endpoint::of("/v1/messages"), Endpoint::Messages);
        assert_eq!(Endpoint::of("/v1/messages/count_tokens"), Endpoint::CountTokens);
        assert_eq!(Endpoint::of("/api/hello"), Endpoint::Other);
        assert_eq!((tier("claude-haiku-4-5"), tier("qwen")), ("haiku", "other"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(body in prop::collection::vec(any::<u8>(), 0..300)) {
            extract(&body, &Scrubber::default());
        }
    }
}
