//! The link's inner end: loopback listeners whose connections are carried over the daemon's socket.
//!
//! See [`crate::model::link`] for what goes over it. A daemon that is not there is waited for, as long as whoever
//! connected stays: a turn outlives the daemon's restart.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::base::{Error, Kind, Result};
use crate::model::link::LinkTarget;

/// Connections at the same time; more wait in the queues of their listeners.
pub const CONNECTIONS: usize = 512;
/// How long the daemon is waited for.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The first pause between two tries to reach it; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Bytes on their way, for each direction of a connection.
const BUFFER: usize = 8 << 10;

/// Open listeners. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Relay {
    addresses: Vec<SocketAddr>,
    // Only held: tasks of a set end with it.
    _serving: JoinSet<()>,
}

/// What every connection shares.
#[derive(Debug)]
struct Line {
    socket: PathBuf,
    patience: Duration,
    free: Arc<Semaphore>,
}

impl Relay {
    /// Listens on every address and carries its connections to the target beside it. The socket need not be there yet.
    /// Must be called in a runtime.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when an address is taken, [`Kind::Io`] when it cannot be listened on.
    pub fn open(doors: &[(SocketAddr, LinkTarget)], socket: &Path) -> Result<Relay> {
        Relay::with(doors, socket, CONNECTIONS, PATIENCE)
    }

    fn with(
        doors: &[(SocketAddr, LinkTarget)],
        socket: &Path,
        connections: usize,
        patience: Duration,
    ) -> Result<Relay> {
        let free = Arc::new(Semaphore::new(connections));
        let line = Arc::new(Line { socket: socket.to_path_buf(), patience, free });
        let (mut addresses, mut serving) = (Vec::new(), JoinSet::new());
        for (address, target) in doors {
            let listener = listen(*address).map_err(|source| match source.kind() {
                std::io::ErrorKind::AddrInUse => {
                    Error::new(Kind::Conflict, format!("something in the container listens on {address} already"))
                }
                _ => Error::io(format!("cannot listen on {address}"), source),
            })?;
            addresses.push(listener.local_addr().unwrap_or(*address));
            serving.spawn(serve(listener, target.line(), line.clone()));
        }
        Ok(Relay { addresses, _serving: serving })
    }

    /// Where it listens, in the order of the doors.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn serve(listener: TcpListener, target: String, line: Arc<Line>) {
    let target: Arc<str> = target.into();
    let mut carrying = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                let Ok(free) = line.free.clone().acquire_owned().await else { return };
                let (line, target) = (line.clone(), target.clone());
                carrying.spawn(async move {
                    line.carry(client, &target).await;
                    drop(free);
                });
            }
            // Out of descriptors, or gone before it was taken.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        while carrying.try_join_next().is_some() {}
    }
}

impl Line {
    /// One connection to its end. Whatever goes wrong closes it.
    async fn carry(&self, mut client: TcpStream, target: &str) {
        client.set_nodelay(true).ok();
        let Some(mut link) = self.dial(&client).await else { return };
        if link.write_all(target.as_bytes()).await.is_ok() {
            tokio::io::copy_bidirectional_with_sizes(&mut client, &mut link, BUFFER, BUFFER).await.ok();
        }
    }

    /// The daemon, as soon as it is there; `None` when the client is gone, or patience at its end.
    async fn dial(&self, client: &TcpStream) -> Option<UnixStream> {
        let until = Instant::now() + self.patience;
        let mut pause = FIRST_PAUSE;
        loop {
            if let Ok(link) = UnixStream::connect(&self.socket).await {
                return Some(link);
            }
            if Instant::now() >= until || is_gone(client) {
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Whether the client will send no more. While nobody answers it, that is as good as gone.
fn is_gone(client: &TcpStream) -> bool {
    match client.ready(Interest::READABLE).now_or_never() {
        Some(Ok(state)) => state.is_read_closed() || state.is_write_closed(),
        Some(Err(_)) => true,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixListener;

    use super::*;

    fn anywhere() -> SocketAddr {
        "127.0.0.1:0".parse().expect("an address")
    }

    /// Answers every connection with all that it was sent.
    fn echo(listener: UnixListener) {
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut said = Vec::new();
                    stream.read_to_end(&mut said).await.ok();
                    stream.write_all(&said).await.ok();
                });
            }
        });
    }

    async fn ask(address: SocketAddr, body: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        stream.write_all(body).await.expect("writes");
        stream.shutdown().await.expect("half a close");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        answer
    }

    #[tokio::test]
    async fn each_door_says_where_it_leads() {
        let dir = tempfile::tempdir().expect("temp dir");
        let socket = dir.path().join("link.sock");
        let egress = LinkTarget::Egress("a.b:443".parse().expect("fits"));
        let doors = [
            (anywhere(), LinkTarget::Daemon),
            (anywhere(), LinkTarget::Proxy),
            ("127.1.0.1:0".parse().expect("an address"), egress),
        ];
        let relay = Relay::open(&doors, &socket).expect("opens");
        echo(UnixListener::bind(&socket).expect("binds"));
        let [daemon, proxy, egress] = relay.addresses() else { panic!("three doors") };
        assert_eq!(ask(*daemon, b"x").await, b"daemon\nx");
        assert_eq!(ask(*proxy, b"").await, b"proxy\n");
        assert_eq!(egress.ip().to_string(), "127.1.0.1");
        let big = vec![b'y'; 3 << 20];
        assert_eq!(ask(*egress, &big).await, [b"egress a.b:443\n".to_vec(), big].concat());
    }

    #[tokio::test]
    async fn a_daemon_that_is_down_is_waited_for() {
        let dir = tempfile::tempdir().expect("temp dir");
        let socket = dir.path().join("link.sock");
        drop(UnixListener::bind(&socket).expect("what a dead daemon leaves"));
        let relay = Relay::open(&[(anywhere(), LinkTarget::Daemon)], &socket).expect("opens");
        let mut client = TcpStream::connect(relay.addresses()[0]).await.expect("connects");
        client.write_all(b"request").await.expect("writes");
        // It stays open and silent.
        let silent = tokio::time::timeout(Duration::from_millis(80), client.read(&mut [0; 1])).await;
        assert!(silent.is_err(), "{silent:?}");
        std::fs::remove_file(&socket).expect("removes");
        echo(UnixListener::bind(&socket).expect("binds"));
        client.shutdown().await.expect("half a close");
        let mut answer = String::new();
        // Half a close while nobody answered reads as gone; before the next try the daemon was there.
        client.read_to_string(&mut answer).await.expect("reads");
        assert_eq!(answer, "daemon\nrequest");
    }

    #[tokio::test]
    async fn patience_ends_and_a_client_that_went_frees_its_place() {
        let dir = tempfile::tempdir().expect("temp dir");
        let socket = dir.path().join("link.sock");
        let door = [(anywhere(), LinkTarget::Daemon)];
        let short = Relay::with(&door, &socket, 8, Duration::from_millis(1)).expect("opens");
        assert_eq!(ask(short.addresses()[0], b"").await, b"");
        let one = Relay::with(&door, &socket, 1, PATIENCE).expect("opens");
        let mut gone = TcpStream::connect(one.addresses()[0]).await.expect("connects");
        gone.write_all(b"never heard").await.expect("writes");
        drop(gone);
        echo({
            // The second one gets the only place once the first has lost it.
            let waiting = TcpStream::connect(one.addresses()[0]).await.expect("connects");
            drop(waiting);
            UnixListener::bind(&socket).expect("binds")
        });
        assert_eq!(ask(one.addresses()[0], b"z").await, b"daemon\nz");
    }

    #[tokio::test]
    async fn a_taken_address_is_refused_by_name() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = taken.local_addr().expect("an address");
        let error = Relay::open(&[(address, LinkTarget::Daemon)], Path::new("/none")).expect_err("taken");
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.message().contains(&address.to_string()));
    }
}
