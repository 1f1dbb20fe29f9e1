//! The commands: one for each thing a caller can ask for.

mod following;
mod internal;
mod lifecycle;
mod notes;
mod reading;

use serde::{Serialize, de::DeserializeOwned};

pub use following::*;
pub use internal::*;
pub use lifecycle::*;
pub use notes::*;
pub use reading::*;

/// A command as it crosses the wire: `POST /rpc/<NAME>` with `Params`, answered by `Report`.
pub trait Command: Send + Sync + 'static {
    /// The word in the route.
    const NAME: &'static str;
    /// What the caller gives.
    type Params: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What it gets.
    type Report: Serialize + DeserializeOwned + Send + Sync + 'static;
}

/// Declares a command from its parts.
macro_rules! command {
    ($(#[$doc:meta])* $name:ident = $text:literal: $params:ty => $report:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl super::Command for $name {
            const NAME: &'static str = $text;
            type Params = $params;
            type Report = $report;
        }
    };
}
pub(crate) use command;
