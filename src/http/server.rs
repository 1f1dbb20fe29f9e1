//! The accept loop: one task for each connection, and a drain with a deadline.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::body::{Body, failure, read_body, try_again};
use crate::base::{Error, Kind, Result, ResultExt};

/// How long a connection that has asked nothing yet may still ask when the drain begins: what it sent may be on its way.
const LINGER: Duration = Duration::from_millis(250);

/// How long a connection that is turned away may take to send what it asks.
const TURNING_AWAY: Duration = Duration::from_secs(2);

/// The largest body that is read of a request that is turned away.
const TURNED_AWAY_BODY: usize = 16 << 20;

/// Answers requests. The future is dropped when the client hangs up: see [`finish`].
pub trait Handler: Send + Sync + 'static {
    /// Answers one request from `peer`.
    fn handle(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
}

/// What a server allows its clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a connection may wait for a (next) complete request head. 120 s for the daemon.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { idle: Duration::from_secs(120) }
    }
}

/// The switch that ends servers, and the count of the work that must end first. Clones share it.
#[derive(Debug, Clone)]
pub struct Drain {
    deadline: Arc<watch::Sender<Option<Instant>>>,
    running: Arc<watch::Sender<usize>>,
}

impl Default for Drain {
    fn default() -> Self {
        Drain::new()
    }
}

impl Drain {
    /// A drain that has not begun.
    pub fn new() -> Self {
        Drain { deadline: Arc::new(watch::Sender::new(None)), running: Arc::new(watch::Sender::new(0)) }
    }

    /// Begins: listeners close at once (who waits in their queue is told to ask again), what runs may go on for `grace`. A later call can only shorten it.
    pub fn begin(&self, grace: Duration) {
        let until = Instant::now() + grace;
        self.deadline.send_if_modified(|at| {
            let sooner = at.is_none_or(|at| until < at);
            if sooner {
                *at = Some(until);
            }
            sooner
        });
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.deadline.borrow().is_some()
    }

    /// Ends when it begins.
    pub async fn begun(&self) {
        self.deadline.subscribe().wait_for(Option::is_some).await.ok();
    }

    /// Like the free [`finish`], and a drain waits (up to its deadline) for the work also when its client is gone.
    pub async fn finish<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let counted = Counted::new(&self.running);
        finish(async move {
            let _counted = counted;
            work.await
        })
        .await
    }

    /// Ends at the deadline; never before the drain has begun.
    async fn expired(&self) {
        let mut deadline = self.deadline.subscribe();
        loop {
            let at = match deadline.wait_for(Option::is_some).await.map(|at| *at) {
                Ok(Some(at)) => at,
                _ => std::future::pending().await,
            };
            tokio::select! {
                () = tokio::time::sleep_until(at) => return,
                Ok(()) = deadline.changed() => {}
            }
        }
    }
}

struct Counted(Arc<watch::Sender<usize>>);

impl Counted {
    fn new(running: &Arc<watch::Sender<usize>>) -> Self {
        running.send_modify(|count| *count += 1);
        Counted(running.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    drain: Drain,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Serves `listener` until `drain` begins; returns at once.
    pub fn serve(listener: TcpListener, handler: Arc<dyn Handler>, drain: Drain) -> Result<Server> {
        Server::serve_within(listener, handler, drain, Limits::default())
    }

    /// Serves with other limits than the usual ones.
    pub fn serve_within(
        listener: TcpListener,
        handler: Arc<dyn Handler>,
        drain: Drain,
        limits: Limits,
    ) -> Result<Server> {
        let address = listener.local_addr().io_context(|| "cannot read the address of a listener".into())?;
        let accepting = tokio::spawn(accept(listener, handler, drain.clone(), limits));
        Ok(Server { address, drain, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, lets running requests end within `grace`, then cuts the connections; returns when none is left.
    pub async fn drain(self, grace: Duration) {
        self.drain.begin(grace);
        self.drained().await;
    }

    /// Returns when the drain, begun elsewhere, is over.
    pub async fn drained(self) {
        self.accepting.await.ok();
    }
}

async fn accept(listener: TcpListener, handler: Arc<dyn Handler>, drain: Drain, limits: Limits) {
    let mut connections = JoinSet::new();
    {
        let mut begun = pin!(drain.begun());
        loop {
            tokio::select! {
                biased;
                () = &mut begun => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        connections.spawn(connection(stream, peer, handler.clone(), drain.clone(), limits));
                    }
                    Err(error) => {
                        // Out of descriptors or a connection that died in the queue: neither ends the listener.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }
    turn_away_queue(listener, &mut connections);
    let mut running = drain.running.subscribe();
    let ended = async {
        while connections.join_next().await.is_some() {}
        running.wait_for(|count| *count == 0).await.ok();
    };
    tokio::select! {
        () = ended => {}
        () = drain.expired() => {}
    }
    connections.shutdown().await;
}

/// Closes a listener. Connections that stand in its queue would be reset with it: they are taken and told to ask again.
fn turn_away_queue(listener: TcpListener, connections: &mut JoinSet<()>) {
    // The plain listener asks the system itself; the other one would wait for word of it.
    let Ok(listener) = listener.into_std() else { return };
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                match stream {
                    Ok(stream) => drop(connections.spawn(turn_away(stream, peer))),
                    Err(error) => tracing::debug!(%peer, %error, "a connection could not be turned away"),
                }
            }
            // It died in the queue; the next one may live.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(_) => return,
        }
    }
}

/// Reads one request and answers that it may be sent again: it was not carried out.
async fn turn_away(stream: TcpStream, peer: SocketAddr) {
    stream.set_nodelay(true).ok();
    let service = service_fn(|request: Request<Incoming>| async {
        // What is not read would reset the connection, and the answer with it.
        read_body(request.into_body(), TURNED_AWAY_BODY).await.ok();
        Ok::<_, Infallible>(try_again(&Error::unavailable("the daemon is ending; ask again in a moment")))
    });
    let serving =
        hyper::server::conn::http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(TURNING_AWAY, serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%peer, %error, "connection ended early"),
        Err(_) => tracing::debug!(%peer, "a connection was turned away that asked nothing"),
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, handler: Arc<dyn Handler>, drain: Drain, limits: Limits) {
    stream.set_nodelay(true).ok();
    let asked = Arc::new((AtomicBool::new(false), Notify::new()));
    let mark = asked.clone();
    let service = service_fn(move |request| {
        if !mark.0.swap(true, Ordering::Relaxed) {
            mark.1.notify_one();
        }
        let answer = AssertUnwindSafe(handler.handle(request, peer)).catch_unwind();
        async {
            Ok::<_, Infallible>(answer.await.unwrap_or_else(|_| {
                failure(&Error::internal("the handler of this request failed").hint("lazy daemon logs"))
            }))
        }
    });
    let mut connection = pin!(
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = drain.begun() => {
            // hyper takes a connection that never asked anything for a busy one, and would wait for it.
            if !asked.0.load(Ordering::Relaxed) {
                tokio::select! {
                    _ = &mut connection => return,
                    () = asked.1.notified() => {}
                    () = tokio::time::sleep(LINGER) => return,
                }
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended early");
    }
}

/// Runs `work` on a task of its own and waits for it: a client that hangs up changes who hears the answer, not what
/// happens. A panic in the work is a panic here.
pub async fn finish<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going away, and this future with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Binds the first free port of `first .. first + count` on `host`; port 0 lets the system choose.
///
/// # Errors
/// [`Kind::Conflict`] naming the range when every port is taken; any other failure to bind ends the search at once.
pub async fn bind_window(host: &str, first: u16, count: u16) -> Result<TcpListener> {
    let last = first.saturating_add(count.max(1) - 1);
    for port in first..=last {
        match TcpListener::bind((host, port)).await {
            Ok(listener) => return Ok(listener),
            Err(source) if source.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(source) => {
                let kind = match source.kind() {
                    std::io::ErrorKind::PermissionDenied => Kind::Forbidden,
                    _ => Kind::Unavailable,
                };
                return Err(Error::new(kind, format!("cannot listen on {host}:{port}")).caused_by(source));
            }
        }
    }
    let range = if first == last { format!("port {first}") } else { format!("every port of {first}–{last}") };
    Err(Error::conflict(format!("{range} on {host} is in use")).hint(format!("lsof -i :{first}")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use hyper::Method;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    use super::*;
    use crate::http::{Client, full, read_body};

    /// `/wait` answers when told to, `/panic` panics, everything else answers `ok`.
    #[derive(Default)]
    struct Fixture {
        started: Notify,
        release: Notify,
        finished: AtomicUsize,
    }

    struct Shared(Arc<Fixture>, Drain);

    impl Handler for Shared {
        fn handle(
            &self,
            request: Request<Incoming>,
            _: SocketAddr,
        ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
            let (fixture, drain) = (self.0.clone(), self.1.clone());
            Box::pin(async move {
                match request.uri().path() {
                    "/wait" => {
                        drain
                            .finish(async move {
                                fixture.started.notify_one();
                                fixture.release.notified().await;
                                fixture.finished.fetch_add(1, Ordering::SeqCst);
                            })
                            .await;
                    }
                    "/panic" => panic!("on purpose"),
                    _ => {}
                }
                Response::new(full("ok"))
            })
        }
    }

    async fn start() -> (Arc<Fixture>, Drain, Server, Client) {
        let (fixture, drain) = (Arc::new(Fixture::default()), Drain::new());
        let listener = bind_window("127.0.0.1", 0, 1).await.expect("binds");
        let server =
            Server::serve(listener, Arc::new(Shared(fixture.clone(), drain.clone())), drain.clone()).expect("serves");
        let client = Client::new(&format!("http://{}", server.address())).expect("client");
        (fixture, drain, server, client)
    }

    #[tokio::test]
    async fn a_drain_waits_for_what_runs() {
        let (fixture, _, server, client) = start().await;
        let request = tokio::spawn(async move {
            let response = client.request(Method::GET, "/wait", &[], "").await.expect("answered");
            read_body(response.into_body(), 10).await.expect("whole")
        });
        fixture.started.notified().await;
        let draining = tokio::spawn(server.drain(Duration::from_secs(60)));
        fixture.release.notify_one();
        assert_eq!(request.await.expect("joins"), "ok");
        draining.await.expect("drained");
    }

    #[tokio::test]
    async fn a_drain_does_not_wait_for_connections_that_never_asked() {
        let (_, _, server, client) = start().await;
        let mut silent = TcpStream::connect(server.address()).await.expect("connects");
        // The listener takes connections in order: once this is answered, the silent one is being served.
        client.request(Method::GET, "/", &[], "").await.expect("answered");
        server.drain(Duration::from_secs(3600)).await;
        assert_eq!(silent.read(&mut [0; 8]).await.expect("closed"), 0);
    }

    #[tokio::test]
    async fn a_connection_in_the_queue_is_told_to_ask_again() {
        let (_, drain, server, _) = start().await;
        // Not a step of the server in between: the system alone has taken the connection.
        let mut queued = std::net::TcpStream::connect(server.address()).expect("connects");
        std::io::Write::write_all(&mut queued, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello")
            .expect("writes");
        drain.begin(Duration::from_secs(60));
        server.drained().await;
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut queued, &mut answer).expect("an answer, no reset");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.to_lowercase().contains("retry-after: 1"), "{answer}");
    }

    #[tokio::test]
    async fn a_request_that_was_on_its_way_is_answered() {
        let (_, drain, server, client) = start().await;
        let mut accepted = std::net::TcpStream::connect(server.address()).expect("connects");
        client.request(Method::GET, "/", &[], "").await.expect("the listener takes connections in order");
        std::io::Write::write_all(&mut accepted, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").expect("writes");
        drain.begin(Duration::from_secs(60));
        server.drained().await;
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut accepted, &mut answer).expect("an answer, no reset");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    }

    #[tokio::test]
    async fn a_drain_cuts_at_the_deadline() {
        let (fixture, _, server, client) = start().await;
        let address = server.address();
        let request = tokio::spawn(async move { client.request(Method::GET, "/wait", &[], "").await });
        fixture.started.notified().await;
        server.drain(Duration::from_millis(20)).await;
        assert_eq!(request.await.expect("joins").expect_err("cut").kind(), Kind::Lost);
        assert!(TcpStream::connect(address).await.is_err(), "nothing listens any more");
    }

    #[tokio::test]
    async fn work_ends_although_its_client_hung_up() {
        let (fixture, _, server, _) = start().await;
        let mut stream = TcpStream::connect(server.address()).await.expect("connects");
        stream.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("writes");
        fixture.started.notified().await;
        drop(stream);
        let draining = tokio::spawn(server.drain(Duration::from_secs(60)));
        fixture.release.notify_one();
        draining.await.expect("drained");
        assert_eq!(fixture.finished.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_panic_is_answered() {
        let (_, _, _server, client) = start().await;
        let response = client.request(Method::GET, "/panic", &[], "").await.expect("answered");
        assert_eq!(response.status(), 500);
        let response = client.request(Method::GET, "/", &[], "").await.expect("still there");
        assert_eq!(response.status(), 200);
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed() {
        let drain = Drain::new();
        let listener = bind_window("127.0.0.1", 0, 1).await.expect("binds");
        let handler = Arc::new(Shared(Arc::default(), drain.clone()));
        let limits = Limits { idle: Duration::from_millis(50) };
        let server = Server::serve_within(listener, handler, drain, limits).expect("serves");
        let mut stream = TcpStream::connect(server.address()).await.expect("connects");
        stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.expect("writes half a head");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    }

    #[tokio::test]
    async fn the_window_is_scanned_only_for_taken_ports() {
        let first = bind_window("127.0.0.1", 0, 1).await.expect("binds");
        let port = first.local_addr().expect("address").port();
        let error = bind_window("127.0.0.1", port, 1).await.expect_err("taken");
        assert_eq!(error.kind(), Kind::Conflict);
        if port < u16::MAX - 20 {
            assert_ne!(
                bind_window("127.0.0.1", port, 20).await.expect("the next").local_addr().expect("a").port(),
                port
            );
        }
        assert_eq!(bind_window("192.0.2.1", 1, 20).await.expect_err("not ours").kind(), Kind::Unavailable);
    }
}
