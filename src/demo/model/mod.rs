//! A scripted stand-in for the Anthropic Messages API, for `lazy demo` and for tests.
//!
//! It answers `POST /v1/messages` (streamed or not), `POST /v1/messages/count_tokens`, `GET /v1/models`, `HEAD` of
//! anything, and `GET /__requests`, the list of what it was asked, with headers and bodies, so that a test can prove
//! which credential arrived. What it says is a [`Scenario`]: ordered steps, of which the first unused one that fits the
//! request is played.
//!
//! A client's side traffic (titles, topics, a quota probe with `max_tokens: 1`) offers no tools: it gets a short text and
//! uses up no step, unless a step asks for it. Every message has an id of its own, because clients merge messages that
//! share one. It listens on loopback, checks no credential and owns no file.

mod facts;
mod reply;
mod scenario;
mod serve;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

pub use scenario::{Block, Call, Counts, ErrorReply, OneOrMore, RawReply, Reply, Requests, Scenario, Step, Uses, When};
pub use serve::{ModelServer, Received, serve};

use crate::base::{Error, Process, Result};
use crate::http::bind_window;

const USAGE: &str = "usage: lazy demo-model [--scenario FILE] [--port N]";

/// `lazy demo-model [--scenario FILE] [--port N]`: serves until SIGTERM or SIGINT; prints `{"address":…}` once it listens.
///
/// `args` are the words after the verb. Without a scenario the built-in one is played.
pub async fn run(process: &Process, args: &[OsString]) -> Result<u8> {
    let options = Options::parse(args)?;
    let scenario = match &options.scenario {
        Some(path) => Scenario::load(&process.cwd().join(path))?,
        None => Scenario::built_in(),
    };
    let mut terminated =
        signal(SignalKind::terminate()).map_err(|source| Error::io("cannot wait for SIGTERM", source))?;
    let mut interrupted =
        signal(SignalKind::interrupt()).map_err(|source| Error::io("cannot wait for SIGINT", source))?;
    let server = serve(bind_window("127.0.0.1", options.port, 1).await?, scenario)?;
    process.out_line(json!({"address": server.address()}).to_string())?;
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    server.stop(Duration::from_secs(1)).await;
    Ok(0)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    scenario: Option<PathBuf>,
    port: u16,
}

impl Options {
    fn parse(args: &[OsString]) -> Result<Options> {
        let mut options = Options::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().ok_or_else(|| Error::usage(format!("{} wants a value", word.display())).hint(USAGE));
            match word.to_str() {
                Some("--scenario") => options.scenario = Some(Path::new(value()?).to_path_buf()),
                Some("--port") => {
                    let text = value()?.to_string_lossy().into_owned();
                    options.port =
                        text.parse().map_err(|_| Error::usage(format!("{text:?} is not a port")).hint(USAGE))?;
                }
                _ => return Err(Error::usage(format!("unknown word {}", word.display())).hint(USAGE)),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests;
