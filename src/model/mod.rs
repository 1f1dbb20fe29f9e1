//! What a task is: records as they stand on disk, names, the transition table, and gates as pure decisions.
//!
//! No I/O and no clock: everything here is a value or a function of values. Field names and enumerations are those of
//! the stored format, so a record read by another program of the family means the same there. Optional fields are
//! absent when unset; nullable ones are `null`.

pub mod actor;
pub mod exchange;
pub mod link;
pub mod names;
pub mod notes;
pub mod raised;
pub mod session;
pub mod status;
pub mod tags;
pub mod task;
pub mod turn;
pub mod violations;

pub use actor::{Actor, By};
pub use names::{Code, SessionId, TaskId, TaskRef};
pub use notes::{Comment, Commit, CommitStatus, JournalEntry, PromptVersion, Snapshot, StatusChange, TagEvent};
pub use raised::{RaisedItem, RaisedStatus};
pub use session::{Outcome, Session};
pub use status::Status;
pub use task::{Effort, Priority, RunnerKind, Target, Task, TaskType};
pub use turn::{Delivery, Role, Turn, TurnKind, Usage, Violation, ViolationStatus};
