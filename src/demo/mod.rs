//! A scripted model server and a small built-in agent: `lazy demo`, and the stand-ins of the tests.
//!
//! [`agent`] is the `demo` agent: a tool loop over the Messages API that needs nothing installed. [`model`] plays the
//! Messages API from a scenario file. Together they let a whole task run on a machine without network or credential.

pub mod agent;
pub mod model;
