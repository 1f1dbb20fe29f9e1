//! `lazy start`, `lazy resume`, `lazy sync`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::{Error, Kind, Result};
use crate::cli::app::App;
use crate::cli::input::{Answer, Enter};
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{fields, follow, input, render};
use crate::model::Effort;
use crate::rpc::commands as rpc;

use render::moved::Launched;

/// launch a task from the backlog
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(example = "lazy start fix-login --follow")]
pub(crate) struct Start {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the model; kept on the task
    #[argh(option, arg_name = "model", from_str_fn(fields::model))]
    model: Option<String>,
    /// the agent; kept on the task
    #[argh(option, arg_name = "agent")]
    agent: Option<String>,
    /// low, medium, high, xhigh or max; kept on the task
    #[argh(option, arg_name = "effort", from_str_fn(fields::effort))]
    effort: Option<Effort>,
    /// host, docker or podman; kept on the task
    #[argh(option, arg_name = "runner", from_str_fn(fields::runner))]
    runner: Option<String>,
    /// print what happens until the turn ends
    #[argh(switch)]
    follow: bool,
    /// do not ask
    #[argh(switch, short = 'y')]
    yes: bool,
    /// branch from the local parent when the remote cannot be reached
    #[argh(switch)]
    force_local: bool,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Start {
    async fn run(self, app: App) -> Result<u8> {
        let form = form(self.json, self.follow)?;
        let session = Session::open_checked(&app, form.talk()).await?;
        if app.process.stdin_is_terminal() && !self.yes && form == Form::Text {
            let report = session.call::<rpc::Show>(&rpc::TaskParams { task: self.task.clone() }).await?;
            if report.session.is_none() && !report.task.prompt.trim().is_empty() {
                app.print(render::follow_up::before_start(&report, app.style))?;
                if input::confirm(&app, "Start it?", Enter::No)? == Answer::No {
                    return Ok(0);
                }
            }
        }
        let params = rpc::StartParams {
            task: self.task,
            model: self.model,
            agent: self.agent,
            effort: self.effort,
            runner: self.runner,
            force_local: self.force_local,
        };
        let report = session.call::<rpc::Start>(&params).await?;
        launched(&session, &report, Launched::Started, form, self.follow).await
    }
}

/// continue an interrupted or stopped task with nothing new
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Resume {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the model from now on
    #[argh(option, arg_name = "model", from_str_fn(fields::model))]
    model: Option<String>,
    /// the effort from now on
    #[argh(option, arg_name = "effort", from_str_fn(fields::effort))]
    effort: Option<Effort>,
    /// print what happens until the turn ends
    #[argh(switch)]
    follow: bool,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Resume {
    async fn run(self, app: App) -> Result<u8> {
        let form = form(self.json, self.follow)?;
        let session = Session::open_checked(&app, form.talk()).await?;
        let params = rpc::ResumeParams { task: self.task, model: self.model, effort: self.effort };
        let report = session.call::<rpc::Resume>(&params).await?;
        launched(&session, &report, Launched::Resumed, form, self.follow).await
    }
}

/// merge the upstream into a resting task's branch
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Sync {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Sync {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let session = Session::open_checked(&app, form.talk()).await?;
        let report = session.call::<rpc::SyncTask>(&rpc::TaskParams { task: self.task }).await?;
        match form {
            Form::Json => app.print_json(&report)?,
            Form::Text => {
                app.warn_all(&report.warnings);
                app.print(render::moved::synced(&report, app.style))?;
            }
        }
        Ok(0)
    }
}

/// `--json` is one value; `--follow` is many lines.
pub(crate) fn form(json: bool, follow: bool) -> Result<Form> {
    if json && follow {
        return Err(Error::new(Kind::Usage, "--json and --follow exclude each other").hint("lazy watch <task> --json"));
    }
    Ok(Form::from_switch(json))
}

/// Prints a launch, and follows its turn when asked to.
pub(crate) async fn launched(
    session: &Session,
    report: &rpc::LaunchReport,
    how: Launched,
    form: Form,
    follow: bool,
) -> Result<u8> {
    let app = &session.app;
    if form == Form::Json {
        app.print_json(report)?;
        return Ok(0);
    }
    app.warn_all(&report.warnings);
    app.print(render::moved::launched(report, how, app.style))?;
    if !follow {
        return Ok(0);
    }
    app.process.out_line("")?;
    follow::print(session, &render::display_id(&report.task)).await
}
