//! Checks of what containers are made of: the image, and the program that they mount.

use super::Check;
use crate::base::Process;
use crate::base::text::plural;
use crate::config::{Loaded, Project};
use crate::runner::engine::Engine;
use crate::runner::image::{self, Disposal, Freshness, Recipe, STAGE};
use crate::runner::install::{Installs, State};

const EXISTS: &str = "Container image exists";
const CURRENT: &str = "Container image up to date";

pub(super) async fn checks(process: &Process, engine: &Engine, loaded: &Loaded, project: &Project) -> Vec<Check> {
    let agent = &loaded.config.agent.agent_id;
    let recipe = match Recipe::for_project(process, &loaded.config, &project.root, agent) {
        Ok(recipe) => recipe,
        Err(error) => return vec![Check::error(EXISTS, &error)],
    };
    let found = match image::freshness(engine, &recipe).await {
        Ok(found) => found,
        Err(error) => return vec![Check::error(EXISTS, &error)],
    };
    let name = recipe.name();
    let there = Check::ok(EXISTS, name.clone());
    let mut checks = match found {
        Freshness::Missing => vec![
            Check::warn(EXISTS, format!("there is no {name} yet; the first start builds it, which takes minutes"))
                .hint("lazy system build"),
        ],
        Freshness::Outdated(_) => vec![
            there,
            Check::warn(CURRENT, "what it is made of changed since; the next start builds it anew")
                .hint("lazy system build"),
        ],
        Freshness::Old(_, age) => {
            let days = age.as_secs() / 86_400;
            let detail = format!("it is {days} days old; the next start builds it anew");
            vec![there, Check::warn(CURRENT, detail).hint("lazy system build --no-cache")]
        }
        Freshness::Current(_) => vec![there, Check::ok(CURRENT, "")],
    };
    checks.extend(stale(engine, &recipe).await);
    checks
}

async fn stale(engine: &Engine, recipe: &Recipe) -> Option<Check> {
    const LABEL: &str = "Stale images";
    let all = image::list(engine, std::slice::from_ref(recipe)).await.ok()?;
    let unused: Vec<_> =
        all.iter().filter(|image| image.disposal == Disposal::Removable && image.origin != STAGE).collect();
    if unused.is_empty() {
        return None;
    }
    let bytes: u64 = unused.iter().map(|image| image.size).sum();
    let detail =
        format!("{} that nothing needs, {} MB with what they share", plural(unused.len(), "image"), bytes / 1_000_000);
    Some(Check::warn(LABEL, detail).hint("lazy doctor --clean-docker-images"))
}

/// The program that containers mount.
pub(super) async fn program(process: &Process) -> Check {
    const LABEL: &str = "Agent binary";
    let state = match Installs::new(process) {
        Ok(installs) => installs.state().await,
        Err(error) => Err(error),
    };
    match state {
        Ok(State::Installed(install)) => Check::ok(LABEL, install.path.display().to_string()),
        Ok(State::Absent(_)) => Check::ok(LABEL, "not installed yet; the first start does it"),
        Ok(State::Damaged(install, why)) => {
            let detail = format!("{}: {why}; the next start replaces it", install.path.display());
            Check::warn(LABEL, detail).hint("lazy upgrade")
        }
        Err(error) => Check::error(LABEL, &error),
    }
}
