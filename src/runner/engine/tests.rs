use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::argv::{self, Common, Link, Quirks, Reach, Supervisor};
use super::mount::Mount;
use super::walls::{self, GitDirs, Place};
use crate::base::{Kind, Millis, Process};
use crate::config::Config;
use crate::config::schema::{Mount as Entry, MountKind};
use crate::model::RunnerKind;

/// A project with everything that is mounted from it.
struct Fixture {
    dir: tempfile::TempDir,
    base: PathBuf,
    git: GitDirs,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().expect("temp dir");
        let base = dir.path().canonicalize().expect("resolves");
        let root = base.join("my app");
        for path in [".git/objects/pack", ".git/objects/info", ".git/worktrees/fix", ".lazy/worktrees/fix"] {
            std::fs::create_dir_all(root.join(path)).expect("directory");
        }
        let common_dir = root.join(".git");
        let git = GitDirs {
            objects: common_dir.join("objects"),
            git_dir: common_dir.join("worktrees/fix"),
            common_dir,
            alternates: vec!["/srv/mirror/objects".into()],
        };
        Fixture { dir, base, git }
    }

    fn process(&self) -> Process {
        let home = self.base.join("home");
        Process::fake(["lazy"], &[("HOME", home.to_str().expect("utf-8"))], self.dir.path(), Millis(0))
    }

    fn mounts(&self, config: &Config) -> crate::base::Result<Vec<Mount>> {
        self.mounts_as(&self.process(), config)
    }

    fn mounts_as(&self, process: &Process, config: &Config) -> crate::base::Result<Vec<Mount>> {
        let (root, home) = (self.base.join("my app"), self.base.join("home"));
        let place = Place {
            project_root: &root,
            data_dir: &root.join(".lazy"),
            worktree: &root.join(".lazy/worktrees/fix"),
            git: &self.git,
            protocol_dir: &home.join(".lazy/protocol/aaaa"),
            mcp_config: &home.join(".lazy/daemon/app-1/mcp/daemon-mcp-lazy-fix.json"),
            install: &home.join(".lazy/bin/lazy-agent-00ff"),
            link: Some(&home.join(".lazy/link/app-1")),
        };
        walls::mounts(process, config, &place)
    }

    fn common(&self, engine: RunnerKind, reach: Reach, quirks: Quirks) -> Common {
        Common {
            engine,
            name: "lazy-fix.2-1a2b3c4d".into(),
            labels: vec![("lazy.kind".into(), "task".into()), ("lazy.project".into(), "/srv/my app".into())],
            image: "sha256:cafe".into(),
            mounts: self.mounts(&Config::default()).expect("mounts"),
            env: vec!["ANTHROPIC_API_KEY".into(), "GIT_SSH_COMMAND".into()],
            workdir: "/srv/my app/.lazy/worktrees/fix".into(),
            user: (1234, 1235),
            reach,
            quirks,
        }
    }

    /// One argument a line, options with their values, the temporary directory left out.
    fn lines(&self, args: &[OsString]) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut takes_value = false;
        for arg in args {
            let text = arg.to_string_lossy().replace(self.base.to_str().expect("utf-8"), "/base");
            match lines.last_mut() {
                Some(last) if takes_value && !text.starts_with("--") => {
                    last.push(' ');
                    last.push_str(&text);
                    takes_value = false;
                }
                _ => {
                    let flags = ["--rm", "--init", "--detach", "--interactive", "--tty", "--link"];
                    takes_value = text.starts_with("--") && !flags.contains(&text.as_str());
                    lines.push(text);
                }
            }
        }
        lines.join("\n")
    }
}

fn run() -> Supervisor {
    Supervisor {
        protocol_dir: "/home/u/.lazy/protocol/aaaa".into(),
        worktree: "/srv/my app/.lazy/worktrees/fix".into(),
        image_user: Some("user".into()),
        link: Link::Socket,
    }
}

const ENGINES: [RunnerKind; 2] = [RunnerKind::Docker, RunnerKind::Podman];

#[test]
fn the_whole_command_line_of_a_supervisor() {
    let fixture = Fixture::new();
    let endpoints = ["packages.example.com:443", "db.example.com:5432", "packages.example.com:80"]
        .map(|text| text.parse().expect("an endpoint"));
    for engine in ENGINES {
        let open = fixture.common(engine, Reach::open(), Quirks::default());
        insta::assert_snapshot!(
            format!("supervisor_{engine}"),
            fixture.lines(&argv::supervisor(&open, &run()).expect("fits"))
        );
        let quirks = Quirks { rootless: true, shifts_users: true, selinux: true };
        let closed = fixture.common(engine, Reach::proxy_only(&endpoints), quirks);
        insta::assert_snapshot!(
            format!("supervisor_{engine}_proxy_only"),
            fixture.lines(&argv::supervisor(&closed, &run()).expect("fits"))
        );
    }
}

#[test]
fn the_whole_command_line_of_one_request_and_of_a_builder() {
    let fixture = Fixture::new();
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    for engine in ENGINES {
        let common = fixture.common(engine, Reach::open(), Quirks::default());
        let one = argv::one_shot(&common, "claude", &words(&["-p", "--output-format", "json"])).expect("fits");
        insta::assert_snapshot!(format!("one_shot_{engine}"), fixture.lines(&one));
        let builder = argv::builder(&common, &words(&["--worktree", "/srv/my app"])).expect("fits");
        insta::assert_snapshot!(format!("builder_{engine}"), fixture.lines(&builder));
    }
}

#[test]
fn no_value_of_the_environment_is_on_a_command_line() {
    let fixture = Fixture::new();
    let common = fixture.common(RunnerKind::Docker, Reach::open(), Quirks::default());
    let args = argv::supervisor(&common, &run()).expect("fits");
    for (at, _) in args.iter().enumerate().filter(|(_, arg)| *arg == "--env") {
        assert!(!args[at + 1].to_string_lossy().contains('='), "{:?}", args[at + 1]);
    }
}

/// Every path that could launch a container takes its mounts from one list; none of them shows the daemon's directory.
#[test]
fn the_daemons_directory_is_never_among_the_mounts() {
    let fixture = Fixture::new();
    let daemon = fixture.base.join("home/.lazy/daemon");
    for engine in ENGINES {
        let common = fixture.common(engine, Reach::open(), Quirks::default());
        let lines = [
            argv::supervisor(&common, &run()).expect("fits"),
            argv::one_shot(&common, "claude", &[]).expect("fits"),
            argv::builder(&common, &[]).expect("fits"),
        ];
        for args in lines {
            assert!(!args.iter().any(|arg| arg == "-v" || arg == "--volume"), "mounts have one spelling");
            let mut own = 0;
            for (at, _) in args.iter().enumerate().filter(|(_, arg)| *arg == "--mount") {
                let spec = args[at + 1].to_string_lossy().into_owned();
                let Some(source) = spec.split(',').find_map(|field| field.strip_prefix("source=")) else { continue };
                let source = Path::new(source);
                if source.starts_with(&daemon) {
                    assert!(
                        source.parent().is_some_and(|dir| dir.ends_with("mcp")) && spec.ends_with(",readonly"),
                        "{spec}"
                    );
                    own += 1;
                }
                assert!(!daemon.starts_with(source), "{spec} contains it");
            }
            assert_eq!(own, 1, "its own configuration file, and nothing else");
        }
    }
}

#[test]
fn a_project_around_the_daemons_directory_hides_it() {
    let fixture = Fixture::new();
    let root = fixture.base.join("my app");
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let home = text(fixture.base.join("home"));
    let inside = text(root.join("state/daemon"));
    let process =
        Process::fake(["lazy"], &[("HOME", &home), ("LAZY_DAEMON_BASE_DIR", &inside)], fixture.dir.path(), Millis(0));
    let mounts = fixture.mounts_as(&process, &Config::default()).expect("mounts");
    assert!(mounts.contains(&Mount::Hidden { target: root.join("state/daemon") }), "{mounts:?}");
    // A place that no cover reaches is refused.
    let borrowed = text(PathBuf::from("/srv/mirror/objects/state"));
    let process =
        Process::fake(["lazy"], &[("HOME", &home), ("LAZY_DAEMON_BASE_DIR", &borrowed)], fixture.dir.path(), Millis(0));
    let error = fixture.mounts_as(&process, &Config::default()).expect_err("shown");
    assert!(error.kind() == Kind::Forbidden && error.message().contains("/srv/mirror/objects"), "{error}");
}

fn entry(kind: MountKind, source: Option<&str>, target: &str) -> Entry {
    Entry { kind, source: source.map(str::to_string), name: None, target: target.into(), readonly: true }
}

#[test]
fn custom_mounts_are_filled_resolved_and_judged_again() {
    let fixture = Fixture::new();
    let root = fixture.base.join("my app");
    std::fs::create_dir_all(root.join("cache")).expect("directory");
    let with = |entries: Vec<Entry>| Config { mounts: entries, ..Config::default() };
    let good = with(vec![
        entry(MountKind::Volume, None, "{worktree}/node_modules"),
        entry(MountKind::Bind, Some("{repo}/cache"), "/cache"),
        entry(MountKind::Bind, Some("cache"), "{repo}/elsewhere"),
    ]);
    let mounts = fixture.mounts(&good).expect("mounts");
    let said: Vec<String> = mounts[mounts.len() - 3..]
        .iter()
        .map(|mount| mount.argument(RunnerKind::Docker).expect("fits").to_string_lossy().into_owned())
        .map(|text| text.replace(fixture.base.to_str().expect("utf-8"), "/base"))
        .collect();
    assert_eq!(
        said,
        [
            "type=volume,target=/base/my app/.lazy/worktrees/fix/node_modules,readonly",
            "type=bind,source=/base/my app/cache,target=/cache,readonly",
            "type=bind,source=/base/my app/cache,target=/base/my app/elsewhere,readonly",
        ]
    );
    let missing = with(vec![entry(MountKind::Bind, Some("nowhere"), "/x")]);
    let error = fixture.mounts(&missing).expect_err("missing");
    assert!(error.message().contains("entry 1") && error.message().contains("nowhere"), "{error}");
    // A link in the project that leads into the daemon's directory.
    let daemon = fixture.base.join("home/.lazy/daemon/other");
    std::fs::create_dir_all(&daemon).expect("directory");
    std::os::unix::fs::symlink(&daemon, root.join("innocent")).expect("link");
    let link = with(vec![entry(MountKind::Volume, None, "/y"), entry(MountKind::Bind, Some("innocent"), "/x")]);
    let error = fixture.mounts(&link).expect_err("refused");
    assert!(error.kind() == Kind::Forbidden && error.message().contains("entry 2"), "{error}");
}
