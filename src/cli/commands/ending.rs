//! `lazy stop`, `lazy reject`, `lazy close`, `lazy reopen`, `lazy prioritize`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::{Error, Kind, Result, text};
use crate::cli::app::App;
use crate::cli::input::{self, Answer, Enter, Needed};
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{editor, fields, render};
use crate::model::{Priority, Status};
use crate::rpc::Command;
use crate::rpc::commands::{self as rpc, ReasonParams, StatusReport};

/// stop a working task and park it until you resume or unblock it
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Stop {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// why; also read from standard input
    #[argh(option, arg_name = "text")]
    reason: Option<String>,
    /// do not ask for a reason
    #[argh(switch, short = 'y')]
    yes: bool,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

/// What a stop says when nobody says more.
const STOP_REASON: &str = "Stopping to change direction";

impl Run for Stop {
    async fn run(self, app: App) -> Result<u8> {
        let reason = match input::given(&app, self.reason).await? {
            Some(reason) => reason,
            None if app.process.stdin_is_terminal() && !self.yes && !self.json => {
                input::ask_line(&app, "Reason", STOP_REASON)?
            }
            None => STOP_REASON.into(),
        };
        let params = ReasonParams { task: self.task, reason: Some(reason), ..ReasonParams::default() };
        let form = Form::from_switch(self.json);
        let session = Session::open_checked(&app, form.talk()).await?;
        done::<rpc::Stop>(&session, &params, form, "Stopped", after_stop).await
    }
}

/// turn a task's work down; its branch and history are kept
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Reject {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// why; also read from standard input
    #[argh(option, arg_name = "text")]
    reason: Option<String>,
    /// do not ask
    #[argh(switch, short = 'y')]
    yes: bool,
    /// go on although the worktree has uncommitted changes, which are then lost
    #[argh(switch)]
    accept_dirty_worktree: bool,
    /// let open children merge where this task would have
    #[argh(switch)]
    retarget_children: bool,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Reject {
    async fn run(self, app: App) -> Result<u8> {
        let again = format!("lazy reject {} --yes --reason \"…\"", self.task);
        if !self.yes {
            input::require_person(&app, "a rejection", &again)?;
        }
        let needed = Needed { what: "the reason", flag: "--reason", example: &again };
        let form = Form::from_switch(self.json);
        let session = Session::open_checked(&app, form.talk()).await?;
        session.require_task(&self.task, self.reason.as_ref()).await?;
        let retarget_children = self.retarget_children || decide_children(&session, &self.task, self.yes).await?;
        let reason = input::required(&app, self.reason, needed, "\n# Why is it rejected?\n").await?;
        if !self.yes && input::confirm(&app, &format!("Reject {}?", self.task), Enter::No)? == Answer::No {
            return Ok(0);
        }
        let accept_dirty_worktree = self.accept_dirty_worktree;
        let params = ReasonParams { task: self.task, reason: Some(reason), accept_dirty_worktree, retarget_children };
        done::<rpc::Reject>(&session, &params, form, "Rejected", take_up_again).await
    }
}

/// end a task that will not be done; its branch and history are kept
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Close {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// why; also read from standard input
    #[argh(option, arg_name = "text")]
    reason: Option<String>,
    /// do not ask; needs a reason
    #[argh(switch, short = 'y')]
    yes: bool,
    /// go on although the worktree has uncommitted changes, which are then lost
    #[argh(switch)]
    accept_dirty_worktree: bool,
    /// let open children merge where this task would have
    #[argh(switch)]
    retarget_children: bool,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Close {
    async fn run(self, app: App) -> Result<u8> {
        let again = format!("lazy close {} --yes --reason \"…\"", self.task);
        if !self.yes {
            input::require_person(&app, "closing a task", &again)?;
        }
        let needed = Needed { what: "the reason", flag: "--reason", example: &again };
        let form = Form::from_switch(self.json);
        let session = Session::open_checked(&app, form.talk()).await?;
        session.require_task(&self.task, self.reason.as_ref()).await?;
        let retarget_children = self.retarget_children || decide_children(&session, &self.task, self.yes).await?;
        let reason = match (self.yes, app.process.stdin_is_terminal()) {
            // with --yes a person is not sent into an editor
            (true, true) => self
                .reason
                .ok_or_else(|| Error::usage("--yes needs a reason; give it with --reason").hint(again.clone()))?,
            _ => input::required(&app, self.reason, needed, "\n# Why is it closed?\n").await?,
        };
        let accept_dirty_worktree = self.accept_dirty_worktree;
        let params = ReasonParams { task: self.task, reason: Some(reason), accept_dirty_worktree, retarget_children };
        done::<rpc::Close>(&session, &params, form, "Closed", take_up_again).await
    }
}

/// take a finished task up again
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Reopen {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// why; an accepted task needs one; also read from standard input
    #[argh(option, arg_name = "text")]
    reason: Option<String>,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Reopen {
    async fn run(self, app: App) -> Result<u8> {
        let reason = input::given(&app, self.reason).await?;
        let params = ReasonParams { task: self.task, reason, ..ReasonParams::default() };
        let form = Form::from_switch(self.json);
        let session = Session::open_checked(&app, form.talk()).await?;
        done::<rpc::Reopen>(&session, &params, form, "Reopened", |task, status| {
            vec![match status {
                Status::Backlog => ("Start it", format!("lazy start {task}")),
                _ => ("Go on with feedback", format!("lazy unblock {task} -m \"…\"")),
            }]
        })
        .await
    }
}

/// change a task's place in the start queue
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Prioritize {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// low, normal, high or urgent
    #[argh(positional, from_str_fn(fields::priority))]
    level: Priority,
}

impl Run for Prioritize {
    async fn run(self, app: App) -> Result<u8> {
        let session = Session::open(&app, Form::Text.talk()).await?;
        let params = rpc::PrioritizeParams { task: self.task, priority: self.level };
        let report = session.call::<rpc::Prioritize>(&params).await?;
        app.print(render::moved::edited(&report, app.style))?;
        Ok(0)
    }
}

/// Asks a person what becomes of open children, before they write a reason. Elsewhere the daemon refuses.
async fn decide_children(session: &Session, task: &str, yes: bool) -> Result<bool> {
    let app = &session.app;
    if yes || !app.process.stdin_is_terminal() {
        return Ok(false);
    }
    let report = session.call_quietly::<rpc::Show>(&rpc::TaskParams { task: task.to_string() }).await?;
    let open: Vec<_> = report.children.iter().filter(|child| !child.status.is_terminal()).collect();
    if open.is_empty() {
        return Ok(false);
    }
    for child in &open {
        let line = format!("  {} [{}] {}", render::display_id(child), child.status, text::one_line(&child.goal));
        app.process.err_line(line);
    }
    let question = match open.len() {
        1 => "This open child merges into it. Let it merge where the task itself would have?".to_string(),
        count => format!("These {count} open children merge into it. Let them merge where the task itself would have?"),
    };
    match input::confirm(app, &question, Enter::No)? {
        Answer::Yes => Ok(true),
        Answer::No => Err(Error::new(Kind::Canceled, "nothing was changed: its children come first")
            .hint(format!("lazy list {}", report.task.display_id()))),
    }
}

/// What a stopped task can be told next: one taken out of the queue was never started, and one with changes to
/// protected files needs a decision on them first.
fn after_stop(task: &str, status: Status) -> Vec<(&'static str, String)> {
    match status {
        Status::Backlog => vec![("Start it", format!("lazy start {task}"))],
        Status::Conflict => vec![
            ("See the changed protected files", format!("lazy show {task}")),
            ("Go on and revert them", format!("lazy unblock {task} -m \"…\" --no-approve-files")),
            ("Go on and keep one", format!("lazy unblock {task} -m \"…\" --approve-file <file>")),
        ],
        _ => vec![
            ("Go on with feedback", format!("lazy unblock {task} -m \"…\"")),
            ("Go on as before", format!("lazy resume {task}")),
        ],
    }
}

fn take_up_again(task: &str, _: Status) -> Vec<(&'static str, String)> {
    vec![("Take it up again", format!("lazy reopen {task}"))]
}

async fn done<C: Command<Params = ReasonParams, Report = StatusReport>>(
    session: &Session,
    params: &ReasonParams,
    form: Form,
    verb: &str,
    next: impl Fn(&str, Status) -> Vec<(&'static str, String)>,
) -> Result<u8> {
    let app = &session.app;
    let report = session.call::<C>(params).await?;
    editor::delivered(app);
    if form == Form::Json {
        app.print_json(&report)?;
        return Ok(0);
    }
    app.warn_all(&report.warnings);
    let next = next(&render::display_id(&report.task), report.task.status);
    app.print(render::moved::status_changed(&report, verb, &next, app.style))?;
    Ok(0)
}
