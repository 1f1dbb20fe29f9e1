//! What a task's container sees of this machine: the list of its mounts.
//!
//! The repository is there to read; the task's worktree and what git needs to stage in it are there to write; refs,
//! configuration and hooks are not; lazy's own data is hidden, but for the one worktree and the one configuration file
//! that are the task's. Nobody's state directory is ever among the sources.

use std::path::{Path, PathBuf};

use super::mount::{Access, Mount};
use crate::base::{Error, Kind, Process, Result, files};
use crate::config::{self, Config, schema::MountKind};
use crate::model::link::LINK_DIR;

/// The agent side of lazy in a container.
pub const AGENT_PATH: &str = "/usr/local/bin/lazy-agent";
/// The certificates of `[docker] ca_certificates` in a container.
pub const CA_PATH: &str = "/run/lazy/ca.pem";

/// Where the git data of a worktree lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitDirs {
    /// Refs, configuration, hooks.
    pub common_dir: PathBuf,
    /// The object store.
    pub objects: PathBuf,
    /// The worktree's own directory.
    pub git_dir: PathBuf,
    /// Object stores that are borrowed from.
    pub alternates: Vec<PathBuf>,
}

/// What a task's container is made around.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// The main checkout.
    pub project_root: &'a Path,
    /// lazy's data directory.
    pub data_dir: &'a Path,
    /// The task's worktree.
    pub worktree: &'a Path,
    /// Its git data.
    pub git: &'a GitDirs,
    /// The mailbox.
    pub protocol_dir: &'a Path,
    /// The run's own configuration file.
    pub mcp_config: &'a Path,
    /// The agent side of lazy.
    pub install: &'a Path,
    /// The directory with the link's socket, where there is one.
    pub link: Option<&'a Path>,
}

/// The mounts of a task's container, widest first.
///
/// # Errors
/// [`Kind::Forbidden`] for a `[[mounts]]` entry that would show what no container may see; [`Kind::Config`] for one that
/// cannot be resolved; [`Kind::NotFound`] for a missing PEM file.
pub fn mounts(process: &Process, config: &Config, place: &Place<'_>) -> Result<Vec<Mount>> {
    let git = place.git;
    let mut mounts = vec![Mount::same(place.project_root, Access::ReadOnly)];
    let bases = [config::mounts::daemon_base(process)?, config::mounts::scratch_base(process)?];
    let mut hidden: Vec<&Path> = Vec::new();
    for path in std::iter::once(place.data_dir).chain(bases.iter().map(PathBuf::as_path)) {
        if path.starts_with(place.project_root) && !hidden.iter().any(|wider| path.starts_with(wider)) {
            hidden.push(path);
        }
    }
    mounts.extend(hidden.into_iter().map(|path| Mount::Hidden { target: path.to_path_buf() }));
    mounts.extend(git.alternates.iter().map(|path| Mount::same(path, Access::ReadOnly)));
    mounts.push(Mount::same(&git.common_dir, Access::ReadOnly));
    mounts.push(Mount::same(&git.objects, Access::ReadWrite));
    for part in ["pack", "info"] {
        // History that is packed stays out of reach, and so does the list of stores that git reads from.
        let path = git.objects.join(part);
        files::create_dir(&path)?;
        mounts.push(Mount::same(&path, Access::ReadOnly));
    }
    mounts.push(Mount::same(&git.git_dir, Access::ReadWrite));
    // The branch that is checked out stays the task's: commits on a detached HEAD would be on none.
    mounts.push(Mount::same(&git.git_dir.join("HEAD"), Access::ReadOnly));
    mounts.push(Mount::same(place.worktree, Access::ReadWrite));
    mounts.push(Mount::same(place.protocol_dir, Access::ReadWrite));
    mounts.push(Mount::same(place.mcp_config, Access::ReadOnly));
    mounts.push(Mount::shown(place.install, AGENT_PATH));
    mounts.extend(place.link.map(|link| Mount::shown(link, LINK_DIR)));
    if let Some(pem) = ca_certificates(config, place.project_root)? {
        mounts.push(Mount::shown(&pem, CA_PATH));
    }
    mounts.extend(custom(process, config, place)?);
    require_unseen(&mounts, &bases, place.mcp_config)?;
    Ok(mounts)
}

/// Refuses mounts by which a container would see a directory of `bases`, whole or in part. `own` is the one file there
/// that is its.
///
/// # Errors
/// [`Kind::Forbidden`] naming the mount.
pub fn require_unseen(mounts: &[Mount], bases: &[PathBuf], own: &Path) -> Result<()> {
    for base in bases {
        let resolved = base.canonicalize().unwrap_or_else(|_| base.clone());
        for mount in mounts {
            let Mount::Bind { source, target, .. } = mount else { continue };
            let overlaps = [base, &resolved].iter().any(|base| source.starts_with(base) || base.starts_with(source));
            let covered = source == target
                && mounts.iter().any(|other| match other {
                    Mount::Hidden { target } => target.starts_with(source) && base.starts_with(target),
                    _ => false,
                });
            if overlaps && source != own && !covered {
                return Err(Error::new(
                    Kind::Forbidden,
                    format!("mounting {} would show a container {}", source.display(), base.display()),
                )
                .hint("move the project, or set LAZY_DAEMON_BASE_DIR to a directory outside of it"));
            }
        }
    }
    Ok(())
}

/// The PEM file of `[docker] ca_certificates`, if one is set.
///
/// # Errors
/// [`Kind::NotFound`] when it is not there.
pub fn ca_certificates(config: &Config, project_root: &Path) -> Result<Option<PathBuf>> {
    let name = &config.docker.ca_certificates;
    if name.is_empty() {
        return Ok(None);
    }
    let path = project_root.join(name);
    match path.canonicalize() {
        Ok(path) if path.is_file() => Ok(Some(path)),
        _ => Err(Error::not_found(format!("[docker] ca_certificates: there is no file {}", path.display()))
            .hint("set it to a PEM file, relative to the project's root, or delete the line")),
    }
}

/// The `[[mounts]]`.
fn custom(process: &Process, config: &Config, place: &Place<'_>) -> Result<Vec<Mount>> {
    let fill = |text: &str| {
        text.replace("{worktree}", &place.worktree.to_string_lossy())
            .replace("{repo}", &place.project_root.to_string_lossy())
    };
    let mut mounts = Vec::new();
    for (index, entry) in config.mounts.iter().enumerate() {
        let number = index + 1;
        let target = PathBuf::from(fill(&entry.target));
        let access = if entry.readonly { Access::ReadOnly } else { Access::ReadWrite };
        mounts.push(match entry.kind {
            MountKind::Volume => Mount::Volume { name: entry.name.clone(), target, access },
            MountKind::Bind => {
                let source = place.project_root.join(fill(entry.source.as_deref().unwrap_or_default()));
                config::mounts::require_mountable(process, number, &source)?;
                let source = source.canonicalize().map_err(|error| {
                    Error::new(Kind::Config, format!("[[mounts]] entry {number}: there is no {}", source.display()))
                        .caused_by(error)
                        .hint(format!("mkdir -p '{}'", source.display()))
                })?;
                // What it resolves to counts as well.
                config::mounts::require_mountable(process, number, &source)?;
                Mount::Bind { source, target, access }
            }
        });
    }
    Ok(mounts)
}
