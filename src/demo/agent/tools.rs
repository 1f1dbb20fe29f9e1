//! The tools: four of its own, and those of the MCP servers.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::mcp::McpTools;
use super::options::Options;
use super::paths::{Access, resolve};
use crate::agent::TurnMode;
use crate::base::{Kind, Process};
use crate::proc::{Cmd, Keep, Output};

/// Bytes of a file that are read, and of each output stream of a command that are kept.
const READ_LIMIT: usize = 256 << 10;
const OUTPUT_LIMIT: usize = 64 << 10;

/// How long a command may take: unless asked for, and at most. Milliseconds.
const COMMAND_TIMEOUT: u64 = 120_000;
const COMMAND_TIMEOUT_MAX: u64 = 600_000;

/// What a tool answered, in the form of a `tool_result`.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// Text, or a list of blocks.
    pub content: Value,
    /// Whether the call failed.
    pub is_error: bool,
}

impl Answer {
    /// An answer in text.
    pub fn text(text: impl Into<String>) -> Answer {
        Answer { content: Value::from(text.into()), is_error: false }
    }

    /// A failure in text.
    pub fn refused(text: impl Into<String>) -> Answer {
        Answer { content: Value::from(text.into()), is_error: true }
    }
}

/// Every tool of a run.
pub struct Tools {
    process: Process,
    worktree: PathBuf,
    own: &'static [Own],
    mcp: McpTools,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    ReadFile,
    WriteFile,
    EditFile,
    Bash,
}

impl Own {
    const fn name(self) -> &'static str {
        match self {
            Own::ReadFile => "read_file",
            Own::WriteFile => "write_file",
            Own::EditFile => "edit_file",
            Own::Bash => "bash",
        }
    }

    fn definition(self) -> Value {
        let path = json!({"type": "string", "description": "Path, relative to the working directory."});
        let (description, properties, required) = match self {
            Own::ReadFile => (
                "Reads a text file.",
                json!({
                    "path": path,
                    "offset": {"type": "integer", "minimum": 1, "description": "First line, counted from 1."},
                    "limit": {"type": "integer", "minimum": 1, "description": "Number of lines."},
                }),
                json!(["path"]),
            ),
            Own::WriteFile => (
                "Writes a file, replacing what was there. Directories are made.",
                json!({"path": path, "content": {"type": "string"}}),
                json!(["path", "content"]),
            ),
            Own::EditFile => (
                "Replaces a piece of a file. The old text must stand in the file exactly once.",
                json!({"path": path, "old": {"type": "string"}, "new": {"type": "string"}}),
                json!(["path", "old", "new"]),
            ),
            Own::Bash => (
                "Runs a shell command in the working directory and gives its output.",
                json!({
                    "command": {"type": "string"},
                    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": COMMAND_TIMEOUT_MAX},
                }),
                json!(["command"]),
            ),
        };
        json!({
            "name": self.name(), "description": description,
            "input_schema": {"type": "object", "properties": properties, "required": required},
        })
    }
}

impl Tools {
    /// The tools of a run; a read-only one has none that writes.
    pub fn new(process: &Process, options: &Options, mcp: McpTools) -> Tools {
        let own: &[Own] = match options.mode {
            TurnMode::Work => &[Own::ReadFile, Own::WriteFile, Own::EditFile, Own::Bash],
            TurnMode::ReadOnly => &[Own::ReadFile],
        };
        Tools { process: process.clone(), worktree: options.worktree.clone(), own, mcp }
    }

    /// Their names.
    pub fn names(&self) -> Vec<&str> {
        self.own.iter().map(|tool| tool.name()).chain(self.mcp.names()).collect()
    }

    /// Name and state of each MCP server.
    pub fn servers(&self) -> &[(String, &'static str)] {
        self.mcp.servers()
    }

    /// Their definitions, as a request carries them.
    pub fn definitions(&self) -> Vec<Value> {
        self.own.iter().map(|tool| tool.definition()).chain(self.mcp.definitions()).collect()
    }

    /// Runs a call. Never fails: what went wrong is an answer.
    pub async fn call(&self, name: &str, input: &Value) -> Answer {
        let Some(own) = self.own.iter().find(|tool| tool.name() == name) else {
            return match self.mcp.call(name, input).await {
                Some(answer) => answer,
                None => Answer::refused(format!("there is no tool {name}; the tools are {}", self.names().join(", "))),
            };
        };
        let answered = match own {
            Own::ReadFile => self.read(input),
            Own::WriteFile => self.write(input),
            Own::EditFile => self.edit(input),
            Own::Bash => return self.bash(input).await,
        };
        answered.map_or_else(Answer::refused, Answer::text)
    }

    /// Ends the MCP servers.
    pub async fn stop(self) {
        self.mcp.stop().await;
    }

    fn read(&self, input: &Value) -> Result<String, String> {
        let named = required(input, "path")?;
        let place = resolve(&self.worktree, named, Access::Read)?;
        let text = load(&place, named)?;
        let first = input["offset"].as_u64().unwrap_or(1).max(1);
        let count = input["limit"].as_u64().unwrap_or(u64::MAX);
        let skip = usize::try_from(first - 1).unwrap_or(usize::MAX);
        let take = usize::try_from(count).unwrap_or(usize::MAX);
        let mut out: String = text.split_inclusive('\n').skip(skip).take(take).collect();
        if out.len() > READ_LIMIT {
            let cut = (0..=READ_LIMIT).rev().find(|at| out.is_char_boundary(*at)).unwrap_or_default();
            out.truncate(cut);
            out.push_str("\n[cut here; read the rest with offset and limit]");
        }
        Ok(out)
    }

    fn write(&self, input: &Value) -> Result<String, String> {
        let named = required(input, "path")?;
        let content = required(input, "content")?;
        let place = resolve(&self.worktree, named, Access::Write)?;
        store(&place, named, content)?;
        Ok(format!("wrote {} bytes to {named}", content.len()))
    }

    fn edit(&self, input: &Value) -> Result<String, String> {
        let (named, old, new) = (required(input, "path")?, required(input, "old")?, required(input, "new")?);
        let place = resolve(&self.worktree, named, Access::Write)?;
        let text = load(&place, named)?;
        match if old.is_empty() { 0 } else { text.matches(old).count() } {
            1 => store(&place, named, &text.replacen(old, new, 1))?,
            0 => return Err(format!("the old text does not stand in {named}")),
            many => return Err(format!("the old text stands in {named} {many} times; give more of what is around it")),
        }
        Ok(format!("edited {named}"))
    }

    async fn bash(&self, input: &Value) -> Answer {
        let command = match required(input, "command") {
            Ok(command) => command,
            Err(refused) => return Answer::refused(refused),
        };
        let limit = input["timeout_ms"].as_u64().unwrap_or(COMMAND_TIMEOUT).clamp(1, COMMAND_TIMEOUT_MAX);
        let mut output = self.shell("bash", command, limit).await;
        if output.as_ref().is_err_and(|error| error.kind() == Kind::Unavailable) {
            output = self.shell("sh", command, limit).await;
        }
        match output {
            Ok(output) => told(&output, limit),
            Err(error) => Answer::refused(error.full_message()),
        }
    }

    /// Commands get this process's environment without the credential: they have no business with the model.
    async fn shell(&self, shell: &str, command: &str, limit: u64) -> crate::base::Result<Output> {
        Cmd::new(shell)
            .args(["-c", command])
            .env_of(&self.process)
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("CLAUDE_CODE_OAUTH_TOKEN")
            .cwd(&self.worktree)
            .timeout(Duration::from_millis(limit))
            .output_limit(OUTPUT_LIMIT)
            .keep(Keep::Tail)
            .output()
            .await
    }
}

fn told(output: &Output, limit: u64) -> Answer {
    let mut text = match (output.timed_out, output.code, output.signal) {
        (true, ..) => format!("ended after {limit} ms: it took too long\n"),
        (false, Some(0), _) => String::new(),
        (false, Some(code), _) => format!("Exit code {code}\n"),
        (false, None, signal) => format!("ended by signal {}\n", signal.unwrap_or_default()),
    };
    if output.truncated {
        text.push_str("[only the end of the output was kept]\n");
    }
    text.push_str(&output.stdout_text());
    if !output.stderr.is_empty() && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&output.stderr_text());
    if text.is_empty() {
        text.push_str("(no output)");
    }
    Answer { content: Value::from(text), is_error: !output.success() }
}

fn required<'a>(input: &'a Value, field: &str) -> Result<&'a str, String> {
    input[field].as_str().ok_or_else(|| format!("the text field {field:?} is missing"))
}

fn load(place: &std::path::Path, named: &str) -> Result<String, String> {
    let bytes = std::fs::read(place).map_err(|error| format!("cannot read {named}: {error}"))?;
    String::from_utf8(bytes).map_err(|_| format!("{named} is not UTF-8 text"))
}

fn store(place: &std::path::Path, named: &str, content: &str) -> Result<(), String> {
    if let Some(parent) = place.parent() {
        std::fs::create_dir_all(parent).map_err(|error| format!("cannot make the directory of {named}: {error}"))?;
    }
    std::fs::write(place, content).map_err(|error| format!("cannot write {named}: {error}"))
}
