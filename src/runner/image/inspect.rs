//! What the engine knows of images.

use serde::Deserialize;

use super::{HASH_LABEL, ORIGIN_LABEL};
use crate::base::{Error, Kind, Millis, Result};
use crate::runner::engine::{Engine, QUERY};

/// An image there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub id: String,
    pub tags: Vec<String>,
    pub user: Option<String>,
    /// The recipe it was made from; `None` for one that lazy did not make.
    pub hash: Option<String>,
    pub origin: Option<String>,
    /// `None` when the engine's word for it cannot be read.
    pub created: Option<Millis>,
    pub size: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Raw {
    id: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    created: Option<String>,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    config: Option<RawConfig>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct RawConfig {
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    labels: Option<std::collections::BTreeMap<String, String>>,
}

/// One image by name or id; `None` when there is none.
pub(super) async fn one(engine: &Engine, reference: &str) -> Result<Option<Found>> {
    let output = engine.run(["image", "inspect", reference], QUERY).await?;
    if output.success() {
        return Ok(parse(&output.stdout)?.into_iter().next());
    }
    let said = output.stderr_text().to_lowercase();
    let absent = ["no such image", "not known", "no such object", "unable to find", "image not found"];
    match absent.iter().any(|words| said.contains(words)) {
        true => Ok(None),
        false => Err(engine.refusal(&output, &format!("look at the image {reference}"))),
    }
}

/// Every image that lazy made, newest first, also those without a name and kept stages of builds.
pub(super) async fn every(engine: &Engine) -> Result<Vec<Found>> {
    let filter = format!("label={ORIGIN_LABEL}");
    let ids = engine.text(["images", "--quiet", "--no-trunc", "--filter", &filter], QUERY, "list images").await?;
    let mut ids: Vec<&str> = ids.lines().map(str::trim).filter(|id| !id.is_empty()).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    // One may vanish between the two questions: what was found of the others is on standard output all the same.
    let output = engine.run(["image", "inspect"].into_iter().chain(ids), QUERY).await?;
    let mut found = parse(&output.stdout)?;
    found.retain(|image| image.origin.is_some());
    found.sort_by_key(|image| std::cmp::Reverse(image.created));
    Ok(found)
}

fn parse(bytes: &[u8]) -> Result<Vec<Found>> {
    let raw: Vec<Raw> = serde_json::from_slice(bytes).map_err(|source| {
        Error::new(Kind::Unavailable, "the engine's description of an image cannot be read").caused_by(source)
    })?;
    Ok(raw.into_iter().map(Found::from).collect())
}

impl From<Raw> for Found {
    fn from(raw: Raw) -> Found {
        let config = raw.config.unwrap_or_default();
        let mut labels = config.labels.unwrap_or_default();
        Found {
            id: raw.id,
            tags: raw.repo_tags.unwrap_or_default(),
            user: config.user.filter(|user| !user.is_empty()),
            hash: labels.remove(HASH_LABEL),
            origin: labels.remove(ORIGIN_LABEL),
            created: raw.created.as_deref().and_then(Millis::parse).filter(|at| at.0 > 0),
            size: raw.size.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_answers_are_read() {
        let docker = br#"[{"Id":"sha256:ab","RepoTags":["lazy-runner:0.1"],"Created":"2026-12-01T04:01:34.859642645Z",
            "Config":{"User":"user","Labels":{"lazy.dockerfile.hash":"h","lazy.dockerfile":"built-in","x":"y"}},"Size":7}]"#;
        let found = parse(docker).expect("reads").remove(0);
        assert_eq!(
            (found.id.as_str(), found.user.as_deref(), found.hash.as_deref()),
            ("sha256:ab", Some("user"), Some("h"))
        );
        assert_eq!(found.created, Millis::parse("2026-12-01T04:01:34.859Z"));
        let podman = br#"[{"Id":"ab","RepoTags":null,"Created":"0001-01-01T00:00:00Z","Config":{},"Labels":null}]"#;
        let found = parse(podman).expect("reads").remove(0);
        assert_eq!((found.user, found.hash, found.created), (None, None, None));
        assert_eq!(parse(b"oops").expect_err("no JSON").kind(), Kind::Unavailable);
    }
}
