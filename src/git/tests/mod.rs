//! The room against the real git program, in temporary directories with spaces and umlauts in their names.

mod committing;
mod distrusting;
mod finding;
mod fixture;
mod including;
mod merging;
mod protecting;
mod squashing;
mod working;

pub(super) use fixture::{Fixture, write};
