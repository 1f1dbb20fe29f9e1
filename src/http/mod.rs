//! A thin layer on hyper for loopback HTTP/1.1: server with drain, client, body type, heartbeat envelope, SSE reader.
//!
//! - [`Server`] accepts until its [`Drain`] begins, lets running requests end up to the deadline, then cuts the rest. A
//!   connection that sends no complete request head within the idle time is closed (hyper's header timer is also its
//!   keep-alive timer). TCP_NODELAY is always on: streams here are many small events.
//! - hyper drops a handler's future when its client hangs up. Work that must end whatever the client does goes through
//!   [`finish`] or [`Drain::finish`]; work that must stop with its client (the proxy) stays in the handler.
//! - [`Client`] tells "never connected" ([`Kind::Unavailable`], safe to send again) from "broke on the way"
//!   ([`Kind::Lost`], the work may have been done). It never sends a request twice.
//! - A body that ends with an error breaks the connection: the peer never takes a broken stream for a whole one.
//! - [`envelope`] is the NDJSON framing that keeps long calls alive; [`sse`] splits event streams and keeps the exact
//!   extent of each event.
//!
//! This room owns no file and knows no route, token or task. It refuses bodies over the limit it is given.
//!
//! [`Kind::Unavailable`]: crate::base::Kind::Unavailable
//! [`Kind::Lost`]: crate::base::Kind::Lost

pub mod body;
pub mod client;
pub mod envelope;
pub mod server;
pub mod sse;

pub use body::{Body, Sender, channel, empty, failure, full, json, read_body, try_again};
pub use client::Client;
pub use server::{Drain, Handler, Limits, Server, bind_window, finish};
