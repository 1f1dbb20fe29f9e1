//! One file for each command, or for a few that are one thing.

pub(crate) mod accept;
pub(crate) mod ask;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod create;
pub(crate) mod daemon;
pub(crate) mod daemons;
pub(crate) mod decisions;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod ending;
pub(crate) mod init;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod notes;
pub(crate) mod raised;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod system;
pub(crate) mod typed;
pub(crate) mod unblock;
pub(crate) mod wait;
pub(crate) mod watch;
