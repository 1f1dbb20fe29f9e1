//! The task record, `task.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Code, Status, TaskId, TaskRef};
use crate::base::{Error, Millis, Result};

/// Metadata key of the stored [`TaskRef`].
pub const META_TASK_REF: &str = "task_ref";
/// Metadata key of the effort chosen for the task.
pub const META_EFFORT: &str = "effort";
/// Metadata key of the status to restore when a running local merge fails; absent while a forge merges.
pub const META_ACCEPT_FROM: &str = "accept_in_flight_from";
/// Metadata key of the target's commit when the running merge began: only what came after it can be that merge.
pub const META_ACCEPT_TIP: &str = "accept_in_flight_tip";
/// Metadata key of a decision on protected files that is being carried out: the approved ones as a JSON list, all other
/// pending ones are being reverted.
pub const META_DECIDING: &str = "file_decision_in_flight";
/// Metadata key of the files that were reverted by such a decision, as a JSON list, until the agent is told.
pub const META_REVERTED: &str = "reverted_files_untold";
/// Metadata key of the accepted merge's commit on the target branch.
pub const META_MERGE_SHA: &str = "accepted_merge_sha";

macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every value.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The stored name.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// Reads a name.
            ///
            /// # Errors
            /// [`crate::base::Kind::Invalid`] listing the names that exist.
            pub fn parse(text: &str) -> Result<$name> {
                $name::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    let names: Vec<&str> = $name::ALL.iter().map(|value| value.as_str()).collect();
                    Error::invalid(format!(concat!("{:?} is not ", $what, "; choose one of {}"), text, names.join(", ")))
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named_enum!(
    /// What kind of work a task is.
    TaskType, "a task type" {
        /// Anything.
        Task = "task",
        /// A defect to find and mend.
        Fix = "fix",
        /// An exploration.
        Spike = "spike",
        /// Same behaviour, better shape.
        Refactor = "refactor",
        /// Tests.
        Test = "test",
        /// An examination.
        Audit = "audit",
        /// A migration.
        Migrate = "migrate",
        /// Documents only.
        Document = "document",
        /// Small clean-ups.
        Tidy = "tidy",
        /// More work on top of accepted work.
        Rework = "rework",
        /// A feature.
        Feature = "feature",
        /// A release.
        Release = "release",
    }
);

named_enum!(
    /// Order in the start queue; later is sooner.
    Priority, "a priority" {
        /// Last.
        Low = "low",
        /// The default.
        Normal = "normal",
        /// Before normal.
        High = "high",
        /// First.
        Urgent = "urgent",
    }
);

named_enum!(
    /// How hard the agent's model is asked to think.
    Effort, "an effort" {
        /// Least.
        Low = "low",
        /// The default for task agents.
        Medium = "medium",
        /// The default for the builder.
        High = "high",
        /// More.
        Xhigh = "xhigh",
        /// Most.
        Max = "max",
    }
);

named_enum!(
    /// What a task's run lives in.
    RunnerKind, "a runner" {
        /// A Docker container.
        Docker = "docker",
        /// A Podman container.
        Podman = "podman",
        /// A process on this machine, in the agent's own sandbox at best.
        Host = "dangerously-host-process-without-any-isolation",
    }
);

impl RunnerKind {
    /// Reads a name as people type it: any case, `container` for docker, `host` for the host process.
    ///
    /// # Errors
    /// [`crate::base::Kind::Invalid`] listing the names that exist.
    pub fn parse_alias(text: &str) -> Result<RunnerKind> {
        match text.trim().to_ascii_lowercase().as_str() {
            "host" => Ok(RunnerKind::Host),
            "container" => Ok(RunnerKind::Docker),
            other => RunnerKind::parse(other).map_err(|_| {
                Error::invalid(format!("{text:?} is not a runner; choose one of host, docker, container, podman"))
            }),
        }
    }
}

/// Where a task's work goes when it is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Target {
    /// Into another task's branch.
    Task {
        /// That task.
        #[serde(rename = "parentTaskId")]
        parent_task_id: TaskId,
    },
    /// Into a branch; the empty name means the repository's default branch, resolved when needed.
    Branch {
        /// Its name.
        branch: String,
    },
}

impl Target {
    /// The repository's default branch, resolved when needed.
    pub fn default_branch() -> Target {
        Target::Branch { branch: String::new() }
    }

    /// The parent task, if the target is one.
    pub fn parent(&self) -> Option<TaskId> {
        match self {
            Target::Task { parent_task_id } => Some(*parent_task_id),
            Target::Branch { .. } => None,
        }
    }

    /// The named branch, unless it is left to be resolved.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Target::Branch { branch } if !branch.is_empty() => Some(branch),
            _ => None,
        }
    }
}

/// A turn whose answer the daemon is waiting for in place (`ask`, `pre_accept`), so that no one else starts another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InFlightTurn {
    /// The session it runs in.
    pub session_id: super::SessionId,
    /// `ask` or `pre_accept`.
    pub owner: String,
    /// The kind of turn.
    pub turn_type: super::TurnKind,
    /// The number kept for the answer.
    pub turn_sequence: u32,
    /// The number of the question.
    pub human_turn_sequence: u32,
    /// The status to restore.
    pub restore_status: Status,
    /// When it began.
    pub started_at: Millis,
    /// When it no longer counts.
    pub expires_at: Millis,
}

/// A task, as `task.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// A person's handle for it.
    #[serde(default)]
    pub code: Option<Code>,
    /// One line.
    #[serde(alias = "title")]
    pub goal: String,
    /// The latest prompt; earlier ones are in the prompt history.
    #[serde(default)]
    pub prompt: String,
    /// What kind of work it is.
    #[serde(rename = "type", default = "default_type")]
    pub task_type: TaskType,
    /// Where it stands.
    pub status: Status,
    /// Its place in the queue.
    #[serde(default = "default_priority")]
    pub priority: Priority,
    /// When it was created.
    #[serde(deserialize_with = "millis")]
    pub created_at: Millis,
    /// When it became complete or abandoned; cleared by reopening.
    #[serde(default, deserialize_with = "optional_millis")]
    pub completed_at: Option<Millis>,
    /// Where its work goes.
    #[serde(default = "Target::default_branch")]
    pub target: Target,
    /// The commit a child branched from.
    #[serde(default)]
    pub branched_from_sha: Option<String>,
    /// Why it was closed or rejected.
    #[serde(default)]
    pub close_reason: Option<String>,
    /// The model asked for.
    #[serde(default)]
    pub model: Option<String>,
    /// The agent that works on it.
    #[serde(default = "default_agent")]
    pub agent_id: String,
    /// A runner other than the project's.
    #[serde(default)]
    pub runner_type: Option<RunnerKind>,
    /// Further facts, text to text.
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Labels, normalised.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Sync signals not yet answered; 0 is up to date.
    #[serde(default, deserialize_with = "count")]
    pub pending_sync: u32,
    /// A turn someone is waiting for in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_turn: Option<InFlightTurn>,
}

fn default_type() -> TaskType {
    TaskType::Task
}

fn default_priority() -> Priority {
    Priority::Normal
}

fn default_agent() -> String {
    "claude-code".into()
}

impl Task {
    /// A new task in the backlog.
    pub fn new(id: TaskId, goal: impl Into<String>, created_at: Millis) -> Task {
        Task {
            id,
            code: None,
            goal: goal.into(),
            prompt: String::new(),
            task_type: TaskType::Task,
            status: Status::Backlog,
            priority: Priority::Normal,
            created_at,
            completed_at: None,
            target: Target::default_branch(),
            branched_from_sha: None,
            close_reason: None,
            model: None,
            agent_id: default_agent(),
            runner_type: None,
            metadata: None,
            tags: Vec::new(),
            pending_sync: 0,
            in_flight_turn: None,
        }
    }

    /// What people call it: the code, else the short id.
    pub fn display_id(&self) -> String {
        self.code.as_ref().map_or_else(|| self.id.short(), Code::to_string)
    }

    /// A metadata value.
    pub fn meta(&self, key: &str) -> Option<&str> {
        self.metadata.as_ref()?.get(key).map(String::as_str)
    }

    /// The stored ref, once the task was started.
    pub fn task_ref(&self) -> Option<TaskRef> {
        self.meta(META_TASK_REF).map(TaskRef::read)
    }

    /// The effort chosen for the task.
    pub fn effort(&self) -> Option<Effort> {
        self.meta(META_EFFORT).and_then(|text| Effort::parse(text).ok())
    }
}

/// Reads unix milliseconds, or the text forms of older stores.
pub(crate) fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Millis, D::Error> {
    optional_millis(deserializer)?.ok_or_else(|| serde::de::Error::custom("a time is missing"))
}

pub(crate) fn optional_millis<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Millis>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Number(f64),
        Text(String),
    }
    Option::<Form>::deserialize(deserializer)?
        .map(|form| match form {
            #[expect(clippy::cast_possible_truncation, reason = "unix milliseconds fit an i64 by far")]
            Form::Number(number) => Ok(Millis(number as i64)),
            Form::Text(text) => {
                Millis::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a time")))
            }
        })
        .transpose()
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u32, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Flag(bool),
        Number(u32),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::Flag(flag) => u32::from(flag),
        Form::Number(number) => number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_an_older_store_opens() {
        let old = r#"{"id":"aaaaaaaa-0000-4000-8000-000000000001","title":"Fix it","status":"active",
            "created_at":"2025-01-02 03:04:05","pending_sync":true,"target":{"kind":"task",
            "parentTaskId":"aaaaaaaa-0000-4000-8000-000000000002"}}"#;
        let task: Task = serde_json::from_str(old).expect("opens");
        assert_eq!(task.goal, "Fix it");
        assert_eq!(task.status, Status::Blocked);
        assert_eq!(task.pending_sync, 1);
        assert_eq!(task.created_at.minute(), "2025-01-02 03:04");
        assert!(task.target.parent().is_some());
    }

    #[test]
    fn runner_names_as_people_type_them() {
        assert_eq!(RunnerKind::parse_alias(" HOST ").expect("host"), RunnerKind::Host);
        assert_eq!(RunnerKind::parse_alias("container").expect("docker"), RunnerKind::Docker);
        assert!(RunnerKind::parse_alias("vm").expect_err("no such").to_string().contains("podman"));
    }
}
