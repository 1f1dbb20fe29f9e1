//! `lazy upgrade`.

use argh::{ArgsInfo, FromArgs};

use super::daemon;
use super::image::{containers, narrated};
use crate::base::{Error, Kind, Result};
use crate::cli::app::App;
use crate::cli::background;
use crate::cli::progress::Talk;
use crate::cli::render;
use crate::cli::session;
use crate::cli::table::Run;
use crate::rpc::StateDir;
use crate::setup::images::{Images, Plan, Upgraded};

/// build the image anew, install this program for containers, and restart the daemon with it
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Upgrade {
    /// only say what would be done
    #[argh(switch)]
    dry_run: bool,
    /// do not ask about tasks that are working
    #[argh(switch)]
    force: bool,
    /// only image and program; the daemon stays as it is
    #[argh(switch)]
    images: bool,
}

impl Run for Upgrade {
    async fn run(self, app: App) -> Result<u8> {
        let project = session::project(&app).await?;
        let state = StateDir::for_project(&app.process, &project.root)?;
        let images = Images::open(&app.process, &project)?;
        let restarts = !self.images && state.is_daemon_running();
        if restarts {
            images.require_credential()?;
        }
        let sources = images.sources();
        app.print(format!("Config:     {}", sources.config))?;
        app.print(format!("Dockerfile: {}", sources.dockerfile))?;
        let plan = images.plan().await?;
        if self.dry_run {
            let daemon = match (restarts, state.is_daemon_running()) {
                (true, _) => "would be restarted",
                (false, true) => "would be left alone",
                (false, false) => "does not run",
            };
            return tell(&app, &plan, daemon);
        }
        if restarts && !daemon::agrees(&app, &state, self.force, "Upgrade, and restart the daemon?").await? {
            return Ok(0);
        }
        let prepared = narrated(&app, Talk::Narrate, async |say| images.prepare_upgrade(say).await).await;
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                images.clear_staging().await;
                return Err(unchanged(error));
            }
        };
        let mut upgraded = images.promote(prepared).await?;
        let url = if restarts { Some(restart(&app, &state).await?) } else { None };
        images.collect(&mut upgraded).await;
        summary(&app, &plan, &upgraded, url.as_deref())?;
        Ok(0)
    }
}

/// What a failure before anything was promoted leaves: nothing.
fn unchanged(error: Error) -> Error {
    if error.kind() == Kind::Canceled {
        return Error::new(Kind::Canceled, "the upgrade was given up; nothing was changed");
    }
    let message = format!("nothing was upgraded: {}", error.full_message());
    error.hints().iter().fold(Error::new(error.kind(), message), |changed, hint| changed.hint(hint.as_str()))
}

async fn restart(app: &App, state: &StateDir) -> Result<String> {
    let restarted = async {
        daemon::stop(app, state).await?;
        background::ensure(app, state, Talk::Narrate).await
    };
    match restarted.await {
        Ok((_, status)) => Ok(render::daemon::url(&status)),
        Err(error) => {
            let message =
                format!("image and program were upgraded, and the daemon did not come back: {}", error.full_message());
            Err(Error::new(error.kind(), message).hint("lazy daemon start").hint("lazy daemon logs"))
        }
    }
}

fn tell(app: &App, plan: &Plan, daemon: &str) -> Result<u8> {
    match &plan.image {
        Some(image) => app.print(format!("Image:      {image}; would be built anew"))?,
        None => app.print("Image:      none; tasks run as host processes")?,
    }
    app.print(format!("Program:    {}", plan.program))?;
    app.print(format!("Daemon:     {daemon}"))?;
    if !plan.running.is_empty() {
        app.print(format!(
            "{} would go on with what they have: {}",
            containers(&plan.running),
            plan.running.join(", ")
        ))?;
    }
    Ok(0)
}

fn summary(app: &App, plan: &Plan, upgraded: &Upgraded, url: Option<&str>) -> Result<()> {
    if let Some((name, id)) = &upgraded.image {
        let id = id.trim_start_matches("sha256:");
        app.print(format!("Image:      {} ({})", app.style.id(name), &id[..id.len().min(12)]))?;
    }
    app.print(format!("Program:    {}", upgraded.program.display()))?;
    if let Some(url) = url {
        app.print(format!("Daemon:     {url}"))?;
    }
    for path in &upgraded.collected {
        app.print(format!("Removed:    {}", path.display()))?;
    }
    if !plan.running.is_empty() {
        let names = plan.running.join(", ");
        app.print(format!("{} go on with what they were started with: {names}", containers(&plan.running)))?;
    }
    app.warn_all(&upgraded.warnings);
    Ok(())
}
