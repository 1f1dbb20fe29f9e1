//! A machine of its own for one test: a home, a project, a scripted model, and the real executable.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The credential that must never leave the daemon.
pub const REAL_KEY: &str = "sk-ant-api03-the-real-credential-of-this-test";

/// The longest any one command may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Which agent a test runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// The built-in one.
    Demo,
    /// The real Claude Code.
    Claude,
}

impl Agent {
    pub fn id(self) -> &'static str {
        match self {
            Agent::Demo => "demo",
            Agent::Claude => "claude-code",
        }
    }

    /// A call that writes a file.
    pub fn write(self, path: &str, content: &str) -> Value {
        match self {
            Agent::Demo => json!({ "name": "write_file", "input": { "path": path, "content": content } }),
            Agent::Claude => {
                json!({ "name": "Write", "input": { "file_path": format!("{{{{worktree}}}}/{path}"), "content": content } })
            }
        }
    }
}

/// The real Claude Code, or why the test is not run. With `LAZY_REQUIRE_PARTS` a missing part is a failure.
pub fn claude() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("claude")).find(|path| path.exists());
    if found.is_none() {
        let text = "the real Claude Code (`claude`, npm package @anthropic-ai/claude-code) is not in PATH";
        assert!(std::env::var_os("LAZY_REQUIRE_PARTS").is_none(), "{text}");
        eprintln!("skipped: {text}");
    }
    found
}

/// Whether a program is there; said by name when it is not.
pub fn part(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    if !found {
        assert!(std::env::var_os("LAZY_REQUIRE_PARTS").is_none(), "{name} is not in PATH");
        eprintln!("skipped: {name} is not in PATH");
    }
    found
}

/// A container engine that answers, and in which lazy's image stands: the first test of the process sees to that.
pub fn engine(name: &'static str) -> bool {
    static READY: std::sync::Mutex<Vec<(&str, bool)>> = std::sync::Mutex::new(Vec::new());
    let mut ready = READY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, answers)) = ready.iter().find(|(known, _)| *known == name) {
        return *answers;
    }
    let answers = Command::new(name).arg("info").output().is_ok_and(|output| output.status.success());
    if answers {
        let world = World::bare("image", json!([]));
        world.configure_engine(Agent::Claude, name, "", "");
        let output = world.command(&["system", "build"]).output().expect("lazy runs");
        assert!(output.status.success(), "the image cannot be built: {}", text(&output.stderr));
    } else {
        assert!(std::env::var_os("LAZY_REQUIRE_PARTS").is_none(), "the engine {name} does not answer");
        eprintln!("skipped: the engine {name} does not answer");
    }
    ready.push((name, answers));
    answers
}

pub struct World {
    dir: TempDir,
    model: Option<Child>,
    pub model_address: String,
    pub project: PathBuf,
    extra_env: Vec<(String, String)>,
}

impl World {
    /// A project with one commit, set up by `lazy init`, whose agent talks to a model that plays `steps`.
    pub fn new(agent: Agent, steps: Value) -> World {
        let world = World::bare("my project", steps);
        world.ok(&["init", "--non-interactive"]);
        world.configure(agent, "");
        world
    }

    /// The same before `lazy init`; `name` is the project's directory.
    pub fn bare(name: &str, steps: Value) -> World {
        let dir = tempfile::Builder::new().prefix("lazy é ").tempdir().expect("temp dir");
        let project = dir.path().join(name);
        fs::create_dir_all(dir.path().join("home")).expect("home");
        fs::create_dir_all(dir.path().join("tmp")).expect("tmp");
        fs::create_dir_all(&project).expect("project");
        let config = "[user]\n\tname = Test\n\temail = test@example.com\n[init]\n\tdefaultBranch = main\n";
        fs::write(dir.path().join("home/.gitconfig"), config).expect("git config");
        let scenario = dir.path().join("scenario.json");
        fs::write(&scenario, json!({ "steps": steps }).to_string()).expect("scenario");
        let mut world = World { dir, model: None, model_address: String::new(), project, extra_env: Vec::new() };
        let mut model = world.command(&["demo-model", "--scenario", scenario.to_str().expect("utf-8")]);
        let mut child = model.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("the model starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("the model says where it is");
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the model said {line:?}"));
        world.model_address = told["address"].as_str().expect("address").to_string();
        world.model = Some(child);
        world.git(&["init", "--quiet", "--initial-branch=main"]);
        fs::write(world.project.join("README.md"), "# A project\n\nIt greets.\n").expect("readme");
        world.git(&["add", "-A"]);
        world.git(&["commit", "--quiet", "-m", "first"]);
        world
    }

    /// Rewrites lazy.toml for the agent and the scripted model, with no walls around the agent.
    pub fn configure(&self, agent: Agent, more: &str) {
        self.configure_posture(agent, "bypass", more);
    }

    /// The same with a posture of the host runner.
    pub fn configure_posture(&self, agent: Agent, posture: &str, more: &str) {
        let store = self.dir.path().join("store");
        let address = match self.model_address.starts_with("http") {
            true => self.model_address.clone(),
            false => format!("http://{}", self.model_address),
        };
        let text = format!(
            "[agent]\nagent_id = \"{}\"\n[runner]\ntype = \"dangerously-host-process-without-any-isolation\"\n\
             permission_mode = \"{posture}\"\n[proxy]\nupstream = \"{address}\"\n[storage]\nexternal_path = \"{}\"\n{more}\n",
            agent.id(),
            store.display(),
        );
        fs::write(self.project.join("lazy.toml"), text).expect("lazy.toml");
        self.git(&["add", "-A"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "set lazy up"]);
    }

    /// The same for a container runner; images trust what this machine trusts, if it says so.
    pub fn configure_engine(&self, agent: Agent, engine: &str, runner: &str, more: &str) {
        self.configure_posture(agent, "bypass", more);
        let path = self.project.join("lazy.toml");
        let text = fs::read_to_string(&path).expect("lazy.toml");
        let from = "type = \"dangerously-host-process-without-any-isolation\"\npermission_mode = \"bypass\"";
        assert!(text.contains(from), "{text}");
        let mut text = text.replace(from, &format!("type = \"{engine}\"\n{runner}"));
        if let Some(pem) = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from).filter(|pem| pem.is_file()) {
            text.push_str(&format!("[docker]\nca_certificates = \"{}\"\n", pem.display()));
        }
        fs::write(&path, text).expect("lazy.toml");
        self.git(&["add", "-A"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "run in containers"]);
    }

    pub fn set_env(&mut self, key: &str, value: &str) {
        self.extra_env.push((key.into(), value.into()));
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lazy"));
        command.args(words).current_dir(&self.project).env_clear().stdin(Stdio::null());
        command.envs([
            ("PATH", std::env::var("PATH").unwrap_or_default()),
            ("HOME", self.home().display().to_string()),
            ("TMPDIR", self.dir.path().join("tmp").display().to_string()),
            ("ANTHROPIC_API_KEY", REAL_KEY.to_string()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("LAZY_RETRY_SCALE", "0.02".into()),
        ]);
        for name in ["CONTAINERS_CONF", "DOCKER_HOST", "XDG_RUNTIME_DIR"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.envs(self.extra_env.iter().map(|(key, value)| (key, value)));
        command
    }

    /// Runs the program to its end, within a bound.
    pub fn lazy(&self, words: &[&str]) -> Output {
        let begun = Instant::now();
        let mut child = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("lazy starts");
        let read = |mut from: Box<dyn std::io::Read + Send>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                from.read_to_end(&mut bytes).ok();
                bytes
            })
        };
        let out = read(Box::new(child.stdout.take().expect("piped")));
        let err = read(Box::new(child.stderr.take().expect("piped")));
        let status = loop {
            if let Some(status) = child.try_wait().expect("waits") {
                break status;
            }
            if begun.elapsed() > LIMIT {
                child.kill().ok();
                panic!("lazy {words:?} did not end within {LIMIT:?}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Output { status, stdout: out.join().expect("reads"), stderr: err.join().expect("reads") }
    }

    /// Runs the program, which must succeed; its answer.
    pub fn ok(&self, words: &[&str]) -> String {
        let output = self.lazy(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "lazy {words:?} failed: {:?}\n{out}\n{err}\n{}", output.status, self.logs());
        out
    }

    /// Runs the program, which must refuse; what it says.
    pub fn refused(&self, words: &[&str]) -> String {
        let output = self.lazy(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(!output.status.success(), "lazy {words:?} was not refused\n{out}\n{err}");
        assert!(err.contains("Error:"), "no message: {err}");
        err
    }

    /// A task as `show --json` tells it.
    pub fn show(&self, task: &str) -> Value {
        serde_json::from_str(&self.ok(&["show", task, "--json"])).expect("show is JSON")
    }

    pub fn status(&self, task: &str) -> String {
        self.show(task)["status"].as_str().expect("status").to_string()
    }

    /// Waits until the task stops working, whatever happens to the daemon meanwhile; its status.
    pub fn settled(&self, task: &str) -> String {
        let begun = Instant::now();
        loop {
            let status = self.status(task);
            if !["working", "queued", "interrupted", "merging"].contains(&status.as_str()) {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "task {task} stays {status}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until something holds.
    pub fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "never came: {what}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn git(&self, words: &[&str]) -> String {
        self.git_at(&self.project.clone(), words)
    }

    pub fn git_at(&self, at: &Path, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(words)
            .current_dir(at)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {words:?}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_string()
    }

    /// The daemon's state directory.
    pub fn state_dir(&self) -> Option<PathBuf> {
        fs::read_dir(self.home().join(".lazy/daemon")).ok()?.flatten().map(|entry| entry.path()).next()
    }

    /// The directory of a task's record, by its code.
    pub fn store_task(&self, code: &str) -> PathBuf {
        let tasks = fs::read_dir(self.dir.path().join("store/tasks")).expect("a store");
        let is_it = |path: &PathBuf| {
            let text = fs::read(path.join("task.json")).unwrap_or_default();
            serde_json::from_slice::<Value>(&text).is_ok_and(|task| task["code"] == code)
        };
        tasks.flatten().map(|entry| entry.path()).find(is_it).expect("the task's record")
    }

    pub fn daemon_pid(&self) -> Option<u32> {
        fs::read_to_string(self.state_dir()?.join("lazy.pid")).ok()?.trim().parse().ok()
    }

    /// Process ids whose environment carries a run of this test's home.
    pub fn run_processes(&self) -> Vec<u32> {
        let home = format!("HOME={}", self.home().display());
        let pids = fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let has = |wanted: &[u8]| environ.split(|byte| *byte == 0).any(|pair| pair.starts_with(wanted));
            has(home.as_bytes()) && has(b"LAZY_RUN=")
        })
        .collect()
    }

    pub fn kill(&self, pid: u32) {
        Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill runs");
    }

    /// Requests as the scripted model saw them.
    pub fn requests(&self) -> Vec<Value> {
        let address = self.model_address.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(address).expect("the model listens");
        use std::io::{Read, Write};
        write!(stream, "GET /__requests HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("asks");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        let start = answer.find(['[', '{']).expect("a JSON body");
        let end = answer.rfind([']', '}']).expect("a JSON body");
        let value: Value = serde_json::from_str(&answer[start..=end]).expect("JSON");
        match value {
            Value::Array(list) => list,
            other => other["requests"].as_array().cloned().unwrap_or_default(),
        }
    }

    /// The audit trail.
    pub fn audit(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.project.join(".lazy/logs/proxy-audit.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
    }

    pub fn logs(&self) -> String {
        let mut out = String::new();
        let mut add = |path: PathBuf| {
            if let Ok(log) = fs::read_to_string(&path) {
                let lines: Vec<&str> = log.lines().collect();
                out.push_str(&format!(
                    "--- {}\n{}\n",
                    path.display(),
                    lines[lines.len().saturating_sub(40)..].join("\n")
                ));
            }
        };
        if let Some(state) = self.state_dir() {
            add(state.join("daemon.log"));
            add(state.join("startup-error"));
        }
        for project in fs::read_dir(self.home().join(".lazy/logs")).into_iter().flatten().flatten() {
            for entry in fs::read_dir(project.path()).into_iter().flatten().flatten() {
                add(entry.path());
            }
        }
        out
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Drop for World {
    fn drop(&mut self) {
        self.command(&["daemon", "stop", "--yes"]).output().ok();
        if let Some(pid) = self.daemon_pid() {
            self.kill(pid);
        }
        for pid in self.run_processes() {
            self.kill(pid);
        }
        if let Some(mut model) = self.model.take() {
            model.kill().ok();
            model.wait().ok();
        }
    }
}
