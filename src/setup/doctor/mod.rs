//! `lazy doctor`: every check is one line, and what fails comes with the command that mends it.
//!
//! It is what one reaches for when nothing else runs: it needs no daemon, no project and no configuration that loads.
//! When `lazy.toml` does not load, what depends on it is left out, never guessed.

mod configuration;
mod daemon;
mod image;
mod machine;
mod model_api;
mod repository;
mod runner;
mod storage;

use serde::Serialize;

use crate::base::Process;
use crate::config::{self, Loaded, Project};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// Works, but wants attention.
    Warn,
    /// Does not work.
    Fail,
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at: a few words.
    pub label: String,
    /// How it came out.
    pub outcome: Outcome,
    /// What was found, on one line unless it quotes a file; may be empty.
    pub detail: String,
    /// A command that helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What the caller learned from the daemon, if it answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DaemonFacts {
    /// Process id.
    pub pid: u32,
    /// The program's version.
    pub version: String,
    /// Id of the running binary, and of the one that asks; absent when unknown.
    pub binaries: Option<(String, String)>,
    /// The port bound.
    pub port: u16,
    /// The variable of the daemon's environment that has the model credential; `None` when the daemon has none.
    pub credential: Option<String>,
}

/// All checks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DoctorReport {
    /// In the order they are shown.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    /// How many checks failed; warnings do not count.
    pub fn failures(&self) -> usize {
        self.checks.iter().filter(|check| check.outcome == Outcome::Fail).count()
    }

    /// The report as lines of text, the verdict last.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for check in &self.checks {
            let mark = match check.outcome {
                Outcome::Ok => '✓',
                Outcome::Warn => '!',
                Outcome::Fail => '✗',
            };
            let detail = if check.detail.is_empty() { String::new() } else { format!(": {}", check.detail) };
            lines.push(format!("{mark} {}{detail}", check.label));
            lines.extend(check.hint.iter().map(|hint| format!("    {hint}")));
        }
        lines.push(match self.failures() {
            0 => "All good.".into(),
            1 => "1 issue found.".into(),
            count => format!("{count} issues found."),
        });
        lines
    }
}

impl Check {
    pub(crate) fn ok(label: &str, detail: impl Into<String>) -> Check {
        Check { label: label.into(), outcome: Outcome::Ok, detail: detail.into(), hint: None }
    }

    pub(crate) fn warn(label: &str, detail: impl Into<String>) -> Check {
        Check { label: label.into(), outcome: Outcome::Warn, detail: detail.into(), hint: None }
    }

    pub(crate) fn fail(label: &str, detail: impl Into<String>) -> Check {
        Check { label: label.into(), outcome: Outcome::Fail, detail: detail.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Check {
        self.hint = Some(hint.into());
        self
    }

    /// A failure with the first hint of an error.
    pub(crate) fn error(label: &str, error: &crate::base::Error) -> Check {
        Check { hint: error.hints().first().cloned(), ..Check::fail(label, error.full_message()) }
    }
}

/// Looks at everything. `project` is the one the caller stands in, `daemon` what its daemon said, if it answered.
pub async fn doctor(process: &Process, project: Option<&Project>, daemon: Option<&DaemonFacts>) -> DoctorReport {
    let loaded = match project {
        Some(project) => config::load_for_daemon(process, &project.root),
        None => Ok(Loaded::default()),
    };
    let mut checks = vec![machine::git(process).await, machine::home(process)];
    match project {
        Some(project) => checks.push(repository::commits(process, &project.root)),
        None => checks.push(repository::not_in_a_project(process)),
    }
    if project.is_some() {
        checks.extend(configuration::checks(&loaded));
    }
    if let Some(project) = project {
        checks.push(repository::data_directory(project));
        checks.push(repository::gitignore(project));
        checks.extend(daemon::checks(process, project, daemon));
    }
    if let Ok(loaded) = &loaded {
        checks.push(machine::credential(process, &loaded.config, daemon));
        checks.extend(project.map(model_api::check));
        if let Some(project) = project {
            checks.extend(storage::checks(process, project, &loaded.config, daemon));
            checks.push(repository::remote(project, &loaded.config));
            checks.extend(finished_worktrees(process, project, &loaded.config).await);
        }
        checks.extend(runner::checks(process, loaded, project).await);
    }
    let store = project.zip(loaded.as_ref().ok()).and_then(|(p, l)| p.storage_root(&l.config, process).ok());
    checks.extend(machine::disk(process, project, store.as_deref()));
    checks.push(machine::completion(process));
    DoctorReport { checks }
}

/// Worktrees whose tasks are done.
async fn finished_worktrees(process: &Process, project: &Project, config: &config::Config) -> Option<Check> {
    let left = crate::setup::leftovers::finished_worktrees(process, project, config).await.ok()?;
    let detail = format!("{} of finished tasks", crate::base::text::plural(left.len(), "worktree"));
    (!left.is_empty()).then(|| Check::warn("Worktrees", detail).hint("lazy doctor --clean-worktrees"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::files::{self, Mode};
    use crate::base::lock::{Attempt, FileLock};
    use crate::rpc::StateDir;
    use crate::setup::testing::{Place, program};
    use crate::setup::{InitOptions, Interactivity, init};
    use crate::store::Store;
    use std::fs;

    const HOST: &str = "[runner]\ntype = \"dangerously-host-process-without-any-isolation\"\n";

    async fn project(place: &Place) -> Project {
        let options = InitOptions { interactive: Interactivity::Defaults, ..InitOptions::default() };
        init(&place.process(&[]), options).await.expect("sets up");
        Project::find(&place.process(&[]), &place.root).expect("is a project")
    }

    fn find<'a>(report: &'a DoctorReport, label: &str) -> &'a Check {
        report.checks.iter().find(|check| check.label == label).unwrap_or_else(|| panic!("no {label}: {report:?}"))
    }

    #[tokio::test]
    async fn a_fresh_project_is_well_but_for_what_it_lacks() {
        let place = Place::new();
        let project = project(&place).await;
        let text = place.read("lazy.toml").replace("agent_id = \"claude-code\"", "agent_id = \"demo\"");
        place.write("lazy.toml", &text.replace("type = \"docker\"", &HOST["[runner]\n".len()..]));
        let text = place.read("lazy.toml");
        place.write("lazy.toml", &text.replace("[runner]", "[runner]\npermission_mode = \"bypass\""));
        let report = doctor(&place.process(&[("ANTHROPIC_API_KEY", "k")]), Some(&project), None).await;
        assert_eq!(report.failures(), 0, "{:#?}", report.lines());
        assert_eq!(find(&report, "Host sandbox").outcome, Outcome::Warn);
        assert_eq!(find(&report, "Task records").detail, "0 tasks");
        assert_eq!(report.lines().last().map(String::as_str), Some("All good."));
        let bare = doctor(&place.process(&[]), Some(&project), None).await;
        assert_eq!(find(&bare, "Model credential present").outcome, Outcome::Fail);
        assert_eq!(bare.lines().last().map(String::as_str), Some("1 issue found."));
    }

    #[tokio::test]
    async fn a_file_that_does_not_parse_is_a_failed_check_and_nothing_is_guessed() {
        let place = Place::new();
        let project = project(&place).await;
        place.write("lazy.toml", "[runner]\ntype = \"docker\"\n[runner]\ntype = \"podman\"\n");
        let report = doctor(&place.process(&[]), Some(&project), None).await;
        let check = find(&report, "lazy.toml parses");
        assert!(check.outcome == Outcome::Fail && check.detail.contains("lazy.toml:3:"), "{check:?}");
        for left_out in ["Runner available", "Task store", "Remote driver", "Model credential present"] {
            assert!(!report.checks.iter().any(|check| check.label == left_out), "{left_out} was guessed");
        }
        for still_there in ["Git installed", "Repository has commits", "Data directory", "Disk space"] {
            find(&report, still_there);
        }
    }

    #[tokio::test]
    async fn settings_nobody_reads_are_warnings() {
        let place = Place::new();
        let project = project(&place).await;
        let text = "[servr]\n[proxy]\nenabled = true\n[features]\nwild = true\n[protection]\nprotected_tasks = []\n";
        place.write("lazy.toml", text);
        let report = doctor(&place.process(&[]), Some(&project), None).await;
        let unknown = find(&report, "Unknown setting");
        assert!(unknown.detail.contains("did you mean server"), "{unknown:?}");
        assert_eq!(find(&report, "Deprecated setting").outcome, Outcome::Warn);
        assert!(find(&report, "Feature flags").detail.contains("wild"));
        assert_eq!(find(&report, "Protection").outcome, Outcome::Warn);
    }

    #[tokio::test]
    async fn outside_a_project_it_says_what_is_missing() {
        let place = Place::new();
        let report = doctor(&place.process(&[]), None, None).await;
        let check = find(&report, "Project");
        assert!(check.hint.as_deref().is_some_and(|hint| hint.ends_with("&& lazy init")), "{check:?}");
        let nowhere = doctor(&place.process_at(&place.base, &[]), None, None).await;
        assert!(find(&nowhere, "Project").detail.contains("not inside a git repository"));
    }

    #[tokio::test]
    async fn the_store_is_read_without_its_lock() {
        let place = Place::new();
        let project = project(&place).await;
        let process = place.process(&[]);
        let root = place.home().join(".lazy/my äpp");
        let task = root.join("tasks/aaaaaaaa-0000-4000-8000-000000000001");
        fs::create_dir_all(&task).expect("directory");
        fs::write(task.join("task.json"), "{\"id\": ").expect("writes");
        let store = Store::open(&process, &root).expect("opens");
        let report = doctor(&process, Some(&project), None).await;
        let records = find(&report, "Task records");
        assert!(records.outcome == Outcome::Fail && records.detail.contains("task.json"), "{records:?}");
        let lock = find(&report, "Storage lock");
        assert!(lock.outcome == Outcome::Fail && lock.detail.contains("not this project's"), "{lock:?}");
        let facts = DaemonFacts { pid: std::process::id(), ..DaemonFacts::default() };
        let with_daemon = doctor(&process, Some(&project), Some(&facts)).await;
        assert_eq!(find(&with_daemon, "Storage lock").outcome, Outcome::Ok);
        drop(store);
        let free = doctor(&process, Some(&project), None).await;
        assert_eq!(find(&free, "Storage lock").detail, "free");
        let idle = doctor(&process, Some(&project), Some(&facts)).await;
        assert_eq!(find(&idle, "Storage lock").outcome, Outcome::Warn);
        assert!(Store::open(&process, &root).is_ok(), "doctor left the lock alone");
    }

    #[tokio::test]
    async fn the_daemon_is_judged_from_its_directory_or_its_word() {
        let place = Place::new();
        let project = project(&place).await;
        let process = place.process(&[]);
        let state = StateDir::for_project(&process, &project.root).expect("has a home");
        let health = async |facts: Option<DaemonFacts>| {
            find(&doctor(&process, Some(&project), facts.as_ref()).await, "Daemon health").clone()
        };
        assert_eq!(health(None).await.outcome, Outcome::Ok);
        let why = b"lazy.toml:3:1: no\nmore";
        files::write_atomic(&state.startup_error_path(), why, Mode::Shared).expect("writes");
        let failed = health(None).await;
        assert!(failed.outcome == Outcome::Fail && failed.detail.contains("lazy.toml:3:1: no more"), "{failed:?}");
        let Attempt::Taken(_lock) = FileLock::try_take(&state.lock_path(), "1").expect("takes") else {
            panic!("free lock")
        };
        assert!(health(None).await.detail.contains("did not answer"));
        let current = DaemonFacts { version: env!("CARGO_PKG_VERSION").into(), port: 4, ..DaemonFacts::default() };
        assert!(health(Some(current.clone())).await.detail.contains("port 4"));
        let code = async |facts: DaemonFacts| {
            find(&doctor(&process, Some(&project), Some(&facts)).await, "Daemon runs current code").outcome
        };
        assert_eq!(code(current.clone()).await, Outcome::Ok);
        let other = DaemonFacts { binaries: Some(("a".into(), "b".into())), ..current.clone() };
        assert_eq!(code(other).await, Outcome::Warn);
        assert_eq!(code(DaemonFacts { version: "0.0.1".into(), ..current }).await, Outcome::Warn);
    }

    #[tokio::test]
    async fn the_runner_and_the_agent_are_asked_for() {
        let place = Place::new();
        let project = project(&place).await;
        let bin = place.base.join("bin");
        fs::create_dir(&bin).expect("directory");
        let process = place.process(&[("PATH", bin.to_str().expect("utf-8"))]);
        let check = async |label: &str| find(&doctor(&process, Some(&project), None).await, label).clone();
        place.write("lazy.toml", "[runner]\ntype = \"docker\"\n");
        let missing = check("Runner available").await;
        assert!(missing.outcome == Outcome::Fail && missing.detail.contains("not installed"), "{missing:?}");
        assert!(missing.hint.is_some_and(|hint| hint.contains("docker.io")));
        program(
            &bin,
            "docker",
            "echo 'Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?' >&2; exit 1",
        );
        let down = check("Runner available").await;
        assert!(down.outcome == Outcome::Fail && down.detail.contains("not running"), "{down:?}");
        assert_eq!(check("Agent binary").await.outcome, Outcome::Ok);
        let answers = "case $* in info*) echo 27.1 ;; *inspect*) echo 'No such image' >&2; exit 1 ;; esac";
        program(&bin, "docker", answers);
        assert_eq!(check("Runner available").await.detail, "docker 27.1; network: open");
        let image = check("Container image exists").await;
        assert!(image.outcome == Outcome::Warn && image.hint.as_deref() == Some("lazy system build"), "{image:?}");
        place.write("lazy.toml", "[runner]\ntype = \"docker\"\n[docker]\ndockerfile = \"nope\"\n");
        assert!(check("Container image exists").await.detail.contains("[docker] dockerfile"));
        place.write("lazy.toml", "[runner]\ntype = \"docker\"\n");
        assert_eq!(check("Agent installed").await.outcome, Outcome::Ok);

        place.write("lazy.toml", HOST);
        assert_eq!(check("Agent installed").await.outcome, Outcome::Fail);
        program(&bin, "claude", "test -d \"$CLAUDE_CONFIG_DIR\" && echo \"2.1 (Claude Code)\"");
        assert_eq!(check("Agent installed").await.detail, "2.1 (Claude Code)");
        if cfg!(target_os = "linux") {
            let sandbox = check("Host sandbox").await;
            assert!(sandbox.hint.as_deref() == Some("sudo apt-get install bubblewrap socat"), "{sandbox:?}");
            program(&bin, "socat", "exit 0");
            program(&bin, "bwrap", "echo 'setting up uid map: Permission denied' >&2; exit 1");
            let weak = check("Host sandbox").await;
            assert!(weak.outcome == Outcome::Fail && weak.detail.contains("uid map"), "{weak:?}");
            program(&bin, "bwrap", "exit 0");
            assert_eq!(check("Host sandbox").await.outcome, Outcome::Ok);
        }
    }
}
