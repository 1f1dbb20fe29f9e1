//! `lazy-agent init` as the first process of real containers, with a daemon's end of the link played by the test.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::world::engine;

/// A container without a network, whose user has ids that the image knows nothing of.
struct First {
    engine: &'static str,
    name: String,
    dir: tempfile::TempDir,
    uid: u32,
    gid: u32,
}

impl First {
    fn new(engine: &'static str) -> First {
        let dir = tempfile::Builder::new().prefix("lazy é ").tempdir().expect("temp dir");
        let me = fs::metadata(dir.path()).expect("a directory");
        // Only root can give files away; anyone else is a user of their own.
        let (uid, gid) = if me.uid() == 0 { (12_345, 12_346) } else { (me.uid(), me.gid()) };
        let first = First { engine, name: format!("lazytest-first-{}", uuid::Uuid::new_v4().simple()), dir, uid, gid };
        for path in [first.mailbox(), first.worktree(), first.link()] {
            fs::create_dir(&path).expect("creates");
            if me.uid() == 0 {
                chown(&path, Some(uid), Some(gid)).expect("gives away");
            }
        }
        first
    }

    fn mailbox(&self) -> PathBuf {
        self.dir.path().join("mailbox")
    }

    fn worktree(&self) -> PathBuf {
        self.dir.path().join("worktree")
    }

    fn link(&self) -> PathBuf {
        self.dir.path().join("link")
    }

    fn run(&self) {
        let mount = |source: &Path, target: &str, more: &str| {
            ["--mount".to_string(), format!("type=bind,source={},target={target}{more}", source.display())]
        };
        let (mailbox, worktree) = (self.mailbox(), self.worktree());
        let own = |path: &Path| path.display().to_string();
        let mut command = Command::new(self.engine);
        command.args(["run", "--detach", "--name", &self.name, "--network", "none", "--user", "0:0"]);
        command.args(mount(Path::new(env!("CARGO_BIN_EXE_lazy")), "/usr/local/bin/lazy-agent", ",readonly"));
        command.args(mount(&mailbox, &own(&mailbox), "")).args(mount(&worktree, &own(&worktree), ""));
        command.args(mount(&self.link(), "/run/lazy/link", ",readonly"));
        command.args(["--add-host", "a.example:127.1.0.1", "--entrypoint", "/usr/local/bin/lazy-agent"]);
        command.args([concat!("lazy-runner:", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"))]);
        command.args(["init", "--protocol-dir", &own(&mailbox), "--worktree", &own(&worktree)]);
        command.args(["--runner", self.engine, "--uid", &self.uid.to_string(), "--gid", &self.gid.to_string()]);
        command.args(["--image-user", "user", "--link", "--egress", "a.example:443=127.1.0.1"]);
        succeeds(&mut command);
    }

    /// A script in the container, as a user of it.
    fn exec(&self, user: &str, script: &str) -> Output {
        let mut command = Command::new(self.engine);
        command.args(["exec", "--user", user, &self.name, "bash", "-c", script]);
        command.output().expect("the engine runs")
    }

    fn says(&self, user: &str, script: &str) -> String {
        String::from_utf8_lossy(&self.exec(user, script).stdout).trim().to_string()
    }

    fn inspect(&self, format: &str) -> String {
        let output = succeeds(Command::new(self.engine).args(["inspect", "--format", format, &self.name]));
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }

    /// Answers every connection over the link with the line it began with.
    fn play_daemon(&self) {
        let listener = UnixListener::bind(self.link().join("link.sock")).expect("binds");
        // Whoever connects is the container's root, which may have no rights over files of others.
        chown(self.link().join("link.sock"), Some(self.uid), Some(self.gid)).expect("gives away");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).ok();
                write!(&stream, "to {line}").ok();
            }
        });
    }

    /// The supervisor that waits for a command now.
    fn supervisor(&self) -> String {
        until("a supervisor", || {
            // The bracket keeps the pattern from finding itself.
            let pids = self.says("0", "grep -las 'supervis[e]' /proc/[0-9]*/cmdline | cut -d/ -f3");
            let pids: Vec<&str> = pids.lines().collect();
            (pids.len() == 1).then(|| pids[0].to_string())
        })
    }

    fn command(&self, text: &str) {
        let (whole, slot) = (self.mailbox().join(".whole"), self.mailbox().join("command.json"));
        fs::write(&whole, text).expect("writes");
        if fs::metadata(self.dir.path()).expect("a directory").uid() == 0 {
            chown(&whole, Some(self.uid), Some(self.gid)).expect("gives away");
        }
        fs::rename(&whole, &slot).expect("renames");
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = Command::new(self.engine).args(["logs", "--tail", "40", &self.name]).output();
            eprintln!("--- container {}\n{output:?}", self.name);
        }
        Command::new(self.engine).args(["rm", "--force", "--volumes", &self.name]).output().ok();
    }
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("the engine runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "{what} never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_supervisor_is_the_hosts_user_and_comes_again() {
    for name in ["docker", "podman"] {
        if !engine(name) {
            continue;
        }
        let first = First::new(name);
        first.run();
        let before = first.supervisor();
        let status = first.says("0", &format!("cat /proc/{before}/status"));
        let ids = |field: &str, id: u32| format!("{field}:\t{id}\t{id}\t{id}\t{id}");
        assert!(status.contains(&ids("Uid", first.uid)) && status.contains(&ids("Gid", first.gid)), "{status}");
        assert_eq!(first.says(&first.uid.to_string(), "whoami; cd ~user && pwd"), "user\n/home/user");
        assert_eq!(first.says("user", "id -u; id -g"), format!("{}\n{}", first.uid, first.gid));
        assert!(first.exec("user", "touch ~/mine").status.success(), "the home is the user's");
        let readable = first.exec(&first.uid.to_string(), "cat /proc/1/environ").status.success();
        assert!(!readable, "the first process is not the agent's to look into");

        // Left behind, and dead: the first process has to collect the one and leave the other alone.
        first.exec("user", "(setsid sleep 600 </dev/null >/dev/null 2>&1 &); for i in 1 2 3; do (sleep 0.1 &); done");
        first.command("{ torn");
        let response = until("a response", || fs::metadata(first.mailbox().join("response.json")).ok());
        assert_eq!((response.uid(), response.gid()), (first.uid, first.gid));
        until("another supervisor", || (first.supervisor() != before).then_some(()));
        until("the dead are collected", || {
            first.says("0", "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null").is_empty().then_some(())
        });
        let left = first.says("0", "grep -las 'sleep.60[0]' /proc/[0-9]*/cmdline | wc -l");
        assert_eq!(left, "1", "what the agent left running goes on");

        first.command(r#"{"type":"stop","task_id":"aaaaaaaa-0000-4000-8000-000000000001"}"#);
        until("the end", || (first.inspect("{{.State.Running}}") == "false").then_some(()));
        assert_eq!(first.inspect("{{.State.ExitCode}}"), "0");
    }
}

#[test]
fn nothing_but_the_link_leads_out() {
    for name in ["docker", "podman"] {
        if !engine(name) {
            continue;
        }
        let first = First::new(name);
        let elsewhere = std::net::TcpListener::bind("0.0.0.0:0").expect("binds").local_addr().expect("an address");
        first.run();
        first.supervisor();
        let ask = |to: &str| {
            let (host, port) = to.rsplit_once(':').expect("host:port");
            first.says("user", &format!("exec 3<>/dev/tcp/{host}/{port} && timeout 20 cat <&3"))
        };
        // Nobody is at the other end yet: that is waited for.
        let asked = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ask("127.0.0.1:26024"));
            std::thread::sleep(Duration::from_millis(1500));
            assert!(!waiting.is_finished(), "a daemon that is down is waited for");
            first.play_daemon();
            waiting.join().expect("asks")
        });
        assert_eq!(asked, "to daemon");
        assert_eq!(ask("127.0.0.1:26025"), "to proxy");
        assert_eq!(ask("a.example:443"), "to egress a.example:443");
        let interfaces = first.says("0", "cat /sys/class/net/*/address | sort -u");
        assert_eq!(interfaces, "00:00:00:00:00:00", "there is loopback and nothing else");
        for wall in ["1.1.1.1:53", &format!("172.17.0.1:{}", elsewhere.port()), "127.0.0.1:443", "a.example:80"] {
            let (host, port) = wall.rsplit_once(':').expect("host:port");
            let tried = first.exec("user", &format!("timeout 5 bash -c 'exec 3<>/dev/tcp/{host}/{port}'"));
            assert!(!tried.status.success(), "{wall} answers");
        }
    }
}

#[test]
fn a_stop_is_passed_on_and_is_quick() {
    for name in ["docker", "podman"] {
        if !engine(name) {
            continue;
        }
        let first = First::new(name);
        first.run();
        first.supervisor();
        let left = first.worktree().join("by root/deep");
        first.exec("0", &format!("mkdir -p '{0}' && touch '{0}/file' && ln -s /etc/passwd '{0}/link'", left.display()));
        let began = Instant::now();
        succeeds(Command::new(name).args(["stop", "--time", "30", &first.name]));
        for path in [left.clone(), left.join("file"), left.join("link")] {
            assert_eq!(fs::symlink_metadata(&path).expect("is there").uid(), first.uid, "{}", path.display());
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert_eq!(first.inspect("{{.State.ExitCode}}"), "143");
        // What it did to the image's files is done once.
        succeeds(Command::new(name).args(["start", &first.name]));
        first.supervisor();
        assert_eq!(first.says("0", "grep -c '^user:' /etc/passwd"), "1");
    }
}
