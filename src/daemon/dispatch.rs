//! From the name of a command to the operation: all that the routes know of the operations.

use serde_json::Value;

use super::tools::Work;
use crate::model::{Code, TaskId, TaskRef};
use crate::ops::{self, Caller, Ctx, Narrator};

/// The operations, as the routes see them.
pub(super) trait Dispatch: Send + Sync + 'static {
    /// Starts a command; `None` when there is none of that name. Nothing happens until the work is polled.
    fn call(&self, command: &str, caller: Caller, params: Value, narrator: Narrator) -> Option<Work>;

    /// The names of all commands.
    fn names(&self) -> Vec<&'static str>;

    /// How a task may be named.
    fn task(&self, id: TaskId) -> Option<Named>;

    /// Live runs. Looks at memory only.
    fn running_agents(&self) -> u32;
}

/// The names of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub id: TaskId,
    pub code: Option<Code>,
    pub task_ref: Option<TaskRef>,
}

impl Named {
    /// Whether the text names this task: its id, the beginning of it of 8 digits or more, its code or its ref.
    pub fn is(&self, text: &str) -> bool {
        let id = self.id.to_string();
        let lower = text.to_ascii_lowercase();
        (lower.len() >= 8 && id.starts_with(&lower))
            || self.code.as_ref().is_some_and(|code| code.as_str() == text)
            || self.task_ref.as_ref().is_some_and(|task_ref| task_ref.as_str() == text)
    }

    /// The name to show.
    pub fn shown(&self) -> String {
        self.code.as_ref().map_or_else(|| self.id.short(), Code::to_string)
    }
}

/// The real operations.
pub(super) struct Operations(pub Ctx);

impl Dispatch for Operations {
    fn call(&self, command: &str, caller: Caller, params: Value, narrator: Narrator) -> Option<Work> {
        let handler = ops::handler(command)?;
        Some(handler(self.0.clone(), caller, params, narrator))
    }

    fn names(&self) -> Vec<&'static str> {
        ops::names().collect()
    }

    fn task(&self, id: TaskId) -> Option<Named> {
        let row = self.0.store().row(id)?;
        Some(Named { id, code: row.task.code.clone(), task_ref: row.task.task_ref() })
    }

    fn running_agents(&self) -> u32 {
        self.0.running_agents()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_several_names() {
        let named = Named {
            id: "aaaabbbb-0000-4000-8000-000000000002".parse().expect("id"),
            code: Some(Code::read("fix")),
            task_ref: Some(TaskRef::read("fix-26-05-06")),
        };
        for name in
            ["aaaabbbb-0000-4000-8000-000000000002", "aaaabbbb", "AAAABBBB", "aaaabbbb-0000", "fix", "fix-26-05-06"]
        {
            assert!(named.is(name), "{name}");
        }
        for other in ["", "aaaa", "Fix", "aaaabbbc", "fix-26", "_"] {
            assert!(!named.is(other), "{other}");
        }
        assert_eq!(named.shown(), "fix");
    }
}
