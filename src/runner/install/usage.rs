//! Which installs containers mount, as their engines tell.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::base::{Process, Result};
use crate::model::RunnerKind;
use crate::runner::engine::{Engine, QUERY, container};

/// The paths of this machine that lazy's containers mount, of every project and in every engine that is installed: what
/// [`super::Installs::collect`] must spare. Containers that stopped count, for they can be started again.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] when an installed engine does not answer: then nothing is known, and nothing may
/// be collected.
pub async fn mounted(process: &Process) -> Result<BTreeSet<PathBuf>> {
    let mut paths = BTreeSet::new();
    for kind in [RunnerKind::Docker, RunnerKind::Podman] {
        if let Some(engine) = Engine::of(kind, process).filter(Engine::is_installed) {
            paths.extend(mounted_in(&engine).await?);
        }
    }
    Ok(paths)
}

async fn mounted_in(engine: &Engine) -> Result<Vec<PathBuf>> {
    let filter = format!("label={}", container::PROJECT);
    let args = ["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter];
    let ids = engine.text(args, QUERY, "list containers").await?;
    let ids: Vec<&str> = ids.lines().map(str::trim).filter(|id| !id.is_empty()).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    // One may vanish between the two questions; what is known of the others is on standard output all the same.
    let args = ["container", "inspect", "--format", "{{range .Mounts}}{{println .Source}}{{end}}"];
    let output = engine.run(args.into_iter().chain(ids), QUERY).await?;
    Ok(output.stdout_text().lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect())
}
