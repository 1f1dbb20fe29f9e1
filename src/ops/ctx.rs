//! What operations work with: the open project, its locks, and the way a run reaches the daemon.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Notify, OwnedMutexGuard};

use super::heavy::Heavy;
use crate::base::{Process, Result};
use crate::config::{Config, project::Project};
use crate::exchange::Mailbox;
use crate::forge::Forge;
use crate::git::Repo;
use crate::model::{RunnerKind, Status, TaskId};
use crate::runner::Runner;
use crate::store::{Store, TaskRow};

/// What the daemon gives a run so that it can reach the daemon and the model.
pub trait Access: Send + Sync {
    /// Makes or finds the run's token, its configuration file and its placeholder credential.
    fn grant(&self, request: &GrantRequest) -> Result<Granted>;

    /// Ends all of them.
    fn revoke(&self, task: TaskId) -> Result<()>;

    /// Whether runs launched by the previous daemon can still reach the model proxy where they look for it.
    fn kept_proxy_address(&self) -> bool;
}

/// Who a run is.
#[derive(Debug, Clone)]
pub struct GrantRequest {
    /// The task.
    pub task: TaskId,
    /// Its ref.
    pub task_ref: String,
    /// `lazy-<ref>`.
    pub run_name: String,
    /// Where it runs: decides by which name it reaches this machine.
    pub runner: RunnerKind,
    /// The directory it works in.
    pub worktree: PathBuf,
    /// The variables from which its agent takes a credential, best first.
    pub credential_vars: &'static [&'static str],
}

/// What a run is given.
#[derive(Debug, Clone)]
pub struct Granted {
    /// Environment; an empty value removes the variable.
    pub env: Vec<(String, String)>,
    /// The minted configuration file.
    pub mcp_config: PathBuf,
    /// The directory with the link's socket, where containers use one.
    pub link_dir: Option<PathBuf>,
}

/// The parts of a [`Ctx`].
pub struct CtxParts {
    /// The daemon's process.
    pub process: Process,
    /// The project.
    pub project: Project,
    /// Its configuration.
    pub config: Arc<Config>,
    /// Its store.
    pub store: Store,
    /// Its repository.
    pub repo: Repo,
    /// Where accepted work goes.
    pub forge: Forge,
    /// How runs reach the daemon.
    pub access: Arc<dyn Access>,
    /// The credential variable present in the daemon's environment.
    pub credential: Option<&'static str>,
}

/// The open project. Cheap to clone.
#[derive(Clone)]
pub struct Ctx(Arc<Inner>);

struct Inner {
    parts: CtxParts,
    locks: Mutex<HashMap<TaskId, Weak<tokio::sync::Mutex<()>>>>,
    /// Tasks whose launch is under way: their run may not exist yet.
    launching: Mutex<HashSet<TaskId>>,
    wake: Notify,
    /// They remember what they know of their engine.
    runners: Mutex<HashMap<RunnerKind, Runner>>,
    heavy: Heavy,
}

/// A slot for a launch under way, given back when dropped.
pub struct LaunchSlot {
    ctx: Ctx,
    task: TaskId,
}

impl Drop for LaunchSlot {
    fn drop(&mut self) {
        self.ctx.launching().remove(&self.task);
    }
}

impl Ctx {
    /// A context from its parts.
    pub fn new(parts: CtxParts) -> Ctx {
        Ctx(Arc::new(Inner {
            parts,
            locks: Mutex::default(),
            launching: Mutex::default(),
            wake: Notify::new(),
            runners: Mutex::default(),
            heavy: Heavy::default(),
        }))
    }

    /// The daemon's process.
    pub fn process(&self) -> &Process {
        &self.0.parts.process
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.0.parts.project
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.0.parts.config
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        &self.0.parts.store
    }

    /// Its repository.
    pub fn repo(&self) -> &Repo {
        &self.0.parts.repo
    }

    /// Where accepted work goes.
    pub fn forge(&self) -> &Forge {
        &self.0.parts.forge
    }

    /// The places for reads that go through every record.
    pub(super) fn heavy(&self) -> &Heavy {
        &self.0.heavy
    }

    /// How runs reach the daemon.
    pub fn access(&self) -> &dyn Access {
        &*self.0.parts.access
    }

    /// The credential variable present in the daemon's environment.
    pub fn credential(&self) -> Option<&'static str> {
        self.0.parts.credential
    }

    /// The git remote of the project.
    pub fn remote(&self) -> &str {
        &self.config().remote.git_remote
    }

    /// The mailbox of a task.
    pub fn mailbox(&self, task: TaskId) -> Result<Mailbox> {
        Ok(Mailbox::new(crate::exchange::base(self.process())?.join(task.to_string())))
    }

    /// The worktree's directory of a task that has a ref.
    pub fn worktree_path(&self, row: &TaskRow) -> Option<PathBuf> {
        let name = row.task.task_ref()?;
        Some(self.project().data_dir.join("worktrees").join(name.as_str()))
    }

    /// The runner a task's run was or would be launched with.
    pub fn runner_kind(&self, row: &TaskRow) -> RunnerKind {
        row.runner().unwrap_or(self.config().runner.kind)
    }

    /// That runner.
    pub fn runner(&self, row: &TaskRow) -> Result<Runner> {
        self.runner_of(self.runner_kind(row))
    }

    /// The runner of a kind.
    pub fn runner_of(&self, kind: RunnerKind) -> Result<Runner> {
        let mut runners = self.0.runners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runner) = runners.get(&kind) {
            return Ok(runner.clone());
        }
        let runner = Runner::for_kind(kind, self.process(), &self.project().root)?;
        runners.insert(kind, runner.clone());
        Ok(runner)
    }

    /// The lifecycle lock of a task: whoever moves it holds this.
    pub async fn lock_task(&self, task: TaskId) -> OwnedMutexGuard<()> {
        self.task_lock(task).lock_owned().await
    }

    /// The lifecycle lock, unless someone holds it.
    pub fn try_lock_task(&self, task: TaskId) -> Option<OwnedMutexGuard<()>> {
        self.task_lock(task).try_lock_owned().ok()
    }

    fn task_lock(&self, task: TaskId) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(&task).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(task, Arc::downgrade(&lock));
        lock
    }

    /// Live runs: tasks that are working or launching.
    pub fn running_agents(&self) -> u32 {
        let launching = self.launching().clone();
        let working = self.store().rows().iter().filter(|row| holds_slot(row) || launching.contains(&row.id())).count();
        u32::try_from(working).unwrap_or(u32::MAX)
    }

    /// Takes a slot for a launch, unless the cap is reached. A task that holds one already is always let through.
    ///
    /// # Errors
    /// `Err((running, limit))` at the cap.
    pub fn take_slot(&self, task: TaskId) -> std::result::Result<LaunchSlot, (u32, u32)> {
        let limit = self.config().limits.max_concurrent_agents;
        let mut launching = self.launching();
        let rows = self.store().rows();
        let holds = launching.contains(&task) || rows.iter().any(|row| row.id() == task && holds_slot(row));
        let running = rows.iter().filter(|row| holds_slot(row) || launching.contains(&row.id())).count();
        let running = u32::try_from(running).unwrap_or(u32::MAX);
        if !holds && running >= limit {
            return Err((running, limit));
        }
        launching.insert(task);
        Ok(LaunchSlot { ctx: self.clone(), task })
    }

    /// A slot for a launch that a person asked for, whatever the cap says.
    pub fn take_slot_always(&self, task: TaskId) -> LaunchSlot {
        self.launching().insert(task);
        LaunchSlot { ctx: self.clone(), task }
    }

    /// Whether the launch of a task is under way.
    pub fn is_launching(&self, task: TaskId) -> bool {
        self.launching().contains(&task)
    }

    /// Asks for a reconcile tick.
    pub fn reconcile_now(&self) {
        self.0.wake.notify_one();
    }

    /// Resolves when someone asked for a reconcile tick.
    pub async fn reconcile_wanted(&self) {
        self.0.wake.notified().await;
    }

    fn launching(&self) -> std::sync::MutexGuard<'_, HashSet<TaskId>> {
        self.0.launching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a task holds a live run: it is working, or a warm container stands between its turns.
fn holds_slot(row: &TaskRow) -> bool {
    match row.status() {
        Status::Working => true,
        status if status.is_terminal() || status == Status::Queued => false,
        _ => row.session.as_ref().is_some_and(|session| session.container_name.is_some()),
    }
}
