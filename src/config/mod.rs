//! `lazy.toml`: find, load, check, explain, edit with comments kept; and where a project is.
//!
//! Invariants. A file that exists is obeyed or refused, never replaced by defaults. Every refusal names the file, line
//! and column, shows the line, and says what would be legal. What nothing reads is reported as unknown and changes
//! nothing. A missing file is the defaults, in silence.
//!
//! Refused: a file that is not UTF-8 TOML, a value of the wrong type or range, a retired key whose meaning is gone,
//! `LAZY_CONFIG` naming no file, a mount or a store where it may not be.

pub mod edit;
mod find;
pub mod gitdir;
mod load;
pub mod mounts;
pub mod project;
mod read;
mod reader;
pub mod resolve;
mod retired;
pub mod schema;
mod source;
pub mod template;
mod urls;

pub use find::FILE_NAME;
pub use load::{Loaded, known_keys, load, load_for_daemon, load_text};
pub use project::Project;
pub use reader::UnknownKey;
pub use schema::{Backend, Chattiness, Config, Driver, Network, PermissionMode};
pub use template::EXAMPLE;
