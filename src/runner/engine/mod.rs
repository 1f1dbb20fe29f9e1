//! Containers: the engine's program, what a container is made of, and how it is found again.
//!
//! | file | holds |
//! | --- | --- |
//! | `program` | calls of `docker` or `podman`, bounded, their failures named |
//! | `quirks` | what an installation is like: rootless, shifted users, labelled files |
//! | `mount`, `walls` | what a task's container sees of this machine |
//! | `argv` | the command lines, as pure functions |
//! | `container` | containers that are there |
//! | `runs` | the runner: a task's supervisor in a container that stays between turns |

pub mod argv;
pub mod container;
pub mod mount;
mod program;
mod quirks;
mod runs;
#[cfg(test)]
mod tests;
pub mod walls;

pub use program::{Engine, LAUNCH, QUERY};
pub use runs::{EngineRunner, Prepared, Terminal, is_container};
pub use walls::GitDirs;
