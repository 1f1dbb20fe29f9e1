use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use tokio::net::TcpListener;

use super::*;

/// A listener that answers each connection with its name and what it was sent until the end.
async fn answering(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut said = Vec::new();
                stream.read_to_end(&mut said).await.ok();
                stream.write_all(format!("{name}:{}", said.len()).as_bytes()).await.ok();
            });
        }
    });
    address
}

async fn ask(directory: &Path, line: &str, body: &[u8]) -> String {
    let mut stream = UnixStream::connect(directory.join(LINK_SOCKET)).await.expect("connects");
    // A target that is refused is a closed connection, so writing may fail half way.
    stream.write_all(line.as_bytes()).await.ok();
    stream.write_all(body).await.ok();
    stream.shutdown().await.ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    String::from_utf8(answer).expect("utf-8")
}

fn nowhere() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

#[tokio::test]
async fn each_target_is_reached_and_half_a_close_is_kept() {
    let dir = tempfile::tempdir().expect("temp dir");
    let directory = dir.path().join("link/app");
    let (daemon, proxy, other) = (answering("daemon").await, answering("proxy").await, answering("other").await);
    let allowed = Endpoint { host: HOST_NAME.into(), port: other.port() };
    let link = Link::open(directory.clone(), daemon, proxy, vec![allowed.clone()]).expect("opens");
    let meta = fs::metadata(&directory).expect("a directory");
    assert_eq!(meta.permissions().mode() & 0o777, 0o700);
    let socket = fs::metadata(directory.join(LINK_SOCKET)).expect("a socket");
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(&directory, "daemon\n", b"12345").await, "daemon:5");
    assert_eq!(ask(&directory, "proxy\n", &vec![b'x'; 3 << 20]).await, format!("proxy:{}", 3 << 20));
    assert_eq!(ask(&directory, &LinkTarget::Egress(allowed).line(), b"").await, "other:0");
    link.stop(Duration::from_secs(5)).await;
    assert!(!directory.join(LINK_SOCKET).exists());
    assert_eq!(fs::metadata(&directory).expect("stays").ino(), meta.ino(), "a mount of it must go on");
}

#[tokio::test]
async fn what_is_not_allowed_is_closed() {
    let dir = tempfile::tempdir().expect("temp dir");
    let directory = dir.path().join("link");
    let (daemon, other) = (answering("daemon").await, answering("other").await);
    let link =
        Link::open(directory.clone(), daemon, daemon, vec!["localhost:1".parse().expect("fits")]).expect("opens");
    let elsewhere = format!("egress {HOST_NAME}:{}\n", other.port());
    let long = format!("{}\n", "d".repeat(LINE_LIMIT));
    for line in [elsewhere.as_str(), "egress localhost:1\n", "Daemon\n", "\n", "daemon", "egress \u{0}:1\n", &long] {
        assert_eq!(ask(&directory, line, b"").await, "", "{line:?}");
    }
    assert_eq!(ask(&directory, "daemon\n", b"x").await, "daemon:1", "and it goes on");
    link.stop(Duration::ZERO).await;
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("temp dir");
    let directory = dir.path().join("link");
    let targets = Targets {
        daemon: nowhere(),
        proxy: nowhere(),
        allow: Vec::new(),
        line_within: Duration::from_millis(1),
        logged: Mutex::default(),
    };
    let _link = Link::start(&directory, targets).expect("opens");
    let mut stream = UnixStream::connect(directory.join(LINK_SOCKET)).await.expect("connects");
    stream.write_all(b"daem").await.expect("writes");
    assert_eq!(stream.read(&mut [0; 8]).await.expect("is closed"), 0);
}

#[tokio::test]
async fn closed_it_takes_nothing_new_and_finishes_the_old() {
    let dir = tempfile::tempdir().expect("temp dir");
    let directory = dir.path().join("link");
    let daemon = answering("daemon").await;
    let link = Link::open(directory.clone(), daemon, nowhere(), Vec::new()).expect("opens");
    let mut old = UnixStream::connect(directory.join(LINK_SOCKET)).await.expect("connects");
    old.write_all(b"daemon\nx").await.expect("writes");
    // It stands once another one, begun later, has been served.
    assert_eq!(ask(&directory, "daemon\n", b"").await, "daemon:0");
    link.close();
    while directory.join(LINK_SOCKET).exists() {
        tokio::task::yield_now().await;
    }
    let stopped = tokio::spawn(link.stop(Duration::from_secs(60)));
    assert!(UnixStream::connect(directory.join(LINK_SOCKET)).await.is_err());
    old.write_all(b"y").await.expect("writes");
    old.shutdown().await.expect("half a close");
    let mut answer = String::new();
    old.read_to_string(&mut answer).await.expect("reads");
    assert_eq!(answer, "daemon:2");
    stopped.await.expect("ends");
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let directory = dir.path().join("link");
    let open = || Link::open(directory.clone(), nowhere(), nowhere(), Vec::new());
    fs::create_dir(&directory).expect("a directory");
    drop(std::os::unix::net::UnixListener::bind(directory.join(LINK_SOCKET)).expect("binds"));
    let link = open().expect("what a dead daemon left is replaced");
    let error = open().err().expect("the socket is in use");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(UnixStream::connect(directory.join(LINK_SOCKET)).await.is_ok(), "the refused one removed nothing");
    link.stop(Duration::ZERO).await;
    fs::write(directory.join(LINK_SOCKET), "a note").expect("writes");
    assert_eq!(open().err().expect("not a socket").kind(), Kind::Conflict);
    assert_eq!(fs::read(directory.join(LINK_SOCKET)).expect("stays"), b"a note");
}

#[tokio::test]
async fn a_symlink_and_a_file_are_refused_and_a_long_path_works() {
    let dir = tempfile::tempdir().expect("temp dir");
    let open = |directory: &Path| Link::open(directory.to_path_buf(), nowhere(), nowhere(), Vec::new());
    let real = dir.path().join("real");
    fs::create_dir(&real).expect("a directory");
    let symlink = dir.path().join("symlink");
    std::os::unix::fs::symlink(&real, &symlink).expect("links");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("writes");
    for bad in [&symlink, &file] {
        let error = open(bad).err().expect("refused");
        assert_eq!(error.kind(), Kind::Forbidden, "{error}");
    }
    assert_eq!(fs::read_dir(&real).expect("lists").count(), 0);
    let long = dir.path().join("d".repeat(120)).join("e".repeat(200));
    let link = open(&long).expect("opens");
    assert!(long.join(LINK_SOCKET).exists());
    link.stop(Duration::ZERO).await;
}

#[test]
fn a_name_never_leads_back_to_this_machine() {
    for inside in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "::1", "::", "::ffff:127.0.0.1", "fe80::1"] {
        assert!(!is_outside(inside.parse().expect(inside)), "{inside}");
    }
    for outside in ["10.0.0.1", "192.168.1.1", "1.1.1.1", "2606:4700::1111"] {
        assert!(is_outside(outside.parse().expect(outside)), "{outside}");
    }
}
