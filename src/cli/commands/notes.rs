//! `lazy comment`, `lazy journal`, `lazy tag`, `lazy untag`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::Result;
use crate::cli::app::App;
use crate::cli::input::{self, Needed};
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{editor, render};
use crate::rpc::commands as rpc;

/// leave a note for the agent; it comes with its next prompt and starts nothing
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Comment {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the note; also read from standard input
    #[argh(option, short = 'm', arg_name = "text")]
    message: Option<String>,
    /// print the comment as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Comment {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let session = Session::open(&app, form.talk()).await?;
        let example = format!("lazy comment {} -m \"your note\"", self.task);
        let needed = Needed { what: "the note", flag: "--message", example: &example };
        session.require_task(&self.task, self.message.as_ref()).await?;
        let message = input::required(&app, self.message, needed, "").await?;
        let report = session.call::<rpc::AddComment>(&rpc::NoteParams { task: self.task, message }).await?;
        editor::delivered(&app);
        match form {
            Form::Json => app.print_json(&report.comment)?,
            Form::Text => app.print(render::notes::commented(&report, app.style))?,
        }
        Ok(0)
    }
}

/// read a task's journal, or write in it; no prompt ever contains it
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Journal {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// what to write
    #[argh(option, short = 'm', arg_name = "text")]
    message: Option<String>,
    /// write what comes on standard input, or from the editor
    #[argh(switch)]
    add: bool,
    /// print the entries as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Journal {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let session = Session::open(&app, form.talk()).await?;
        if self.message.is_none() && !self.add {
            let report = session.call_quietly::<rpc::ReadJournal>(&rpc::TaskParams { task: self.task }).await?;
            match form {
                Form::Json => app.print_json(&report.entries)?,
                Form::Text => app.print(render::notes::journal(&report, app.style))?,
            }
            return Ok(0);
        }
        let example = format!("lazy journal {} -m \"what was decided, and why\"", self.task);
        let needed = Needed { what: "the entry", flag: "--message", example: &example };
        session.require_task(&self.task, self.message.as_ref()).await?;
        let message = input::required(&app, self.message, needed, "").await?;
        let report = session.call::<rpc::AddJournal>(&rpc::NoteParams { task: self.task, message }).await?;
        editor::delivered(&app);
        match form {
            Form::Json => app.print_json(&report.entry)?,
            Form::Text => app.print(render::notes::journaled(&report, app.style))?,
        }
        Ok(0)
    }
}

/// put a label on a task
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Tag {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the label
    #[argh(positional)]
    tag: String,
}

impl Run for Tag {
    async fn run(self, app: App) -> Result<u8> {
        label(&app, rpc::TagParams { task: self.task, tag: self.tag, present: true }, "Tagged").await
    }
}

/// take a label off a task
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Untag {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the label
    #[argh(positional)]
    tag: String,
}

impl Run for Untag {
    async fn run(self, app: App) -> Result<u8> {
        label(&app, rpc::TagParams { task: self.task, tag: self.tag, present: false }, "Untagged").await
    }
}

async fn label(app: &App, params: rpc::TagParams, done: &str) -> Result<u8> {
    let session = Session::open(app, Form::Text.talk()).await?;
    let report = session.call::<rpc::SetTag>(&params).await?;
    app.print(render::notes::tagged(&report, done, app.style))?;
    Ok(0)
}
