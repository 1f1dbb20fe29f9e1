//! `lazy unblock`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use super::decisions::{self, Words};
use super::start::{self, launched};
use crate::base::{Error, Result, files};
use crate::cli::app::App;
use crate::cli::input::{self, Needed};
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{editor, fields, render};
use crate::model::Effort;
use crate::rpc::commands as rpc;

use render::moved::Launched;

/// give a blocked task feedback and let it go on
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    note = "Changes to protected files that wait for a decision must be decided: --approve-file for those that stay \
            (the others are undone), or --no-approve-files.",
    example = "lazy unblock fix-login -m \"Good. Also cover the empty password.\" --follow"
)]
pub(crate) struct Unblock {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the feedback; also read from standard input
    #[argh(option, short = 'm', arg_name = "text")]
    message: Option<String>,
    /// a file with the feedback
    #[argh(option, short = 'f', arg_name = "path")]
    file: Option<String>,
    /// the model from now on
    #[argh(option, arg_name = "model", from_str_fn(fields::model))]
    model: Option<String>,
    /// the effort from now on
    #[argh(option, arg_name = "effort", from_str_fn(fields::effort))]
    effort: Option<Effort>,
    /// another agent from now on
    #[argh(option, arg_name = "agent")]
    agent: Option<String>,
    /// a protected file whose change stays
    #[argh(option, arg_name = "path")]
    approve_file: Vec<String>,
    /// undo the changes to all protected files
    #[argh(switch)]
    no_approve_files: bool,
    /// answer a raised item: ID=TEXT
    #[argh(option, arg_name = "id=text")]
    respond_raised: Vec<String>,
    /// make a raised item a child task: ID or ID=NOTE
    #[argh(option, arg_name = "id")]
    promote_raised_subtask: Vec<String>,
    /// make a raised item a task beside this one: ID or ID=NOTE
    #[argh(option, arg_name = "id")]
    promote_raised_peer: Vec<String>,
    /// turn a raised item down: ID=REASON
    #[argh(option, arg_name = "id=reason")]
    dismiss_raised: Vec<String>,
    /// say that a raised item was seen: ID or ID=NOTE
    #[argh(option, arg_name = "id")]
    acknowledge_raised: Vec<String>,
    /// print what happens until the turn ends
    #[argh(switch)]
    follow: bool,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Unblock {
    async fn run(self, app: App) -> Result<u8> {
        let form = start::form(self.json, self.follow)?;
        let raised = decisions::read(&Words {
            respond: &self.respond_raised,
            promote_subtask: &self.promote_raised_subtask,
            promote_peer: &self.promote_raised_peer,
            dismiss: &self.dismiss_raised,
            acknowledge: &self.acknowledge_raised,
        })?;
        let approved_files = approved(self.approve_file, self.no_approve_files)?;
        let session = Session::open_checked(&app, form.talk()).await?;
        let given = match (self.message, &self.file) {
            (Some(message), _) => Some(message),
            (None, Some(path)) => Some(text_of(&app, path)?),
            (None, None) => None,
        };
        let message = feedback(&session, &self.task, given, form).await?;
        let params = rpc::UnblockParams {
            task: self.task,
            message,
            model: self.model,
            effort: self.effort,
            agent: self.agent,
            approved_files,
            raised,
        };
        let report = session.call::<rpc::Unblock>(&params).await?;
        editor::delivered(&app);
        launched(&session, &report, Launched::Unblocked, form, self.follow).await
    }
}

/// `None` leaves the question open, which the daemon refuses when there is one.
fn approved(files: Vec<String>, none: bool) -> Result<Option<Vec<String>>> {
    match (files.is_empty(), none) {
        (false, true) => {
            Err(Error::usage("--approve-file and --no-approve-files exclude each other").hint("lazy unblock --help"))
        }
        (false, false) => Ok(Some(files)),
        (true, true) => Ok(Some(Vec::new())),
        (true, false) => Ok(None),
    }
}

async fn feedback(session: &Session, task: &str, given: Option<String>, form: Form) -> Result<String> {
    let app = &session.app;
    let example = format!("lazy unblock {task} -m \"your feedback\"");
    let needed = Needed { what: "the feedback", flag: "--message", example: &example };
    let mut template = String::new();
    if given.is_none() && app.process.stdin_is_terminal() && form == Form::Text {
        let report = session.call_quietly::<rpc::Show>(&rpc::TaskParams { task: task.to_string() }).await?;
        app.print(render::follow_up::before_feedback(&report, app.style))?;
        template = render::follow_up::feedback_template(&report);
    }
    input::required(app, given, needed, &template).await.map_err(|error| {
        if error.kind() == crate::base::Kind::Usage { error.hint(format!("lazy resume {task}")) } else { error }
    })
}

fn text_of(app: &App, path: &str) -> Result<String> {
    if path == "-" {
        let text = app.process.read_stdin_written()?;
        editor::keep(app, &text);
        return Ok(text);
    }
    let path = app.process.cwd().join(path);
    let missing = || Error::not_found(format!("{} does not exist", path.display()));
    let bytes = files::read_written(&path)?.ok_or_else(missing)?;
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{} is not UTF-8 text", path.display())))
}
