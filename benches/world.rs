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

/// How long one command or one wait may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A project with a store and a running daemon; both end with it.
pub struct World {
    dir: TempDir,
    lazy: PathBuf,
}

impl World {
    /// A project whose model is at `upstream`; `fill` is given the directory of its store before the daemon starts.
    pub fn new(lazy: &Path, upstream: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<World> {
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
             permission_mode = \"bypass\"\n[proxy]\nupstream = {upstream:?}\n[storage]\nexternal_path = {:?}\n",
            store.display().to_string(),
        );
        fs::write(world.project().join("lazy.toml"), text)?;
        fill(&store)?;
        finish(world.lazy(&["daemon", "start"]))?;
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
        if let Err(error) = finish(self.lazy(&["daemon", "stop", "--yes"])) {
            eprintln!("bench: the daemon could not be stopped: {error}");
        }
    }
}

/// A child that does not outlive its owner.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Runs a command to its end, which must be a good one.
pub fn finish(mut command: Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// The resident KiB of a process, once they were the same for a second.
pub fn settled(pid: u32) -> Result<u64> {
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

/// The resident KiB of a process.
pub fn resident(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| format!("process {pid}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// KiB as MiB.
pub fn mib(kib: u64) -> String {
    format!("{}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024)
}

/// Whether what should be small is.
pub fn verdict(measured: u64, goal: u64) -> &'static str {
    if measured <= goal { "met" } else { "MISSED" }
}
