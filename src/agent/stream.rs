//! The stream of a run: one JSON object a line, read into events.
//!
//! Both agents print the same lines, so one reader serves them. It looks only at what it needs and borrows the rest: a
//! line may be 64 MiB of tool output.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Agent, MCP_SERVER, MCP_TOOL_PREFIX};
use crate::base::text;

/// Characters of what the agent says that are passed on to watchers; the whole of it is in the turn.
const SAID_LIMIT: usize = 4000;

/// How an agent's standard output is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// Lines for [`Agent::parse_line`]; only they tell of progress.
    JsonLines,
    /// No lines to read: any byte is progress.
    Bytes,
}

/// What one line of a run says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// The conversation began.
    SessionStart {
        /// Its id, for resuming it.
        session_id: String,
        /// The model the agent runs.
        model: Option<String>,
        /// Names of every tool it has.
        tools: Option<Vec<String>>,
        /// Name and state (`connected`, `failed`, `pending`, …) of every MCP server.
        mcp_servers: Option<Vec<(String, String)>>,
    },
    /// It said something, or anything else moved.
    Progress {
        /// What it said, at most 4,000 characters.
        text: Option<String>,
    },
    /// It called a tool.
    ToolStart {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// The telling part of the input, one line, at most 120 characters; may be empty.
        summary: String,
    },
    /// A tool answered.
    ToolEnd {
        /// The call.
        id: String,
    },
    /// A tool still runs. Says that the agent lives, not that anything moves.
    Heartbeat,
    /// The last line of the run; keep it for [`Agent::result`].
    Result,
    /// Blank, not an object, or torn.
    Ignored,
}

/// Whether lazy's tools reached the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolsVerdict {
    /// This many of them did.
    Present(usize),
    /// None did, for certain: the run is worth nothing.
    Missing,
    /// The line does not say.
    Unknown,
}

impl StreamEvent {
    /// Whether it counts as a step for the watchdog.
    pub fn is_progress(&self) -> bool {
        !matches!(self, StreamEvent::Heartbeat | StreamEvent::Ignored)
    }

    /// Whether lazy's tools are there. [`ToolsVerdict::Missing`] only on positive evidence: the tools are listed and
    /// none is lazy's, or none are listed and no lazy server is healthy. A server still connecting is no evidence.
    pub fn lazy_tools(&self) -> ToolsVerdict {
        let StreamEvent::SessionStart { tools, mcp_servers, .. } = self else { return ToolsVerdict::Unknown };
        let state = self.lazy_server_state();
        let listed = tools.as_ref().map(|tools| tools.iter().filter(|name| name.starts_with(MCP_TOOL_PREFIX)).count());
        match (listed, state, mcp_servers) {
            (Some(count), ..) if count > 0 => ToolsVerdict::Present(count),
            (_, Some("pending"), _) => ToolsVerdict::Unknown,
            (Some(_), ..) => ToolsVerdict::Missing,
            (None, Some("connected"), _) | (None, _, None) => ToolsVerdict::Unknown,
            (None, _, Some(_)) => ToolsVerdict::Missing,
        }
    }

    /// `lazy=<state> tools=<n>` for the turn's record; `None` on every other event.
    pub fn mcp_summary(&self) -> Option<String> {
        let StreamEvent::SessionStart { tools, .. } = self else { return None };
        let count = tools.iter().flatten().filter(|name| name.starts_with(MCP_TOOL_PREFIX)).count();
        Some(format!("{MCP_SERVER}={} tools={count}", self.lazy_server_state().unwrap_or("absent")))
    }

    fn lazy_server_state(&self) -> Option<&str> {
        let StreamEvent::SessionStart { mcp_servers, .. } = self else { return None };
        mcp_servers.iter().flatten().find(|(name, _)| name == MCP_SERVER).map(|(_, state)| state.as_str())
    }
}

impl fmt::Display for ToolsVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolsVerdict::Present(count) => write!(f, "{}", text::plural(*count, "lazy tool")),
            ToolsVerdict::Missing => f.write_str("no lazy tools"),
            ToolsVerdict::Unknown => f.write_str("tools not listed"),
        }
    }
}

impl Agent {
    /// Reads one line of its standard output, with or without the line end.
    pub fn parse_line(self, line: &[u8]) -> StreamEvent {
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            return StreamEvent::Ignored;
        }
        match serde_json::from_slice::<Line>(line) {
            Ok(line) => line.event(),
            Err(_) => StreamEvent::Ignored,
        }
    }
}

/// Only these fields are read; everything else is skipped without being kept.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    subtype: Option<Cow<'a, str>>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default, borrow)]
    model: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tools: Option<&'a RawValue>,
    #[serde(default, borrow)]
    mcp_servers: Option<&'a RawValue>,
    #[serde(default, borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ServerState {
    name: String,
    #[serde(default)]
    status: String,
}

impl Line<'_> {
    fn event(self) -> StreamEvent {
        match (self.kind.as_ref(), self.subtype.as_deref(), self.session_id) {
            ("system", Some("init"), Some(session_id)) => StreamEvent::SessionStart {
                session_id,
                model: read(self.model),
                tools: read(self.tools),
                mcp_servers: read::<Vec<ServerState>>(self.mcp_servers)
                    .map(|servers| servers.into_iter().map(|server| (server.name, server.status)).collect()),
            },
            ("assistant" | "user", ..) => message_event(self.message),
            ("tool_progress", ..) => StreamEvent::Heartbeat,
            ("result", ..) => StreamEvent::Result,
            _ => StreamEvent::Progress { text: None },
        }
    }
}

fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// The first block that calls a tool, else the first that answers one, else what was said.
fn message_event(message: Option<&RawValue>) -> StreamEvent {
    let content = read::<Message>(message).and_then(|message| message.content);
    let blocks: Vec<Block> = read(content).unwrap_or_default();
    if let Some(call) = blocks.iter().find(|block| block.kind == "tool_use") {
        return StreamEvent::ToolStart {
            id: call.id.clone().unwrap_or_default(),
            name: call.name.clone().unwrap_or_default(),
            summary: call.input.map(summary).unwrap_or_default(),
        };
    }
    if let Some(answer) = blocks.iter().find(|block| block.kind == "tool_result") {
        return StreamEvent::ToolEnd { id: answer.tool_use_id.clone().unwrap_or_default() };
    }
    let said = blocks.iter().filter(|block| block.kind == "text").find_map(|block| block.text.as_deref());
    StreamEvent::Progress {
        text: said
            .map(|said| text::truncate_chars(&text::escape_controls(said.trim()), SAID_LIMIT))
            .filter(|said| !said.is_empty()),
    }
}

/// The fields of a tool's input that tell a person what the call is about, most telling first.
const TELLING: [&str; 10] =
    ["command", "file_path", "path", "notebook_path", "pattern", "query", "url", "message", "description", "prompt"];

fn summary(input: &RawValue) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(input.get()) else { return String::new() };
    let telling = TELLING.iter().find_map(|name| fields.get(*name)?.as_str());
    telling.map(|text| text::truncate_chars(&text::one_line(text), 120)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
