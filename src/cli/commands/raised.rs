//! `lazy raised` and what can be done with raised items.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::input::{self, Needed};
use crate::cli::render;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{editor, fields};
use crate::model::Status;
use crate::rpc::commands::{self as rpc, RaisedAction, RaisedDecision};

/// items that agents raised for you to decide
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct List {
    /// only of this task
    #[argh(option, short = 't', arg_name = "task")]
    task: Option<String>,
    /// decided ones too
    #[argh(switch, short = 'a')]
    all: bool,
    /// only those that stop an accept
    #[argh(switch, short = 'b')]
    blocking: bool,
    /// only those that do not
    #[argh(switch)]
    non_blocking: bool,
    /// only with this text in them
    #[argh(option, short = 'q', arg_name = "text")]
    query: Option<String>,
    /// only of tasks with this status
    #[argh(option, short = 's', arg_name = "status", from_str_fn(status))]
    status: Option<Status>,
    /// print the items as JSON
    #[argh(switch)]
    json: bool,
}

fn status(text: &str) -> std::result::Result<Status, String> {
    Status::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("{text:?} is not a status; choose one of {}", known.join(", "))
    })
}

impl Run for List {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let blocking = match (self.blocking, self.non_blocking) {
            (true, true) => {
                return Err(Error::usage("--blocking and --non-blocking exclude each other").hint("lazy raised list"));
            }
            (true, false) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        let params =
            rpc::ListRaisedParams { task: self.task, blocking, all: self.all, query: self.query, status: self.status };
        let session = Session::open(&app, form.talk()).await?;
        let report = session.call_quietly::<rpc::ListRaised>(&params).await?;
        match form {
            Form::Json => app.print_json(&report)?,
            Form::Text => app.print(render::raised::table(&report, app.process.now(), app.style))?,
        }
        Ok(0)
    }
}

/// answer a raised item in words
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Respond {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the item: its id or the start of it
    #[argh(positional)]
    id: String,
    /// the answer
    #[argh(positional)]
    words: Vec<String>,
    /// the answer; also read from standard input
    #[argh(option, short = 'm', arg_name = "text")]
    message: Option<String>,
}

impl Run for Respond {
    async fn run(self, app: App) -> Result<u8> {
        let example = format!("lazy raised respond {} {} -m \"your answer\"", self.task, self.id);
        let needed = Needed { what: "the answer", flag: "--message", example: &example };
        let session = Session::open(&app, Form::Text.talk()).await?;
        let spoken = spoken(self.message, &self.words);
        session.require_task(&self.task, spoken.as_ref()).await?;
        let text = input::required(&app, spoken, needed, "").await?;
        decide(&session, self.task, self.id, RaisedAction::Respond, Some(text)).await
    }
}

/// say that a raised item was seen
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Acknowledge {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the item: its id or the start of it
    #[argh(positional)]
    id: String,
    /// a note
    #[argh(positional)]
    words: Vec<String>,
    /// a note
    #[argh(option, short = 'm', arg_name = "text")]
    message: Option<String>,
}

impl Run for Acknowledge {
    async fn run(self, app: App) -> Result<u8> {
        let note = spoken(self.message, &self.words);
        let session = Session::open(&app, Form::Text.talk()).await?;
        decide(&session, self.task, self.id, RaisedAction::Acknowledge, note).await
    }
}

/// turn a raised item down, with a reason
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Dismiss {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the item: its id or the start of it
    #[argh(positional)]
    id: String,
    /// the reason
    #[argh(positional)]
    words: Vec<String>,
    /// the reason; also read from standard input
    #[argh(option, short = 'r', arg_name = "text")]
    reason: Option<String>,
}

impl Run for Dismiss {
    async fn run(self, app: App) -> Result<u8> {
        let example = format!("lazy raised dismiss {} {} --reason \"why\"", self.task, self.id);
        let needed = Needed { what: "the reason", flag: "--reason", example: &example };
        let session = Session::open(&app, Form::Text.talk()).await?;
        let spoken = spoken(self.reason, &self.words);
        session.require_task(&self.task, spoken.as_ref()).await?;
        let text = input::required(&app, spoken, needed, "").await?;
        decide(&session, self.task, self.id, RaisedAction::Dismiss, Some(text)).await
    }
}

/// make a raised item a task in the backlog
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Promote {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the item: its id or the start of it
    #[argh(positional)]
    id: String,
    /// a child of the task
    #[argh(switch)]
    subtask: bool,
    /// a task beside it (the default)
    #[argh(switch)]
    peer: bool,
    /// a note
    #[argh(option, short = 'm', arg_name = "text")]
    message: Option<String>,
}

impl Run for Promote {
    async fn run(self, app: App) -> Result<u8> {
        let action = match (self.subtask, self.peer) {
            (true, true) => {
                return Err(Error::usage("--subtask and --peer exclude each other").hint("lazy raised promote --help"));
            }
            (true, false) => RaisedAction::PromoteSubtask,
            (false, _) => RaisedAction::PromotePeer,
        };
        let session = Session::open(&app, Form::Text.talk()).await?;
        decide(&session, self.task, self.id, action, self.message).await
    }
}

/// say whether an open raised item stops an accept
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Blocking {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the item: its id or the start of it
    #[argh(positional)]
    id: String,
    /// true or false
    #[argh(positional, from_str_fn(fields::truth))]
    value: bool,
}

impl Run for Blocking {
    async fn run(self, app: App) -> Result<u8> {
        let session = Session::open(&app, Form::Text.talk()).await?;
        let params = rpc::FlagRaisedParams { task: self.task, id: self.id, blocking: self.value };
        let report = session.call::<rpc::FlagRaised>(&params).await?;
        app.print(render::raised::decided(&report, app.style))?;
        Ok(0)
    }
}

/// The flag's text, else the words behind the id.
fn spoken(flag: Option<String>, words: &[String]) -> Option<String> {
    flag.or_else(|| (!words.is_empty()).then(|| words.join(" ")))
}

async fn decide(
    session: &Session,
    task: String,
    id: String,
    action: RaisedAction,
    response: Option<String>,
) -> Result<u8> {
    let app = &session.app;
    let params = rpc::ResolveRaisedParams { task, decision: RaisedDecision { id, action, response } };
    let report = session.call::<rpc::ResolveRaised>(&params).await?;
    editor::delivered(app);
    app.print(render::raised::decided(&report, app.style))?;
    Ok(0)
}
