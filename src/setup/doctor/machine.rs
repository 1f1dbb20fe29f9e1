//! Checks of the machine and the shell: git, home, credential, disk, completion.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Check, DaemonFacts};
use crate::agent::require_sound_credentials;
use crate::base::{Process, text};
use crate::config::{Config, Project};
use crate::proc::{self, Cmd};
use crate::setup::{completion, credential};

/// The oldest git whose `merge-tree` can compute a merge without a checkout.
const GIT: (u32, u32) = (2, 38);
/// A program that answers a question about itself takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Below this nothing can be trusted to be written.
const DISK_FAIL: u64 = 256 << 20;
/// Below this a few worktrees and images fill the disk.
const DISK_WARN: u64 = 2 << 30;

pub(super) async fn git(process: &Process) -> Check {
    const LABEL: &str = "Git installed";
    const INSTALL: &str = "sudo apt-get install git";
    let output = match first_line(process, "git", &["--version"]).await {
        Ok(line) => line,
        Err(why) => return Check::fail(LABEL, why).hint(INSTALL),
    };
    match git_version(&output) {
        None => Check::warn(LABEL, format!("{output:?} is not a version")),
        Some(version) if version < GIT => {
            Check::fail(LABEL, format!("{output}; lazy needs {}.{} or later", GIT.0, GIT.1)).hint(INSTALL)
        }
        Some(_) => Check::ok(LABEL, output),
    }
}

pub(super) fn home(process: &Process) -> Check {
    match process.home() {
        Ok(home) if home.is_dir() => Check::ok("Home directory", home.display().to_string()),
        Ok(home) => Check::fail("Home directory", format!("{} does not exist", home.display()))
            .hint(format!("mkdir -p {}", home.display())),
        Err(error) => Check::error("Home directory", &error),
    }
}

pub(super) fn credential(process: &Process, config: &Config, daemon: Option<&DaemonFacts>) -> Check {
    const LABEL: &str = "Model credential present";
    if let (None, Err(error)) = (daemon, require_sound_credentials(process)) {
        return Check::error(LABEL, &error);
    }
    let (found, place) = match daemon {
        Some(daemon) => (daemon.credential.as_deref(), "daemon env"),
        None => (credential::variable(process), "shell env"),
    };
    let elsewhere = match daemon {
        Some(_) => "",
        None => " (no daemon was asked; it may have started from another environment)",
    };
    match found {
        Some(name) => Check::ok(LABEL, format!("{place}: {name}{elsewhere}")),
        None if config.ollama.enabled => Check::ok(LABEL, "not needed: [ollama] is enabled"),
        None => {
            let names = credential::VARIABLES.join(" nor ");
            let restart = if daemon.is_some() { " && lazy daemon restart" } else { "" };
            Check::fail(LABEL, format!("{place}: neither {names} is set{elsewhere}"))
                .hint(format!("export ANTHROPIC_API_KEY=<key>{restart}   # with a subscription: claude setup-token"))
        }
    }
}

/// Free space where things are written, once for each file system.
pub(super) fn disk(process: &Process, project: Option<&Project>, store: Option<&Path>) -> Vec<Check> {
    let places: Vec<PathBuf> = project
        .map(|project| project.root.clone())
        .into_iter()
        .chain(store.map(Path::to_path_buf))
        .chain(process.home().ok())
        .filter_map(|path| path.ancestors().find(|path| path.is_dir()).map(Path::to_path_buf))
        .collect();
    let mut seen = Vec::new();
    let mut checks = Vec::new();
    for place in places {
        let Ok(stat) = rustix::fs::statvfs(&place) else { continue };
        if seen.contains(&stat.f_fsid) {
            continue;
        }
        seen.push(stat.f_fsid);
        // Some file systems count no inodes at all and report 0 of 0.
        let no_inodes = stat.f_files > 0 && stat.f_favail == 0;
        checks.push(disk_check(&place, stat.f_bavail.saturating_mul(stat.f_frsize), no_inodes));
    }
    checks
}

fn disk_check(place: &Path, free: u64, no_inodes: bool) -> Check {
    const LABEL: &str = "Disk space";
    let detail = format!("{} free at {}", size(free), place.display());
    let look = format!("du -xh --max-depth=2 {} | sort -h | tail", place.display());
    match free {
        _ if no_inodes => Check::fail(LABEL, format!("no inode is left at {}", place.display())).hint(look),
        ..DISK_FAIL => Check::fail(LABEL, detail).hint(look),
        DISK_FAIL..DISK_WARN => Check::warn(LABEL, detail).hint(look),
        _ => Check::ok(LABEL, detail),
    }
}

pub(super) fn completion(process: &Process) -> Check {
    const LABEL: &str = "Shell completion";
    match completion::of_shell(process) {
        None => Check::ok(LABEL, "lazy has it for bash, zsh and fish; $SHELL names none of them"),
        Some(found) => match found.installed {
            Some(path) => Check::ok(LABEL, format!("{} ({})", found.shell, path.display())),
            None => Check::ok(LABEL, format!("not installed for {}", found.shell)).hint(found.command),
        },
    }
}

/// The first line a program answers with; why not, in words.
pub(super) async fn first_line(process: &Process, program: &str, args: &[&str]) -> Result<String, String> {
    let path = process.var_os("PATH").unwrap_or_default();
    let Some(found) = proc::which(program, path) else { return Err(format!("{program} is not in PATH")) };
    let command = Cmd::new(&found).env_of(process).args(args).timeout(PATIENCE).output_limit(1 << 16);
    match command.output().await {
        Err(error) => Err(error.full_message()),
        Ok(output) if output.timed_out => Err(format!("{program} gave no answer within {} s", PATIENCE.as_secs())),
        Ok(output) if output.success() => Ok(text::one_line(output.stdout_text().lines().next().unwrap_or_default())),
        Ok(output) => {
            let said = output.stderr_text();
            let line = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
            Err(format!("{program} failed: {}", text::truncate_chars(&text::one_line(line), 200)))
        }
    }
}

fn git_version(line: &str) -> Option<(u32, u32)> {
    let mut numbers = line.strip_prefix("git version ")?.split(['.', ' ']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use crate::setup::doctor::Outcome;
    use crate::setup::testing::program;

    fn process(dir: &Path) -> Process {
        Process::fake(["lazy"], &[("PATH", dir.to_str().expect("utf-8"))], dir, Millis(0))
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(git_version("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(git_version("git version 2.40"), Some((2, 40)));
        assert_eq!(git_version("2.40"), None);
    }

    #[test]
    fn little_space_is_said() {
        let place = Path::new("/x");
        assert_eq!(disk_check(place, 10 << 30, false).outcome, Outcome::Ok);
        assert_eq!(disk_check(place, 1 << 30, false).outcome, Outcome::Warn);
        let full = disk_check(place, 5 << 20, false);
        assert_eq!((full.outcome, full.detail.as_str()), (Outcome::Fail, "5 MiB free at /x"));
        assert_eq!(disk_check(place, 10 << 30, true).outcome, Outcome::Fail);
    }

    #[tokio::test]
    async fn an_old_missing_or_broken_git_fails() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert_eq!(git(&process(dir.path())).await.outcome, Outcome::Fail);
        program(dir.path(), "git", "echo 'git version 2.30.1'");
        let old = git(&process(dir.path())).await;
        assert!(old.outcome == Outcome::Fail && old.detail.contains("2.38"), "{old:?}");
        program(dir.path(), "git", "echo 'git version 2.47.0'");
        assert_eq!(git(&process(dir.path())).await.outcome, Outcome::Ok);
        program(dir.path(), "git", "echo 'cannot load libz' >&2; exit 127");
        let broken = git(&process(dir.path())).await;
        assert!(broken.detail.contains("cannot load libz"), "{broken:?}");
    }

    #[test]
    fn the_daemons_word_on_the_credential_counts() {
        let dir = tempfile::tempdir().expect("temp dir");
        let shell = Process::fake(["lazy"], &[("ANTHROPIC_API_KEY", "sk-secret")], dir.path(), Millis(0));
        let config = Config::default();
        let alone = credential(&shell, &config, None);
        assert!(alone.outcome == Outcome::Ok && alone.detail.starts_with("shell env: ANTHROPIC_API_KEY"), "{alone:?}");
        assert!(!format!("{alone:?}").contains("sk-secret"));
        let facts = DaemonFacts::default();
        let asked = credential(&shell, &config, Some(&facts));
        assert!(asked.outcome == Outcome::Fail && asked.detail.starts_with("daemon env"), "{asked:?}");
        let mut local = Config::default();
        local.ollama.enabled = true;
        assert_eq!(credential(&process(dir.path()), &local, None).outcome, Outcome::Ok);
        assert_eq!(credential(&process(dir.path()), &config, None).outcome, Outcome::Fail);
    }
}
