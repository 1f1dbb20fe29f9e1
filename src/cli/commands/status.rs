//! `lazy status`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::Result;
use crate::cli::app::App;
use crate::cli::render;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::rpc::commands as rpc;

/// a task's worktree, and what may be done next
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct TaskState {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for TaskState {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let session = Session::open(&app, form.talk()).await?;
        let report = session.call_quietly::<rpc::TaskStatus>(&rpc::TaskParams { task: self.task }).await?;
        super::list::warn_damaged(&app, &report.damaged);
        match form {
            Form::Json => app.print_json(&report)?,
            Form::Text => app.print(render::status::task(&report, app.style))?,
        }
        Ok(0)
    }
}
