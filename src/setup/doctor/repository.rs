//! Checks of the repository and the project's own files in it.

use std::path::Path;

use super::Check;
use crate::base::{Process, files};
use crate::config::{Config, Driver, Project, gitdir};
use crate::git::Repo;
use crate::setup::{gitignore as lines, init};

pub(super) fn commits(process: &Process, root: &Path) -> Check {
    const LABEL: &str = "Repository has commits";
    match Repo::discover(process, root).and_then(|repo| repo.require_commits()) {
        Ok(sha) => Check::ok(LABEL, format!("{} at {}", root.display(), &sha[..sha.len().min(8)])),
        Err(error) => Check::error(LABEL, &error),
    }
}

pub(super) fn not_in_a_project(process: &Process) -> Check {
    const LABEL: &str = "Project";
    match gitdir::main_checkout(process.cwd()) {
        Ok(root) => Check::warn(LABEL, format!("{} is not a lazy project yet", root.display()))
            .hint(format!("cd {} && lazy init", root.display())),
        Err(error) => Check { outcome: super::Outcome::Warn, ..Check::error(LABEL, &error) },
    }
}

pub(super) fn data_directory(project: &Project) -> Check {
    const LABEL: &str = "Data directory";
    if !project.data_dir.is_dir() {
        return Check::fail(LABEL, format!("{} does not exist", project.data_dir.display()))
            .hint(format!("cd {} && lazy init", project.root.display()));
    }
    match init::require_writable(&project.data_dir) {
        Ok(()) => Check::ok(LABEL, project.data_dir.display().to_string()),
        Err(error) => Check::fail(LABEL, error.full_message()).hint(format!("ls -ld {}", project.data_dir.display())),
    }
}

pub(super) fn gitignore(project: &Project) -> Check {
    const LABEL: &str = ".gitignore entries";
    let fix = format!("cd {} && lazy init", project.root.display());
    match files::read_written(&project.root.join(".gitignore")) {
        Err(error) => Check::error(LABEL, &error),
        Ok(bytes) => match lines::missing(&bytes.unwrap_or_default())[..] {
            [] => Check::ok(LABEL, ""),
            ref missing => Check::warn(LABEL, format!("missing: {}", missing.join(" "))).hint(fix),
        },
    }
}

pub(super) fn remote(project: &Project, config: &Config) -> Check {
    const LABEL: &str = "Remote driver";
    let remote = &config.remote;
    let has_it = gitdir::remotes(&project.root).iter().any(|found| found.name == remote.git_remote);
    match remote.driver {
        Driver::Local if remote.offline => Check::ok(LABEL, "local; offline until offline = true is removed"),
        Driver::Local if has_it => Check::ok(LABEL, format!("local, git remote {}", remote.git_remote)),
        Driver::Local => Check::ok(LABEL, "local, no git remote"),
        driver => Check::fail(LABEL, format!("this version of lazy has no driver {driver}"))
            .hint("set driver = \"local\" under [remote] in lazy.toml"),
    }
}
