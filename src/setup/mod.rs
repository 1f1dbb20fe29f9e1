//! What works without a daemon: setting a project up, finding out what is wrong, asking the rules for tool calls, and the
//! image of containers.
//!
//! Invariants. [`init()`] makes nothing before every precondition holds, makes the project's own directory last, and may
//! be run again. What it finds in the way of optional steps it notes and goes on. It never commits, never runs
//! `git rm`, and never replaces a `lazy.toml`. [`doctor()`] changes nothing, takes no lock for longer than a look, and
//! works when the configuration does not load, when no daemon answers and outside any project.
//!
//! [`images`] makes and tries what is new beside what is in use, and removes only what lazy made and nothing needs.
//!
//! Files written by init: `<root>/lazy.toml` when absent, `<root>/.gitignore`, the data directory, the task store.
//!
//! Refused: a directory without a repository or without a commit, a home directory as a project, a store inside the
//! repository, a store that another daemon has open, questions without a terminal.

mod ask;
mod completion;
mod credential;
mod doctor;
mod gitignore;
pub mod images;
mod init;
pub mod leftovers;
mod policy;
mod report;
pub mod stats;
#[cfg(test)]
mod testing;

pub use crate::proxy::policy::Replay as PolicyReplay;
pub use ask::{Ask, Defaults, Terminal};
pub use doctor::{Check, DaemonFacts, DoctorReport, Outcome, doctor};
pub use init::{InitOptions, Interactivity, Step, init, init_asking};
pub use policy::{PathForms, PolicyCheck, policy_check, policy_replay};
pub use report::{InitReport, Level, Note, SetUp};
