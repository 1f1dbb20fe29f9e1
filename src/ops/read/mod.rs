//! Operations that change nothing.

mod diff;
mod list;
mod live;
mod search;
mod show;
mod status;
mod system;
mod wait;
mod watch;
