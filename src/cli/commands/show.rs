//! `lazy show`, `lazy view`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form as Output;
use super::system;
use crate::base::{Error, Result, text};
use crate::cli::app::App;
use crate::cli::fields::{self, Lines};
use crate::cli::render;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::rpc::commands as rpc;

use render::show::{Depth, Form};

/// everything about a task
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Show {
    /// the task (its code, its id or the start of its id), or a built-in prompt such as lazy-prompt-feedback
    #[argh(positional)]
    id: String,
    /// whole turns instead of a line each
    #[argh(switch)]
    full: bool,
    /// turns in groups
    #[argh(switch)]
    chunks: bool,
    /// turns in one list (the default)
    #[argh(switch)]
    flat: bool,
    /// only these lines: N..M, N.. or ..M
    #[argh(option, arg_name = "range", from_str_fn(fields::lines))]
    lines: Option<Lines>,
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Show {
    async fn run(self, app: App) -> Result<u8> {
        let form = form(self.chunks, self.flat, Form::Flat)?;
        show(&app, &self.id, form, self.full, self.lines, self.json).await
    }
}

/// everything about a task, its turns in groups
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct View {
    /// the task (its code, its id or the start of its id), or a built-in prompt such as lazy-prompt-feedback
    #[argh(positional)]
    id: String,
    /// whole turns instead of a line each
    #[argh(switch)]
    full: bool,
    /// turns in groups (the default)
    #[argh(switch)]
    chunks: bool,
    /// turns in one list
    #[argh(switch)]
    flat: bool,
    /// only these lines: N..M, N.. or ..M
    #[argh(option, arg_name = "range", from_str_fn(fields::lines))]
    lines: Option<Lines>,
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for View {
    async fn run(self, app: App) -> Result<u8> {
        let form = form(self.chunks, self.flat, Form::Chunks)?;
        show(&app, &self.id, form, self.full, self.lines, self.json).await
    }
}

fn form(chunks: bool, flat: bool, default: Form) -> Result<Form> {
    match (chunks, flat) {
        (true, true) => Err(Error::usage("--chunks and --flat exclude each other").hint("lazy show --help")),
        (true, false) => Ok(Form::Chunks),
        (false, true) => Ok(Form::Flat),
        (false, false) => Ok(default),
    }
}

async fn show(app: &App, id: &str, form: Form, full: bool, lines: Option<Lines>, json: bool) -> Result<u8> {
    if let Some(name) = id.strip_prefix("lazy-prompt-") {
        return prompt(app, id, name, lines, json);
    }
    let output = Output::from_switch(json);
    let session = Session::open(app, output.talk()).await?;
    let report = session.call_quietly::<rpc::Show>(&rpc::TaskParams { task: id.to_string() }).await?;
    if json {
        app.print_json(&render::json::task(&report))?;
        return Ok(0);
    }
    let depth = if full { Depth::Full } else { Depth::Brief };
    let text = render::show::task(&report, form, depth, app.style);
    app.print(lines.map_or(text.clone(), |lines| lines.of(&text)))?;
    Ok(0)
}

fn prompt(app: &App, id: &str, name: &str, lines: Option<Lines>, json: bool) -> Result<u8> {
    let Some(content) = system::prompt(name) else {
        let error = Error::not_found(format!("there is no built-in prompt {id:?}"));
        let near = text::nearest(name, system::prompt_names()).map(|near| format!("lazy show lazy-prompt-{near}"));
        return Err(near.into_iter().fold(error, Error::hint).hint("lazy system prompts"));
    };
    if json {
        let value =
            serde_json::json!({ "type": "prompt", "code": id, "filename": format!("{name}.md"), "content": content });
        app.print_json(&value)?;
    } else {
        app.print(lines.map_or(content.to_string(), |lines| lines.of(content)))?;
    }
    Ok(0)
}
