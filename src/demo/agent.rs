//! The built-in demo agent (`lazy demo-agent`): a small tool loop over the Messages API.
//!
//! It reads the prompt from standard input and prints the lines Claude Code prints in `stream-json` format (`system`/
//! `init`, `assistant`, `user` with a tool result, `result`), so that one reader serves both. It exits with 0 after a
//! result and with 1 after anything else; what went wrong is in the result line.
//!
//! Invariants
//! - It talks to `ANTHROPIC_BASE_URL` only, by plain HTTP: that is lazy's own proxy on the loopback or the container
//!   gateway, which holds the credential and speaks TLS to the world.
//! - Its file tools stay inside the worktree, links included; writing below `.git` is refused.
//! - In a read-only turn there is no tool that writes or runs a command.
//! - The loop is bounded ([`MAX_ROUNDS`]); so are commands, output, and what is read of a file.
//! - It never repeats a request: whether to try again is the supervisor's decision.
//!
//! Files owned: `<sandbox>/.demo/<session id>.jsonl`, the messages of a conversation, one a line. `--resume` goes on with
//! one. A torn last line is passed over, and a tool call that was cut off is answered with an error.

mod api;
mod mcp;
mod options;
mod paths;
mod report;
mod session;
mod tools;

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::base::{Error, Process, Result, text};
use api::{Api, Reply};
use mcp::McpTools;
use options::Options;
use report::{Outcome, Report};
use session::Session;
use tools::{Answer, Tools};

/// The most answers of the model in one run.
pub const MAX_ROUNDS: u32 = 200;

/// Runs one turn and tells the exit code. `args` are those after `demo-agent`; see [`Options`].
///
/// # Errors
/// Only what comes before a conversation exists: a wrong argument, an empty prompt, a session that is not there, no
/// address or credential. Later failures are in the result line.
pub async fn run(process: &Process, args: &[OsString]) -> Result<u8> {
    let options = Options::parse(process, args)?;
    turn(process, &options, &process.read_stdin()?).await
}

async fn turn(process: &Process, options: &Options, prompt: &str) -> Result<u8> {
    if prompt.trim().is_empty() {
        return Err(Error::invalid("the prompt on standard input is empty"));
    }
    let api = Api::new(process, options)?;
    let mut session = match &options.resume {
        Some(id) => Session::load(&options.sandbox, id)?,
        None => Session::create(&options.sandbox)?,
    };
    let mcp = McpTools::start(process, options).await?;
    let tools = Tools::new(process, options, mcp);
    let mut report = Report::new(process, session.id(), api.model());
    report.start(&tools)?;
    let ended = match session.begin(prompt) {
        Ok(()) => talk(&api, &tools, &mut session, &mut report).await,
        Err(error) => Err(error),
    };
    tools.stop().await;
    let outcome = ended.unwrap_or_else(|error| Outcome::failed(&error));
    report.end(&outcome)?;
    Ok(if outcome.is_error { 1 } else { 0 })
}

async fn talk(api: &Api, tools: &Tools, session: &mut Session, report: &mut Report<'_>) -> Result<Outcome> {
    let definitions = tools.definitions();
    let mut said = String::new();
    for _ in 0..MAX_ROUNDS {
        let reply = match api.send(session.messages(), &definitions).await {
            Ok(reply) => reply,
            Err(refused) => return Ok(Outcome { text: refused.to_string(), is_error: true, status: refused.status }),
        };
        session.push("assistant", Value::from(reply.content.clone()))?;
        report.reply(&reply)?;
        let text = reply.text();
        if !text.trim().is_empty() {
            said = text;
        }
        if !reply.calls_tools() {
            if said.is_empty() {
                said = "The model ended its turn without a message.".to_string();
            }
            return Ok(Outcome { text: said, is_error: false, status: None });
        }
        let results = answer_calls(&reply, tools, report).await?;
        session.push("user", Value::from(results))?;
    }
    let text = format!("stopped after {MAX_ROUNDS} answers of the model without an end");
    Ok(Outcome { text, is_error: true, status: None })
}

/// Runs the calls one after another, in order, and gives their `tool_result` blocks.
async fn answer_calls(reply: &Reply, tools: &Tools, report: &mut Report<'_>) -> Result<Vec<Value>> {
    let mut results = Vec::new();
    for call in reply.calls() {
        let answer = match &call.input {
            Some(input) => tools.call(call.name, input).await,
            None => Answer::refused("the input of this call is not a complete JSON object"),
        };
        let result = json!({
            "type": "tool_result", "tool_use_id": call.id, "content": answer.content, "is_error": answer.is_error,
        });
        report.tool_result(&result)?;
        results.push(result);
    }
    Ok(results)
}

impl Outcome {
    fn failed(error: &Error) -> Outcome {
        Outcome { text: text::one_line(&error.full_message()), is_error: true, status: None }
    }
}

#[cfg(test)]
mod tests;
