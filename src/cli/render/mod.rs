//! Reports as text. Nothing here reads or writes anything: values in, text out.

pub(crate) mod daemon;
pub(crate) mod error;
pub(crate) mod follow_up;
pub(crate) mod json;
pub(crate) mod list;
pub(crate) mod moved;
pub(crate) mod notes;
pub(crate) mod policy;
pub(crate) mod raised;
pub(crate) mod search;
pub(crate) mod setup;
pub(crate) mod sheet;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod turns;
pub(crate) mod wait;
pub(crate) mod watch;

use crate::rpc::commands::TaskBrief;

/// What people call a task: its code, else the first 8 digits of its id.
pub(crate) fn display_id(task: &TaskBrief) -> String {
    task.code.clone().unwrap_or_else(|| task.id.short())
}

/// The first 8 digits of a hash or an id.
pub(crate) fn short(sha: &str) -> &str {
    sha.get(..8).unwrap_or(sha)
}

#[cfg(test)]
mod tests;
