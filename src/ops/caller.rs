//! Who asks, as the presented token proves it, and what they may do.

use crate::base::{Error, Kind, Result};
use crate::model::{Actor, By, TaskId};
use crate::store::TaskRow;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name under which writes are kept.
    pub by: By,
    /// What the token is bound to.
    pub kind: CallerKind,
}

/// What a token is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    /// The machine's owner or a control plane.
    Control,
    /// A person.
    User,
    /// The agent of a task.
    Task(TaskId),
    /// A builder session.
    Builder,
}

impl Caller {
    /// The daemon itself.
    pub fn system() -> Caller {
        Caller { by: Actor::System.into(), kind: CallerKind::Control }
    }

    /// The agent of a task.
    pub fn agent(task: TaskId) -> Caller {
        Caller { by: Actor::Agent.into(), kind: CallerKind::Task(task) }
    }

    /// The task whose agent asks.
    pub fn own_task(&self) -> Option<TaskId> {
        match self.kind {
            CallerKind::Task(task) => Some(task),
            _ => None,
        }
    }

    /// An agent may do this to its own task and to its direct children; everyone else to any.
    pub fn require_own_or_child(&self, row: &TaskRow, doing: &str) -> Result<()> {
        match self.own_task() {
            Some(own) if row.id() != own && row.parent() != Some(own) => {
                Err(refused(row, doing, "its own task or a direct child"))
            }
            _ => Ok(()),
        }
    }

    /// An agent may do this to its direct children only; everyone else to any.
    pub fn require_child(&self, row: &TaskRow, doing: &str) -> Result<()> {
        match self.own_task() {
            Some(own) if row.parent() != Some(own) => Err(refused(row, doing, "a direct child of its own task")),
            _ => Ok(()),
        }
    }

    /// An agent may do this to its own task only; nobody else may at all.
    pub fn require_own(&self, row: &TaskRow, doing: &str) -> Result<()> {
        match self.own_task() {
            Some(own) if row.id() == own => Ok(()),
            Some(_) => Err(refused(row, doing, "its own task")),
            None => Err(Error::new(Kind::Forbidden, format!("only the agent of a task can {doing}"))),
        }
    }

    /// Whether a person asks: the count of turns without one starts again.
    pub fn is_human(&self) -> bool {
        self.by.actor == Actor::Human
    }
}

fn refused(row: &TaskRow, doing: &str, allowed: &str) -> Error {
    Error::new(
        Kind::Forbidden,
        format!(
            "an agent may {doing} only {allowed}, and {} is not; record what should happen with lazy_raise",
            row.task.display_id()
        ),
    )
}
