//! Images: what a container starts from, built when it has to be.
//!
//! A [`Recipe`] is all that goes into an image: which Dockerfile, its build arguments, the authorities it trusts, and for
//! `FROM lazy-runner` the recipe of that. Its hash is a label of the image, so that one look says whether the image is
//! what the recipe asks for.
//!
//! | image | from |
//! | --- | --- |
//! | `lazy-runner:<major.minor>`, also `latest` | the built-in Dockerfile |
//! | `lazy-custom-<12 hex of blake3 of its text>:<major.minor>` | `LAZY_DOCKERFILE_LAZY`, else `[docker] dockerfile` |
//! | `…-building` | the last build of either; what fails its check stays here, for its layers |
//! | `…-upgrade` | made by `lazy upgrade`, until it is promoted |
//!
//! Invariants
//! - In the usual case [`ensure`] is one question to the engine: the image is there, its hash is right, it is younger
//!   than [`MAX_AGE`], and this install was tried in it before.
//! - No image gets its name before lazy's program ran in it, and git and the agent's program were found in it.
//! - One build of a name at a time: a second caller, in whatever process, waits, says so, and uses the result.
//! - A build that fails for want of a network leaves a task with the image of before, and a warning. An image that only
//!   grew old is used, with a warning, whatever the failure; one whose Dockerfile changed and does not build is not.
//! - Nothing here needs buildx. Only images with lazy's label are ever removed.
//!
//! Files owned: `~/.lazy/run/images/<engine>-<name>.lock` and `.tried`, `<image>-<install>-<agent>.checked`.

mod build;
mod check;
mod clean;
mod dockerfile;
mod freshness;
mod inspect;
mod lock;
mod progress;
mod recipe;
mod upgrade;

use std::time::Duration;

use crate::base::Result;
use crate::runner::engine::Engine;
use crate::runner::install::Install;

pub use build::{Layers, rebuild};
pub use clean::{Disposal, Listed, list, remove};
pub use freshness::{Freshness, MAX_AGE, freshness};
pub use recipe::{BUILTIN, Origin, Recipe};
pub use upgrade::{Staged, discard_staging, stage};

/// The longest a build may take.
pub const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
/// The label that holds a recipe's hash.
pub const HASH_LABEL: &str = "lazy.dockerfile.hash";
/// The label that says which Dockerfile: `built-in`, or its path; [`STAGE`] for what a build left on its way.
pub const ORIGIN_LABEL: &str = "lazy.dockerfile";
/// What [`ORIGIN_LABEL`] says of a stage of the built-in Dockerfile that the builder kept as an image.
pub const STAGE: &str = "stage";

/// Somebody who hears short lines of progress: `image: step 3/9: RUN apt-get …`.
pub type Say<'a> = &'a mut (dyn FnMut(&str) + Send);

/// An image to start containers from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// How the engine is told which: `lazy-runner:0.1`, with podman `localhost/lazy-runner:0.1`.
    pub reference: String,
    /// The engine's id of it.
    pub id: String,
    /// The user its containers start as; `None` is root.
    pub user: Option<String>,
    /// What the caller should be told: the image is old and could not be built anew, and the like.
    pub warnings: Vec<String>,
}

/// The image of a recipe, built when it is missing, made from another recipe, or older than [`MAX_AGE`]; checked with
/// this install.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] when the engine does not answer, the build fails with nothing to fall back to,
/// lazy's program does not run in the image (the remedy is a hint), or git or the agent's program is not in it.
pub async fn ensure(engine: &Engine, recipe: &Recipe, install: &Install, say: Say<'_>) -> Result<Image> {
    build::ensure(engine, recipe, install, say).await
}

#[cfg(test)]
mod tests;
