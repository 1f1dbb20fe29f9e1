//! From a tool call to the daemon and back, across a daemon that is restarting.
//!
//! A call that never reached a daemon waits for one: the configuration file is read again (a restarted daemon rewrites
//! its address there) and the call is put again, for ninety seconds. A call that broke off is never repeated. A refused
//! token is read again from the same file, and the call put once more.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::base::{Error, Kind, Result};
use crate::http::client::Client;
use crate::http::envelope;
use crate::rpc::client::{Progress, header_text, probe};
use crate::rpc::mcp_config::McpConfig;

/// How long a daemon may be away.
const RECONNECT: Duration = Duration::from_secs(90);
/// How long a refused token is given to be replaced.
const REAUTH: Duration = Duration::from_secs(20);
const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// The way to the daemon, shared by every call.
#[derive(Debug)]
pub struct Relay {
    path: PathBuf,
    config: Mutex<McpConfig>,
}

/// How a call failed.
enum Failed {
    /// Before it reached a daemon: it may be put again.
    NeverReached(Error),
    /// By the daemon, or on the way back.
    Answered(Error),
}

/// Reads the configuration; a file in the middle of a rewrite is read again.
pub(super) async fn load_config(path: &Path) -> Result<McpConfig> {
    for _ in 0..2 {
        if let Ok(config) = McpConfig::load(path) {
            return Ok(config);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    McpConfig::load(path)
}

impl Relay {
    /// A relay from the configuration at `path`.
    ///
    /// # Errors
    /// When it is missing or not readable.
    pub async fn open(path: PathBuf) -> Result<Relay> {
        let config = load_config(&path).await?;
        Ok(Relay::new(path, config))
    }

    /// A relay from a configuration that was read from `path`.
    pub fn new(path: PathBuf, config: McpConfig) -> Relay {
        Relay { path, config: Mutex::new(config) }
    }

    /// The task; empty for the builder.
    pub fn task_id(&self) -> String {
        self.now().task_id
    }

    /// Calls a tool; `tell` hears what the daemon says meanwhile.
    ///
    /// # Errors
    /// The tool's refusal; [`Kind::Lost`] when the call broke off and may have run; [`Kind::Unavailable`] when no daemon
    /// came.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        tell: &(dyn Fn(String) + Sync),
    ) -> Result<Value> {
        let begun = Instant::now();
        let mut reauth_until: Option<Instant> = None;
        let mut delay = FIRST_DELAY;
        loop {
            let config = self.now();
            let (away, error) = match self.once(&config, tool, arguments, tell).await {
                Ok(value) => return Ok(value),
                Err(Failed::NeverReached(error)) => (true, error),
                Err(Failed::Answered(error)) => (false, error),
            };
            let refused = !away && error.kind() == Kind::Unauthorized;
            if away && begun.elapsed() < RECONNECT {
                tell(format!(
                    "{tool}: the daemon does not answer at {}, waiting ({} s)",
                    config.target,
                    begun.elapsed().as_secs()
                ));
            } else if refused && Instant::now() < *reauth_until.get_or_insert_with(|| Instant::now() + REAUTH) {
                if !self.refresh() {
                    tell(format!("{tool}: the token was refused, waiting for a new one"));
                }
            } else if away || refused {
                return Err(self.explain(error, &config).await);
            } else {
                return Err(error);
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(LONGEST_DELAY);
            self.refresh();
        }
    }

    async fn once(
        &self,
        config: &McpConfig,
        tool: &str,
        arguments: &Map<String, Value>,
        tell: &(dyn Fn(String) + Sync),
    ) -> std::result::Result<Value, Failed> {
        let segment = if config.task_id.is_empty() { "_" } else { &config.task_id };
        let body = json!({ "arguments": arguments }).to_string();
        let bearer = format!("Bearer {}", config.token.expose());
        let project = header_text(&config.project_root);
        let headers = [
            ("authorization", bearer.as_str()),
            ("x-lazy-project", project.as_str()),
            ("x-lazy-heartbeat", "1"),
            ("content-type", "application/json"),
        ];
        let client = Client::new(&config.target).map_err(Failed::Answered)?;
        let response = client.request(Method::POST, &format!("/mcp/{segment}/{tool}"), &headers, body).await;
        let response = response.map_err(|error| match error.kind() {
            Kind::Unavailable => Failed::NeverReached(error),
            _ => Failed::Answered(error),
        })?;
        let answered = envelope::answer(response, |event| tell(told(tool, &Progress::from(event)))).await;
        let mut body = answered.map_err(Failed::Answered)?;
        Ok(body.get_mut("result").map(Value::take).unwrap_or_default())
    }

    /// Reads the file again; whether it says something new. The task never changes.
    fn refresh(&self) -> bool {
        let Ok(new) = McpConfig::load(&self.path) else { return false };
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = new.token != config.token || new.target != config.target;
        config.token = new.token;
        config.target = new.target;
        changed
    }

    /// Says what stands where the daemon should.
    async fn explain(&self, error: Error, config: &McpConfig) -> Error {
        match probe(config.target.trim_start_matches("http://")).await {
            Ok(status) if status.project_root != config.project_root => Error::unavailable(format!(
                "the daemon at {} serves another project ({}); the daemon of this one is not running",
                config.target, status.project_root
            )),
            Ok(_) => error.context("the daemon refuses this session's token; the session may have ended"),
            Err(_) => Error::unavailable(format!(
                "the daemon did not come back within {} s; stop here, commit nothing by another way, and leave what must \
                 not be lost in .lazy-task-sandbox/turn-handoff.jsonl",
                RECONNECT.as_secs()
            ))
            .caused_by(error),
        }
    }

    fn now(&self) -> McpConfig {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn told(tool: &str, progress: &Progress) -> String {
    match progress {
        Progress::Heartbeat(elapsed, phase) => {
            let phase = phase.as_ref().map(|phase| format!(" — {phase}")).unwrap_or_default();
            format!("{tool} running on the daemon ({} s){phase}", elapsed / 1000)
        }
        Progress::Event(event) => {
            format!("{tool}: {}", event.get("label").and_then(Value::as_str).unwrap_or("working"))
        }
    }
}
