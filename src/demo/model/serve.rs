//! The server behind a scenario.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::facts::Facts;
use super::reply::{events, message};
use super::scenario::{ErrorReply, RawReply, Reply, Scenario, Uses};
use crate::base::{Error, Kind, Result};
use crate::http::{self, Body, Drain, Handler, Server};

/// How many requests are remembered.
const REMEMBERED: usize = 2000;
const BODY_LIMIT: usize = 64 << 20;

/// One request that was received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Header names in lower case, in order, with their values: credentials too, so that a test can prove what arrived.
    pub headers: Vec<(String, String)>,
    /// The body; a string when it is not JSON, `null` when there is none.
    pub body: Value,
    /// Which step answered.
    pub step: Option<usize>,
}

impl Received {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A running scripted model.
#[derive(Debug)]
pub struct ModelServer {
    server: Server,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    scenario: Scenario,
    used: Mutex<Vec<bool>>,
    requests: Mutex<Vec<Received>>,
}

/// Serves a scenario on `listener`; returns at once.
pub fn serve(listener: TcpListener, scenario: Scenario) -> Result<ModelServer> {
    let state =
        Arc::new(State { used: Mutex::new(vec![false; scenario.steps.len()]), scenario, requests: Mutex::default() });
    let server = Server::serve(listener, Arc::new(Model(state.clone())), Drain::new())?;
    Ok(ModelServer { server, state })
}

impl ModelServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What it was asked so far, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        lock(&self.state.requests).clone()
    }

    /// The steps that were never played.
    pub fn unplayed(&self) -> Vec<usize> {
        let used = lock(&self.state.used);
        used.iter().enumerate().filter(|(_, used)| !**used).map(|(at, _)| at).collect()
    }

    /// Stops; running requests may end within `grace`.
    pub async fn stop(self, grace: Duration) {
        self.server.drain(grace).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Model(Arc<State>);

impl Handler for Model {
    fn handle(
        &self,
        request: Request<Incoming>,
        _peer: SocketAddr,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        let state = self.0.clone();
        Box::pin(async move { state.answer(request).await.unwrap_or_else(|error| http::failure(&error)) })
    }
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let bytes = http::read_body(body, BODY_LIMIT).await?;
        let path = parts.uri.path().to_string();
        if path == "/__requests" {
            return Ok(http::json(200, &*lock(&self.requests)));
        }
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            Err(_) if bytes.is_empty() => Value::Null,
            Err(_) => Value::String(String::from_utf8_lossy(&bytes).into_owned()),
        };
        let facts = Facts::of(&body);
        let asks = parts.method == Method::POST && path == "/v1/messages";
        let step = asks.then(|| self.choose(&facts)).flatten();
        self.remember(&parts, body, step);
        match (parts.method, path.as_str()) {
            (Method::HEAD, _) => Ok(Response::new(http::empty())),
            (Method::POST, "/v1/messages") => self.play(step, &facts, bytes.len()).await,
            (Method::POST, "/v1/messages/count_tokens") => {
                Ok(http::json(200, &json!({"input_tokens": bytes.len().div_ceil(4)})))
            }
            (Method::GET, "/v1/models") => Ok(http::json(200, &models())),
            (Method::GET, "/api/hello") => Ok(http::json(200, &json!({"message": "hello"}))),
            _ => Ok(refusal(&ErrorReply {
                status: 404,
                kind: "not_found_error".into(),
                message: format!("the scripted model has no {path}"),
                retry_after: None,
            })),
        }
    }

    /// The first unused step that fits; it is used now.
    fn choose(&self, facts: &Facts) -> Option<usize> {
        let mut used = lock(&self.used);
        let mut steps = self.scenario.steps.iter().enumerate();
        let (at, _) = steps.find(|(at, step)| (!used[*at] || step.uses == Uses::Always) && facts.fit(&step.when))?;
        used[at] = true;
        Some(at)
    }

    fn remember(&self, parts: &hyper::http::request::Parts, body: Value, step: Option<usize>) {
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let mut requests = lock(&self.requests);
        if requests.len() < REMEMBERED {
            let (method, path) = (parts.method.to_string(), parts.uri.to_string());
            requests.push(Received { method, path, headers, body, step });
        }
    }

    async fn play(&self, step: Option<usize>, facts: &Facts, body_len: usize) -> Result<Response<Body>> {
        let otherwise;
        let reply = match step {
            Some(at) => &self.scenario.steps[at].reply,
            None => {
                let (text, usual) = match facts.is_main {
                    true => (&self.scenario.last_text, "The script has no further step for this request."),
                    false => (&self.scenario.side_text, "ok"),
                };
                otherwise = Reply::text(text.as_deref().unwrap_or(usual));
                &otherwise
            }
        };
        tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
        if let Some(error) = &reply.error {
            return Ok(refusal(error));
        }
        if let Some(raw) = &reply.raw {
            return Ok(as_it_stands(raw, reply));
        }
        let message = message(reply, facts, body_len);
        if facts.stream {
            return Ok(send(events(&message), "text/event-stream", reply));
        }
        if reply.drop_after.is_none() {
            return Ok(http::json(200, &message));
        }
        let text = message.to_string();
        Ok(send(vec![text[..text.len() / 2].to_string(), String::new()], "application/json", &broken_after(1, reply)))
    }
}

fn broken_after(events: usize, reply: &Reply) -> Reply {
    Reply { drop_after: Some(events), ..reply.clone() }
}

/// A body that is written piece by piece, with the pauses and the break that the reply asks for.
fn send(pieces: Vec<String>, content_type: &str, reply: &Reply) -> Response<Body> {
    let (sender, body) = http::channel();
    let pause = Duration::from_millis(reply.event_delay_ms);
    let limit = reply.drop_after;
    tokio::spawn(async move {
        for (at, piece) in pieces.into_iter().enumerate() {
            if limit == Some(at) {
                return sender.fail(Error::new(Kind::Lost, "the script breaks the connection here")).await;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    });
    typed(Response::new(body), content_type)
}

fn as_it_stands(raw: &RawReply, reply: &Reply) -> Response<Body> {
    let content_type = raw.content_type.as_deref().unwrap_or("application/json");
    let mut response = match reply.drop_after {
        Some(_) => send(vec![raw.body.clone(), String::new()], content_type, &broken_after(1, reply)),
        None => typed(Response::new(http::full(raw.body.clone())), content_type),
    };
    *response.status_mut() = raw.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::OK);
    response
}

fn typed(mut response: Response<Body>, content_type: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    let id = format!("req_{}", uuid::Uuid::new_v4().simple());
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("request-id", value);
    }
    response
}

fn refusal(error: &ErrorReply) -> Response<Body> {
    let body = json!({"type": "error", "error": {"type": error.kind, "message": error.message}});
    let mut response = http::json(error.status, &body);
    let retry = error.retry_after.as_deref().and_then(|text| HeaderValue::from_str(text).ok());
    if let Some(value) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

fn models() -> Value {
    let model = |id: &str| json!({"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"});
    let ids = ["claude-opus-4-7", "claude-sonnet-4-6", "claude-haiku-4-5"];
    let data: Vec<Value> = ids.into_iter().map(model).collect();
    json!({"data": data, "has_more": false, "first_id": ids[0], "last_id": ids[2]})
}
