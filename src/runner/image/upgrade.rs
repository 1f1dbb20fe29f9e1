//! A new image beside the one in use, promoted later or thrown away.

use super::build::{self, Layers};
use super::freshness;
use super::inspect;
use super::recipe::Recipe;
use super::{Image, Say, lock};
use crate::base::Result;
use crate::base::lock::FileLock;
use crate::runner::engine::{Engine, QUERY};
use crate::runner::install::Install;

/// A checked image under its staging tag. Nobody else builds the same name while this exists.
#[derive(Debug)]
pub struct Staged {
    engine: Engine,
    recipe: Recipe,
    image: Image,
    _lock: FileLock,
}

/// Builds a recipe's image without old layers, checks it with this install, and tags it `<name>-upgrade`. What is in
/// use stays as it is.
///
/// # Errors
/// As [`super::rebuild`].
pub async fn stage(engine: &Engine, recipe: &Recipe, install: &Install, say: Say<'_>) -> Result<Staged> {
    let lock = lock::take(engine.process(), engine.kind(), &recipe.name(), say).await?;
    say(&format!("image: building {}", recipe.name()));
    let found = build::checked_build(engine, recipe, install, Layers::Fresh, say).await?;
    let tag = staging(engine, recipe);
    engine.text(["tag", &found.id, &tag], QUERY, &format!("name the image {tag}")).await?;
    let image = freshness::image(&found, &tag);
    Ok(Staged { engine: engine.clone(), recipe: recipe.clone(), image, _lock: lock })
}

impl Staged {
    /// The image, under its staging tag.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Gives it its name; the one of before is removed unless containers still use it.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] when the engine does not; then the old image still has the name.
    pub async fn promote(self) -> Result<Image> {
        let (engine, recipe) = (&self.engine, &self.recipe);
        let reference = recipe.reference(engine.kind());
        let before = inspect::one(engine, &reference).await?;
        build::name(engine, recipe, &self.image.id).await?;
        lock::forget_failure(engine.process(), engine.kind(), recipe);
        build::prune_stages(engine).await;
        engine.run(["rmi", "--no-prune", &staging(engine, recipe)], QUERY).await.ok();
        if let Some(before) = before.filter(|before| before.id != self.image.id && before.hash.is_some()) {
            engine.run(["rmi", &before.id], QUERY).await.ok();
        }
        Ok(Image { reference, ..self.image.clone() })
    }

    /// Throws it away.
    pub async fn discard(self) {
        discard_staging(&self.engine, &self.recipe).await;
    }
}

/// Removes what an upgrade left that was broken off.
pub async fn discard_staging(engine: &Engine, recipe: &Recipe) {
    engine.run(["rmi", &staging(engine, recipe)], QUERY).await.ok();
}

fn staging(engine: &Engine, recipe: &Recipe) -> String {
    format!("{}-upgrade", recipe.reference(engine.kind()))
}
