//! What finished tasks left: containers and worktrees that no task wants any more.
//!
//! The daemon clears these away itself; here they are found when it could not, or when its project is gone. The store is
//! read without its lock: its files are replaced whole. What cannot be judged is left alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::base::{Process, Result, json};
use crate::config::{Config, Project};
use crate::git::Repo;
use crate::model::{RunnerKind, Status, TaskId};
use crate::runner::engine::{Engine, container};

/// How long a container may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// A container that nobody wants.
#[derive(Debug)]
pub struct OrphanedContainer {
    engine: Engine,
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub running: bool,
    /// Why nobody wants it, in words.
    pub reason: String,
}

/// A worktree whose task is done.
#[derive(Debug)]
pub struct FinishedWorktree {
    /// Its directory.
    pub path: PathBuf,
    /// Why it is not needed, in words.
    pub reason: String,
    /// Uncommitted changes in it; such a one is not removed.
    pub changes: usize,
}

#[derive(Debug, Deserialize)]
struct Record {
    id: TaskId,
    status: Status,
    #[serde(default)]
    metadata: Option<HashMap<String, String>>,
}

/// Task containers of every project on this machine whose root is gone, and those of `project` without an open task.
///
/// # Errors
/// When an engine that is installed and runs does not answer.
pub async fn orphaned_containers(
    process: &Process,
    project: Option<(&Project, &Config)>,
) -> Result<Vec<OrphanedContainer>> {
    let records = match project {
        Some((project, config)) => records(&project.storage_root(config, process)?),
        None => None,
    };
    let mut orphans = Vec::new();
    for kind in [RunnerKind::Docker, RunnerKind::Podman] {
        let Some(engine) = Engine::of(kind, process).filter(Engine::is_installed) else { continue };
        let listed = match engine.containers(&[format!("{}=task", container::KIND)]).await {
            Ok(listed) => listed,
            // One that is installed but does not run has no living containers.
            Err(_) if project.is_none_or(|(_, config)| config.runner.kind != kind) => continue,
            Err(error) => return Err(error),
        };
        for found in listed {
            let root = Path::new(&found.project);
            let ours = project.is_some_and(|(project, _)| project.root == root);
            let reason = match (&records, ours) {
                _ if found.project.is_empty() => continue,
                _ if !root.exists() => format!("its project {} is gone", found.project),
                (Some(records), true) => match records.iter().find(|record| record.id.to_string() == found.task) {
                    None => "its task is gone".to_string(),
                    Some(record) if record.status.is_terminal() => format!("its task is {}", record.status),
                    Some(_) => continue,
                },
                _ => continue,
            };
            orphans.push(OrphanedContainer {
                engine: engine.clone(),
                name: found.name,
                running: found.running,
                reason,
            });
        }
    }
    Ok(orphans)
}

impl OrphanedContainer {
    /// Ends and removes it.
    ///
    /// # Errors
    /// The engine's reason not to.
    pub async fn remove(&self) -> Result<()> {
        self.engine.end_container(&self.name, if self.running { GRACE } else { Duration::ZERO }).await
    }
}

/// Worktrees of `project` below its data directory whose task is done or unknown.
///
/// # Errors
/// When the store or the repository cannot be read.
pub async fn finished_worktrees(
    process: &Process,
    project: &Project,
    config: &Config,
) -> Result<Vec<FinishedWorktree>> {
    let Some(records) = records(&project.storage_root(config, process)?) else { return Ok(Vec::new()) };
    let repo = Repo::discover(process, &project.root)?;
    let entries = std::fs::read_dir(project.data_dir.join("worktrees")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    let mut finished = Vec::new();
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let of = |record: &&Record| record.metadata.as_ref().and_then(|meta| meta.get("task_ref")) == Some(&name);
        let mut owners = records.iter().filter(of);
        if owners.clone().any(|record| !record.status.is_terminal()) {
            continue;
        }
        let reason = match owners.next() {
            Some(record) => format!("its task is {}", record.status),
            None => "no task has it".to_string(),
        };
        let changes = match repo.worktree(&path) {
            Ok(worktree) => worktree.status().await.map_or(0, |status| status.entries.len()),
            Err(_) => 0,
        };
        finished.push(FinishedWorktree { path, reason, changes });
    }
    Ok(finished)
}

/// Removes a worktree and git's record of it.
///
/// # Errors
/// When it is not one of the project's, or cannot be removed.
pub async fn remove_worktree(process: &Process, project: &Project, worktree: &FinishedWorktree) -> Result<()> {
    Repo::discover(process, &project.root)?.remove_worktree(&worktree.path).await
}

/// Every task of a store; `None` when there is no store or a record of it cannot be read: what is unknown is wanted.
fn records(root: &Path) -> Option<Vec<Record>> {
    let entries = std::fs::read_dir(root.join("tasks")).ok()?;
    entries.flatten().map(|entry| json::load(&entry.path().join("task.json")).ok().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::testing::{Place, program};
    use crate::setup::{InitOptions, Interactivity, init};

    async fn project(place: &Place) -> Project {
        let options = InitOptions { interactive: Interactivity::Defaults, ..InitOptions::default() };
        init(&place.process(&[]), options).await.expect("sets up");
        Project::find(&place.process(&[]), &place.root).expect("is a project")
    }

    fn task(store: &Path, number: u32, status: &str) -> String {
        let id = format!("aaaaaaaa-0000-4000-8000-00000000000{number}");
        let dir = store.join("tasks").join(&id);
        std::fs::create_dir_all(&dir).expect("directory");
        let record =
            serde_json::json!({ "id": id, "status": status, "metadata": { "task_ref": format!("t{number}") } });
        std::fs::write(dir.join("task.json"), record.to_string()).expect("writes");
        id
    }

    #[tokio::test]
    async fn containers_without_a_project_or_an_open_task_are_found() {
        let place = Place::new();
        let project = project(&place).await;
        let config = Config::default();
        let process = place.process(&[]);
        let store = project.storage_root(&config, &process).expect("a store");
        let (open, done) = (task(&store, 1, "blocked"), task(&store, 2, "complete"));
        let bin = place.base.join("bin");
        std::fs::create_dir(&bin).expect("directory");
        let root = project.root.display();
        let lines = [
            format!("lazy-t1-x\\trunning\\t{open}\\to\\t{root}"),
            format!("lazy-t2-x\\trunning\\t{done}\\to\\t{root}"),
            format!("lazy-t3-x\\texited\\taaaaaaaa-0000-4000-8000-000000000009\\to\\t{root}"),
            "lazy-t4-x\\trunning\\tq\\to\\t/nowhere/at/all".to_string(),
            format!("lazy-t5-x\\trunning\\tq\\to\\t{}", place.base.display()),
            "theirs\\trunning\\t\\t\\t".to_string(),
        ];
        program(&bin, "docker", &format!("printf '%b\\n' {}", lines.map(|line| format!("'{line}'")).join(" ")));
        let process = place.process(&[("PATH", bin.to_str().expect("utf-8"))]);
        let found = orphaned_containers(&process, Some((&project, &config))).await.expect("lists");
        let found: Vec<(&str, &str)> =
            found.iter().map(|orphan| (orphan.name.as_str(), orphan.reason.as_str())).collect();
        assert_eq!(
            found,
            [
                ("lazy-t2-x", "its task is complete"),
                ("lazy-t3-x", "its task is gone"),
                ("lazy-t4-x", "its project /nowhere/at/all is gone"),
            ]
        );
        // A record that cannot be read could be any task's.
        std::fs::write(store.join("tasks").join(&done).join("task.json"), "{").expect("writes");
        let found = orphaned_containers(&process, Some((&project, &config))).await.expect("lists");
        assert_eq!(found.len(), 1);
    }

    #[tokio::test]
    async fn worktrees_of_finished_tasks_are_found_and_changes_in_them_counted() {
        let place = Place::new();
        let project = project(&place).await;
        let config = Config::default();
        let process = place.process(&[]);
        let store = project.storage_root(&config, &process).expect("a store");
        task(&store, 1, "blocked");
        task(&store, 2, "abandoned");
        let repo = Repo::discover(&process, &project.root).expect("a repository");
        let head = repo.require_commits().expect("a commit");
        for name in ["t1", "t2", "stray"] {
            let path = project.data_dir.join("worktrees").join(name);
            repo.add_worktree(&path, &format!("lazy/{name}"), &head).await.expect("adds");
        }
        std::fs::write(project.data_dir.join("worktrees/stray/new.txt"), "work").expect("writes");
        let found = finished_worktrees(&process, &project, &config).await.expect("lists");
        let told: Vec<_> = found.iter().map(|tree| (tree.reason.as_str(), tree.changes)).collect();
        assert_eq!(told, [("no task has it", 1), ("its task is abandoned", 0)]);
        remove_worktree(&process, &project, &found[1]).await.expect("removes");
        assert!(!project.data_dir.join("worktrees/t2").exists());
        assert!(project.data_dir.join("worktrees/t1").exists());
    }
}
