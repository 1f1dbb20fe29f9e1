//! A command's way to its project's daemon.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::app::App;
use super::background;
use super::choose;
use super::editor;
use super::input::{self, Answer, Enter};
use super::progress::{Narration, Talk};
use super::render;
use crate::base::{Error, Kind, Result};
use crate::config::project::Project;
use crate::model::Actor;
use crate::rpc::client::may_call_again;
use crate::rpc::commands::{List, ListParams, ListView, Show, TaskLine, TaskParams};
use crate::rpc::{Client, Command, Progress, StateDir};
use crate::setup;

/// How often a call that nobody took is made again.
const CALLED_AGAIN: u32 = 3;

/// The running daemon of a project.
#[derive(Debug)]
pub(crate) struct Session {
    /// What every command has.
    pub app: App,
    client: Client,
    state: StateDir,
    talk: Talk,
    /// Which of several tasks a person meant by a name.
    chosen: Mutex<HashMap<String, String>>,
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
        Ok(Session { app: app.clone(), client, state, talk, chosen: Mutex::default() })
    }

    /// As [`Session::open`], and says when the daemon runs another program than this one.
    pub async fn open_checked(app: &App, talk: Talk) -> Result<Session> {
        let project = project(app).await?;
        let state = StateDir::for_project(&app.process, &project.root)?;
        let (client, status) = background::ensure(app, &state, talk).await?;
        if talk == Talk::Narrate && background::is_stale(app, &status) {
            app.warn_all(&["the daemon runs another build of lazy than this one; try: lazy daemon restart".into()]);
        }
        Ok(Session { app: app.clone(), client, state, talk, chosen: Mutex::default() })
    }

    /// Runs a command of the daemon, narrated.
    pub async fn call<C: Command>(&self, params: &C::Params) -> Result<C::Report> {
        let mut narration = Narration::new(&self.app, self.talk);
        let done = self.send::<C>(params, |progress| narration.hear(progress)).await;
        match &done {
            Ok(_) => narration.finish(),
            Err(_) => narration.fail(),
        }
        match done {
            Err(error) => {
                if let Ok(params) = serde_json::to_value(params) {
                    editor::keep_params(&self.app, &params, &error);
                }
                Err(error)
            }
            Ok(report) => Ok(report),
        }
    }

    /// Calls the daemon; a name that fits several tasks is a question to a person, and elsewhere a refusal that lists
    /// them.
    async fn send<C: Command>(&self, params: &C::Params, mut hear: impl FnMut(Progress)) -> Result<C::Report> {
        loop {
            let asked = self.with_chosen::<C>(params)?;
            match self.reach::<C>(asked.as_ref().unwrap_or(params), &mut hear).await {
                Err(error) if error.kind() == Kind::Ambiguous => self.choose(error).await?,
                other => return other,
            }
        }
    }

    /// Calls the daemon. One that is just being replaced takes no calls: such a call was not carried out, and is made
    /// again to the one that comes, which is found or started as for any command.
    async fn reach<C: Command>(&self, params: &C::Params, mut hear: impl FnMut(Progress)) -> Result<C::Report> {
        let mut client = self.client.clone();
        for _ in 0..CALLED_AGAIN {
            match client.call::<C>(params, &mut hear).await {
                Err(error) if may_call_again(&error) => {
                    client = background::ensure(&self.app, &self.state, self.talk).await?.0;
                }
                other => return other,
            }
        }
        client.call::<C>(params, hear).await
    }

    /// The parameters with the tasks that were chosen in the place of names; `None` when nothing was chosen.
    fn with_chosen<C: Command>(&self, params: &C::Params) -> Result<Option<C::Params>> {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if chosen.is_empty() {
            return Ok(None);
        }
        let failed = |source| Error::internal("cannot put the chosen task into the call").caused_by(source);
        let mut value = serde_json::to_value(params).map_err(failed)?;
        for field in ["task", "tasks", "parent"] {
            let Some(field) = value.get_mut(field) else { continue };
            let names = match field {
                Value::Array(names) => names.iter_mut().collect(),
                name => vec![name],
            };
            for name in names {
                if let Some(id) = name.as_str().and_then(|name| chosen.get(name.trim())) {
                    *name = Value::from(id.as_str());
                }
            }
        }
        serde_json::from_value(value).map(Some).map_err(failed)
    }

    /// Asks which task an ambiguous name means and remembers it.
    async fn choose(&self, error: Error) -> Result<()> {
        let rows = self.candidates(&error).await;
        let name = error.details().and_then(|details| details["name"].as_str()).map(str::to_string);
        let asks = self.app.process.stdin_is_terminal() && self.talk == Talk::Narrate;
        match name.filter(|_| asks && !rows.is_empty()) {
            // A choice that is ambiguous itself is a defect; asking again would not end.
            Some(name) if !self.chosen.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&name) => {
                let id = choose::one_of(&self.app, &format!("{}; which one?", error.message()), &rows)?;
                self.chosen.lock().unwrap_or_else(PoisonError::into_inner).insert(name, id);
                Ok(())
            }
            _ if rows.is_empty() => Err(error),
            _ => {
                let lines: Vec<String> = rows.iter().map(render::list::candidate).collect();
                Err(error.with_details(serde_json::json!({ "lines": lines })))
            }
        }
    }

    /// Runs a command of the daemon and tells nothing while it works.
    pub async fn call_quietly<C: Command>(&self, params: &C::Params) -> Result<C::Report> {
        self.send::<C>(params, |_| {}).await
    }

    /// Where a person would now write in an editor: refuses a task that does not exist before they do.
    pub async fn require_task(&self, task: &str, flag: Option<&String>) -> Result<()> {
        if flag.is_none() && self.app.process.stdin_is_terminal() {
            self.call_quietly::<Show>(&TaskParams { task: task.to_string() }).await?;
        }
        Ok(())
    }

    /// The tasks that an ambiguous name fits. One whose record cannot be read has no row.
    async fn candidates(&self, error: &Error) -> Vec<TaskLine> {
        let matches = error.details().and_then(|details| details["matches"].as_array().cloned()).unwrap_or_default();
        let ids: Vec<&str> =
            matches.iter().filter_map(|found| found.as_str().or_else(|| found["id"].as_str())).collect();
        let params = ListParams { view: ListView::All, ..ListParams::default() };
        let report = self.client.call::<List>(&params, |_| {}).await.unwrap_or_default();
        report.tasks.into_iter().filter(|task| ids.contains(&task.id.to_string().as_str())).collect()
    }
}
