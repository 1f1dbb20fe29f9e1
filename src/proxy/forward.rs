//! The life of one request: who calls, what is asked, where it goes, what comes back.

mod headers;
mod targets;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::http::request;
use hyper::{Method, Request, Response, Uri, header};
use serde_json::json;

use targets::Target;
pub(super) use targets::Targets;

use super::activity::{Activity, Event};
use super::audit::{Entry, Extraction, Ledger, Record};
use super::caller::{Caller, identify};
use super::extract::{Endpoint, Scrubber, extract};
use super::gate::decode::Coding;
use super::gate::{Court, Findings, Gate, Open, Policed};
use super::grants::{Grant, Grants};
use super::policy::Place;
use super::pool::Pool;
use super::settings::{ProxyConfig, TargetCredential};
use super::tee::Tee;
use super::usage::{Scanner, Told};
use crate::base::{Error, Kind, Result};
use crate::http::{self, Body, Handler};

/// The longest request body that is read before it is forwarded; a longer one is streamed unread.
const READ_LIMIT: usize = 32 << 20;
/// The longest body that is read on the request's own path; reading a longer one runs beside the forwarding.
const INLINE_LIMIT: usize = 32 << 10;

/// Forwards requests.
pub(super) struct Forwarder(Arc<Shared>);

struct Shared {
    config: ProxyConfig,
    targets: Targets,
    grants: Arc<Grants>,
    pool: Pool,
    ledger: Ledger,
    activity: Arc<Activity>,
    seq: AtomicU64,
}

impl Forwarder {
    /// A forwarder over its parts.
    pub fn new(
        config: ProxyConfig,
        targets: Targets,
        grants: Arc<Grants>,
        pool: Pool,
        ledger: Ledger,
        activity: Arc<Activity>,
    ) -> Self {
        let seq = AtomicU64::new(0);
        Forwarder(Arc::new(Shared { config, targets, grants, pool, ledger, activity, seq }))
    }
}

impl Handler for Forwarder {
    fn handle(
        &self,
        request: Request<Incoming>,
        _peer: SocketAddr,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        let shared = self.0.clone();
        Box::pin(async move { shared.answer(request).await })
    }
}

/// A request that is answered here and not by the upstream.
struct Refusal {
    /// What the client is told.
    status: u16,
    body_type: &'static str,
    message: String,
    /// What the record says.
    error: String,
    /// Whether the record has the status: it has none when the upstream should have answered.
    recorded: Option<u16>,
}

impl Refusal {
    fn unauthorized(error: &str, message: String) -> Self {
        Refusal {
            status: 401,
            body_type: "authentication_error",
            message,
            error: format!("credential refused: {error}"),
            recorded: Some(401),
        }
    }

    fn proxy(status: u16, message: String, recorded: Option<u16>) -> Self {
        Refusal { status, body_type: "proxy_error", error: message.clone(), message, recorded }
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let caller = identify(&parts.headers, &self.grants);
        let mut entry = self.begin(&parts, caller.as_ref().ok());
        match self.forward(parts, body, caller, &mut entry).await {
            Ok(passing) => passing.respond(entry),
            Err(refusal) => {
                if let Some(status) = refusal.recorded {
                    entry.answered(status);
                }
                entry.close(Told::default(), Findings::default(), Some(refusal.error));
                let error = json!({"type": refusal.body_type, "message": refusal.message});
                http::json(refusal.status, &json!({"type": "error", "error": error}))
            }
        }
    }

    /// Opens the record of a request.
    fn begin(&self, parts: &request::Parts, caller: Option<&Caller>) -> Entry {
        let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
        let (role, task_id) = match caller {
            Some(Caller::Granted(grant)) => (Some(grant.role.as_str().to_string()), grant.task_id.clone()),
            Some(Caller::Foreign { role, task }) => (role.clone(), task.clone()),
            Some(Caller::Refused) | None => (None, None),
        };
        let target = self.targets.for_caller(caller);
        let record = Record {
            id: uuid::Uuid::new_v4().to_string(),
            seq: self.seq.fetch_add(1, Ordering::Relaxed) + 1,
            ts: self.config.process.now().0,
            role,
            task_id,
            backend: "proxy".into(),
            upstream: target.base.text.clone(),
            method: parts.method.to_string(),
            path: path.to_string(),
            endpoint: Endpoint::of(parts.uri.path()),
            ..Record::default()
        };
        let granted = match caller {
            Some(Caller::Granted(grant)) => Some(grant.token.expose().to_string()),
            _ => None,
        };
        let real = self.config.credential.credential().map(|credential| credential.expose().to_string());
        Entry::new(record, Scrubber::new(granted.into_iter().chain(real)), self.ledger.clone())
    }

    async fn forward(
        &self,
        parts: request::Parts,
        body: Incoming,
        caller: Result<Caller>,
        entry: &mut Entry,
    ) -> Result<Passing, Refusal> {
        if parts.uri.path().starts_with("/_lazy/") || parts.uri.path() == "/_lazy" {
            // What follows may be a placeholder: it is not recorded.
            entry.record_mut().path = "/_lazy/…".into();
            return Err(Refusal::proxy(404, "this version of the proxy has no /_lazy/ routes".into(), Some(404)));
        }
        let Some(path) = parts.uri.path_and_query().filter(|path| path.as_str().starts_with('/')) else {
            return Err(Refusal::proxy(400, "the request names no path".into(), Some(400)));
        };
        let grant = match caller {
            Ok(Caller::Granted(grant)) => Some(grant),
            Ok(Caller::Foreign { .. }) => None,
            Ok(Caller::Refused) => {
                let message = "this placeholder credential is unknown or was revoked; \
                               start the task again (lazy unblock <task>), or see lazy daemon status";
                return Err(Refusal::unauthorized("unknown or revoked placeholder", message.into()));
            }
            Err(error) => return Err(Refusal::proxy(502, error.full_message(), None)),
        };
        let target = self.targets.for_grant(grant.as_ref());
        let uri: Uri = format!("{}{path}", target.base.prefix)
            .parse()
            .map_err(|_| Refusal::proxy(400, "the path cannot be forwarded".into(), Some(400)))?;
        let endpoint = entry.record().endpoint;
        let mut headers = parts.headers;
        headers::prepare_request(&mut headers, &target.base.origin);
        if endpoint.is_read() {
            // The trail reads token counts from the response: it must come as plain text.
            headers.insert(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
        }
        self.substitute(&mut headers, grant.as_ref(), target)?;

        let body = match endpoint.is_read() && !matches!(parts.method, Method::GET | Method::HEAD) {
            true => self.read(body, entry).await?,
            false => {
                self.activity.publish(Event::open(entry.record()));
                body.map_err(broken_upload).boxed()
            }
        };
        let mut request = Request::new(body);
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        match self.pool.send(&target.base.origin, request).await {
            Ok((response, lease)) => {
                entry.answered(response.status().as_u16());
                let court = self.court(path.path(), grant.as_ref());
                Ok(Passing { response, lease, endpoint, court })
            }
            Err(error) => {
                tracing::warn!(upstream = target.base.text, %error, "an upstream did not answer");
                Err(Refusal::proxy(502, format!("lazy's proxy got no answer: {error}"), None))
            }
        }
    }

    /// Who judges the response; nobody where no rule is active, and where no agent reads messages.
    fn court(&self, path: &str, grant: Option<&Grant>) -> Option<Court> {
        let policy = &self.config.policy;
        // By a part of the path: a client that spells it otherwise is judged as well.
        let messages = path.contains("/messages") && Endpoint::of(path) != Endpoint::CountTokens;
        let judged = policy.is_active() && messages && !path.contains("/batches");
        judged.then(|| {
            let worktree = grant.and_then(|grant| grant.worktree.clone());
            Court::new(policy.clone(), Place { worktree, home: self.config.process.home().ok() })
        })
    }

    /// Puts the real credential in the place of a placeholder.
    fn substitute(
        &self,
        headers: &mut header::HeaderMap,
        grant: Option<&Grant>,
        target: &Target,
    ) -> Result<(), Refusal> {
        if grant.is_none() {
            return Ok(());
        }
        headers::remove_credentials(headers);
        if target.credential == TargetCredential::None {
            return Ok(());
        }
        let missing = |reason: &str| {
            let message = format!(
                "lazy has no credential for {}: {reason}; set it and restart the daemon (lazy daemon restart)",
                target.base.text
            );
            Refusal::unauthorized("no credential for the upstream", message)
        };
        let credential = self.config.credential.credential().ok_or_else(|| {
            missing("neither CLAUDE_CODE_OAUTH_TOKEN nor ANTHROPIC_API_KEY is set in the daemon's environment")
        })?;
        let var = credential.var().name();
        credential.apply(headers).ok_or_else(|| missing(&format!("{var} holds bytes that cannot stand in a header")))
    }

    /// Takes a request body whole, as far as it may be, and reads it.
    async fn read(&self, mut body: Incoming, entry: &mut Entry) -> Result<Body, Refusal> {
        let broken = |error: Error| Refusal::proxy(400, error.full_message(), Some(400));
        let mut taken = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|source| broken(broken_upload(source)))?.into_data() {
                taken.extend_from_slice(&data);
            }
            if taken.len() > READ_LIMIT {
                self.activity.publish(Event::open(entry.record()));
                return Ok(Prefixed { prefix: Some(taken.freeze()), rest: body }.boxed());
            }
        }
        let taken = taken.freeze();
        let (seen, scrubber, activity) = (taken.clone(), entry.scrubber().clone(), self.activity.clone());
        let mut opening = Event::open(entry.record());
        let read = move || {
            let extract = extract(&seen, &scrubber);
            opening.model.clone_from(&extract.model);
            activity.publish(opening);
            extract
        };
        entry.extracting(match taken.len() <= INLINE_LIMIT {
            true => Extraction::Ready(Box::new(read())),
            false => Extraction::Running(tokio::task::spawn_blocking(read)),
        });
        Ok(http::full(taken))
    }
}

fn broken_upload(source: hyper::Error) -> Error {
    Error::new(Kind::Lost, "the request body broke off").caused_by(source)
}

/// A response that is being passed on.
struct Passing {
    response: Response<Incoming>,
    lease: super::pool::Lease,
    endpoint: Endpoint,
    /// Who judges it, if anybody.
    court: Option<Court>,
}

impl Passing {
    fn respond(self, entry: Entry) -> Response<Body> {
        let (mut head, body) = self.response.into_parts();
        let scanner = match head.status.is_success() && self.endpoint == Endpoint::Messages {
            true if headers::is_event_stream(&head.headers) => Scanner::events(),
            true => Scanner::plain(),
            false => Scanner::none(),
        };
        let court = self.court.filter(|_| head.status.is_success() && !body.is_end_stream());
        let mut decoder = None;
        let gate: Box<dyn Gate> = match court {
            None => Box::new(Open),
            Some(court) => {
                match headers::coding(&head.headers).map(Coding::decoder) {
                    Some(Ok(found)) => decoder = found,
                    _ => return unreadable(entry),
                }
                head.headers.remove(header::CONTENT_ENCODING);
                match headers::is_event_stream(&head.headers) {
                    true => Box::new(Policed::stream(court)),
                    false => Box::new(Policed::plain(court)),
                }
            }
        };
        headers::prepare_response(&mut head.headers, gate.effect());
        Response::from_parts(head, Tee::new(body, gate, scanner, entry, self.lease).decoded(decoder).boxed())
    }
}

/// The answer in the place of a response that cannot be judged.
fn unreadable(mut entry: Entry) -> Response<Body> {
    let message =
        "the upstream's response has an encoding that lazy's proxy cannot read, so its tool calls cannot be judged";
    entry.answered(502);
    entry.close(Told::default(), Findings::default(), Some(message.into()));
    let error = json!({"type": "proxy_error", "message": message});
    http::json(502, &json!({"type": "error", "error": error}))
}

/// What was taken of a body, followed by what was not.
struct Prefixed {
    prefix: Option<Bytes>,
    rest: Incoming,
}

impl HttpBody for Prefixed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>>>> {
        match self.prefix.take() {
            Some(prefix) => std::task::Poll::Ready(Some(Ok(Frame::data(prefix)))),
            None => Pin::new(&mut self.rest).poll_frame(cx).map_err(broken_upload),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let prefix = self.prefix.as_ref().map_or(0, |prefix| prefix.len() as u64);
        let rest = self.rest.size_hint();
        match rest.exact() {
            Some(rest) => SizeHint::with_exact(prefix + rest),
            None => SizeHint::default(),
        }
    }
}
