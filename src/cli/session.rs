//! A command's way to its project's daemon.

use super::app::App;
use super::background;
use super::input::{self, Answer, Enter};
use super::progress::{Narration, Talk};
use super::render;
use crate::base::{Error, Kind, Result};
use crate::config::project::Project;
use crate::model::Actor;
use crate::rpc::commands::{List, ListParams, ListView, Show, TaskParams};
use crate::rpc::{Client, Command, StateDir};
use crate::setup;

/// The running daemon of a project.
#[derive(Debug)]
pub(crate) struct Session {
    /// What every command has.
    pub app: App,
    client: Client,
    talk: Talk,
}

/// Who writes: a person, unless `LAZY_ACTOR` says otherwise.
pub(crate) fn actor(app: &App) -> Result<Actor> {
    let Some(name) = app.process.var("LAZY_ACTOR") else { return Ok(Actor::Human) };
    Actor::parse(name).ok_or_else(|| {
        let known: Vec<&str> = Actor::ALL.iter().map(|actor| actor.as_str()).collect();
        Error::invalid(format!("LAZY_ACTOR is {name:?}; it may be one of {}", known.join(", ")))
    })
}

/// The project around the current directory. On a terminal, a repository without one is offered to be set up.
///
/// # Errors
/// What the search found; [`Kind::Canceled`] with no message when the offer was declined.
pub(crate) async fn project(app: &App) -> Result<Project> {
    match Project::find(&app.process, app.process.cwd()) {
        Err(error) if error.kind() == Kind::NotFound && app.process.stdin_is_terminal() => offer_init(app, error).await,
        other => other,
    }
}

async fn offer_init(app: &App, error: Error) -> Result<Project> {
    if !app.process.cwd().ancestors().any(|directory| directory.join(".git").exists()) {
        return Err(error);
    }
    app.process
        .err_line("This git repository is not set up for lazy yet: that adds a lazy.toml and a .lazy directory.");
    if input::confirm(app, "Initialize it now?", Enter::Yes)? == Answer::No {
        return Err(Error::new(Kind::Canceled, ""));
    }
    let report = setup::init(&app.process, setup::InitOptions::default()).await?;
    app.process.err(render::setup::init(&report, super::style::Style::for_stderr(&app.process)));
    Project::find(&app.process, app.process.cwd())
}

impl Session {
    /// Finds the project and its daemon, which is started when none runs.
    pub async fn open(app: &App, talk: Talk) -> Result<Session> {
        let project = project(app).await?;
        let state = StateDir::for_project(&app.process, &project.root)?;
        let (client, _) = background::ensure(app, &state, talk).await?;
        Ok(Session { app: app.clone(), client, talk })
    }

    /// As [`Session::open`], and says when the daemon runs another program than this one.
    pub async fn open_checked(app: &App, talk: Talk) -> Result<Session> {
        let project = project(app).await?;
        let state = StateDir::for_project(&app.process, &project.root)?;
        let (client, status) = background::ensure(app, &state, talk).await?;
        if talk == Talk::Narrate && background::is_stale(app, &status) {
            app.warn_all(&["the daemon runs another build of lazy than this one; try: lazy daemon restart".into()]);
        }
        Ok(Session { app: app.clone(), client, talk })
    }

    /// Runs a command of the daemon, narrated.
    pub async fn call<C: Command>(&self, params: &C::Params) -> Result<C::Report> {
        let mut narration = Narration::new(&self.app, self.talk);
        let done = self.client.call::<C>(params, |progress| narration.hear(progress)).await;
        match &done {
            Ok(_) => narration.finish(),
            Err(_) => narration.fail(),
        }
        match done {
            Err(error) if error.kind() == Kind::Ambiguous => Err(self.with_candidates(error).await),
            other => other,
        }
    }

    /// Runs a command of the daemon and tells nothing while it works.
    pub async fn call_quietly<C: Command>(&self, params: &C::Params) -> Result<C::Report> {
        match self.client.call::<C>(params, |_| {}).await {
            Err(error) if error.kind() == Kind::Ambiguous => Err(self.with_candidates(error).await),
            other => other,
        }
    }

    /// Where a person would now write in an editor: refuses a task that does not exist before they do.
    pub async fn require_task(&self, task: &str, flag: Option<&String>) -> Result<()> {
        if flag.is_none() && self.app.process.stdin_is_terminal() {
            self.call_quietly::<Show>(&TaskParams { task: task.to_string() }).await?;
        }
        Ok(())
    }

    /// Adds a line for each task that an ambiguous name fits.
    async fn with_candidates(&self, error: Error) -> Error {
        let ids: Vec<String> = error
            .details()
            .and_then(|details| details.get("matches"))
            .and_then(|matches| serde_json::from_value(matches.clone()).ok())
            .unwrap_or_default();
        let params = ListParams { view: ListView::All, ..ListParams::default() };
        let Ok(report) = self.client.call::<List>(&params, |_| {}).await else { return error };
        let lines: Vec<String> = report
            .tasks
            .iter()
            .filter(|task| ids.contains(&task.id.to_string()))
            .map(render::list::candidate)
            .collect();
        if lines.is_empty() { error } else { error.with_details(serde_json::json!({ "lines": lines })) }
    }
}
