//! Whether lazy's program runs in an image, and whether the image has what an agent needs.

use std::ffi::OsString;
use std::time::Duration;

use super::lock;
use super::recipe::{Origin, Recipe};
use crate::base::{Error, Result, files, text};
use crate::proc::Output;
use crate::runner::engine::Engine;
use crate::runner::engine::mount::Mount;
use crate::runner::engine::walls::AGENT_PATH;
use crate::runner::install::{Install, SENTINEL};

/// How long one look into an image may take: a cold disk has to read it first.
const PATIENCE: Duration = Duration::from_secs(120);

/// Refuses an image in which agents could not work. Looks once for each image, install and agent.
pub(super) async fn require_usable(engine: &Engine, recipe: &Recipe, install: &Install, id: &str) -> Result<()> {
    let mark = lock::checked(engine.process(), id, install, &recipe.agent)?;
    if mark.exists() {
        return Ok(());
    }
    require_runs(engine, recipe, install, id).await?;
    require_programs(engine, recipe, id).await?;
    if let Err(error) = files::write_atomic(&mark, b"", files::Mode::Shared) {
        tracing::debug!(%error, "the check of an image is not remembered");
    }
    Ok(())
}

/// Runs `selfcheck` in the image, from the mount that every container has.
async fn require_runs(engine: &Engine, recipe: &Recipe, install: &Install, id: &str) -> Result<()> {
    let mount = Mount::shown(&install.path, AGENT_PATH).argument(engine.kind())?;
    let mut args: Vec<OsString> = ["run", "--rm", "--network", "none"].map(OsString::from).to_vec();
    if engine.quirks().await?.selinux {
        args.extend(["--security-opt", "label=disable"].map(OsString::from));
    }
    args.extend([OsString::from("--mount"), mount]);
    args.extend(["--entrypoint", AGENT_PATH, id, "selfcheck"].map(OsString::from));
    let output = engine.run(args, PATIENCE).await?;
    if output.success() && output.stdout_text().lines().any(|line| line.starts_with(SENTINEL)) {
        return Ok(());
    }
    Err(does_not_run(&output, recipe, install))
}

/// Why lazy's program does not run in an image, and the remedy.
fn does_not_run(output: &Output, recipe: &Recipe, install: &Install) -> Error {
    let said = format!("{}\n{}", output.stdout_text(), output.stderr_text());
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    let last = text::truncate_chars(&text::one_line(last), 240);
    let what = format!("lazy's program does not run in the image {}", recipe.name());
    let lower = said.to_lowercase();
    let unlinked = ["glibc", "no such file or directory", "libc.so", "libgcc", "not found", "symbol not found"];
    if lower.contains("exec format error") {
        return Error::unavailable(format!("{what}, which is for another processor: {last}"))
            .hint("build the image on this machine: lazy system build --no-cache");
    }
    if lower.contains("mount") && lower.contains("denied") || lower.contains("bind source path does not exist") {
        return Error::unavailable(format!("the engine cannot mount {}: {last}", install.path.display()))
            .hint("share the home directory with the engine's machine (its settings, file sharing)");
    }
    if unlinked.iter().any(|words| lower.contains(words)) {
        return Error::unavailable(format!(
            "{what}: this build of lazy needs libraries that the image does not have ({last})"
        ))
        .hint("make static && make install    # one executable that needs none; then: lazy daemon restart");
    }
    Error::unavailable(format!("{what}: {last}")).hint("lazy doctor")
}

/// Looks for git and the agent's program, as the image's own user.
async fn require_programs(engine: &Engine, recipe: &Recipe, id: &str) -> Result<()> {
    let programs = recipe.programs();
    let look =
        "for program; do command -v \"$program\" >/dev/null 2>&1 || echo \"missing $program\"; done; echo looked";
    let args = ["run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", id, "-c", look, "sh"];
    let output = engine.run(args.into_iter().chain(programs), PATIENCE).await?;
    let said = output.stdout_text();
    if !output.success() || !said.lines().any(|line| line.trim() == "looked") {
        return Err(engine.refusal(&output, &format!("look into the image {} with its /bin/sh", recipe.name())));
    }
    let missing: Vec<&str> = said.lines().filter_map(|line| line.trim().strip_prefix("missing ")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let error = Error::unavailable(format!("the image {} has no {}", recipe.name(), missing.join(" and no ")));
    Err(match &recipe.origin {
        Origin::BuiltIn => error.hint("lazy system build --no-cache"),
        Origin::Configured(path) | Origin::Override(path) => error
            .hint(format!("start {} with: FROM lazy-runner", path.display()))
            .hint("or take over what you need from: lazy system export-dockerfile --stdout"),
    })
}
