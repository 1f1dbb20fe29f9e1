//! Whether the image there is will do.

use std::time::Duration;

use super::Image;
use super::inspect::{self, Found};
use super::recipe::Recipe;
use crate::base::{Millis, Result};
use crate::runner::engine::Engine;

/// An image older than this is built anew, without old layers: its packages have aged.
pub const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// How an image stands to its recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Freshness {
    /// It will do.
    Current(Image),
    /// It is what the recipe asks for, and so old (the duration) that it is built anew.
    Old(Image, Duration),
    /// It was made from another recipe.
    Outdated(Image),
    /// There is none.
    Missing,
}

/// How a recipe's image is. Nothing is built.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] when the engine does not answer.
pub async fn freshness(engine: &Engine, recipe: &Recipe) -> Result<Freshness> {
    let reference = recipe.reference(engine.kind());
    let Some(found) = inspect::one(engine, &reference).await? else { return Ok(Freshness::Missing) };
    Ok(judge(&found, &reference, recipe, engine.process().now()))
}

/// The same for an image that was looked at.
pub(super) fn judge(found: &Found, reference: &str, recipe: &Recipe, now: Millis) -> Freshness {
    let image = image(found, reference);
    if found.hash.as_deref() != Some(recipe.hash()) {
        return Freshness::Outdated(image);
    }
    match found.created.map(|created| now.since(created)) {
        Some(age) if age > MAX_AGE => Freshness::Old(image, age),
        _ => Freshness::Current(image),
    }
}

pub(super) fn image(found: &Found, reference: &str) -> Image {
    Image { reference: reference.to_string(), id: found.id.clone(), user: found.user.clone(), warnings: Vec::new() }
}

/// `17 days`.
pub(super) fn days(age: Duration) -> String {
    crate::base::text::plural(usize::try_from(age.as_secs() / 86_400).unwrap_or(usize::MAX), "day")
}
