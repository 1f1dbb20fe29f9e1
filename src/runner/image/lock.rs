//! One build of a name at a time, over all processes; and what is remembered of builds and checks.

use std::path::PathBuf;
use std::time::Duration;

use super::Say;
use super::recipe::Recipe;
use crate::base::lock::{Attempt, FileLock};
use crate::base::{Millis, Process, Result, files};
use crate::model::RunnerKind;
use crate::runner::install::Install;

const POLL: Duration = Duration::from_millis(200);
/// After a refresh of an old image that failed, the next one is tried no sooner than this.
const RETRY: Duration = Duration::from_secs(6 * 60 * 60);

/// Waits until nobody builds this name. Dropping the lock lets the next one in.
pub(super) async fn take(process: &Process, engine: RunnerKind, name: &str, say: Say<'_>) -> Result<FileLock> {
    let path = file(process, &format!("{engine}-{}.lock", safe(name)))?;
    let mut told = false;
    loop {
        match FileLock::try_take(&path, &std::process::id().to_string())? {
            Attempt::Taken(lock) => return Ok(lock),
            Attempt::Held(holder) => {
                if !told {
                    say(&format!("image: waiting for another build of {name} (process {holder})"));
                    told = true;
                }
                tokio::time::sleep(POLL).await;
            }
        }
    }
}

/// Whether a refresh failed so recently that another try can wait.
pub(super) fn tried_lately(process: &Process, engine: RunnerKind, recipe: &Recipe) -> bool {
    let at = tried(process, engine, recipe).ok().and_then(|path| files::read_line_optional(&path));
    at.and_then(|at| Millis::parse(&at)).is_some_and(|at| process.now().since(at) < RETRY && process.now() >= at)
}

/// Remembers that a refresh failed now.
pub(super) fn remember_failure(process: &Process, engine: RunnerKind, recipe: &Recipe) {
    let now = process.now().iso();
    if let Ok(path) = tried(process, engine, recipe)
        && let Err(error) = files::write_atomic(&path, now.as_bytes(), files::Mode::Shared)
    {
        tracing::debug!(%error, "a failed refresh is not remembered");
    }
}

/// Forgets it.
pub(super) fn forget_failure(process: &Process, engine: RunnerKind, recipe: &Recipe) {
    if let Ok(path) = tried(process, engine, recipe) {
        files::remove_file(&path).ok();
    }
}

fn tried(process: &Process, engine: RunnerKind, recipe: &Recipe) -> Result<PathBuf> {
    file(process, &format!("{engine}-{}.tried", safe(&recipe.name())))
}

/// The mark that an install was tried in an image, for an agent.
pub(super) fn checked(process: &Process, image_id: &str, install: &Install, agent: &str) -> Result<PathBuf> {
    let id = image_id.trim_start_matches("sha256:");
    let id = &id[..id.len().min(16)];
    let agent = if agent.is_empty() { "base" } else { agent };
    file(process, &format!("{id}-{}-{}.checked", install.id, safe(agent)))
}

fn file(process: &Process, name: &str) -> Result<PathBuf> {
    Ok(process.home()?.join(".lazy/run/images").join(name))
}

fn safe(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' }).collect()
}
