//! One answer of the model: a streamed request to the Messages API, put together again.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, Response, body::Incoming};
use serde_json::{Map, Value, json};

use super::options::Options;
use crate::base::{Error, Process, Result};
use crate::http::{Client, read_body, sse};
use crate::model::Usage;

/// The model asked for when nobody names one.
const DEFAULT_MODEL: &str = "claude-opus-4-7";

/// The most tokens of one answer.
const MAX_TOKENS: u32 = 8192;

/// The longest event, and the longest error body.
const EVENT_LIMIT: usize = 32 << 20;

/// The Messages API behind `ANTHROPIC_BASE_URL`.
pub struct Api {
    client: Client,
    credential: Credential,
    model: String,
    system: String,
}

enum Credential {
    Bearer(String),
    Key(String),
}

/// A complete answer.
#[derive(Debug, Default)]
pub struct Reply {
    /// The message's id.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// The blocks, as they go back in the next request.
    pub content: Vec<Value>,
    /// Why it ended.
    pub stop_reason: Option<String>,
    /// Its tokens.
    pub usage: Usage,
    /// Indices of `tool_use` blocks whose input did not arrive whole.
    torn: Vec<usize>,
}

/// A call of a tool.
pub struct Call<'a> {
    /// The call.
    pub id: &'a str,
    /// The tool.
    pub name: &'a str,
    /// Its input; `None` when it did not arrive whole.
    pub input: Option<&'a Value>,
}

/// Why there is no answer.
#[derive(Debug)]
pub struct Refused {
    /// The HTTP status, absent when none came.
    pub status: Option<u16>,
    message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "API Error: {status} {}", self.message),
            None => write!(f, "API Error: {}", self.message),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused { status: None, message: error.full_message() }
    }
}

impl Api {
    /// The API the environment names.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] without an address or a credential, [`crate::base::Kind::Invalid`] for an address that is
    /// not plain HTTP.
    pub fn new(process: &Process, options: &Options) -> Result<Api> {
        let base = process.var("ANTHROPIC_BASE_URL").ok_or_else(|| {
            Error::unavailable("ANTHROPIC_BASE_URL is not set: the demo agent talks to lazy's proxy only")
                .hint("run it through a task: lazy start <task>")
        })?;
        let credential = match (process.var("CLAUDE_CODE_OAUTH_TOKEN"), process.var("ANTHROPIC_API_KEY")) {
            (Some(token), _) => Credential::Bearer(format!("Bearer {token}")),
            (None, Some(key)) => Credential::Key(key.to_string()),
            (None, None) => {
                return Err(Error::unavailable(
                    "authentication required: neither CLAUDE_CODE_OAUTH_TOKEN nor ANTHROPIC_API_KEY is set",
                ));
            }
        };
        Ok(Api {
            client: Client::new(base)?,
            credential,
            model: options.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_string()),
            system: system(&options.system_prompt, &options.worktree),
        })
    }

    /// The model asked for.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Asks for the next message.
    pub async fn send(&self, messages: &[Value], tools: &[Value]) -> Result<Reply, Refused> {
        let body = json!({
            "model": self.model, "max_tokens": MAX_TOKENS, "stream": true,
            "system": self.system, "messages": messages, "tools": tools,
        });
        let (name, value) = match &self.credential {
            Credential::Bearer(value) => ("authorization", value),
            Credential::Key(value) => ("x-api-key", value),
        };
        let headers = [
            (name, value.as_str()),
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("anthropic-version", "2023-06-01"),
            ("user-agent", concat!("lazy-demo-agent/", env!("CARGO_PKG_VERSION"))),
        ];
        let response =
            self.client.request(Method::POST, "/v1/messages", &headers, Bytes::from(body.to_string())).await?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            return Err(refusal(status, response).await);
        }
        read_stream(response).await
    }
}

impl Reply {
    /// The text of all its text blocks.
    pub fn text(&self) -> String {
        let texts =
            self.content.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Whether it waits for answers to calls.
    pub fn calls_tools(&self) -> bool {
        self.calls().next().is_some()
    }

    /// The calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        self.content.iter().enumerate().filter(|(_, block)| block["type"] == "tool_use").map(|(at, block)| Call {
            id: block["id"].as_str().unwrap_or_default(),
            name: block["name"].as_str().unwrap_or_default(),
            input: (!self.torn.contains(&at)).then_some(&block["input"]),
        })
    }
}

fn system(prompt: &str, worktree: &Path) -> String {
    let place = format!(
        "You are a coding agent. Your working directory is {}. Use the tools to do the work; end with a message without \
         a tool call.",
        worktree.display()
    );
    if prompt.is_empty() { place } else { format!("{place}\n\n{prompt}") }
}

async fn refusal(status: u16, response: Response<Incoming>) -> Refused {
    let bytes = match read_body(response.into_body(), EVENT_LIMIT).await {
        Ok(bytes) => bytes,
        Err(error) => return Refused { status: Some(status), message: error.full_message() },
    };
    let message = match serde_json::from_slice::<Value>(&bytes) {
        Ok(body) => error_message(&body),
        Err(_) => String::from_utf8_lossy(&bytes).trim().chars().take(500).collect(),
    };
    Refused { status: Some(status), message }
}

/// `type: message` of an error object, or what of it is there.
fn error_message(body: &Value) -> String {
    let error = &body["error"];
    match (error["type"].as_str(), error["message"].as_str().or(error.as_str())) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (kind, message) => message.or(kind).unwrap_or("no reason was given").to_string(),
    }
}

/// Reads events until `message_stop`. A stream that ends before it is no answer.
async fn read_stream(response: Response<Incoming>) -> Result<Reply, Refused> {
    let mut body = response.into_body();
    let mut reader = sse::Reader::new(EVENT_LIMIT);
    let mut draft = Draft::default();
    loop {
        while let Some(item) = reader.next() {
            match item {
                sse::Item::Event(event) => {
                    if draft.take(&event.data)? {
                        return Ok(draft.finish());
                    }
                }
                sse::Item::Oversized { .. } => {
                    return Err(Refused { status: None, message: "an event of the model's answer is too long".into() });
                }
            }
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    reader.push(bytes);
                }
            }
            Some(Err(error)) => {
                return Err(Refused {
                    status: None,
                    message: format!("the model's answer broke off, connection reset: {error}"),
                });
            }
            None => {
                return Err(Refused {
                    status: None,
                    message: "the model's answer broke off, connection reset before its end".into(),
                });
            }
        }
    }
}

/// A message under construction.
#[derive(Default)]
struct Draft {
    reply: Reply,
    /// The input of each `tool_use` block as it arrives.
    inputs: Vec<String>,
}

impl Draft {
    /// Takes one event; true at the end of the message.
    fn take(&mut self, data: &[u8]) -> Result<bool, Refused> {
        if data.is_empty() {
            return Ok(false);
        }
        let event: Value = serde_json::from_slice(data)
            .map_err(|_| Refused { status: None, message: "an event of the model's answer is not JSON".into() })?;
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let message = &event["message"];
                self.reply.id = message["id"].as_str().unwrap_or_default().to_string();
                self.reply.model = message["model"].as_str().unwrap_or_default().to_string();
                add_usage(&mut self.reply.usage, &message["usage"]);
            }
            "content_block_start" => {
                self.reply.content.push(event["content_block"].clone());
                self.inputs.push(String::new());
            }
            "content_block_delta" => self.delta(&event),
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.reply.stop_reason = Some(reason.to_string());
                }
                add_usage(&mut self.reply.usage, &event["usage"]);
            }
            "message_stop" => return Ok(true),
            "error" => return Err(Refused { status: None, message: error_message(&event) }),
            _ => {}
        }
        Ok(false)
    }

    fn delta(&mut self, event: &Value) {
        let Some(at) = event["index"].as_u64().and_then(|at| usize::try_from(at).ok()) else { return };
        let (Some(block), Some(input)) = (self.reply.content.get_mut(at), self.inputs.get_mut(at)) else { return };
        let delta = &event["delta"];
        match delta["type"].as_str().unwrap_or_default() {
            "input_json_delta" => input.push_str(delta["partial_json"].as_str().unwrap_or_default()),
            "text_delta" => append(block, "text", &delta["text"]),
            "thinking_delta" => append(block, "thinking", &delta["thinking"]),
            "signature_delta" => append(block, "signature", &delta["signature"]),
            _ => {}
        }
    }

    /// The message as it goes back: inputs read, and no empty text, which the API refuses in the next request.
    fn finish(self) -> Reply {
        let mut reply = self.reply;
        for (mut block, input) in std::mem::take(&mut reply.content).into_iter().zip(self.inputs) {
            if block["type"] == "text" && block["text"] == "" {
                continue;
            }
            if block["type"] == "tool_use" && !(input.is_empty() && block["input"].is_object()) {
                block["input"] = match serde_json::from_str::<Map<String, Value>>(&input) {
                    Ok(fields) => Value::Object(fields),
                    Err(_) => {
                        reply.torn.push(reply.content.len());
                        json!({})
                    }
                };
            }
            reply.content.push(block);
        }
        reply
    }
}

fn append(block: &mut Value, field: &str, more: &Value) {
    let text = format!("{}{}", block[field].as_str().unwrap_or_default(), more.as_str().unwrap_or_default());
    block[field] = Value::from(text);
}

/// Counts in a message's usage are running totals: the last one of each kind holds.
fn add_usage(usage: &mut Usage, told: &Value) {
    let set = |count: &mut u64, name: &str| {
        if let Some(told) = told[name].as_u64() {
            *count = told;
        }
    };
    set(&mut usage.input_tokens, "input_tokens");
    set(&mut usage.output_tokens, "output_tokens");
    set(&mut usage.cache_creation_tokens, "cache_creation_input_tokens");
    set(&mut usage.cache_read_tokens, "cache_read_input_tokens");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(events: &[Value]) -> Reply {
        let mut draft = Draft::default();
        for (at, event) in events.iter().enumerate() {
            let ended = draft.take(event.to_string().as_bytes()).expect("an event");
            assert_eq!(ended, at == events.len() - 1);
        }
        draft.finish()
    }

    #[test]
    fn blocks_are_put_together() {
        let reply = draft(&[
            json!({"type": "message_start", "message": {"id": "m1", "model": "x", "usage": {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 4}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "He"}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "bash", "input": {}}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "llo"}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"comm"}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "and\":\"ls\"}"}}),
            json!({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "nowhere"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ]);
        assert_eq!((reply.id.as_str(), reply.text().as_str()), ("m1", "Hello"));
        assert_eq!(reply.stop_reason.as_deref(), Some("tool_use"));
        let calls: Vec<_> = reply.calls().collect();
        assert_eq!((calls.len(), calls[0].name, calls[0].id), (1, "bash", "t1"));
        assert_eq!(calls[0].input, Some(&json!({"command": "ls"})));
        let usage = Usage { input_tokens: 3, output_tokens: 9, cache_creation_tokens: 0, cache_read_tokens: 4 };
        assert_eq!(reply.usage, usage);
    }

    #[test]
    fn a_torn_input_is_told_apart_from_an_empty_one() {
        let start = |at: u32| json!({"type": "content_block_start", "index": at, "content_block": {"type": "tool_use", "id": "t", "name": "n", "input": {}}});
        let reply = draft(&[
            start(0),
            start(1),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":"}}),
            json!({"type": "message_stop"}),
        ]);
        let inputs: Vec<_> = reply.calls().map(|call| call.input.cloned()).collect();
        assert_eq!(inputs, [Some(json!({})), None]);
    }

    #[test]
    fn errors_in_the_stream_refuse() {
        let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        let refused = Draft::default().take(error.to_string().as_bytes()).expect_err("refused");
        assert_eq!(refused.to_string(), "API Error: overloaded_error: Overloaded");
        assert!(Draft::default().take(b"{torn").is_err());
        assert_eq!(error_message(&json!({})), "no reason was given");
        assert_eq!(error_message(&json!({"error": "plain"})), "plain");
    }
}
