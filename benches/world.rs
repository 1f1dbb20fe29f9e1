//! A project with a running daemon for the benchmarks, and what they measure and print alike.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long memory may take to settle.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
/// How long a process may take to end before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A project with a store and a running daemon; both end with it.
pub struct World {
    dir: TempDir,
    lazy: PathBuf,
}

impl World {
    /// A project with this `lazy.toml` and a store outside of it; `fill` is given the store's directory before the
    /// daemon starts.
    pub fn new(lazy: &Path, settings: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<World> {
        let world = World { dir: tempfile::Builder::new().prefix("lazy-bench-").tempdir()?, lazy: lazy.to_path_buf() };
        for name in ["home", "project", "store", "mailbox"] {
            fs::create_dir(world.dir.path().join(name))?;
        }
        // The owner of what a container wrote need not be whoever runs git here.
        let config = "[user]\n\tname = Bench\n\temail = bench@example.com\n[safe]\n\tdirectory = *\n";
        fs::write(world.dir.path().join("home/.gitconfig"), config)?;
        fs::write(world.project().join("README.md"), "# A project\n")?;
        let store = world.dir.path().join("store");
        let storage = format!("[storage]\nexternal_path = {:?}\n", store.display().to_string());
        fs::write(world.project().join("lazy.toml"), format!("{settings}{storage}"))?;
        for words in [&["init", "--quiet", "--initial-branch=main"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            text(&mut world.tool("git", words))?;
        }
        fill(&store)?;
        text(&mut world.lazy(&["daemon", "start"]))?;
        Ok(world)
    }

    /// The main checkout.
    pub fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// A command of lazy's in the project.
    pub fn lazy(&self, words: &[&str]) -> Command {
        self.tool(&self.lazy, words)
    }

    /// A command in the project, with nothing of the caller's environment but its PATH.
    pub fn tool(&self, program: impl AsRef<OsStr>, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.project()).env_clear().envs([
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("HOME", self.dir.path().join("home").into()),
            ("ANTHROPIC_API_KEY", "sk-ant-bench-none".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ]);
        command
    }

    /// The daemon's own directory.
    pub fn state_dir(&self) -> Result<PathBuf> {
        for entry in fs::read_dir(self.dir.path().join("home/.lazy/daemon"))? {
            let path = entry?.path();
            if path.join("lazy.pid").exists() {
                return Ok(path);
            }
        }
        Err("the daemon left no pid".into())
    }

    /// The daemon's process.
    pub fn daemon_pid(&self) -> Result<u32> {
        Ok(fs::read_to_string(self.state_dir()?.join("lazy.pid"))?.trim().parse()?)
    }

    /// A directory that ends with the world.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Err(error) = text(&mut self.lazy(&["daemon", "stop", "--yes"])) {
            eprintln!("bench: the daemon could not be stopped: {error}");
        }
    }
}

/// A process that is asked to end with its owner, so that its workers end as well.
pub struct Stopped(pub Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < STOP_LIMIT {
            sleep(Duration::from_millis(20));
        }
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The settings of a project on this machine without walls, with the demo agent, whose model is at `upstream`.
pub fn demo_settings(upstream: &str) -> String {
    format!(
        "[agent]\nagent_id = \"demo\"\n[runner]\ntype = \"dangerously-host-process-without-any-isolation\"\n\
         permission_mode = \"bypass\"\n[proxy]\nupstream = {upstream:?}\n"
    )
}

/// Runs a command to its end, which must be a good one; what it says.
pub fn text(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// The resident KiB of these processes together, once they were the same for a second.
pub fn settled(pids: &[u32]) -> Result<u64> {
    let begun = Instant::now();
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let now = pids.iter().map(|pid| resident(*pid)).sum::<Result<u64>>()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > Duration::from_secs(1) {
            return Ok(now);
        }
        if begun.elapsed() > SETTLE_LIMIT {
            return Err(format!("the memory of the processes {pids:?} does not settle").into());
        }
        sleep(Duration::from_millis(50));
    }
}

fn resident(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| format!("process {pid}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// KiB as MiB.
pub fn mib(kib: u64) -> String {
    format!("{}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024)
}

/// The word for whether a goal is met.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}
