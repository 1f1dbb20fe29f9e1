//! What a finished run left: its result, its error, and the tokens it used.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Agent;
use crate::model::Usage;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentResult {
    /// What the agent said last; never blank.
    pub text: String,
    /// The conversation; never empty.
    pub session_id: String,
    /// Tokens of this run.
    pub usage: Usage,
    /// The model that did most of it, as the agent tells.
    pub model_id: Option<String>,
    /// Whether the agent itself calls it a failure; `text` then says which.
    pub is_error: bool,
}

/// Why a run's output holds no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// Nothing was printed.
    Empty,
    /// Something was, but no result line.
    NoResult,
    /// The result line has no text.
    NoText,
    /// The result line has no session.
    NoSession,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unusable::Empty => "the agent ended without printing anything",
            Unusable::NoResult => "the agent ended without a result line",
            Unusable::NoText => "the agent's result is empty",
            Unusable::NoSession => "the agent's result names no session",
        })
    }
}

impl std::error::Error for Unusable {}

impl Agent {
    /// Reads the result: from the line kept aside, else from the last result line in the tail of the output, which may
    /// also be one JSON object over several lines.
    pub fn result(self, result_line: Option<&[u8]>, stdout_tail: &[u8]) -> Result<AgentResult, Unusable> {
        let Some(line) = find(result_line, stdout_tail) else {
            let blank = result_line.unwrap_or_default().trim_ascii().is_empty() && stdout_tail.trim_ascii().is_empty();
            return Err(if blank { Unusable::Empty } else { Unusable::NoResult });
        };
        let usage = line.usage.map(Usage::from).unwrap_or_default();
        let text = line.text().ok_or(Unusable::NoText)?;
        let session_id = line.session_id.clone().filter(|id| !id.is_empty()).ok_or(Unusable::NoSession)?;
        Ok(AgentResult { text, session_id, usage, model_id: line.model_id(), is_error: line.is_error })
    }

    /// The error a run printed as JSON, with the HTTP status when the agent tells one; `None` when it told none.
    pub fn stdout_error(self, result_line: Option<&[u8]>, stdout_tail: &[u8]) -> Option<String> {
        if let Some(line) = find(result_line, stdout_tail) {
            let told = line.error_text();
            return match (told, line.is_error) {
                (Some(text), _) => Some(with_status(text, line.api_error_status)),
                (None, true) => Some(with_status(line.text().unwrap_or_default(), line.api_error_status)),
                (None, false) => None,
            }
            .filter(|text| !text.trim().is_empty());
        }
        objects(stdout_tail).find_map(|line| {
            let value: ResultLine = serde_json::from_slice(line).ok()?;
            value.error_text()
        })
    }

    /// The tokens a failed run used, as far as its output tells.
    pub fn salvage_usage(self, result_line: Option<&[u8]>, stdout_tail: &[u8]) -> Option<Usage> {
        find(result_line, stdout_tail)?.usage.map(Usage::from)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResultLine {
    #[serde(rename = "type")]
    kind: String,
    result: Option<Value>,
    session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    is_error: bool,
    #[serde(deserialize_with = "lenient")]
    api_error_status: Option<u16>,
    error: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    errors: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    usage: Option<WireUsage>,
    #[serde(deserialize_with = "lenient")]
    model: Option<String>,
    #[serde(rename = "modelUsage", deserialize_with = "lenient")]
    model_usage: Map<String, Value>,
}

#[derive(Deserialize, Clone, Copy)]
struct WireUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Usage {
        Usage {
            input_tokens: wire.input_tokens,
            output_tokens: wire.output_tokens,
            cache_creation_tokens: wire.cache_creation_input_tokens.unwrap_or_default(),
            cache_read_tokens: wire.cache_read_input_tokens.unwrap_or_default(),
        }
    }
}

/// A field of an unexpected type counts as absent: it must not hide the result around it.
fn lenient<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).unwrap_or_default())
}

impl ResultLine {
    fn text(&self) -> Option<String> {
        self.result.as_ref()?.as_str().filter(|text| !text.trim().is_empty()).map(str::to_string)
    }

    fn error_text(&self) -> Option<String> {
        let told = match &self.error {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Object(fields)) => fields.get("message").and_then(Value::as_str).map(str::to_string),
            _ => None,
        };
        told.or_else(|| (!self.errors.is_empty()).then(|| self.errors.join("; ")))
            .filter(|text| !text.trim().is_empty())
    }

    /// `model`, else the model that wrote the most.
    fn model_id(&self) -> Option<String> {
        let written = |usage: &Value| {
            ["outputTokens", "output_tokens"].iter().find_map(|name| usage.get(*name)?.as_u64()).unwrap_or_default()
        };
        self.model
            .clone()
            .filter(|model| !model.is_empty())
            .or_else(|| self.model_usage.iter().max_by_key(|(_, usage)| written(usage)).map(|(model, _)| model.clone()))
    }
}

fn find(result_line: Option<&[u8]>, stdout_tail: &[u8]) -> Option<ResultLine> {
    let read = |bytes: &[u8]| {
        serde_json::from_slice::<ResultLine>(bytes.trim_ascii())
            .ok()
            .filter(|line| line.kind == "result" || (line.kind.is_empty() && line.result.is_some()))
    };
    result_line.and_then(read).or_else(|| read(stdout_tail)).or_else(|| objects(stdout_tail).find_map(read))
}

/// The lines that look like objects, last first.
fn objects(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.rsplit(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| line.first() == Some(&b'{'))
}

fn with_status(text: String, status: Option<u16>) -> String {
    match status {
        Some(status) if !text.contains(&status.to_string()) => format!("{text} (HTTP {status})").trim().to_string(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result lines of the real Claude Code 2.1.197, shortened.
    const DONE: &[u8] = br#"{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"duration_ms":570,"num_turns":4,"result":"All done.","stop_reason":"end_turn","session_id":"f281f4d1-6ac5-4544-bee1-a5fae85e2b8a","total_cost_usd":0.000956,"usage":{"input_tokens":40,"cache_creation_input_tokens":8,"cache_read_input_tokens":12,"output_tokens":28,"server_tool_use":{"web_search_requests":0},"service_tier":"standard","iterations":[],"speed":"standard"},"modelUsage":{"claude-haiku-4-5":{"inputTokens":4,"outputTokens":3},"claude-opus-4-7":{"inputTokens":40,"outputTokens":28,"costUSD":0.000956}},"permission_denials":[],"terminal_reason":"completed"}"#;
    const REFUSED: &[u8] = br#"{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"num_turns":1,"result":"Invalid API key \u00b7 Fix external API key","stop_reason":"stop_sequence","session_id":"b30b5769","usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{}}"#;
    const NO_SESSION: &[u8] = br#"{"type":"result","subtype":"error_during_execution","duration_ms":0,"is_error":true,"num_turns":0,"session_id":"11111111-2222-3333-4444-555555555555","usage":{"input_tokens":7,"output_tokens":0},"modelUsage":{},"errors":["No conversation found with session ID: 11111111-2222-3333-4444-555555555555"]}"#;

    #[test]
    fn a_real_result_is_read() {
        let result = Agent::ClaudeCode.result(Some(DONE), b"").expect("usable");
        assert_eq!(result.text, "All done.");
        assert_eq!(result.session_id, "f281f4d1-6ac5-4544-bee1-a5fae85e2b8a");
        assert_eq!(result.model_id.as_deref(), Some("claude-opus-4-7"));
        assert!(!result.is_error);
        let usage = Usage { input_tokens: 40, output_tokens: 28, cache_creation_tokens: 8, cache_read_tokens: 12 };
        assert_eq!(result.usage, usage);
        assert_eq!(Agent::ClaudeCode.stdout_error(Some(DONE), b""), None);
    }

    #[test]
    fn the_last_result_in_the_tail_counts() {
        let mut tail = b"{\"half\":\n{\"type\":\"result\",\"result\":\"old\",\"session_id\":\"a\"}\n".to_vec();
        tail.extend_from_slice(DONE);
        tail.extend_from_slice(b"\nbye\n");
        assert_eq!(Agent::Demo.result(None, &tail).expect("usable").text, "All done.");
        assert_eq!(Agent::Demo.result(Some(b"{torn"), &tail).expect("usable").text, "All done.");
        let object = b"{\n \"result\": \"one object\",\n \"session_id\": \"x\"\n}\n";
        assert_eq!(Agent::Demo.result(None, object).expect("usable").text, "one object");
    }

    #[test]
    fn unusable_output_says_what_is_missing() {
        let cases: [(&[u8], Unusable); 5] = [
            (b" \n", Unusable::Empty),
            (b"garbage\n\xff", Unusable::NoResult),
            (b"{\"type\":\"assistant\"}\n", Unusable::NoResult),
            (b"{\"type\":\"result\",\"result\":\" \",\"session_id\":\"a\"}", Unusable::NoText),
            (b"{\"type\":\"result\",\"result\":\"x\"}", Unusable::NoSession),
        ];
        for (tail, why) in cases {
            assert_eq!(Agent::ClaudeCode.result(None, tail).expect_err("unusable"), why);
        }
    }

    #[test]
    fn errors_carry_their_status_once() {
        let error = Agent::ClaudeCode.stdout_error(Some(REFUSED), b"").expect("told");
        assert_eq!(error, "Invalid API key · Fix external API key (HTTP 401)");
        let error = Agent::ClaudeCode.stdout_error(None, NO_SESSION).expect("told");
        assert_eq!(error, "No conversation found with session ID: 11111111-2222-3333-4444-555555555555");
        let told = br#"{"type":"result","is_error":true,"api_error_status":529,"result":"API Error: 529 Overloaded."}"#;
        assert_eq!(Agent::ClaudeCode.stdout_error(None, told).as_deref(), Some("API Error: 529 Overloaded."));
        let plain = b"{\"error\":{\"message\":\"deep\"}}\n";
        assert_eq!(Agent::ClaudeCode.stdout_error(None, plain).as_deref(), Some("deep"));
        assert_eq!(Agent::ClaudeCode.stdout_error(None, b"oops"), None);
    }

    #[test]
    fn tokens_of_a_failed_run_are_kept() {
        let usage = Agent::ClaudeCode.salvage_usage(None, NO_SESSION).expect("told");
        assert_eq!(usage.input_tokens, 7);
        assert_eq!(Agent::ClaudeCode.salvage_usage(None, b"{\"type\":\"result\",\"usage\":\"?\"}"), None);
        assert_eq!(Agent::ClaudeCode.salvage_usage(None, b""), None);
    }
}
