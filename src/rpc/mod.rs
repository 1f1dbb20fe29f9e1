//! What crosses the daemon's wire: commands, tokens, the state directory, the client.
//!
//! A command is a name, a typed parameter struct and a typed report struct ([`Command`]); the operation behind it lives
//! in `ops`, the faces (command line, MCP tools, dashboard) only know this room.
//!
//! **Files owned:** `~/.lazy/daemon/<slug>/` (base overridden by `LAZY_DAEMON_BASE_DIR`), see [`StateDir`]. That
//! directory is never mounted into a container: it holds the shared token and every identity's token.
//!
//! **Refused:** a daemon of another project on our port (named), a reply that ends before its result
//! ([`crate::base::Kind::Lost`]: the work may have been done), a token file of the wrong shape.

pub mod client;
pub mod commands;
pub mod mcp_config;
pub mod state_dir;
pub mod tokens;

pub use client::{Client, Progress};
pub use commands::Command;
pub use state_dir::StateDir;
