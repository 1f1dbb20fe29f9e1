//! The link's outer end: a unix socket through which containers reach the daemon, the proxy, and what they are allowed.
//!
//! See [`crate::model::link`] for what goes over it. The directory with the socket is the container's to look into, so
//! nothing else ever lies in it; it is never replaced, because a mount of it would keep showing the old one.
//!
//! Whoever can open the socket may ask for any target: only this user can, and the user's own containers.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::base::{Error, Kind, Result, ResultExt, files};
use crate::model::link::{Endpoint, HOST_NAME, LINE_LIMIT, LINK_SOCKET, LinkTarget};

/// How long a connection may take to say where it goes.
const LINE: Duration = Duration::from_secs(5);
/// How long a connection to a target may take to stand.
const DIAL: Duration = Duration::from_secs(10);
/// Connections at the same time; more wait.
const CONNECTIONS: usize = 1024;
/// Bytes on their way, for each direction of a connection.
const BUFFER: usize = 16 << 10;
/// Endpoints that are remembered as logged.
const LOGGED: usize = 256;

/// An open link. Dropping it cuts every connection.
pub(super) struct Link {
    closing: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

/// Where connections may go.
struct Targets {
    daemon: SocketAddr,
    proxy: SocketAddr,
    allow: Vec<Endpoint>,
    line_within: Duration,
    logged: Mutex<BTreeSet<Endpoint>>,
}

/// The socket's file, removed when this is dropped.
struct SocketFile {
    directory: OwnedFd,
}

impl Link {
    /// Opens the socket in `directory`, which is created when it is not there, and serves. Must be called in a runtime.
    ///
    /// `daemon` and `proxy` are addresses that can be dialled; `allow` is all that is reached beside them.
    ///
    /// # Errors
    /// [`Kind::Forbidden`] when the directory is a symlink or belongs to someone else; [`Kind::Conflict`] when somebody
    /// listens there already, or something else lies in the socket's place.
    pub fn open(directory: PathBuf, daemon: SocketAddr, proxy: SocketAddr, allow: Vec<Endpoint>) -> Result<Link> {
        Link::start(&directory, Targets { daemon, proxy, allow, line_within: LINE, logged: Mutex::default() })
    }

    fn start(directory: &Path, targets: Targets) -> Result<Link> {
        let (listener, file) = listen(directory)?;
        let targets = Arc::new(targets);
        let closing = watch::Sender::new(false);
        let serving = tokio::spawn(serve(listener, file, targets, closing.subscribe()));
        Ok(Link { closing, serving })
    }

    /// Takes no more connections: they wait in their containers for the next daemon. Those that stand go on.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Ends it: connections may end by themselves within `grace`, then they are cut.
    pub async fn stop(mut self, grace: Duration) {
        self.close();
        if tokio::time::timeout(grace, &mut self.serving).await.is_err() {
            self.serving.abort();
            (&mut self.serving).await.ok();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        rustix::fs::unlinkat(&self.directory, LINK_SOCKET, AtFlags::empty()).ok();
    }
}

/// Binds the socket. A path of a socket is at most 108 bytes long, so it is named through the directory's descriptor.
fn listen(directory: &Path) -> Result<(UnixListener, SocketFile)> {
    let shown = directory.join(LINK_SOCKET);
    let doing = || format!("cannot listen on {}", shown.display());
    let directory = open_directory(directory)?;
    let short = format!("/proc/self/fd/{}/{LINK_SOCKET}", directory.as_raw_fd());
    clear(&directory, &short, &shown)?;
    let listener = UnixListener::bind(&short).io_context(doing)?;
    let file = SocketFile { directory };
    let (at, mode) = (AtFlags::empty(), Mode::RUSR | Mode::WUSR);
    rustix::fs::chmodat(&file.directory, LINK_SOCKET, mode, at).map_err(io::Error::from).io_context(doing)?;
    Ok((listener, file))
}

fn open_directory(directory: &Path) -> Result<OwnedFd> {
    let shown = directory.display();
    if fs::symlink_metadata(directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        files::create_private_dir(directory)?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP | Errno::NOTDIR => Error::new(Kind::Forbidden, format!("{shown} is not a directory of its own"))
            .hint(format!("see what it is, and move it away: ls -ld '{shown}'")),
        other => Error::io(format!("cannot open {shown}"), other.into()),
    })?;
    let meta = rustix::fs::fstat(&handle).map_err(io::Error::from).io_context(|| format!("cannot open {shown}"))?;
    if meta.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Error::new(Kind::Forbidden, format!("{shown} belongs to another user"))
            .hint(format!("see whose it is, and move it away: ls -ld '{shown}'")));
    }
    rustix::fs::fchmod(&handle, Mode::RWXU)
        .map_err(io::Error::from)
        .io_context(|| format!("cannot close {shown} to others"))?;
    Ok(handle)
}

/// Removes the socket that a daemon left which is no more.
fn clear(directory: &OwnedFd, short: &str, shown: &Path) -> Result<()> {
    let doing = || format!("cannot replace {}", shown.display());
    let meta = match rustix::fs::statat(directory, LINK_SOCKET, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        other => other.map_err(io::Error::from).io_context(doing)?,
    };
    if FileType::from_raw_mode(meta.st_mode) != FileType::Socket {
        return Err(Error::new(Kind::Conflict, format!("{} is not a socket", shown.display()))
            .hint(format!("see what it is, and move it away: ls -ld '{}'", shown.display())));
    }
    if is_listening(short).map_err(io::Error::from).io_context(doing)? {
        return Err(Error::new(Kind::Conflict, format!("somebody listens on {} already", shown.display()))
            .hint("lazy daemon list"));
    }
    rustix::fs::unlinkat(directory, LINK_SOCKET, AtFlags::empty()).map_err(io::Error::from).io_context(doing)
}

/// Does not wait, whoever is there.
fn is_listening(path: &str) -> rustix::io::Result<bool> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        // Its queue is full.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(other) => Err(other),
    }
}

async fn serve(listener: UnixListener, file: SocketFile, targets: Arc<Targets>, mut closing: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => break,
            Some(_) = connections.join_next() => {}
            stream = accept(&listener), if connections.len() < CONNECTIONS => {
                connections.spawn(carry(stream, targets.clone()));
            }
        }
    }
    // The name first: who finds none waits, who is refused by a socket that is closing waits as well.
    drop(file);
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn accept(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "the link cannot take a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One connection from its line to its end. Whatever goes wrong closes it: the container sees just that.
async fn carry(mut here: UnixStream, targets: Arc<Targets>) {
    let Ok(Some((target, rest))) = tokio::time::timeout(targets.line_within, read_target(&mut here)).await else {
        tracing::debug!("a connection through the link did not say where it goes");
        return;
    };
    let Some(mut there) = targets.dial(&target).await else { return };
    there.set_nodelay(true).ok();
    if there.write_all(&rest).await.is_ok() {
        tokio::io::copy_bidirectional_with_sizes(&mut here, &mut there, BUFFER, BUFFER).await.ok();
    }
}

/// The target, and the bytes that came with the line but are behind it.
async fn read_target(stream: &mut UnixStream) -> Option<(LinkTarget, Vec<u8>)> {
    let mut bytes = vec![0; LINE_LIMIT];
    let mut filled = 0;
    while filled < LINE_LIMIT {
        let read = stream.read(&mut bytes[filled..]).await.ok().filter(|read| *read > 0)?;
        let end = bytes[filled..filled + read].iter().position(|byte| *byte == b'\n').map(|at| filled + at);
        filled += read;
        if let Some(end) = end {
            let target = LinkTarget::parse(std::str::from_utf8(&bytes[..end]).ok()?)?;
            return Some((target, bytes[end + 1..filled].to_vec()));
        }
    }
    None
}

impl Targets {
    async fn dial(&self, target: &LinkTarget) -> Option<TcpStream> {
        let dialling = async {
            match target {
                LinkTarget::Daemon => TcpStream::connect(self.daemon).await,
                LinkTarget::Proxy => TcpStream::connect(self.proxy).await,
                LinkTarget::Egress(endpoint) if self.allow.contains(endpoint) => dial_egress(endpoint).await,
                LinkTarget::Egress(_) => Err(io::Error::other("[runner] egress_allow does not name it")),
            }
        };
        let dialled =
            tokio::time::timeout(DIAL, dialling).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match (target, &dialled) {
            (LinkTarget::Egress(endpoint), Ok(_)) if self.is_news(endpoint) => {
                tracing::info!(%endpoint, "a container goes out through the link");
            }
            (LinkTarget::Egress(endpoint), Err(error)) if self.is_news(endpoint) => {
                tracing::warn!(%endpoint, %error, "a container asked the link for what it cannot have");
            }
            (LinkTarget::Daemon | LinkTarget::Proxy, Err(error)) => {
                tracing::warn!(?target, %error, "the link does not reach this daemon's own listener");
            }
            _ => {}
        }
        dialled.ok()
    }

    /// Whether nothing was logged of it yet. A container must not be able to fill the log.
    fn is_news(&self, endpoint: &Endpoint) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.len() < LOGGED && logged.insert(endpoint.clone())
    }
}

async fn dial_egress(endpoint: &Endpoint) -> io::Result<TcpStream> {
    if endpoint.host == HOST_NAME {
        return TcpStream::connect((Ipv4Addr::LOCALHOST, endpoint.port)).await;
    }
    let mut last = io::Error::other(format!("it has no address outside this machine; {HOST_NAME} means this machine"));
    let found = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await?;
    for address in found.filter(|address| is_outside(address.ip())) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whoever runs an allowed name's DNS must not thereby open what listens on this machine alone.
fn is_outside(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !(ip.is_loopback() || ip.is_unspecified() || ip.is_link_local()),
        IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_unspecified() || ip.is_unicast_link_local()),
    }
}

#[cfg(test)]
mod tests;
