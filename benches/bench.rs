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

mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lazy::base::Millis;
use lazy::model::{Status, Task, TaskId};
use serde_json::{Value, json};
use world::{Result, Stopped, World, demo_settings, mib, settled, verdict};

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
/// Where no model answers.
const NOWHERE: &str = "http://127.0.0.1:9";

fn main() -> Result<()> {
    let lazy = std::env::args_os().nth(1).ok_or("usage: bench <path of lazy>")?;
    let lazy = fs::canonicalize(&lazy).map_err(|error| format!("{}: {error}", PathBuf::from(&lazy).display()))?;
    let runs = std::env::var("LAZY_BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(40).max(WARM_UP);

    let empty = project(&lazy, 0)?;
    let small = project(&lazy, SMALL)?;
    let large = project(&lazy, LARGE)?;
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
    memory("daemon, no tasks, fresh", project(&lazy, 0)?.daemon_pid()?, None)?;
    memory(&format!("daemon, {SMALL} tasks, fresh"), project(&lazy, SMALL)?.daemon_pid()?, Some(DAEMON_GOAL_KIB))?;
    memory(&format!("daemon, {SMALL} tasks, used"), small.daemon_pid()?, Some(DAEMON_GOAL_KIB))?;
    memory(&format!("daemon, {LARGE} tasks, used"), large.daemon_pid()?, None)?;
    let supervisor = supervisor(&empty)?;
    memory("supervisor", supervisor.0.id(), Some(SUPERVISOR_GOAL_KIB))?;

    let size = fs::metadata(&lazy)?.len();
    println!("\n{:<26} {:>10} {:>10}", "size", "measured", "goal");
    println!("{:<26} {:>10} {:>10}  {}", "lazy", mib(size / 1024), mib(SIZE_GOAL / 1024), verdict(size <= SIZE_GOAL));
    Ok(())
}

/// A project with this many tasks.
fn project(lazy: &Path, tasks: usize) -> Result<World> {
    World::new(lazy, &demo_settings(NOWHERE), |store| fill(store, tasks))
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

/// A supervisor that waits for its first command.
fn supervisor(world: &World) -> Result<Stopped> {
    let mut command = world.lazy(&["supervise", "--runner", "host", "--protocol-dir"]);
    command.arg(world.dir().join("mailbox")).arg("--worktree").arg(world.project());
    Ok(Stopped(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
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

/// Prints the resident memory of an idle process.
fn memory(name: &str, pid: u32, goal: Option<u64>) -> Result<()> {
    let measured = settled(&[pid])?;
    let goal_text = goal.map(mib).unwrap_or_default();
    let verdict = goal.map(|goal| verdict(measured <= goal)).unwrap_or_default();
    println!("{name:<26} {:>10} {goal_text:>10}  {verdict}", mib(measured));
    Ok(())
}
