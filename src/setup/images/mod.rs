//! The image and the agent's program of a project, without its daemon: building, looking, upgrading, cleaning.

mod clean;
mod export;
mod upgrade;

use std::path::PathBuf;

use serde::Serialize;

use crate::base::{Error, Process, Result};
use crate::config::{self, Config, Loaded, Project};
use crate::model::RunnerKind;
use crate::runner::engine::{Engine, container};
use crate::runner::image::{self, Origin, Recipe};
use crate::runner::install::Installs;

pub use crate::runner::image::{Disposal, Layers, Listed};
pub use export::{Existing, Exported, dockerfile, export};
pub use upgrade::{Plan, Prepared, Upgraded};

/// The engine, the recipe and the installs of one project.
#[derive(Debug, Clone)]
pub struct Images {
    process: Process,
    project: Project,
    loaded: Loaded,
    engine: Option<Engine>,
    recipe: Recipe,
    installs: Installs,
}

/// Which files decide about the image, in words, what overrides them marked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sources {
    /// The configuration file.
    pub config: String,
    /// The Dockerfile.
    pub dockerfile: String,
}

/// What `lazy system build` made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuildReport {
    /// `docker` or `podman`.
    pub engine: String,
    /// The image's name, as the engine is told it.
    pub image: String,
    /// The engine's id of it.
    pub id: String,
    /// The hash of all that went into it.
    pub hash: String,
    /// Which Dockerfile, in words.
    pub dockerfile: String,
    /// The agent's program it was tried with.
    pub agent_binary: PathBuf,
    /// Milliseconds.
    pub duration_ms: u64,
}

impl Images {
    /// For a project, under its configuration. Where tasks run as host processes, the image is that of the engine that
    /// is installed; what needs one refuses without it.
    ///
    /// # Errors
    /// What does not load of the configuration or the recipe.
    pub fn open(process: &Process, project: &Project) -> Result<Images> {
        let loaded = config::load_for_daemon(process, &project.root)?;
        let engine = engine(process, &loaded.config);
        let recipe = Recipe::for_project(process, &loaded.config, &project.root, &loaded.config.agent.agent_id)?;
        let installs = Installs::new(process)?;
        Ok(Images { process: process.clone(), project: project.clone(), loaded, engine, recipe, installs })
    }

    /// Which files decide.
    pub fn sources(&self) -> Sources {
        sources(&self.process, &self.loaded, self.recipe.origin())
    }

    /// Builds the project's image, whatever there is, and checks it with this program.
    ///
    /// # Errors
    /// Why it could not be built, or does not pass its check.
    pub async fn build(&self, layers: Layers, say: &mut (dyn FnMut(&str) + Send)) -> Result<BuildReport> {
        let begun = std::time::Instant::now();
        let install = self.installs.ensure().await?;
        let image = image::rebuild(self.engine()?, &self.recipe, &install, layers, say).await?;
        Ok(BuildReport {
            engine: self.engine()?.kind().to_string(),
            image: image.reference,
            id: image.id,
            hash: self.recipe.hash().to_string(),
            dockerfile: self.sources().dockerfile,
            agent_binary: install.path,
            duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn engine(&self) -> Result<&Engine> {
        self.engine.as_ref().ok_or_else(|| {
            Error::unavailable(
                "there is no image here: tasks run as host processes, and neither docker nor podman is in PATH",
            )
            .hint("apt-get install docker.io")
        })
    }

    /// The project's containers that run, by name.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] when the engine does not answer.
    pub async fn running(&self) -> Result<Vec<String>> {
        let label = format!("{}={}", container::PROJECT, self.project.root.display());
        let mut names: Vec<String> = self
            .engine()?
            .containers(&[label])
            .await?
            .into_iter()
            .filter(|container| container.running)
            .map(|container| container.name)
            .collect();
        names.sort();
        Ok(names)
    }
}

/// The engine that the configuration names, else the one that is installed.
fn engine(process: &Process, config: &Config) -> Option<Engine> {
    let installed = || {
        let kinds = [RunnerKind::Docker, RunnerKind::Podman].into_iter();
        kinds.filter_map(|kind| Engine::of(kind, process)).find(Engine::is_installed)
    };
    Engine::of(config.runner.kind, process).or_else(installed)
}

/// The files that decide about an image, in words.
pub(super) fn sources(process: &Process, loaded: &Loaded, origin: &Origin) -> Sources {
    let config = match (&loaded.path, process.var("LAZY_CONFIG")) {
        (Some(path), Some(_)) => format!("{} (from LAZY_CONFIG)", path.display()),
        (Some(path), None) => path.display().to_string(),
        (None, _) => "none, all is default".into(),
    };
    let dockerfile = match origin {
        Origin::BuiltIn => "built-in".into(),
        Origin::Configured(path) => path.display().to_string(),
        Origin::Override(path) => format!("{} (from LAZY_DOCKERFILE_LAZY)", path.display()),
    };
    Sources { config, dockerfile }
}

#[cfg(test)]
mod tests;
