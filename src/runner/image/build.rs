//! Building, and what is used when a build fails.

use std::fs;
use std::path::{Path, PathBuf};

use super::freshness::{self, Freshness, days};
use super::inspect::{self, Found};
use super::recipe::{Origin, Recipe, qualified};
use super::{BUILD_LIMIT, HASH_LABEL, Image, ORIGIN_LABEL, STAGE, Say, check, lock, progress};
use crate::base::{Error, Kind, Result, ResultExt};
use crate::model::RunnerKind;
use crate::proc::Cmd;
use crate::runner::engine::{Engine, QUERY};
use crate::runner::install::Install;

/// Whether layers of earlier builds may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layers {
    /// Those that fit.
    Reuse,
    /// None: everything is fetched anew.
    Fresh,
}

/// See [`super::ensure`].
pub(super) async fn ensure(engine: &Engine, recipe: &Recipe, install: &Install, say: Say<'_>) -> Result<Image> {
    if let Some(image) = usable(engine, recipe, install, freshness::freshness(engine, recipe).await?).await? {
        return Ok(image);
    }
    let _lock = lock::take(engine.process(), engine.kind(), &recipe.name(), say).await?;
    // Whoever held the lock may just have built it.
    let found = freshness::freshness(engine, recipe).await?;
    if let Some(image) = usable(engine, recipe, install, found.clone()).await? {
        return Ok(image);
    }
    let (layers, why) = match &found {
        Freshness::Old(_, age) => (Layers::Fresh, format!("it is {} old", days(*age))),
        Freshness::Outdated(_) => (Layers::Reuse, "what it is made of changed".into()),
        _ => (Layers::Reuse, "there is none yet".into()),
    };
    say(&format!("image: building {} ({why})", recipe.name()));
    match built(engine, recipe, install, layers, say).await {
        Ok(image) => Ok(image),
        Err(error) => instead(engine, recipe, install, found, error).await,
    }
}

/// Builds a recipe's image whatever there is, checks it and gives it its name.
///
/// # Errors
/// As [`super::ensure`], without anything to fall back to.
pub async fn rebuild(
    engine: &Engine,
    recipe: &Recipe,
    install: &Install,
    layers: Layers,
    say: Say<'_>,
) -> Result<Image> {
    let _lock = lock::take(engine.process(), engine.kind(), &recipe.name(), say).await?;
    say(&format!("image: building {}", recipe.name()));
    built(engine, recipe, install, layers, say).await
}

/// The image that was found, if it will do as it is.
async fn usable(engine: &Engine, recipe: &Recipe, install: &Install, found: Freshness) -> Result<Option<Image>> {
    let image = match found {
        Freshness::Current(image) => image,
        Freshness::Old(image, age) if lock::tried_lately(engine.process(), engine.kind(), recipe) => {
            let warning =
                format!("the image {} is {} old, and the last try to build it anew failed", recipe.name(), days(age));
            Image { warnings: vec![warning], ..image }
        }
        _ => return Ok(None),
    };
    check::require_usable(engine, recipe, install, &image.id).await?;
    Ok(Some(image))
}

/// Builds, checks, names. The caller holds the lock.
async fn built(engine: &Engine, recipe: &Recipe, install: &Install, layers: Layers, say: Say<'_>) -> Result<Image> {
    let reference = recipe.reference(engine.kind());
    let before = inspect::one(engine, &reference).await?;
    let found = checked_build(engine, recipe, install, layers, say).await?;
    name(engine, recipe, &found.id).await?;
    lock::forget_failure(engine.process(), engine.kind(), recipe);
    prune_stages(engine).await;
    if let Some(before) = before.filter(|before| before.id != found.id && before.hash.is_some()) {
        // One that containers still use stays until the next cleaning.
        engine.run(["rmi", &before.id], QUERY).await.ok();
    }
    Ok(freshness::image(&found, &reference))
}

/// Builds under the building tag, and checks what came out. Its base, if it is one of lazy's, is there first.
pub(super) async fn checked_build(
    engine: &Engine,
    recipe: &Recipe,
    install: &Install,
    layers: Layers,
    say: Say<'_>,
) -> Result<Found> {
    if let Some(base) = &recipe.base {
        Box::pin(ensure(engine, base, install, &mut *say)).await?;
    }
    let place = Place::prepare(recipe)?;
    if let Some(context) = &recipe.context {
        warn_of_context(context, &recipe.data_dir, say);
    }
    let doing = format!("build the image {}", recipe.name());
    let mut steps = progress::Steps::default();
    let cmd = command(engine, recipe, &place, layers);
    engine
        .narrated(cmd, BUILD_LIMIT, &doing, |line| {
            if let Some(step) = steps.hear(line) {
                say(&step);
            }
        })
        .await
        .map_err(|error| progress::without_small_talk(error, &doing))?;
    let id = fs::read_to_string(&place.id_file).io_context(|| format!("cannot {doing}: the engine named no result"))?;
    let found = inspect::one(engine, id.trim()).await?.ok_or_else(|| {
        Error::unavailable(format!("cannot {doing}: it was built somewhere else than where containers run"))
            .hint("docker buildx use default")
    })?;
    say("image: checking that lazy runs in it");
    check::require_usable(engine, recipe, install, &found.id).await?;
    Ok(found)
}

/// Gives an image its name, and takes the building tag away.
pub(super) async fn name(engine: &Engine, recipe: &Recipe, id: &str) -> Result<()> {
    let kind = engine.kind();
    let mut names = vec![recipe.reference(kind)];
    if recipe.origin == Origin::BuiltIn {
        names.push(qualified(kind, &format!("{}:latest", recipe.repository())));
    }
    for name in &names {
        engine.text(["tag", id, name], QUERY, &format!("name the image {name}")).await?;
    }
    engine.run(["rmi", "--no-prune", &building(recipe, kind)], QUERY).await.ok();
    Ok(())
}

/// Removes stages that earlier builds left. Those of the last minutes stay: another build may be using them.
pub(super) async fn prune_stages(engine: &Engine) {
    let label = format!("label={ORIGIN_LABEL}={STAGE}");
    let args = ["image", "prune", "--force", "--filter", &label, "--filter", "until=10m"];
    engine.run(args, QUERY * 6).await.ok();
}

fn building(recipe: &Recipe, kind: RunnerKind) -> String {
    format!("{}-building", recipe.reference(kind))
}

/// The files a build needs: a directory of its own with the id, and for the built-in Dockerfile the whole context.
struct Place {
    _dir: tempfile::TempDir,
    id_file: PathBuf,
    dockerfile: PathBuf,
    context: PathBuf,
}

impl Place {
    fn prepare(recipe: &Recipe) -> Result<Place> {
        let dir = tempfile::Builder::new()
            .prefix("lazy-image-")
            .tempdir()
            .io_context(|| "cannot make a temporary directory for the build".to_string())?;
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).io_context(|| format!("cannot write {}", path.display())).map(|()| path)
        };
        let id_file = dir.path().join("image-id");
        let (dockerfile, context) = match (&recipe.origin, &recipe.context) {
            (Origin::Configured(path) | Origin::Override(path), Some(context)) => (path.clone(), context.clone()),
            _ => {
                fs::create_dir(dir.path().join("context"))
                    .io_context(|| format!("cannot create a directory in {}", dir.path().display()))?;
                write("context/ca-certificates.pem", &recipe.certificates)?;
                (write("context/Dockerfile", recipe.text.as_bytes())?, dir.path().join("context"))
            }
        };
        Ok(Place { _dir: dir, id_file, dockerfile, context })
    }
}

/// The build as the engine is told it. Nothing in it needs buildx.
fn command(engine: &Engine, recipe: &Recipe, place: &Place, layers: Layers) -> Cmd {
    // A step that fails would leave its container behind.
    let mut cmd = engine.cmd(["build", "--force-rm"], BUILD_LIMIT);
    if layers == Layers::Fresh {
        cmd = cmd.arg("--no-cache");
    }
    for (name, value) in &recipe.args {
        cmd = cmd.arg("--build-arg").arg(format!("{name}={value}"));
    }
    for name in &recipe.network {
        cmd = cmd.arg("--build-arg").arg(name);
    }
    cmd.arg("--tag")
        .arg(building(recipe, engine.kind()))
        .arg("--label")
        .arg(format!("{HASH_LABEL}={}", recipe.hash()))
        .arg("--label")
        .arg(format!("{ORIGIN_LABEL}={}", recipe.origin_label()))
        .arg("--iidfile")
        .arg(&place.id_file)
        .arg("--file")
        .arg(&place.dockerfile)
        .arg(&place.context)
}

fn warn_of_context(context: &Path, data_dir: &str, say: Say<'_>) {
    let ignored = fs::read_to_string(context.join(".dockerignore")).unwrap_or_default();
    let bare = |line: &str| line.trim().trim_matches('/').trim_start_matches("**/").to_string();
    if context.join(data_dir).is_dir() && !ignored.lines().any(|line| bare(line) == data_dir.trim_matches('/')) {
        say(&format!(
            "image: the build is sent all of {data_dir}, worktrees included; a .dockerignore with a line {data_dir} saves that"
        ));
    }
}

/// What is used when a build failed, or the failure itself.
async fn instead(engine: &Engine, recipe: &Recipe, install: &Install, found: Freshness, error: Error) -> Result<Image> {
    let (image, what) = match found {
        Freshness::Old(image, age) => {
            lock::remember_failure(engine.process(), engine.kind(), recipe);
            (image, format!("it is {} old", days(age)))
        }
        _ if !is_offline(&error) => return Err(error),
        Freshness::Outdated(image) => (image, "it is from before the last change of what it is made of".to_string()),
        _ => {
            let label = recipe.origin_label();
            let all = inspect::every(engine).await?;
            let Some(other) = all.into_iter().find(|found| found.origin.as_deref() == Some(label.as_str())) else {
                return Err(error.hint("connect to a network that reaches the package registries"));
            };
            let name = other.tags.first().unwrap_or(&other.id).clone();
            (freshness::image(&other, &name), format!("{name} is used, the newest there is"))
        }
    };
    check::require_usable(engine, recipe, install, &image.id).await?;
    let why = progress::reason(&error);
    let warning = format!("the image {} could not be built; {what} ({why})", recipe.name());
    Ok(Image { warnings: vec![warning], ..image })
}

/// Whether a build failed because it reached nobody.
fn is_offline(error: &Error) -> bool {
    const WORDS: [&str; 14] = [
        "temporary failure resolving",
        "temporary failure in name resolution",
        "could not resolve",
        "no such host",
        "name or service not known",
        "network is unreachable",
        "no route to host",
        "connection refused",
        "connection timed out",
        "i/o timeout",
        "tls handshake timeout",
        "failed to connect",
        "could not connect",
        "dial tcp",
    ];
    let said = error.full_message().to_lowercase();
    error.kind() == Kind::Unavailable && WORDS.iter().any(|words| said.contains(words))
}
