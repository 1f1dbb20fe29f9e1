//! What every room stands on: the running process as a value, errors that carry their own next step, files that are
//! written whole or not at all, locks the operating system releases, ids, time and text.
//!
//! Nothing here knows what a task is. Nothing above this room reads `std::env`, prints, or asks for the time directly:
//! it asks the [`process::Process`] it was handed, so that a test can hand it another one.

pub mod checkpoint;
pub mod error;
pub mod files;
pub mod hash;
pub mod json;
pub mod lock;
pub mod log;
pub mod process;
pub mod text;
pub mod time;

pub use error::{Error, Kind, Result, ResultExt};
pub use process::Process;
pub use time::Millis;
