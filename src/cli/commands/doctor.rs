//! `lazy doctor`.

use argh::{ArgsInfo, FromArgs};

use super::remedy::{self, Manner};
use crate::base::{Error, Kind, Result};
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
    /// instead, remove images of containers that nothing needs any more
    #[argh(switch)]
    clean_docker_images: bool,
    /// instead, remove containers whose task or project is gone
    #[argh(switch)]
    clean_orphaned_containers: bool,
    /// instead, remove worktrees of finished tasks; those with uncommitted changes stay
    #[argh(switch)]
    clean_worktrees: bool,
    /// with a remedy: only list what it would do
    #[argh(switch)]
    dry_run: bool,
    /// with a remedy: do not ask
    #[argh(switch, short = 'y')]
    yes: bool,
    /// print the checks as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Doctor {
    async fn run(self, app: App) -> Result<u8> {
        let manner = Manner::from_switches(self.dry_run, self.yes)?;
        let remedies = [self.clean_docker_images, self.clean_orphaned_containers, self.clean_worktrees];
        if remedies.iter().filter(|wanted| **wanted).count() > 1 {
            return Err(Error::usage("one remedy at a time").hint("lazy doctor --clean-docker-images"));
        }
        if self.clean_docker_images {
            return remedy::clean_images(&app, manner).await;
        }
        if self.clean_orphaned_containers {
            return remedy::clean_containers(&app, manner).await;
        }
        if self.clean_worktrees {
            return remedy::clean_worktrees(&app, manner).await;
        }
        if manner != Manner::Ask {
            return Err(
                Error::usage("--dry-run and --yes are for a remedy; looking changes nothing").hint("lazy doctor")
            );
        }
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
