//! `lazy upgrade`: everything new is made and tried beside what is in use; only then does it take its place.

use std::path::PathBuf;

use super::{Images, Sources};
use crate::base::{Error, Result};
use crate::model::RunnerKind;
use crate::runner::image::{self, Freshness, Staged, freshness};
use crate::runner::install::{self, State};
use crate::setup::credential;

/// What an upgrade would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Which files decide.
    pub sources: Sources,
    /// The image, and how it stands; `None` where tasks run as host processes.
    pub image: Option<String>,
    /// The agent's program, and how it stands.
    pub program: String,
    /// The project's containers that run and are left alone.
    pub running: Vec<String>,
}

/// New parts, tried and not in use yet.
#[derive(Debug)]
pub struct Prepared {
    staged: Option<Staged>,
}

/// What an upgrade did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgraded {
    /// The image's name and id.
    pub image: Option<(String, String)>,
    /// The agent's program that new containers mount.
    pub program: PathBuf,
    /// Installs that nobody used any more and that are gone.
    pub collected: Vec<PathBuf>,
    /// What could not be tidied up, in words.
    pub warnings: Vec<String>,
}

impl Images {
    /// Refuses when the daemon that this environment would start had no credential.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] with the ways to get one.
    pub fn require_credential(&self) -> Result<()> {
        if self.loaded.config.ollama.enabled || credential::variable(&self.process).is_some() {
            return Ok(());
        }
        let names = credential::VARIABLES.join(" nor ");
        let error = Error::unavailable(format!(
            "the daemon could not be started again from here: neither {names} is set. Nothing was changed"
        ));
        Err(credential::remedies().into_iter().fold(error, Error::hint))
    }

    /// What an upgrade would do. Nothing is touched.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] when the engine does not answer.
    pub async fn plan(&self) -> Result<Plan> {
        let name = self.recipe.name();
        let image = match self.has_containers() {
            false => None,
            true => Some(match freshness(self.engine()?, &self.recipe).await? {
                Freshness::Missing => format!("{name}: there is none yet"),
                Freshness::Outdated(_) => format!("{name}: from before the last change of what it is made of"),
                Freshness::Old(_, age) => format!("{name}: {} days old", age.as_secs() / 86_400),
                Freshness::Current(_) => format!("{name}: up to date"),
            }),
        };
        let program = match self.installs.state().await? {
            State::Installed(install) => format!("{}: installed", install.path.display()),
            State::Absent(install) => format!("{}: not installed yet", install.path.display()),
            State::Damaged(install, why) => format!("{}: damaged, {why}", install.path.display()),
        };
        let running = if self.has_containers() { self.running().await? } else { Vec::new() };
        Ok(Plan { sources: self.sources(), image, program, running })
    }

    /// Makes and tries what is new. What is in use stays in use.
    ///
    /// # Errors
    /// Why the program or the image cannot be used; then nothing was changed.
    pub async fn prepare_upgrade(&self, say: &mut (dyn FnMut(&str) + Send)) -> Result<Prepared> {
        let install = self.installs.prepare().await?;
        say(&format!("program: {} passes its selfcheck", install.path.display()));
        let staged = match self.has_containers() {
            true => Some(image::stage(self.engine()?, &self.recipe, &install, say).await?),
            false => None,
        };
        Ok(Prepared { staged })
    }

    /// Throws away what was prepared.
    pub async fn give_up(&self, prepared: Prepared) {
        if let Some(staged) = prepared.staged {
            staged.discard().await;
        }
    }

    /// Takes away what an upgrade that was interrupted left.
    pub async fn clear_staging(&self) {
        if let Some(engine) = &self.engine {
            image::discard_staging(engine, &self.recipe).await;
        }
    }

    /// Puts what was prepared in the place of what is in use.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] when the engine does not name the image anew: then the old one still is in
    /// use.
    pub async fn promote(&self, prepared: Prepared) -> Result<Upgraded> {
        let image = match prepared.staged {
            Some(staged) => Some(staged.promote().await?).map(|image| (image.reference, image.id)),
            None => None,
        };
        let install = self.installs.ensure().await?;
        Ok(Upgraded { image, program: install.path, collected: Vec::new(), warnings: Vec::new() })
    }

    /// Removes installs that nobody uses any more. Call it once the daemon of before is gone: it holds its own.
    pub async fn collect(&self, upgraded: &mut Upgraded) {
        let collected = async { self.installs.collect(&install::mounted(&self.process).await?).await };
        match collected.await {
            Ok(paths) => upgraded.collected = paths,
            Err(error) => upgraded.warnings.push(format!("older programs were left: {}", error.full_message())),
        }
    }

    fn has_containers(&self) -> bool {
        self.loaded.config.runner.kind != RunnerKind::Host
    }
}
