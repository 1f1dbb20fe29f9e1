//! `lazy doctor`.

use argh::{ArgsInfo, FromArgs};

use crate::base::{Kind, Result};
use crate::cli::app::App;
use crate::cli::background::{self, Found};
use crate::cli::render;
use crate::cli::table::Run;
use crate::config::project::Project;
use crate::rpc::StateDir;
use crate::rpc::commands::{Empty, SystemStatus};
use crate::setup::{self, DaemonFacts};

/// check what lazy needs, and say what is missing
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Doctor {
    /// print the checks as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Doctor {
    async fn run(self, app: App) -> Result<u8> {
        let project = match Project::find(&app.process, app.process.cwd()) {
            Ok(project) => Some(project),
            Err(error) if error.kind() == Kind::NotFound => None,
            Err(error) => return Err(error),
        };
        let facts = match &project {
            Some(project) => daemon_facts(&app, project).await,
            None => None,
        };
        let report = setup::doctor(&app.process, project.as_ref(), facts.as_ref()).await;
        if self.json {
            app.print_json(&report)?;
        } else {
            app.print(render::setup::doctor(&report, app.style))?;
        }
        Ok(u8::from(report.failures() > 0))
    }
}

/// What a running daemon says; a doctor starts nothing.
async fn daemon_facts(app: &App, project: &Project) -> Option<DaemonFacts> {
    let state = StateDir::for_project(&app.process, &project.root).ok()?;
    let Ok(Found::Running(client, status)) = background::look(app, &state).await else { return None };
    let system = client.call::<SystemStatus>(&Empty {}, |_| {}).await.ok();
    Some(DaemonFacts {
        pid: status.pid,
        version: status.version.clone(),
        binaries: background::own_id(app, &status).map(|own| (status.binary_id.clone(), own)),
        port: status.web_port,
        credential: system.and_then(|report| report.credential),
    })
}
