//! Connections to upstreams: opened when needed, used again while they are fresh.
//!
//! A request is sent a second time only when the first connection gave it back unwritten. Idle connections live at most
//! 30 s, less than any edge keeps them, so that a reused one is rarely found closed.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::origin::Origin;
use crate::base::{Error, Kind, Result};
use crate::http::Body;

/// How long a connection may wait for its next request.
const IDLE: Duration = Duration::from_secs(30);
/// How many connections to one origin may wait.
const KEPT: usize = 64;
/// How long a connection, TLS included, may take to stand.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a connection whose response ended may take to be ready again.
const SETTLE: Duration = Duration::from_secs(1);

/// The pool. Cheap to clone.
#[derive(Clone)]
pub(super) struct Pool(Arc<Inner>);

struct Inner {
    idle: Mutex<HashMap<Origin, Vec<Idle>>>,
    tls: Option<TlsConnector>,
}

struct Idle {
    sender: SendRequest<Body>,
    since: Instant,
}

/// A connection in use. [`Lease::release`] gives it back; dropping it closes the connection.
pub(super) struct Lease {
    pool: Pool,
    origin: Origin,
    sender: SendRequest<Body>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({})", self.origin)
    }
}

impl Pool {
    /// An empty pool; without `tls` only plain origins can be reached.
    pub fn new(tls: Option<TlsConnector>) -> Self {
        Pool(Arc::new(Inner { idle: Mutex::default(), tls }))
    }

    /// Sends a request whose URI is a path, and waits for the head of the response.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when nothing of it was written, [`Kind::Lost`] when the connection broke after that.
    pub async fn send(&self, origin: &Origin, mut request: Request<Body>) -> Result<(Response<Incoming>, Lease)> {
        loop {
            let (mut sender, fresh) = match self.take(origin) {
                Some(sender) => (sender, Age::Used),
                None => (self.connect(origin).await?, Age::Fresh),
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, Lease { pool: self.clone(), origin: origin.clone(), sender })),
                Err(mut refused) => match (refused.take_message(), fresh) {
                    (Some(unwritten), Age::Used) => request = unwritten,
                    (Some(_), Age::Fresh) => return Err(unreachable(origin, refused.into_error())),
                    (None, _) => {
                        let message = format!("{origin} broke the connection before it answered");
                        return Err(Error::new(Kind::Lost, message).caused_by(refused.into_error()));
                    }
                },
            }
        }
    }

    /// Closes connections that waited too long; never ends.
    pub async fn sweep_for_ever(&self) {
        let mut ticks = tokio::time::interval(IDLE / 3);
        loop {
            ticks.tick().await;
            self.idle().retain(|_, waiting| {
                waiting.retain(Idle::is_usable);
                !waiting.is_empty()
            });
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Origin, Vec<Idle>>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, origin: &Origin) -> Option<SendRequest<Body>> {
        let mut idle = self.idle();
        let waiting = idle.get_mut(origin)?;
        // The one that waited least is the least likely to have been closed.
        std::iter::from_fn(|| waiting.pop()).find(Idle::is_usable).map(|found| found.sender)
    }

    fn put(&self, origin: Origin, sender: SendRequest<Body>) {
        let mut idle = self.idle();
        let waiting = idle.entry(origin).or_default();
        if waiting.len() < KEPT {
            waiting.push(Idle { sender, since: Instant::now() });
        }
    }

    async fn connect(&self, origin: &Origin) -> Result<SendRequest<Body>> {
        match tokio::time::timeout(CONNECT, self.connect_now(origin)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::unavailable(format!("no connection to {origin} within {} s", CONNECT.as_secs()))),
        }
    }

    async fn connect_now(&self, origin: &Origin) -> Result<SendRequest<Body>> {
        let stream =
            TcpStream::connect((origin.host(), origin.port())).await.map_err(|source| unreachable(origin, source))?;
        stream.set_nodelay(true).ok();
        keep_alive(&stream);
        if !origin.is_secure() {
            return speak(origin, stream).await;
        }
        let tls = self.0.tls.as_ref().ok_or_else(|| Error::internal("TLS was not set up for an https upstream"))?;
        let name = ServerName::try_from(origin.host().to_string()).map_err(|source| unreachable(origin, source))?;
        let stream = tls.connect(name, stream).await.map_err(|source| unreachable(origin, source))?;
        speak(origin, stream).await
    }
}

#[derive(Debug, Clone, Copy)]
enum Age {
    Used,
    Fresh,
}

impl Idle {
    fn is_usable(&self) -> bool {
        self.sender.is_ready() && self.since.elapsed() < IDLE
    }
}

impl Lease {
    /// Gives the connection back, once its response was read to the end.
    pub fn release(self) {
        let Lease { pool, origin, mut sender } = self;
        if sender.is_ready() {
            pool.put(origin, sender);
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The connection's task has yet to notice that the response is over.
            runtime.spawn(async move {
                if let Ok(Ok(())) = tokio::time::timeout(SETTLE, sender.ready()).await {
                    pool.put(origin, sender);
                }
            });
        }
    }
}

async fn speak<T>(origin: &Origin, stream: T) -> Result<SendRequest<Body>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|source| unreachable(origin, source))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "upstream connection ended early");
        }
    });
    Ok(sender)
}

/// A stream may be silent for minutes while the model thinks; an upstream that vanished is noticed within 90 s.
fn keep_alive(stream: &TcpStream) {
    use rustix::net::sockopt;
    let set = || {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, Duration::from_secs(30))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
        sockopt::set_tcp_keepcnt(stream, 6)
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "keep-alive cannot be set");
    }
}

fn unreachable(origin: &Origin, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::unavailable(format!("{origin} cannot be reached")).caused_by(source)
}
