//! The routes: credential, project, body, name; then the work, on a task of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::auth::{self, Presented};
use super::body;
use super::dispatch::Dispatch;
use super::route::{self, Route};
use super::status::Facts;
use super::tools::{self, Tools, Work};
use crate::base::text::nearest;
use crate::base::{Error, Kind, Result};
use crate::http::{Body, Drain, Handler, envelope, failure, json as reply, try_again};
use crate::ops::Narrator;
use crate::rpc::Command;
use crate::rpc::client::header_text_decoded;
use crate::rpc::commands::{Wait, Watch};
use crate::rpc::tokens::{Token, Tokens};

/// Between the answer to a request to end and the end.
const FAREWELL: Duration = Duration::from_millis(50);

/// Calls that only wait: the end of the daemon ends them, instead of being held up by them.
const WAITING: [&str; 3] = [Wait::NAME, Watch::NAME, "lazy_wait"];

/// Everything that the routes need.
pub(super) struct Router {
    pub root: PathBuf,
    pub shared: Token,
    pub tokens: Arc<Tokens>,
    pub dispatch: Arc<dyn Dispatch>,
    pub tools: Arc<dyn Tools>,
    pub facts: Facts,
    pub drain: Drain,
    /// Told when a request asked for the end.
    pub end: Arc<Notify>,
    /// How often an enveloped reply shows that it lives.
    pub heartbeat: Duration,
}

/// The handler of the listener: 503 until there is a router.
#[derive(Default)]
pub(super) struct Front(OnceLock<Arc<Router>>);

impl Front {
    /// Lets requests through.
    pub fn wire(&self, router: Router) {
        self.0.set(Arc::new(router)).ok();
    }
}

impl Handler for Front {
    fn handle(
        &self,
        request: Request<Incoming>,
        _peer: SocketAddr,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        let router = self.0.get().cloned();
        Box::pin(async move {
            match router {
                Some(router) => router.answer(request).await,
                None => try_again(&Error::unavailable("the daemon is starting; ask again in a moment")),
            }
        })
    }
}

impl Router {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let path = route::for_log(head.uri.path());
        let answered = match Route::of(&head.method, head.uri.path()) {
            Route::Status => Ok(reply(200, &self.facts.status(self.dispatch.running_agents()).await)),
            Route::Shutdown => self.shutdown(&head.headers),
            Route::Rpc(command) => self.rpc(&head.headers, body, &command, &path).await,
            Route::Mcp { task, tool } => self.mcp(&head.headers, body, &task, &tool, &path).await,
            Route::Only(method) => Err(Error::invalid(format!("{path} takes {method}, not {}", head.method))),
            Route::Nowhere => Err(Error::not_found(format!("there is nothing at {} {path}", head.method))
                .hint("POST /rpc/<command>")
                .hint("GET /daemon/status")),
        };
        answered.unwrap_or_else(|error| {
            log(&path, &error);
            match error.kind() {
                // Refused before any work began.
                Kind::Unavailable if self.drain.has_begun() => try_again(&error),
                _ => failure(&error),
            }
        })
    }

    fn shutdown(&self, headers: &HeaderMap) -> Result<Response<Body>> {
        auth::require_control(self.presented(headers)?, "end the daemon")
            .map_err(|error| self.explain(error, headers))?;
        if headers.contains_key("x-lazy-project") {
            self.require_project(headers)?;
        }
        let end = self.end.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FAREWELL).await;
            end.notify_one();
        });
        Ok(reply(200, &json!({ "ok": true, "message": "Shutting down" })))
    }

    async fn rpc(&self, headers: &HeaderMap, body: Incoming, command: &str, path: &str) -> Result<Response<Body>> {
        let principal = auth::principal(self.presented(headers)?).map_err(|error| self.explain(error, headers))?;
        self.require_project(headers)?;
        let mut params = body::params(&self.read(body).await?)?;
        let caller = auth::take_caller(principal, &mut params)?;
        let (narrator, progress) = narration(headers);
        let work = self.dispatch.call(command, caller, Value::Object(params), narrator);
        let work = work.ok_or_else(|| self.no_such_command(command))?;
        Ok(self.carry_out(path, command, work, progress).await)
    }

    async fn mcp(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        task: &str,
        tool: &str,
        path: &str,
    ) -> Result<Response<Body>> {
        let session = auth::session(self.presented(headers)?).map_err(|error| self.explain(error, headers))?;
        let claim = auth::claim(task)?;
        let own = match session {
            auth::Session::Task(id) => self.dispatch.task(id),
            auth::Session::Builder => None,
        };
        let caller = auth::authorize(session, &claim, own.as_ref())?;
        self.require_project(headers)?;
        let wanted = tools::require_schema(tool)?;
        let arguments = body::arguments(&self.read(body).await?, tool, &wanted)?;
        tools::require_valid(tool, &wanted, &arguments)?;
        let (narrator, progress) = narration(headers);
        let work = self.tools.call(caller, tool, arguments, narrator);
        let work = Box::pin(async move { Ok(json!({ "result": work.await? })) });
        Ok(self.carry_out(path, tool, work, progress).await)
    }

    /// Runs the work to its end, whoever listens, and answers with the envelope or the plain reply.
    async fn carry_out(
        &self,
        path: &str,
        name: &str,
        work: Work,
        progress: Option<mpsc::UnboundedReceiver<Value>>,
    ) -> Response<Body> {
        let path = path.to_string();
        let only_waits = WAITING.contains(&name);
        let drain = self.drain.clone();
        let work = async move {
            let done = tokio::select! {
                biased;
                done = work => done,
                () = drain.begun(), if only_waits => Err(ending()),
            };
            done.inspect_err(|error| log(&path, error))
        };
        let drain = self.drain.clone();
        match progress {
            Some(progress) => envelope::respond(async move { drain.finish(work).await }, progress, self.heartbeat),
            None => match drain.finish(work).await {
                Ok(value) => reply(200, &value),
                Err(error) => failure(&error),
            },
        }
    }

    /// Reads a body; one that is still on its way when the daemon ends has done nothing yet, and is not waited for.
    async fn read(&self, body: Incoming) -> Result<bytes::Bytes> {
        tokio::select! {
            biased;
            read = body::read(body) => read,
            () = self.drain.begun() => Err(ending()),
        }
    }

    fn presented(&self, headers: &HeaderMap) -> Result<Presented> {
        auth::present(headers, &self.shared, &self.tokens)
    }

    /// The request must be for the project that this daemon serves.
    fn require_project(&self, headers: &HeaderMap) -> Result<()> {
        let root = self.root.to_string_lossy();
        let Some(asked) = project_of(headers) else {
            return Err(Error::invalid("the request names no project").hint(format!("x-lazy-project: {root}")));
        };
        if asked != root {
            return Err(Error::invalid(format!("this daemon serves {root}, and the request is for {asked}"))
                .hint(format!("lazy daemon status --project '{}'", asked.replace('\'', "'\\''"))));
        }
        if !self.root.is_dir() {
            return Err(
                Error::invalid(format!("the project {root} is not there any more")).hint("lazy daemon kill-stray")
            );
        }
        Ok(())
    }

    /// A refused token is most often good for another project's daemon.
    fn explain(&self, error: Error, headers: &HeaderMap) -> Error {
        let root = self.root.to_string_lossy();
        match project_of(headers) {
            Some(asked) if error.kind() == Kind::Unauthorized && asked != root => {
                error.context(format!("this daemon serves {root}, and the request is for {asked}"))
            }
            _ => error,
        }
    }

    fn no_such_command(&self, command: &str) -> Error {
        let shown = route::for_log(command);
        let error = Error::not_found(format!("there is no command {shown:?}"));
        match nearest(command, self.dispatch.names()) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint("the program may be newer than the daemon: lazy daemon restart"),
        }
    }
}

fn ending() -> Error {
    Error::unavailable("the daemon is ending").hint("ask again when it is back")
}

/// A narrator that is heard when the caller asked for the envelope.
fn narration(headers: &HeaderMap) -> (Narrator, Option<mpsc::UnboundedReceiver<Value>>) {
    if !envelope::is_wanted(headers) {
        return (Narrator::silent(), None);
    }
    let (narrator, progress) = Narrator::channel();
    (narrator, Some(progress))
}

fn project_of(headers: &HeaderMap) -> Option<String> {
    Some(header_text_decoded(headers.get("x-lazy-project")?.to_str().ok()?))
}

fn log(path: &str, error: &Error) {
    let status = error.kind().http_status();
    if status >= 500 {
        tracing::error!(path, status, %error, "refused");
    } else {
        tracing::info!(path, status, %error, "refused");
    }
}
