//! Checks of the task store, read without its lock: its files are replaced whole, so a reader sees them whole.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use super::{Check, DaemonFacts};
use crate::base::{Process, lock::FileLock, text};
use crate::config::{Config, Project};
use crate::rpc::StateDir;
use crate::setup::init;

pub(super) fn checks(
    process: &Process,
    project: &Project,
    config: &Config,
    daemon: Option<&DaemonFacts>,
) -> Vec<Check> {
    const LABEL: &str = "Task store";
    let root = match project.storage_root(config, process) {
        Ok(root) => root,
        Err(error) => return vec![Check::error(LABEL, &error)],
    };
    if !root.is_dir() {
        return vec![Check::warn(LABEL, format!("{} does not exist yet; the daemon will make it", root.display()))];
    }
    let store = match init::require_writable(&root) {
        Ok(()) => Check::ok(LABEL, root.display().to_string()),
        Err(error) => Check::fail(LABEL, error.full_message()).hint(format!("ls -ld {}", root.display())),
    };
    let own = daemon.map(|daemon| daemon.pid).or_else(|| own_daemon(process, project));
    vec![store, lock(&root, own), records(&root)]
}

/// The process of this project's daemon, when it holds its lock.
fn own_daemon(process: &Process, project: &Project) -> Option<u32> {
    let state = StateDir::for_project(process, &project.root).ok()?;
    state.is_daemon_running().then(|| state.pid()).flatten()
}

fn lock(root: &Path, own: Option<u32>) -> Check {
    const LABEL: &str = "Storage lock";
    let path = root.join(".storage-lock");
    if !FileLock::is_held(&path) {
        return match own {
            None => Check::ok(LABEL, "free"),
            Some(pid) => {
                Check::warn(LABEL, format!("the daemon, process {pid}, does not hold it")).hint("lazy daemon restart")
            }
        };
    }
    let note = fs::read_to_string(&path).unwrap_or_default();
    let holder = serde_json::from_str::<serde_json::Value>(&note).ok().and_then(|note| note["pid"].as_u64());
    match (holder, own) {
        (Some(holder), Some(own)) if holder == u64::from(own) => {
            Check::ok(LABEL, format!("held by this project's daemon, process {own}"))
        }
        (holder, _) => {
            let holder = holder.map_or("a process".into(), |pid| format!("process {pid}"));
            Check::fail(LABEL, format!("{holder} holds it, which is not this project's daemon"))
                .hint("two checkouts cannot share a store at once; see whose it is: lazy daemon list")
        }
    }
}

fn records(root: &Path) -> Check {
    const LABEL: &str = "Task records";
    let (mut tasks, mut torn) = (0, Vec::new());
    for task in list(&root.join("tasks")).into_iter().filter(|path| path.is_dir()) {
        tasks += 1;
        let files = list(&task).into_iter().filter(|path| path.extension().is_some_and(|end| end == "json"));
        torn.extend(files.filter(|path| {
            // A file that is gone by now was replaced or its task removed; only what is there and torn counts.
            fs::read(path).is_ok_and(|bytes| serde_json::from_slice::<IgnoredAny>(&bytes).is_err())
        }));
    }
    match &torn[..] {
        [] => Check::ok(LABEL, text::plural(tasks, "task")),
        [first, ..] => {
            let detail =
                format!("{} cannot be read, the first is {}", text::plural(torn.len(), "file"), first.display());
            let file = first.display();
            Check::fail(LABEL, detail).hint(format!("restore it from a backup, or set it aside: mv {file} {file}.torn"))
        }
    }
}

/// The entries of a directory, sorted; none when it cannot be listed.
fn list(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}
