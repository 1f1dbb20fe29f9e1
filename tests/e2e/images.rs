//! Images and the program that containers mount, in real engines.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::world::{Agent, World, engine};

/// A project with a Dockerfile of its own, whose images are removed in the end.
struct Built {
    world: World,
    engine: &'static str,
    mark: String,
}

impl Built {
    fn new(engine: &'static str, agent: Agent) -> Built {
        let say = json!({ "uses": "always", "reply": { "content": [{ "text": "Done." }] } });
        let world = World::bare("my project", json!([say]));
        world.configure_engine(agent, engine, "", "");
        let path = world.project.join("lazy.toml");
        let text = fs::read_to_string(&path).expect("lazy.toml");
        let own = "[docker]\ndockerfile = \"Dockerfile.lazy\"\n";
        let text = if text.contains("[docker]\n") { text.replace("[docker]\n", own) } else { text + own };
        fs::write(path, text).expect("lazy.toml");
        fs::write(world.project.join(".dockerignore"), ".lazy\n.git\n").expect(".dockerignore");
        let mark = world.home().display().to_string();
        Built { world, engine, mark }
    }

    /// Replaces the Dockerfile; every one has a label that no other test has.
    fn dockerfile(&self, lines: &str) {
        let text = format!("{lines}\nLABEL lazytest-images=\"{}\"\n", self.mark);
        fs::write(self.world.project.join("Dockerfile.lazy"), text).expect("Dockerfile");
    }

    fn build(&self) -> Value {
        serde_json::from_str(&self.world.ok(&["system", "build", "--json"])).expect("JSON")
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = Command::new(self.engine).args(words).output().expect("the engine runs");
        assert!(output.status.success(), "{} {words:?}: {}", self.engine, String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }

    fn images(&self) -> Vec<String> {
        let filter = format!("label=lazytest-images={}", self.mark);
        let listed = self.ask(&["images", "--filter", &filter, "--format", "{{.Repository}}:{{.Tag}}"]);
        listed.lines().map(|name| name.trim_start_matches("localhost/").to_string()).collect()
    }

    fn doctor(&self, label: &str) -> Value {
        let output = self.world.lazy(&["doctor", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let checks = report["checks"].as_array().expect("checks");
        checks.iter().find(|check| check["label"] == label).unwrap_or_else(|| panic!("no {label}: {report:#}")).clone()
    }

    /// The container of a task that runs, and the program it mounts.
    fn container(&self, task: &str) -> (String, PathBuf) {
        let root = self.world.project.canonicalize().expect("the project");
        let project = format!("label=lazy.project={}", root.display());
        let run = format!("label=lazy.run=lazy-{task}");
        let ids = self.ask(&["ps", "--quiet", "--no-trunc", "--filter", &project, "--filter", &run]);
        assert_eq!(ids.lines().count(), 1, "containers of {task}: {ids:?}");
        let format = "{{range .Mounts}}{{println .Source .Destination}}{{end}}";
        let mounts = self.ask(&["container", "inspect", "--format", format, &ids]);
        let program = mounts.lines().find_map(|line| line.strip_suffix(" /usr/local/bin/lazy-agent"));
        (ids, program.unwrap_or_else(|| panic!("no program: {mounts}")).into())
    }

    fn installs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.world.home().join(".lazy/bin")).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        self.world.command(&["daemon", "stop", "--yes"]).output().ok();
        let remove = |list: &[&str], what: &[&str]| {
            let output = Command::new(self.engine).args(list).output();
            for id in
                output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default().lines()
            {
                Command::new(self.engine).args(what).arg(id).output().ok();
            }
        };
        if let Ok(root) = self.world.project.canonicalize() {
            let project = format!("label=lazy.project={}", root.display());
            remove(&["ps", "--all", "--quiet", "--filter", &project], &["rm", "--force", "--volumes"]);
        }
        let filter = format!("label=lazytest-images={}", self.mark);
        remove(&["images", "--quiet", "--filter", &filter], &["rmi", "--force"]);
    }
}

fn built_checked_and_known(name: &'static str) {
    if !engine(name) {
        return;
    }
    let case = Built::new(name, Agent::Claude);
    case.dockerfile("FROM lazy-runner\nRUN sudo touch /made-here");
    assert_eq!(case.doctor("Container image exists")["outcome"], "warn");
    let told = case.build();
    let image = told["image"].as_str().expect("a name").to_string();
    assert!(image.contains("lazy-custom-"), "{told}");
    let within = ["--entrypoint", "/bin/sh", &image, "-c", "id -un && ls /made-here && claude --version && sudo id -u"];
    let output = case.ask(&[&["run", "--rm", "--network", "none"][..], &within[..]].concat());
    assert!(output.starts_with("user\n/made-here\n") && output.ends_with("\n0"), "{output}");
    assert!(output.contains("Claude Code"), "{output}");
    assert_eq!(case.doctor("Container image up to date")["outcome"], "ok");
    let program = PathBuf::from(told["agent_binary"].as_str().expect("a path"));
    assert_eq!(fs::read(&program).expect("reads"), fs::read(env!("CARGO_BIN_EXE_lazy")).expect("reads"));
    assert_eq!(case.installs().len(), 2, "{:?}", case.installs());
    assert_eq!(case.images().len(), 1, "{:?}", case.images());

    // What would not work gets no name, and its lack is named.
    case.dockerfile("FROM debian:bookworm-slim");
    let refused = case.world.refused(&["system", "build"]);
    assert!(
        refused.contains("no git") && refused.contains("no claude") && refused.contains("FROM lazy-runner"),
        "{refused}"
    );
    case.dockerfile("FROM scratch\nCOPY README.md /");
    let refused = case.world.refused(&["system", "build"]);
    assert!(refused.contains("does not run in the image"), "{refused}");
    case.dockerfile("FROM lazy-runner\nRUN echo this-is-why >&2 && exit 3");
    let refused = case.world.refused(&["system", "build"]);
    assert!(refused.contains("this-is-why") && refused.contains("RUN echo"), "{refused}");
    let images = case.images();
    assert!(images.iter().filter(|name| !name.ends_with("-building")).count() == 1, "{images:?}");

    let listed = case.world.ok(&["doctor", "--clean-docker-images", "--dry-run"]);
    let line = listed.lines().find(|line| line.contains(image.trim_start_matches("localhost/"))).expect("listed");
    assert!(line.contains("not needed"), "its Dockerfile says something else by now: {line}");
    assert!(listed.lines().any(|line| line.contains("lazy-runner:") && line.contains("  needed")), "{listed}");
    assert!(case.world.refused(&["doctor", "--clean-docker-images"]).contains("--yes"), "no person can say yes");
}

#[test]
fn docker_builds_an_image_that_works() {
    built_checked_and_known("docker");
}

#[test]
fn podman_builds_an_image_that_works() {
    built_checked_and_known("podman");
}

#[test]
fn an_upgrade_leaves_a_running_container_on_its_old_bytes() {
    if !engine("docker") {
        return;
    }
    let case = Built::new("docker", Agent::Demo);
    let world = &case.world;
    case.dockerfile("FROM lazy-runner");
    for task in ["one", "two"] {
        world.ok(&["create", "--goal", task, "--code", task, "--prompt", "Say that you are done"]);
    }
    world.ok(&["start", "one"]);
    assert_eq!(world.settled("one"), "blocked", "{}", world.logs());
    let (container, old) = case.container("one");
    let image = case.ask(&["inspect", "--format", "{{.Image}}", &container]);
    let daemon = world.daemon_pid().expect("a daemon");

    // The same program with one byte more at its end is another program.
    let newer = world.home().join("newer-lazy");
    fs::copy(env!("CARGO_BIN_EXE_lazy"), &newer).expect("copies");
    fs::OpenOptions::new().append(true).open(&newer).expect("opens").write_all(b"\n").expect("writes");
    fs::set_permissions(&newer, fs::Permissions::from_mode(0o755)).expect("mode");
    let run = |words: &[&str]| {
        let ours = world.command(words);
        let mut command = Command::new(&newer);
        command.args(words).current_dir(&world.project).env_clear();
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().expect("runs");
        let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {told}\n{}", world.logs());
        told
    };
    let plan = run(&["upgrade", "--dry-run"]);
    assert!(plan.contains("up to date") && plan.contains("not installed yet") && plan.contains("lazy-one-"), "{plan}");
    assert_eq!(case.installs().len(), 2, "a dry run changed something: {:?}", case.installs());
    let told = run(&["upgrade", "--force"]);
    let config = format!("Config:     {}", world.project.canonicalize().expect("exists").join("lazy.toml").display());
    assert!(told.contains(&config) && told.contains("Dockerfile.lazy") && told.contains("lazy-one-"), "{told}");
    assert_ne!(world.daemon_pid().expect("a daemon"), daemon, "the daemon runs again");
    assert_eq!(case.container("one"), (container.clone(), old.clone()), "the running container was touched");
    assert!(old.exists(), "its program was collected");
    let pointer = fs::read_link(world.home().join(".lazy/bin/lazy-agent-current")).expect("a link");
    assert_ne!(Some(pointer.as_os_str()), old.file_name());

    run(&["start", "two"]);
    assert_eq!(world.settled("two"), "blocked", "{}", world.logs());
    let (second, program) = case.container("two");
    assert_eq!(program.file_name(), Some(pointer.as_os_str()), "the next one has the new program");
    assert_ne!(case.ask(&["inspect", "--format", "{{.Image}}", &second]), image, "and the new image");
    run(&["unblock", "one", "--message", "Go on"]);
    assert_eq!(world.settled("one"), "blocked", "{}", world.logs());
    assert_eq!(case.container("one").0, container, "the warm container goes on");

    run(&["close", "one", "--yes", "--reason", "seen enough"]);
    let told = run(&["upgrade", "--images"]);
    assert!(told.contains(&format!("Removed:    {}", old.display())), "{told}");
    assert!(!old.exists());
}

#[test]
fn an_upgrade_that_fails_or_is_given_up_changes_nothing() {
    if !engine("docker") {
        return;
    }
    let case = Built::new("docker", Agent::Demo);
    let world = &case.world;
    case.dockerfile("FROM lazy-runner");
    let before = case.build()["id"].as_str().expect("an id").to_string();
    let names = case.images();
    world.ok(&["daemon", "start"]);
    let daemon = world.daemon_pid();
    let reference = names[0].clone();
    let unchanged = |what: &str| {
        assert_eq!(case.ask(&["image", "inspect", "--format", "{{.Id}}", &reference]), before, "{what}: the image");
        assert_eq!(world.daemon_pid(), daemon, "{what}: the daemon");
        assert!(!case.images().iter().any(|name| name.ends_with("-upgrade")), "{what}: {:?}", case.images());
    };
    let mut bare = world.command(&["upgrade", "--force"]);
    let output = bare.env_remove("ANTHROPIC_API_KEY").output().expect("runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("Nothing was changed") && told.contains("setup-token"), "{told}");
    unchanged("without a credential");

    // The name does not change with what the build is sent: only the same Dockerfile's result does.
    case.dockerfile("FROM lazy-runner\nCOPY flag /flag\nRUN sh /flag");
    fs::write(world.project.join("flag"), "true\n").expect("writes");
    let before = case.build()["id"].as_str().expect("an id").to_string();
    let reference = case.images().into_iter().find(|name| *name != reference).expect("a second image");
    let unchanged = |what: &str| {
        assert_eq!(case.ask(&["image", "inspect", "--format", "{{.Id}}", &reference]), before, "{what}: the image");
        assert_eq!(world.daemon_pid(), daemon, "{what}: the daemon");
        assert!(!case.images().iter().any(|name| name.ends_with("-upgrade")), "{what}: {:?}", case.images());
    };
    fs::write(world.project.join("flag"), "exit 7\n").expect("writes");
    let told = world.refused(&["upgrade", "--force"]);
    assert!(told.contains("nothing was upgraded") && told.contains("RUN sh /flag"), "{told}");
    unchanged("a build that fails");

    fs::write(world.project.join("flag"), "sleep 300\n").expect("writes");
    let mut command = world.command(&["upgrade", "--force"]);
    let mut child =
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().expect("starts");
    let mut talk = std::io::BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("RUN sh /flag") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut talk, &mut line).expect("reads") > 0, "it ended before its step");
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    let status = child.wait().expect("ends");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut talk, &mut rest).expect("reads");
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(rest.contains("nothing was changed"), "{rest}");
    unchanged("given up");
    world.until("its step ends with it", || {
        let listed = case.ask(&["ps", "--no-trunc", "--format", "{{.Command}}"]);
        (!listed.contains("sh /flag")).then_some(())
    });
}

#[test]
fn a_full_disk_leaves_no_torn_program() {
    if !engine("docker") {
        return;
    }
    let case = Built::new("docker", Agent::Demo);
    let bin = case.world.home().join(".lazy/bin");
    case.dockerfile("FROM lazy-runner");
    let Some(_small) = SmallDisk::mount(&bin) else { return };
    let refused = case.world.refused(&["system", "build"]);
    assert!(refused.contains("cannot write") && refused.contains("disk space"), "{refused}");
    assert!(case.installs().is_empty(), "something was left: {:?}", case.installs());
}

/// A file system of one megabyte, where this user may mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        fs::create_dir_all(at).expect("mount point");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).output();
        let done = mounted.is_ok_and(|output| output.status.success());
        if !done {
            eprintln!("skipped: this user may not mount a small file system");
        }
        done.then(|| SmallDisk(at.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).output().ok();
    }
}
