//! The client of one daemon: a request on a fresh loopback connection, progress as it comes, the report at the end.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::state_dir::DaemonStatus;
use super::tokens::Token;
use super::{Command, StateDir, tokens};
use crate::base::{Error, Kind, Result};
use crate::http::{client, envelope};
use crate::model::Actor;

/// Marks, in an error's details, a call that nobody took.
const NEVER_CARRIED_OUT: &str = "never_carried_out";

const PROBE_LIMIT: Duration = Duration::from_secs(3);

/// Something a running command tells while it works.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A phase began or ended, or a note of the operation.
    Event(Value),
    /// Still at it, for this many milliseconds, in this phase.
    Heartbeat(u64, Option<String>),
}

impl From<envelope::Event> for Progress {
    fn from(event: envelope::Event) -> Self {
        match event {
            envelope::Event::Progress(event) => Progress::Event(event),
            envelope::Event::Heartbeat { elapsed, phase } => {
                Progress::Heartbeat(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX), phase)
            }
            envelope::Event::Done { body, .. } => Progress::Event(body),
        }
    }
}

/// A client of one project's daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    address: String,
    project_root: String,
    token: Token,
    actor: Actor,
}

impl Client {
    /// A client from the state directory of a daemon that has started.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when no daemon ever started here.
    pub fn for_project(state: &StateDir, actor: Actor) -> Result<Client> {
        let port = state
            .port()
            .ok_or_else(|| Error::unavailable("the daemon of this project is not running").hint("lazy daemon start"))?;
        Ok(Client {
            address: format!("127.0.0.1:{port}"),
            project_root: state.project_root().to_string_lossy().into_owned(),
            token: tokens::load_shared(&state.token_path())?,
            actor,
        })
    }

    /// Runs a command; `on_progress` hears what it tells while it works.
    ///
    /// # Errors
    /// The operation's own refusal; [`Kind::Unavailable`] when nothing answers (the command did not run);
    /// [`Kind::Lost`] when the reply broke off (it may have run).
    pub async fn call<C: Command>(
        &self,
        params: &C::Params,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<C::Report> {
        let mut body = to_value(params)?;
        if let Value::Object(fields) = &mut body {
            fields.insert("actor".into(), Value::from(self.actor.as_str()));
        }
        let response = self.send(Method::POST, &format!("/rpc/{}", C::NAME), Some(&body)).await?;
        let report = envelope::answer(response, |event| on_progress(Progress::from(event))).await;
        from_value(report.map_err(with_next_step)?)
    }

    /// Asks who listens on the daemon's port; needs no credential.
    pub async fn status(&self) -> Result<DaemonStatus> {
        probe(&self.address).await
    }

    /// Asks the daemon to end; it answers before it does.
    pub async fn shutdown(&self) -> Result<()> {
        let response = self.send(Method::POST, "/daemon/shutdown", Some(&Value::Object(Default::default()))).await?;
        envelope::answer(response, |_| {}).await.map(drop)
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Response<Incoming>> {
        let bytes = body.map(|body| body.to_string()).unwrap_or_default();
        let bearer = format!("Bearer {}", self.token.expose());
        let project = header_text(&self.project_root);
        let headers = [
            ("authorization", bearer.as_str()),
            ("x-lazy-project", project.as_str()),
            ("x-lazy-heartbeat", "1"),
            ("content-type", "application/json"),
        ];
        let client = client::Client::new(&format!("http://{}", self.address))?;
        let response = client.request(method, path, &headers, bytes).await.map_err(|error| match error.kind() {
            Kind::Unavailable => never_carried_out(with_next_step(error)),
            _ => with_next_step(error),
        })?;
        if response.status() == 503 && response.headers().contains_key(hyper::header::RETRY_AFTER) {
            let told = envelope::answer(response, |_| {}).await;
            let error = told.err().unwrap_or_else(|| Error::unavailable("the daemon is ending"));
            return Err(never_carried_out(with_next_step(error)));
        }
        Ok(response)
    }
}

/// Whether a call was certainly not carried out, because nobody took it: it may be made again.
pub fn may_call_again(error: &Error) -> bool {
    error.details().is_some_and(|details| details[NEVER_CARRIED_OUT] == true)
}

fn never_carried_out(error: Error) -> Error {
    error.with_details(serde_json::json!({ NEVER_CARRIED_OUT: true }))
}

/// A call that never reached the daemon, or broke off: where to look.
fn with_next_step(error: Error) -> Error {
    match error.kind() {
        Kind::Lost => error.hint("lazy list"),
        Kind::Unavailable if error.hints().is_empty() => error.hint("lazy daemon status"),
        _ => error,
    }
}

/// A path as a header value: percent-encoded where a header may not carry it.
pub fn header_text(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'%' => out.push_str("%25"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// The text a header value made by [`header_text`] stands for.
pub fn header_text_decoded(value: &str) -> String {
    let bytes = value.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| value.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Asks who listens at `host:port`, within three seconds.
pub async fn probe(address: &str) -> Result<DaemonStatus> {
    let asked = async {
        let client = client::Client::new(&format!("http://{address}"))?;
        let response = client.request(Method::GET, "/daemon/status", &[], Vec::new()).await?;
        let body = response.into_body().collect().await.map_err(lost)?.to_bytes();
        serde_json::from_slice(&body)
            .map_err(|source| Error::new(Kind::Lost, "what answered is not a lazy daemon").caused_by(source))
    };
    tokio::time::timeout(PROBE_LIMIT, asked).await.unwrap_or_else(|_| {
        Err(Error::new(Kind::Timeout, format!("the daemon at {address} does not answer")).hint("lazy daemon restart"))
    })
}

fn lost(source: hyper::Error) -> Error {
    Error::new(Kind::Lost, "the connection to the daemon broke while it was working; what was asked may have been done")
        .caused_by(source)
        .hint("lazy daemon status")
        .hint("lazy list")
}

fn to_value(params: &impl Serialize) -> Result<Value> {
    serde_json::to_value(params).map_err(|source| Error::internal("cannot encode the parameters").caused_by(source))
}

fn from_value<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|source| {
        Error::new(Kind::Lost, "the daemon answered in a form this version does not know")
            .caused_by(source)
            .hint("lazy daemon restart")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_survives_a_header() {
        for path in ["/srv/my app", "/home/é/日本", "/odd%20name", "/plain"] {
            let header = header_text(path);
            assert!(header.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{header}");
            assert_eq!(header_text_decoded(&header), path);
        }
    }
}
