//! `lazy list`, `lazy active`, `lazy blocked`.

use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use crate::base::{Error, Result, text};
use crate::cli::app::App;
use crate::cli::background::{self, Found};
use crate::cli::progress::Talk;
use crate::cli::render;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::config::project::Project;
use crate::rpc::StateDir;
use crate::rpc::commands::{self as rpc, DamagedRecord, ListParams, ListReport, ListView, TaskLine};

use render::list::Layout;

/// How often `--follow` draws again.
const REDRAW: Duration = Duration::from_secs(3);

/// tasks that are not finished
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct List {
    /// only this task and those below it
    #[argh(positional)]
    task: Option<String>,
    /// finished ones too
    #[argh(switch)]
    all: bool,
    /// a line each, with the parent and the whole goal
    #[argh(switch)]
    flat: bool,
    /// children under their parents (the default)
    #[argh(switch)]
    tree: bool,
    /// only tasks with this label; a flat list
    #[argh(option, arg_name = "tag")]
    tag: Option<String>,
    /// how many levels, 1 for the top one
    #[argh(option, arg_name = "number")]
    levels: Option<u32>,
    /// print the rows as JSON
    #[argh(switch)]
    json: bool,
    /// ids and codes alone, for completion; starts nothing
    #[argh(switch, hidden_help)]
    ids_only: bool,
}

impl Run for List {
    async fn run(self, app: App) -> Result<u8> {
        let view = if self.all { ListView::All } else { ListView::Open };
        if self.ids_only {
            return ids(&app, view).await;
        }
        let layout = layout(self.flat, self.tree, self.tag.is_some())?;
        let params = params(view, self.task, self.tag, self.levels)?;
        let hint = if self.all {
            "No tasks yet. Make one: lazy create --goal \"…\""
        } else {
            "No open tasks. Make one: lazy create --goal \"…\", or see finished ones: lazy list --all"
        };
        once(&app, &params, layout, self.json, hint).await
    }
}

/// tasks that were started and are not finished
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Active {
    /// only this task and those below it
    #[argh(positional)]
    task: Option<String>,
    /// a line each, with the parent and the whole goal
    #[argh(switch)]
    flat: bool,
    /// children under their parents (the default)
    #[argh(switch)]
    tree: bool,
    /// draw again every 3 seconds until nothing is active
    #[argh(switch, short = 'f')]
    follow: bool,
    /// how many levels, 1 for the top one
    #[argh(option, arg_name = "number")]
    levels: Option<u32>,
    /// print the rows as JSON
    #[argh(switch)]
    json: bool,
    /// ids and codes alone, for completion; starts nothing
    #[argh(switch, hidden_help)]
    ids_only: bool,
}

impl Run for Active {
    async fn run(self, app: App) -> Result<u8> {
        if self.ids_only {
            return ids(&app, ListView::Active).await;
        }
        let layout = layout(self.flat, self.tree, false)?;
        let empty = match &self.task {
            Some(task) => format!("No active tasks at or below {task}."),
            None => "No active tasks.".to_string(),
        };
        let params = params(ListView::Active, self.task, None, self.levels)?;
        if !self.follow {
            return once(&app, &params, layout, self.json, &empty).await;
        }
        if self.json {
            return Err(Error::usage("--json and --follow exclude each other").hint("lazy active --json"));
        }
        follow(&app, &params, layout, &empty).await
    }
}

/// tasks that wait for you, most recent first
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Blocked {
    /// a line each, with the parent and the whole goal
    #[argh(switch)]
    flat: bool,
    /// children under their parents (the default)
    #[argh(switch)]
    tree: bool,
    /// only tasks with this label; a flat list
    #[argh(option, arg_name = "tag")]
    tag: Option<String>,
    /// how many levels, 1 for the top one
    #[argh(option, arg_name = "number")]
    levels: Option<u32>,
    /// print the rows as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Blocked {
    async fn run(self, app: App) -> Result<u8> {
        let layout = layout(self.flat, self.tree, self.tag.is_some())?;
        let params = params(ListView::Blocked, None, self.tag, self.levels)?;
        once(&app, &params, layout, self.json, "No blocked tasks.").await
    }
}

fn layout(flat: bool, tree: bool, by_tag: bool) -> Result<Layout> {
    match (flat, tree) {
        (true, true) => Err(Error::usage("--flat and --tree exclude each other").hint("lazy list --flat")),
        (true, false) => Ok(Layout::Flat),
        (false, true) => Ok(Layout::Tree),
        (false, false) => Ok(if by_tag { Layout::Flat } else { Layout::Tree }),
    }
}

fn params(view: ListView, task: Option<String>, tag: Option<String>, levels: Option<u32>) -> Result<ListParams> {
    if levels == Some(0) {
        return Err(Error::usage("--levels starts at 1, the top level").hint("lazy list --levels 1"));
    }
    Ok(ListParams { view, task, tag, levels })
}

async fn once(app: &App, params: &ListParams, layout: Layout, json: bool, empty: &str) -> Result<u8> {
    let talk = if json { Talk::Silent } else { Talk::Narrate };
    let session = Session::open(app, talk).await?;
    let report = session.call_quietly::<rpc::List>(params).await?;
    warn_damaged(app, &report.damaged);
    if json {
        // A task that cannot be read has a row of its own: its id, and under `damaged` the file and why.
        let rows: Vec<Row<'_>> =
            report.tasks.iter().map(Row::Task).chain(report.damaged.iter().map(Row::Damaged)).collect();
        app.print_json(&rows)?;
    } else {
        app.print(drawn(app, &report, layout, empty))?;
    }
    Ok(0)
}

#[derive(serde::Serialize)]
#[serde(untagged)]
enum Row<'a> {
    Task(&'a TaskLine),
    Damaged(&'a DamagedRecord),
}

/// One line on standard error when records cannot be read: what is listed may not be all.
pub(crate) fn warn_damaged(app: &App, damaged: &[DamagedRecord]) {
    let Some(first) = damaged.first() else { return };
    let count = text::plural(damaged.len(), "record");
    let text = format!("{count} of the task store cannot be read, of task {}: lazy doctor", first.id.short());
    app.warn_all(&[text]);
}

fn drawn(app: &App, report: &ListReport, layout: Layout, empty: &str) -> String {
    let table =
        render::list::table(report, layout, app.style, app.process.stdout_is_terminal().then(|| app.process.columns()));
    if table.is_empty() { format!("{empty}\n") } else { table }
}

async fn follow(app: &App, params: &ListParams, layout: Layout, empty: &str) -> Result<u8> {
    let session = Session::open(app, Talk::Narrate).await?;
    loop {
        let report = session.call_quietly::<rpc::List>(params).await?;
        // clears the screen and its history's last page, only where there is a screen
        if app.process.stdout_is_terminal() {
            app.process.write_out(b"\x1b[2J\x1b[H")?;
        }
        app.print(drawn(app, &report, layout, empty))?;
        if report.tasks.is_empty() {
            return Ok(0);
        }
        tokio::time::sleep(REDRAW).await;
    }
}

/// Never starts a daemon and never complains: a shell asks while a person types.
async fn ids(app: &App, view: ListView) -> Result<u8> {
    let Ok(project) = Project::find(&app.process, app.process.cwd()) else { return Ok(0) };
    let state = StateDir::for_project(&app.process, &project.root)?;
    let Ok(Found::Running(client, _)) = background::look(app, &state).await else { return Ok(0) };
    let params = ListParams { view, ..ListParams::default() };
    let Ok(report) = client.call::<rpc::List>(&params, |_| {}).await else { return Ok(0) };
    for task in &report.tasks {
        app.process.out_line(render::list::display_id(task))?;
    }
    Ok(0)
}
