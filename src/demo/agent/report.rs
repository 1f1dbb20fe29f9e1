//! The lines on standard output: the shapes of Claude Code's `stream-json`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::api::Reply;
use super::tools::Tools;
use crate::base::{Millis, Process, Result};
use crate::model::Usage;

/// How the run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The last words, or what went wrong.
    pub text: String,
    /// Whether it went wrong.
    pub is_error: bool,
    /// The HTTP status of the refusal that ended it.
    pub status: Option<u16>,
}

/// Prints one run.
pub struct Report<'a> {
    process: &'a Process,
    session_id: String,
    model: String,
    began: Millis,
    replies: u32,
    usage: Usage,
    by_model: BTreeMap<String, Usage>,
}

impl<'a> Report<'a> {
    /// A run that begins now.
    pub fn new(process: &'a Process, session_id: &str, model: &str) -> Report<'a> {
        Report {
            process,
            session_id: session_id.to_string(),
            model: model.to_string(),
            began: process.now(),
            replies: 0,
            usage: Usage::default(),
            by_model: BTreeMap::new(),
        }
    }

    /// The first line: the session and what the agent has.
    pub fn start(&self, tools: &Tools) -> Result<()> {
        let servers: Vec<Value> =
            tools.servers().iter().map(|(name, state)| json!({"name": name, "status": state})).collect();
        self.line(&json!({
            "type": "system", "subtype": "init", "cwd": self.process.cwd().to_string_lossy(),
            "session_id": self.session_id, "tools": tools.names(), "mcp_servers": servers, "model": self.model,
            "demo_agent_version": env!("CARGO_PKG_VERSION"),
        }))
    }

    /// One line for each block the model said.
    pub fn reply(&mut self, reply: &Reply) -> Result<()> {
        self.replies += 1;
        self.usage = self.usage.plus(reply.usage);
        let model = if reply.model.is_empty() { &self.model } else { &reply.model };
        let sum = self.by_model.entry(model.clone()).or_default();
        *sum = sum.plus(reply.usage);
        for block in &reply.content {
            self.line(&json!({
                "type": "assistant", "session_id": self.session_id, "parent_tool_use_id": null,
                "message": {
                    "id": reply.id, "type": "message", "role": "assistant", "model": reply.model, "content": [block],
                    "stop_reason": reply.stop_reason, "usage": wire(reply.usage),
                },
            }))?;
        }
        Ok(())
    }

    /// What a tool answered.
    pub fn tool_result(&self, result: &Value) -> Result<()> {
        self.line(&json!({
            "type": "user", "session_id": self.session_id, "parent_tool_use_id": null,
            "message": {"role": "user", "content": [result]},
        }))
    }

    /// The last line.
    pub fn end(&self, outcome: &Outcome) -> Result<()> {
        let by_model: serde_json::Map<String, Value> = self
            .by_model
            .iter()
            .map(|(model, usage)| {
                let counts = json!({
                    "inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens,
                    "cacheReadInputTokens": usage.cache_read_tokens,
                    "cacheCreationInputTokens": usage.cache_creation_tokens,
                });
                (model.clone(), counts)
            })
            .collect();
        self.line(&json!({
            "type": "result", "subtype": if outcome.is_error { "error_during_execution" } else { "success" },
            "is_error": outcome.is_error, "api_error_status": outcome.status,
            "duration_ms": u64::try_from(self.process.now().since(self.began).as_millis()).unwrap_or(u64::MAX),
            "num_turns": self.replies, "result": outcome.text, "session_id": self.session_id,
            "usage": wire(self.usage), "modelUsage": by_model,
        }))
    }

    fn line(&self, value: &Value) -> Result<()> {
        self.process.write_out(format!("{value}\n").as_bytes())
    }
}

fn wire(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": usage.cache_creation_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
    })
}
