//! `make bench`: how fast the program starts and answers, and how much memory it holds, beside its goals.
//!
//! Times are medians of runs that are interleaved with runs of `git --version`, so that whatever else the machine does
//! meets both alike; what counts is the ratio. Memory is `VmRSS` of an idle process once it has stopped changing.
//! Everything happens below a temporary directory, with a home of its own, a key that is none, and a model's address
//! where nothing listens. `LAZY_BENCH_RUNS` says how many runs are measured (40).
//!
//! ```text
//! cargo run --example bench -- target/lazy
//! ```

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lazy::base::Millis;
use lazy::model::{Status, Task, TaskId};
use serde_json::{Value, json};
use tempfile::TempDir;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Runs before the measured ones: they fill the page cache.
const WARM_UP: usize = 5;
/// A listing of a very large store is measured this often at most.
const LARGE_RUNS: usize = 20;
/// The tasks of the small store, and of the large one.
const SMALL: usize = 1_000;
const LARGE: usize = 10_000;
/// One in this many tasks has the label that a filtered listing asks for.
const LABEL_EVERY: usize = 500;
/// The goals.
const DAEMON_GOAL_KIB: u64 = 30 * 1024;
const SUPERVISOR_GOAL_KIB: u64 = 8 * 1024;
const SIZE_GOAL: u64 = 20 * 1024 * 1024;
/// How long one command or one wait may take.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let lazy = std::env::args_os().nth(1).ok_or("usage: bench <path of lazy>")?;
    let lazy = fs::canonicalize(&lazy).map_err(|error| format!("{}: {error}", PathBuf::from(&lazy).display()))?;
    let runs = std::env::var("LAZY_BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(40).max(WARM_UP);

    let empty = World::new(&lazy, 0)?;
    let small = World::new(&lazy, SMALL)?;
    let large = World::new(&lazy, LARGE)?;
    let mut cases = [
        Case::new("git --version", runs, empty.tool("git", &["--version"])),
        Case::new("lazy --version", runs, empty.lazy(&["--version"])),
        Case::new("lazy list, no tasks", runs, empty.lazy(&["list"])),
        Case::new(format!("lazy list, {SMALL} tasks"), runs, small.lazy(&["list"])),
        Case::new(format!("lazy list, {LARGE} tasks"), runs.min(LARGE_RUNS), large.lazy(&["list"])),
        Case::new(format!("… one in {LABEL_EVERY} of them"), runs, large.lazy(&["list", "--tag", "bench"])),
    ];
    for round in 0..WARM_UP + runs {
        for case in &mut cases {
            case.run(round)?;
        }
    }
    println!("{:<26} {:>10} {:>10} {:>10} {:>8} {:>6}", "time", "median", "min", "max", "ratio", "runs");
    let peer = cases[0].median();
    for case in &cases {
        case.print(peer);
    }

    println!("\n{:<26} {:>10} {:>10}", "resident memory", "measured", "goal");
    memory("daemon, no tasks, fresh", World::new(&lazy, 0)?.daemon_pid()?, None)?;
    memory(&format!("daemon, {SMALL} tasks, fresh"), World::new(&lazy, SMALL)?.daemon_pid()?, Some(DAEMON_GOAL_KIB))?;
    memory(&format!("daemon, {SMALL} tasks, used"), small.daemon_pid()?, Some(DAEMON_GOAL_KIB))?;
    memory(&format!("daemon, {LARGE} tasks, used"), large.daemon_pid()?, None)?;
    let supervisor = empty.supervisor()?;
    memory("supervisor", supervisor.0.id(), Some(SUPERVISOR_GOAL_KIB))?;

    let size = fs::metadata(&lazy)?.len();
    println!("\n{:<26} {:>10} {:>10}", "size", "measured", "goal");
    println!("{:<26} {:>10} {:>10}  {}", "lazy", mib(size / 1024), mib(SIZE_GOAL / 1024), verdict(size, SIZE_GOAL));
    Ok(())
}

/// One command, measured again and again.
struct Case {
    name: String,
    runs: usize,
    command: Command,
    times: Vec<Duration>,
}

impl Case {
    fn new(name: impl Into<String>, runs: usize, mut command: Command) -> Case {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        Case { name: name.into(), runs, command, times: Vec::new() }
    }

    fn run(&mut self, round: usize) -> Result<()> {
        if round >= WARM_UP + self.runs {
            return Ok(());
        }
        let begun = Instant::now();
        let status = self.command.status()?;
        let taken = begun.elapsed();
        if !status.success() {
            return Err(format!("{}: {status}", self.name).into());
        }
        if round >= WARM_UP {
            self.times.push(taken);
            self.times.sort_unstable();
        }
        Ok(())
    }

    fn median(&self) -> Duration {
        let middle = self.times.len() / 2;
        match self.times.len() % 2 {
            0 => (self.times[middle - 1] + self.times[middle]) / 2,
            _ => self.times[middle],
        }
    }

    fn print(&self, peer: Duration) {
        let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
        let ratio = self.median().as_secs_f64() / peer.as_secs_f64();
        let (least, most) = (self.times[0], self.times[self.times.len() - 1]);
        let (name, runs) = (&self.name, self.times.len());
        println!("{name:<26} {:>10} {:>10} {:>10} {ratio:>7.2}× {runs:>6}", ms(self.median()), ms(least), ms(most));
    }
}

/// A project with a store and a running daemon; both end with it.
struct World {
    dir: TempDir,
    lazy: PathBuf,
}

impl World {
    fn new(lazy: &Path, tasks: usize) -> Result<World> {
        let world = World { dir: tempfile::Builder::new().prefix("lazy-bench-").tempdir()?, lazy: lazy.to_path_buf() };
        for name in ["home", "project", "store", "mailbox"] {
            fs::create_dir(world.dir.path().join(name))?;
        }
        let config = "[user]\n\tname = Bench\n\temail = bench@example.com\n";
        fs::write(world.dir.path().join("home/.gitconfig"), config)?;
        fs::write(world.project().join("README.md"), "# A project\n")?;
        for words in [&["init", "--quiet", "--initial-branch=main"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            finish(world.tool("git", words))?;
        }
        finish(world.lazy(&["init", "--non-interactive"]))?;
        let store = world.dir.path().join("store");
        let text = format!(
            "[agent]\nagent_id = \"demo\"\n[runner]\ntype = \"dangerously-host-process-without-any-isolation\"\n\
             permission_mode = \"bypass\"\n[proxy]\nupstream = \"http://127.0.0.1:9\"\n[storage]\nexternal_path = {:?}\n",
            store.display().to_string(),
        );
        fs::write(world.project().join("lazy.toml"), text)?;
        fill(&store, tasks)?;
        finish(world.lazy(&["daemon", "start"]))?;
        Ok(world)
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn lazy(&self, words: &[&str]) -> Command {
        self.tool(&self.lazy, words)
    }

    fn tool(&self, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.project()).env_clear().envs([
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("HOME", self.dir.path().join("home").into()),
            ("ANTHROPIC_API_KEY", "sk-ant-bench-none".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ]);
        command
    }

    fn daemon_pid(&self) -> Result<u32> {
        for entry in fs::read_dir(self.dir.path().join("home/.lazy/daemon"))? {
            if let Ok(text) = fs::read_to_string(entry?.path().join("lazy.pid")) {
                return Ok(text.trim().parse()?);
            }
        }
        Err("the daemon left no pid".into())
    }

    /// A supervisor that waits for its first command.
    fn supervisor(&self) -> Result<Ended> {
        let mut command = self.lazy(&["supervise", "--runner", "host", "--protocol-dir"]);
        command.arg(self.dir.path().join("mailbox")).arg("--worktree").arg(self.project());
        Ok(Ended(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Err(error) = finish(self.lazy(&["daemon", "stop", "--yes"])) {
            eprintln!("bench: the daemon could not be stopped: {error}");
        }
    }
}

/// A child that does not outlive its owner.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Writes a store of `count` open tasks: goals and prompts as people write them, every fourth one with a parent.
fn fill(store: &Path, count: usize) -> Result<()> {
    let mut parent: Option<TaskId> = None;
    for number in 0..count {
        let id: TaskId = uuid::Uuid::new_v4().to_string().parse()?;
        let goal = format!("Make the report number {number} say what it counts, and why");
        let mut task = Task::new(id, goal, Millis(1_780_000_000_000 + i64::try_from(number)? * 1000));
        task.prompt = "Look at how the report is put together.\nThen say at its top what is counted.\n".repeat(8);
        task.status = if number % 2 == 0 { Status::Backlog } else { Status::Blocked };
        if number % LABEL_EVERY == 0 {
            task.tags.push("bench".into());
        }
        match parent.filter(|_| number % 4 != 0) {
            Some(parent) => task.target = lazy::model::Target::Task { parent_task_id: parent },
            None => parent = Some(id),
        }
        let dir = store.join("tasks").join(id.to_string());
        fs::create_dir_all(&dir)?;
        let write = |name: &str, value: &Value| fs::write(dir.join(name), format!("{value:#}\n"));
        for (name, key) in [
            ("turns.json", "turns"),
            ("commits.json", "commits"),
            ("snapshots.json", "snapshots"),
            ("reviews.json", "reviews"),
            ("comments.json", "comments"),
            ("raised-items.json", "raised_items"),
            ("tag-history.json", "events"),
        ] {
            write(name, &json!({ key: [] }))?;
        }
        write("task.json", &serde_json::to_value(&task)?)?;
    }
    Ok(())
}

/// Runs a command to its end, which must be a good one.
fn finish(mut command: Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// Prints the resident memory of an idle process.
fn memory(name: &str, pid: u32, goal: Option<u64>) -> Result<()> {
    let measured = settled(pid)?;
    let goal_text = goal.map(mib).unwrap_or_default();
    let verdict = goal.map(|goal| verdict(measured, goal)).unwrap_or_default();
    println!("{name:<26} {:>10} {goal_text:>10}  {verdict}", mib(measured));
    Ok(())
}

/// The resident KiB of a process, once they were the same for a second.
fn settled(pid: u32) -> Result<u64> {
    let begun = Instant::now();
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let now = resident(pid)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > Duration::from_secs(1) {
            return Ok(now);
        }
        if begun.elapsed() > LIMIT {
            return Err(format!("the memory of process {pid} does not settle").into());
        }
        sleep(Duration::from_millis(50));
    }
}

fn resident(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| format!("process {pid}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn mib(kib: u64) -> String {
    format!("{}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024)
}

fn verdict(measured: u64, goal: u64) -> &'static str {
    if measured <= goal { "met" } else { "MISSED" }
}
