//! What a scripted model says: the scenario file, JSON or TOML.
//!
//! ```json
//! {"steps": [
//!   {"when": {"prompt": "README"}, "reply": {"content": [
//!     {"text": "I read it first."},
//!     {"tool_use": [{"name": "Read", "input": {"file_path": "{{worktree}}/README.md"}},
//!                   {"name": "read_file", "input": {"path": "README.md"}}]}]}},
//!   {"reply": {"error": {"status": 529, "type": "overloaded_error", "message": "busy"}}}
//! ]}
//! ```
//!
//! Of several calls under one `tool_use` the first whose tool the request offers is made. In texts and inputs
//! `{{worktree}}` is the directory that the request's own system text or prompt names as the working directory (`.`
//! when none is named) and `{{prompt}}` the first line of the prompt.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{Error, Kind, Result, files};

/// A whole script.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What side traffic gets.
    pub side_text: Option<String>,
    /// What a main request gets when no step fits.
    pub last_text: Option<String>,
}

/// One answer and when it is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// All that is set must fit.
    pub when: When,
    /// The answer.
    pub reply: Reply,
    /// How often the step can be played.
    pub uses: Uses,
}

/// How often a step can be played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uses {
    /// Once.
    #[default]
    Once,
    /// As often as it fits: for steps told apart by `nth`, so that a turn can be played again after a crash.
    Always,
}

/// Which requests a step may answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requests {
    /// Those that offer tools and want more than one token.
    #[default]
    Main,
    /// The others.
    Side,
    /// All.
    Any,
}

/// What a request must look like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Main or side traffic.
    pub requests: Requests,
    /// The prompt (the last user message that carries no tool result) contains this.
    pub prompt: Option<String>,
    /// The last message, tool results included, contains this.
    pub last: Option<String>,
    /// The system text contains this.
    pub system: Option<String>,
    /// The model's name contains this.
    pub model: Option<String>,
    /// The last message carries a result of this tool, or of one of these.
    pub tool_result: Option<OneOrMore<String>>,
    /// A tool of this name is offered.
    pub offers: Option<String>,
    /// No tool of this name is offered.
    pub lacks: Option<String>,
    /// A turn before this one called this tool.
    pub called: Option<String>,
    /// How many assistant messages follow the prompt: 0 is the beginning of a turn.
    pub nth: Option<usize>,
}

/// One answer. Of `content`, `error` and `raw` at most one is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// The blocks of a message.
    pub content: Vec<Block>,
    /// A refusal.
    pub error: Option<ErrorReply>,
    /// A body as it stands.
    pub raw: Option<RawReply>,
    /// Milliseconds before anything is answered.
    pub delay_ms: u64,
    /// Milliseconds before each event of a stream.
    pub event_delay_ms: u64,
    /// Break the connection after this many events of a stream (a plain body breaks in the middle).
    pub drop_after: Option<usize>,
    /// Token counts; those not given are derived from lengths.
    pub usage: Counts,
    /// Why the model stops; derived from the content when not given.
    pub stop_reason: Option<String>,
}

/// A content block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text(String),
    /// Thinking, with a made-up signature.
    Thinking(String),
    /// A tool call: the first of these that is offered, or the only one, offered or not.
    ToolUse(OneOrMore<Call>),
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its input.
    #[serde(default)]
    pub input: Value,
}

/// A refusal as the API words it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorReply {
    /// The HTTP status.
    pub status: u16,
    /// `overloaded_error`, `rate_limit_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The message.
    pub message: String,
    /// Seconds, or a date, for the `retry-after` header.
    pub retry_after: Option<String>,
}

/// A body as it stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawReply {
    /// The HTTP status; 200 when not given.
    pub status: Option<u16>,
    /// `application/json` when not given.
    pub content_type: Option<String>,
    /// The body.
    pub body: String,
}

/// Token counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counts {
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Tokens put into the cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: Option<u64>,
}

/// One value, or a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMore<T> {
    /// Just one.
    One(T),
    /// A list.
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    /// All of them.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMore::One(value) => std::slice::from_ref(value),
            OneOrMore::More(values) => values,
        }
    }
}

impl Scenario {
    /// Reads a scenario: TOML when the file's name ends with `.toml`, else JSON.
    ///
    /// # Errors
    /// [`Kind::Invalid`] naming the file and the place when it does not parse.
    pub fn load(path: &Path) -> Result<Scenario> {
        let missing = || Error::not_found(format!("{} does not exist", path.display()));
        let bytes = files::read_written(path)?.ok_or_else(missing)?;
        let text =
            String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{} is not UTF-8 text", path.display())))?;
        let refused = |source: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(Kind::Invalid, format!("{} is not a scenario", path.display())).caused_by(source)
        };
        match path.extension().is_some_and(|extension| extension == "toml") {
            true => toml::from_str(&text).map_err(|source| refused(source.into())),
            false => serde_json::from_str(&text).map_err(|source| refused(source.into())),
        }
    }

    /// The scenario of `lazy demo`.
    pub fn built_in() -> Scenario {
        serde_json::from_str(include_str!("../../../assets/demo/scenario.json"))
            .expect("a test reads the built-in scenario")
    }

    /// A scenario that plays these replies one after the other.
    pub fn of(replies: impl IntoIterator<Item = Reply>) -> Scenario {
        let steps = replies.into_iter().map(|reply| Step { reply, ..Step::default() }).collect();
        Scenario { steps, ..Scenario::default() }
    }
}

impl Reply {
    /// A message of these blocks.
    pub fn of(content: impl IntoIterator<Item = Block>) -> Reply {
        Reply { content: content.into_iter().collect(), ..Reply::default() }
    }

    /// A message of one text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::of([Block::Text(text.into())])
    }
}

impl Block {
    /// A call of one tool.
    pub fn call(name: impl Into<String>, input: Value) -> Block {
        Block::ToolUse(OneOrMore::One(Call { name: name.into(), input }))
    }
}
