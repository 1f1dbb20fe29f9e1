//! `lazy ask`.

use argh::{ArgsInfo, FromArgs};
use serde_json::json;

use super::create::Form;
use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::input::{self, Needed};
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{editor, fields, render};
use crate::model::Effort;
use crate::rpc::commands as rpc;

/// ask the agent of a resting task a question; nothing changes
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(example = "lazy ask fix-login -m \"Why not in the middleware?\"")]
pub(crate) struct Ask {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the question; also read from standard input
    #[argh(option, short = 'm', arg_name = "text")]
    message: Option<String>,
    /// the effort for this answer
    #[argh(option, arg_name = "effort", from_str_fn(fields::effort))]
    effort: Option<Effort>,
    /// print the answer as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Ask {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        match (ask(&app, self, form).await, form) {
            (Err(error), Form::Json) => {
                let error = editor::not_delivered(error);
                let lines = error.details().and_then(|details| details.get("lines")).cloned().unwrap_or_default();
                app.print_json(&json!({ "error": error.full_message(), "lines": lines }))?;
                Ok(error.kind().exit_code())
            }
            (other, _) => other,
        }
    }
}

async fn ask(app: &App, words: Ask, form: Form) -> Result<u8> {
    let example = format!("lazy ask {} -m \"your question\"", words.task);
    let needed = Needed { what: "the question", flag: "--message", example: &example };
    let session = Session::open(app, form.talk()).await?;
    session.require_task(&words.task, words.message.as_ref()).await?;
    let message =
        input::required(app, words.message, needed, "\n# Your question. Lines that start with # do not count.\n")
            .await?;
    let params = rpc::AskParams { task: words.task, message, effort: words.effort };
    let report = session.call::<rpc::Ask>(&params).await?;
    editor::delivered(app);
    if form == Form::Json {
        let value = json!({
            "type": "task",
            "taskId": render::display_id(&report.task),
            "fullTaskId": report.task.id,
            "answer": report.answer,
            "turn": report.turn,
            "usage": report.usage,
            "warnings": report.warnings,
        });
        app.print_json(&value)?;
        return Ok(0);
    }
    app.warn_all(&report.warnings);
    if report.answer.trim().is_empty() {
        return Err(Error::not_found("the agent answered with nothing")
            .hint(format!("lazy show {}", render::display_id(&report.task))));
    }
    app.print(render::moved::answered(&report))?;
    Ok(0)
}
