//! Images that lazy made and nobody needs any more.

use std::collections::BTreeSet;
use std::fs;

use super::BUILD_LIMIT;
use super::inspect::{self, Found};
use super::recipe::{self, Recipe};
use crate::base::{Millis, Result};
use crate::runner::engine::{Engine, QUERY};

/// An image that lazy made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The engine's id.
    pub id: String,
    /// Its names; none for one whose name a newer image took.
    pub names: Vec<String>,
    /// When it was made.
    pub created: Option<Millis>,
    /// Bytes, layers that it shares with others included.
    pub size: u64,
    /// Which Dockerfile it was made from: `built-in`, or a path.
    pub origin: String,
    /// What may become of it.
    pub disposal: Disposal,
}

/// What may become of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposal {
    /// The recipe of today names it, or is based on it.
    Needed,
    /// Containers were made from it.
    InUse,
    /// Nothing needs it.
    Removable,
}

/// Every image that lazy made, newest first. `recipes` are those in force: what they name is needed; and so is what a
/// Dockerfile of another project still says.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] when the engine does not answer.
pub async fn list(engine: &Engine, recipes: &[Recipe]) -> Result<Vec<Listed>> {
    let kind = engine.kind();
    let with_bases = recipes.iter().flat_map(|recipe| [Some(recipe), recipe.base.as_deref()]).flatten();
    let needed: BTreeSet<String> = with_bases.map(|recipe| recipe.reference(kind)).collect();
    let containers = engine.text(["ps", "--all", "--quiet", "--no-trunc"], QUERY, "list containers").await?;
    let ids: Vec<&str> = containers.lines().map(str::trim).filter(|id| !id.is_empty()).collect();
    let mut used = BTreeSet::new();
    if !ids.is_empty() {
        // One may vanish between the two questions; what is known of the others is on standard output all the same.
        let args = ["inspect", "--type", "container", "--format", "{{.Image}}"];
        let output = engine.run(args.into_iter().chain(ids), QUERY).await?;
        used.extend(output.stdout_text().lines().map(|id| bare(id).to_string()));
    }
    let found = inspect::every(engine).await?;
    Ok(found
        .into_iter()
        .map(|image| {
            let disposal = match () {
                () if image.tags.iter().any(|tag| needed.contains(tag)) => Disposal::Needed,
                () if is_of_today(&image) || is_under_way(&image, engine.process().now()) => Disposal::Needed,
                () if used.contains(bare(&image.id)) => Disposal::InUse,
                () => Disposal::Removable,
            };
            Listed {
                id: image.id,
                names: image.tags,
                created: image.created,
                size: image.size,
                origin: image.origin.unwrap_or_default(),
                disposal,
            }
        })
        .collect())
}

/// Removes an image with all its names. One that is gone is as good.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] with the engine's reason, such as another image made from it.
pub async fn remove(engine: &Engine, image: &Listed) -> Result<()> {
    for name in image.names.iter().filter(|name| !name.contains("<none>")) {
        engine.run(["rmi", name], QUERY).await?;
    }
    if inspect::one(engine, &image.id).await?.is_none() {
        return Ok(());
    }
    let what = image.names.first().unwrap_or(&image.id);
    engine.text(["rmi", &image.id], QUERY, &format!("remove the image {what}")).await.map(drop)
}

/// Whether the Dockerfile that an image was made from says the same today, and the image has its final name.
fn is_of_today(image: &Found) -> bool {
    let wanted = match image.origin.as_deref() {
        Some("built-in") => recipe::builtin_name(),
        Some(path) => match fs::read(path) {
            Ok(text) => recipe::custom_name(&text),
            Err(_) => return false,
        },
        None => return false,
    };
    image.tags.iter().any(|tag| tag.strip_prefix("localhost/").unwrap_or(tag) == wanted)
}

/// Whether somebody may be building or upgrading this very image now.
fn is_under_way(image: &Found, now: Millis) -> bool {
    let young = image.created.is_none_or(|created| now.since(created) < BUILD_LIMIT + BUILD_LIMIT);
    young && image.tags.iter().any(|tag| tag.ends_with("-building") || tag.ends_with("-upgrade"))
}

fn bare(id: &str) -> &str {
    id.trim().trim_start_matches("sha256:")
}
