//! Commands that move a task.

use serde::{Deserialize, Serialize};

use super::{TaskBrief, TaskParams, command};
use crate::model::{Effort, Priority, RunnerKind, Status, TaskId, TaskType, Usage};

command!(
    /// Makes a task in the backlog.
    Create = "createTask": CreateParams => CreateReport
);

/// The new task.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateParams {
    /// One line, not blank.
    pub goal: String,
    /// What the agent is told; may be empty until the task is started.
    pub prompt: Option<String>,
    /// A handle.
    pub code: Option<String>,
    /// A task, or a local branch that is not a task's.
    pub parent: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The kind of work.
    #[serde(rename = "type")]
    pub task_type: Option<TaskType>,
    /// The agent.
    pub agent: Option<String>,
    /// The effort.
    pub effort: Option<Effort>,
    /// The runner, as people type it.
    pub runner: Option<String>,
    /// The priority.
    pub priority: Option<Priority>,
    /// Labels.
    pub tags: Vec<String>,
}

/// The task made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateReport {
    /// The task.
    pub task: TaskBrief,
    /// The kind of work.
    pub task_type: TaskType,
    /// The parent task.
    pub parent: Option<TaskBrief>,
    /// The branch the work goes into, when it is not the default one.
    pub target_branch: Option<String>,
    /// The agent.
    pub agent: String,
    /// Why this agent: `--agent`, `parent`, `project default`.
    pub agent_source: String,
    /// The model.
    pub model: Option<String>,
    /// The effort, when chosen.
    pub effort: Option<Effort>,
    /// The runner, when chosen.
    pub runner: Option<RunnerKind>,
    /// Characters of the prompt.
    pub prompt_chars: u32,
    /// Labels.
    pub tags: Vec<String>,
}

command!(
    /// Changes a task that is not finished.
    Edit = "editTask": EditParams => EditReport
);

/// What to change; absent leaves, an empty text clears code, parent and runner.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EditParams {
    /// The task.
    pub task: String,
    /// The goal.
    pub goal: Option<String>,
    /// The prompt: a new version.
    pub prompt: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The effort.
    pub effort: Option<Effort>,
    /// The kind of work.
    #[serde(rename = "type")]
    pub task_type: Option<TaskType>,
    /// The code.
    pub code: Option<String>,
    /// The parent task or target branch.
    pub parent: Option<String>,
    /// The runner, as people type it.
    pub runner: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The priority.
    pub priority: Option<Priority>,
}

/// What changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EditReport {
    /// The task.
    pub task: TaskBrief,
    /// `field: old -> new` lines; empty when nothing differed.
    pub changes: Vec<String>,
}

command!(
    /// Launches a task from the backlog.
    Start = "startTask": StartParams => LaunchReport
);

/// How to launch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StartParams {
    /// The task.
    pub task: String,
    /// The model; kept on the task.
    pub model: Option<String>,
    /// The agent; kept on the task.
    pub agent: Option<String>,
    /// The effort; kept on the task.
    pub effort: Option<Effort>,
    /// The runner; kept on the task.
    pub runner: Option<String>,
    /// Branch from the local parent when the remote cannot be reached.
    pub force_local: bool,
}

/// A launched turn, or a task put in the queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LaunchReport {
    /// The task.
    pub task: TaskBrief,
    /// The branch.
    pub branch: Option<String>,
    /// The worktree.
    pub worktree: Option<String>,
    /// The runner.
    pub runner: Option<RunnerKind>,
    /// The run's name.
    pub run: Option<String>,
    /// The branch the work goes into.
    pub target_branch: Option<String>,
    /// The parent task.
    pub parent: Option<TaskBrief>,
    /// The number of the request turn.
    pub turn: u32,
    /// Set when the cap on agents was reached: running and limit.
    pub queued: Option<(u32, u32)>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

command!(
    /// Gives a blocked task feedback and lets it go on.
    Unblock = "unblockTask": UnblockParams => LaunchReport
);

/// The feedback and the decisions that go with it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnblockParams {
    /// The task.
    pub task: String,
    /// Not blank.
    pub message: String,
    /// The model from now on.
    pub model: Option<String>,
    /// The effort from now on.
    pub effort: Option<Effort>,
    /// Another agent from now on.
    pub agent: Option<String>,
    /// Protected files whose changes stay; the other pending ones are reverted. Absent with pending ones is refused.
    pub approved_files: Option<Vec<String>>,
    /// Decisions on raised items; need not be complete.
    pub raised: Vec<RaisedDecision>,
}

/// A decision on a raised item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RaisedDecision {
    /// The item's id or a prefix of it.
    pub id: String,
    /// What to do.
    pub action: RaisedAction,
    /// The answer (required to respond), the reason (required to dismiss), or a note.
    #[serde(default)]
    pub response: Option<String>,
}

/// What can be done with a raised item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RaisedAction {
    /// Answer it.
    Respond,
    /// Turn it down.
    Dismiss,
    /// Say that it was seen.
    Acknowledge,
    /// Make it a child task in the backlog.
    PromoteSubtask,
    /// Make it a task beside this one in the backlog.
    PromotePeer,
}

command!(
    /// Continues an interrupted task with no new words.
    Resume = "resumeTask": ResumeParams => LaunchReport
);

/// How to go on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResumeParams {
    /// The task.
    pub task: String,
    /// The model from now on.
    pub model: Option<String>,
    /// The effort from now on.
    pub effort: Option<Effort>,
}

command!(
    /// Asks the agent of a resting task a question; nothing changes.
    Ask = "askTask": AskParams => AskReport
);

/// The question.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AskParams {
    /// The task.
    pub task: String,
    /// Not blank.
    pub message: String,
    /// The effort for this answer.
    pub effort: Option<Effort>,
}

/// The answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AskReport {
    /// The task.
    pub task: TaskBrief,
    /// What the agent said.
    pub answer: String,
    /// The number of the answering turn.
    pub turn: u32,
    /// Tokens.
    pub usage: Usage,
    /// What a person should know.
    pub warnings: Vec<String>,
}

command!(
    /// Merges the upstream into a resting task's branch.
    SyncTask = "syncTask": TaskParams => SyncReport
);

/// What the sync did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SyncReport {
    /// The task.
    pub task: TaskBrief,
    /// `up_to_date` or `merged` or `sync_launched`.
    pub outcome: String,
    /// The upstream branch.
    pub upstream: String,
    /// What a person should know.
    pub warnings: Vec<String>,
}

command!(
    /// Stops a working task and parks it.
    Stop = "stopTask": ReasonParams => StatusReport
);

command!(
    /// Turns a task's work down.
    Reject = "rejectTask": ReasonParams => StatusReport
);

command!(
    /// Ends a task that will not be done.
    Close = "closeTask": ReasonParams => StatusReport
);

command!(
    /// Takes a finished task up again.
    Reopen = "reopenTask": ReasonParams => StatusReport
);

/// A task and why.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReasonParams {
    /// The task.
    pub task: String,
    /// Why.
    pub reason: Option<String>,
    /// Go on although the worktree has uncommitted changes, which are then lost.
    pub accept_dirty_worktree: bool,
    /// Reject and close: open children merge from then on where this task would have; without it they are a refusal.
    pub retarget_children: bool,
}

/// Where a task stands after it was moved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StatusReport {
    /// The task.
    pub task: TaskBrief,
    /// Where it stood before.
    pub previous: Status,
    /// Its branch, which is kept.
    pub branch: Option<String>,
    /// The reason that was stored.
    pub reason: Option<String>,
    /// Children that now merge where this task would have.
    #[serde(default)]
    pub reparented: Vec<TaskBrief>,
    /// The branch they merge into now.
    #[serde(default)]
    pub reparented_to: Option<String>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

command!(
    /// Merges a task's work into its target and ends it.
    Accept = "acceptTask": AcceptParams => AcceptReport
);

/// How to accept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AcceptParams {
    /// The task.
    pub task: String,
    /// Why; `LGTM` when absent.
    pub reason: Option<String>,
    /// Protected, resurrected or otherwise guarded files that may pass.
    pub approved_files: Vec<String>,
    /// Decisions on raised items; every open blocking one must be decided.
    pub raised: Vec<RaisedDecision>,
}

/// The merge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AcceptReport {
    /// The task.
    pub task: TaskBrief,
    /// The squash commit on the target; absent when the task had changed nothing.
    pub merge_sha: Option<String>,
    /// The branch it was merged into.
    pub target_branch: String,
    /// `3 files changed, 10 insertions(+)`.
    pub diff_stat: String,
    /// Children that now merge into this task's target.
    pub reparented: Vec<TaskBrief>,
    /// Whether an earlier accept had already done it.
    pub already: bool,
    /// What a person should know.
    pub warnings: Vec<String>,
}

command!(
    /// Changes a task's place in the start queue.
    Prioritize = "prioritizeTask": PrioritizeParams => EditReport
);

/// The new place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PrioritizeParams {
    /// The task.
    pub task: String,
    /// The priority.
    pub priority: Priority,
}

command!(
    /// Commits what is in a task's worktree. Only the task's own agent asks for this.
    CommitWork = "commitWork": CommitParams => CommitReport
);

/// What to commit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitParams {
    /// The task.
    pub task: String,
    /// Not blank.
    pub message: String,
    /// Only these files; empty is everything.
    pub files: Vec<String>,
}

/// The commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitReport {
    /// Whether there was anything to commit.
    pub committed: bool,
    /// Its hash, short.
    pub sha: Option<String>,
    /// Its hash.
    pub full_sha: Option<String>,
    /// Its message.
    pub message: String,
    /// How many files.
    pub files_changed: u32,
    /// `git diff --stat` of it.
    pub diff_stat: String,
}

command!(
    /// The agent's word on its progress; not kept.
    UpdateProgress = "updateProgress": ProgressParams => ProgressReport
);

/// The word.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProgressParams {
    /// The task.
    pub task: String,
    /// Cut at 120 characters.
    pub message: String,
}

/// What was kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProgressReport {
    /// The task.
    pub task_id: TaskId,
    /// The word kept.
    pub message: String,
    /// Whether it was cut.
    pub truncated: bool,
}

command!(
    /// Says how to open a shell where a task works; a container runner's idle container is started for it.
    Shell = "shellTask": ShellParams => ShellReport
);

/// Where the shell is to be.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShellParams {
    /// The task.
    pub task: String,
    /// Whether this machine is wanted although the task runs in a container.
    pub host: bool,
    /// Whether the caller's standard streams are a terminal.
    pub terminal: bool,
}

/// How to open it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShellReport {
    /// The task.
    pub task: TaskBrief,
    /// Its worktree on this machine.
    pub worktree: String,
    /// The program and its arguments that open a shell in the container; absent for one on this machine.
    pub container: Option<ContainerShell>,
}

/// A shell in a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ContainerShell {
    /// The engine's program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The container's name.
    pub name: String,
}
