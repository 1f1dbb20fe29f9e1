//! `lazy watch`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{follow, render};
use crate::model::Status;
use crate::rpc::commands::{self as rpc, ListParams, ListView, WatchEvent};

/// watch a turn as it happens; leaving does not touch the task
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Watch {
    /// the task; without one, the only task that works
    #[argh(positional)]
    task: Option<String>,
    /// one event a line as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Watch {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let session = Session::open(&app, form.talk()).await?;
        let task = match self.task {
            Some(task) => task,
            None => only_working(&session).await?,
        };
        let mut seen = false;
        let status = follow::events(&session, &task, |event| {
            let rests = matches!(event, WatchEvent::Status { status } if !is_on_its_way(*status));
            match form {
                Form::Json => app.print_json(event),
                // the last line tells where the task stands
                Form::Text if rests => Ok(()),
                Form::Text => {
                    seen = true;
                    app.print(render::watch::live(event, app.style))
                }
            }
        })
        .await?;
        if form == Form::Text {
            let id = app.style.id(&task);
            let status = app.style.of(status);
            app.print(if seen {
                format!("Task {id} is now {status}")
            } else {
                format!("Task {id} is {status}; no turn is running")
            })?;
        }
        Ok(0)
    }
}

fn is_on_its_way(status: Status) -> bool {
    matches!(status, Status::Working | Status::Queued | Status::Merging)
}

async fn only_working(session: &Session) -> Result<String> {
    let params = ListParams { view: ListView::Active, ..ListParams::default() };
    let report = session.call_quietly::<rpc::List>(&params).await?;
    let working: Vec<String> =
        report.tasks.iter().filter(|task| task.status == Status::Working).map(render::list::display_id).collect();
    match &working[..] {
        [one] => Ok(one.clone()),
        [] => Err(Error::not_found("no task is working").hint("lazy list")),
        many => Err(many
            .iter()
            .fold(Error::usage(format!("{} tasks are working; watch which one?", many.len())), |error, task| {
                error.hint(format!("lazy watch {task}"))
            })),
    }
}
