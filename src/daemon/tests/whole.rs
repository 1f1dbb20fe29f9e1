use std::path::{Path, PathBuf};

use crate::base::{Kind, Millis, Process, files};
use crate::daemon::Options;
use crate::daemon::ladder::Daemon;
use crate::model::Actor;
use crate::proc::Cmd;
use crate::rpc::mcp_config::{McpConfig, Reach};
use crate::rpc::tokens::Token;
use crate::rpc::{Client, StateDir, commands};

/// A project with one commit, its home and the process a daemon of it is started in.
struct Project {
    _dir: tempfile::TempDir,
    root: PathBuf,
    process: Process,
}

impl Project {
    /// `toml` goes into `lazy.toml`. The port is the system's choice, so that tests do not meet.
    async fn new(toml: &str) -> Project {
        let dir = tempfile::tempdir().expect("temp dir");
        let home = dir.path().canonicalize().expect("exists");
        let root = home.join("größtes projekt");
        files::create_dir(&root).expect("the root");
        let process = process(&home, &[("ANTHROPIC_API_KEY", "real-secret")]);
        let project = Project { _dir: dir, root, process };
        project.git(&["init", "--quiet", "--initial-branch=main"]).await;
        project
            .git(&["-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty", "-m", "1"])
            .await;
        project.configure(toml);
        project
    }

    fn configure(&self, toml: &str) {
        let text = format!("{toml}\n[server]\nport = 0\n");
        std::fs::write(self.root.join("lazy.toml"), text).expect("lazy.toml");
    }

    async fn git(&self, args: &[&str]) {
        let home = self.root.parent().expect("a parent");
        let git = Cmd::new("git").args(args).cwd(&self.root).env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.output().await.expect("git runs");
        assert!(output.success(), "{}", output.stderr_text());
    }

    fn with_env(&self, env: &[(&str, &str)]) -> Process {
        process(self.root.parent().expect("a parent"), env)
    }

    fn state(&self) -> StateDir {
        StateDir::for_project(&self.process, &self.root).expect("a home")
    }

    async fn start(&self) -> crate::base::Result<Daemon> {
        Daemon::start(&self.process, &Options { project_root: self.root.clone() }).await
    }

    fn client(&self) -> Client {
        Client::for_project(&self.state(), Actor::Human).expect("a daemon")
    }
}

fn process(home: &Path, more: &[(&str, &str)]) -> Process {
    let path = Process::real().expect("a process").var("PATH").expect("a PATH").to_string();
    let mut env = vec![("PATH", path.as_str()), ("HOME", home.to_str().expect("utf-8")), ("GIT_CONFIG_NOSYSTEM", "1")];
    env.extend_from_slice(more);
    Process::fake(["lazy"], &env, home, Millis(1_700_000_000_000))
}

/// Nothing of a refused start is left, and the reason is.
fn assert_nothing_left(state: &StateDir, reason: &str) {
    assert!(!state.is_daemon_running(), "no lock");
    assert_eq!(state.pid(), None, "no pid file");
    let text = std::fs::read_to_string(state.startup_error_path()).expect("a reason");
    assert!(text.contains(reason), "{text}");
}

#[tokio::test]
async fn from_start_to_end() {
    let project = Project::new("").await;
    let state = project.state();
    files::write_atomic(&state.startup_error_path(), b"old", files::Mode::Shared).expect("an old reason");
    let daemon = project.start().await.expect("starts");
    assert!(state.is_daemon_running());
    assert_eq!(state.pid(), Some(std::process::id()));
    assert!(!state.startup_error_path().exists(), "the old reason is gone");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(state.path()).expect("a directory").permissions());
    assert_eq!(mode & 0o777, 0o700);
    let client = project.client();
    let status = client.status().await.expect("answers");
    assert_eq!(status.project_root, project.root.to_str().expect("utf-8"));
    assert_eq!(Some(status.web_port), state.port());
    let report = client.call::<commands::SystemStatus>(&commands::Empty {}, |_| {}).await.expect("a report");
    assert_eq!(report.credential.as_deref(), Some("ANTHROPIC_API_KEY"));
    client.shutdown().await.expect("accepts");
    daemon.asked_to_end().await;
    daemon.stop().await;
    assert!(!state.is_daemon_running());
    assert_eq!(state.pid(), None);
    assert_eq!(client.status().await.expect_err("gone").kind(), Kind::Unavailable);
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_the_first_unharmed() {
    let project = Project::new("").await;
    let first = project.start().await.expect("starts");
    let error = project.start().await.err().expect("refused");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains(&std::process::id().to_string()), "{error}");
    assert!(error.hints().iter().any(|hint| hint == "lazy daemon stop"));
    let state = project.state();
    assert_eq!(state.pid(), Some(std::process::id()));
    assert!(project.client().status().await.is_ok());
    assert!(!state.startup_error_path().exists(), "the one that serves did start");
    first.stop().await;
    assert!(!state.is_daemon_running());
}

#[tokio::test]
async fn refused_starts_leave_nothing_but_the_reason() {
    let project = Project::new("").await;
    let state = project.state();
    let options = Options { project_root: project.root.clone() };

    let blank = project.with_env(&[("ANTHROPIC_API_KEY", "  ")]);
    let error = Daemon::start(&blank, &options).await.err().expect("no credential");
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_nothing_left(&state, "CLAUDE_CODE_OAUTH_TOKEN");
    assert!(error.hints().iter().any(|hint| hint.contains("claude setup-token")));

    project.configure("[server\n");
    assert_eq!(project.start().await.err().expect("no configuration").kind(), Kind::Config);
    assert_nothing_left(&state, "lazy.toml");

    project.configure("[remote]\ndriver = \"github\"");
    assert!(project.start().await.is_err(), "a forge that is not there");
    assert_nothing_left(&state, "github");

    // The last rung that can refuse: the proxy runs by then.
    std::fs::write(project.root.join("lazy.toml"), "[server]\nbind = \"192.0.2.1\"\n").expect("lazy.toml");
    let error = project.start().await.err().expect("no such address");
    assert!(error.hints().iter().any(|hint| hint.contains("bind")), "{error}");
    assert_nothing_left(&state, "192.0.2.1");
    let port: u16 = files::read_line_optional(&state.path().join("proxy-port")).expect("a port").parse().expect("one");
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err(), "the proxy is gone, too");

    project.configure("");
    project.start().await.expect("starts after all").stop().await;
}

#[tokio::test]
async fn what_is_no_root_is_refused() {
    let project = Project::new("").await;
    let inside = project.root.join("src");
    files::create_dir(&inside).expect("a directory");
    let error = Daemon::start(&project.process, &Options { project_root: inside.clone() }).await.err().expect("inside");
    assert!(error.hints()[0].contains(project.root.to_str().expect("utf-8")), "{:?}", error.hints());
    let elsewhere = Options { project_root: project.root.join("nowhere") };
    assert_eq!(Daemon::start(&project.process, &elsewhere).await.err().expect("missing").kind(), Kind::NotFound);
    std::fs::remove_dir_all(project.root.join(".git")).expect("no repository any more");
    assert_eq!(project.start().await.err().expect("no repository").kind(), Kind::NotFound);
    project.git(&["init", "--quiet"]).await;
    let error = project.start().await.err().expect("no commit");
    assert!(error.hints()[0].contains("git commit"), "{:?}", error.hints());
    assert_nothing_left(&project.state(), "commit");
}

#[tokio::test]
async fn a_restart_keeps_token_and_proxy_port_and_moves_the_configurations() {
    let project = Project::new("").await;
    let state = project.state();
    project.start().await.expect("starts").stop().await;
    let (token, proxy) = (std::fs::read(state.token_path()), std::fs::read(state.path().join("proxy-port")));
    let minted = McpConfig {
        token: Token::random(),
        project_root: "/".into(),
        task_id: "x".into(),
        target: "http://host.docker.internal:1".into(),
        reach: Reach::Gateway,
    };
    minted.save_in_place(&state.mcp_config_path("lazy-x")).expect("mints");
    let daemon = project.start().await.expect("starts again");
    assert_eq!(std::fs::read(state.token_path()).expect("a token"), token.expect("a token"));
    assert_eq!(std::fs::read(state.path().join("proxy-port")).expect("a port"), proxy.expect("a port"));
    let moved = McpConfig::load(&state.mcp_config_path("lazy-x")).expect("minted");
    let port = state.port().expect("a port");
    assert_eq!(moved, McpConfig { target: format!("http://host.docker.internal:{port}"), ..minted });
    daemon.stop().await;
}

#[tokio::test]
async fn ollama_lifts_the_credential_gate() {
    let project = Project::new("[ollama]\nenabled = true\nmodel = \"m\"").await;
    let bare = project.with_env(&[]);
    let daemon = Daemon::start(&bare, &Options { project_root: project.root.clone() }).await.expect("starts");
    assert!(project.client().status().await.is_ok());
    daemon.stop().await;
}
