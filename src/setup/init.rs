//! `lazy init`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ask::{Ask, Defaults, Terminal};
use super::report::{InitReport, SetUp};
use super::{completion, credential, gitignore};
use crate::base::files::{self, Mode};
use crate::base::{Error, Kind, Process, Result, ResultExt, text};
use crate::config::template::{Initial, initial_text};
use crate::config::{self, Config, Driver, FILE_NAME, Loaded, Project, edit, project};
use crate::git::Repo;
use crate::proc::{self, Cmd};
use crate::runner::engine::Engine;
use crate::store::Store;

/// Whether there is somebody to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interactivity {
    /// Questions are asked on the terminal.
    #[default]
    Ask,
    /// Every question takes its default.
    Defaults,
}

/// Whether an optional step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Step {
    /// It is.
    #[default]
    Run,
    /// It is not.
    Skip,
}

/// What the command line says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InitOptions {
    /// Root of the task store, `~/` allowed, relative to the project root.
    pub external_path: Option<String>,
    /// Whether there is somebody to ask.
    pub interactive: Interactivity,
    /// Look for a credential and the agent.
    pub auth_check: Step,
    /// Look at the forge behind the remote.
    pub remote_check: Step,
    /// Look for shell completion.
    pub completion_check: Step,
}

/// Sets up the project that the process stands in.
///
/// # Errors
/// [`Kind::NotFound`] without a repository; [`Kind::Conflict`] without a commit, in the home directory, when the store
/// is open elsewhere, or for a path other than the one in force; [`Kind::Usage`] for questions without a terminal;
/// [`Kind::Config`] for a `lazy.toml` that does not load or a store inside the repository; [`Kind::Io`].
pub async fn init(process: &Process, options: InitOptions) -> Result<InitReport> {
    match options.interactive {
        Interactivity::Defaults => init_asking(process, options, &mut Defaults).await,
        Interactivity::Ask if process.stdin_is_terminal() => {
            init_asking(process, options, &mut Terminal::new(process)).await
        }
        Interactivity::Ask => Err(Error::usage("lazy init asks questions, and standard input is not a terminal")
            .hint("take every default: lazy init --non-interactive")),
    }
}

/// The same, with the questions put to `ask`.
///
/// # Errors
/// As [`init`].
pub async fn init_asking(process: &Process, options: InitOptions, ask: &mut (dyn Ask + Send)) -> Result<InitReport> {
    let repo = Repo::discover(process, process.cwd())?;
    let root = repo.root().to_path_buf();
    require_not_home(process, &root)?;
    repo.require_commits()?;
    let loaded = config::load_for_daemon(process, &root)?;
    let mut project = Project::in_repo_with(&root, &loaded.config);
    if project.data_dir.is_dir() {
        return already(process, &options, &project, &loaded).await;
    }

    let git_remote = match loaded.path {
        Some(_) => loaded.config.remote.git_remote.clone(),
        None => choose_remote(&root, ask)?,
    };
    let mut settings = loaded.config.clone();
    settings.remote.git_remote = git_remote.clone();
    project = Project::in_repo_with(&root, &settings);
    settings.storage.external_path = store_path(process, &options, &project, &loaded, ask)?;
    let store_root = project.storage_root(&settings, process)?;

    let mut report = InitReport {
        status: SetUp::Initialized,
        root: root.clone(),
        name: project.name.clone(),
        data_dir: project.data_dir.clone(),
        config: loaded.path.clone().unwrap_or_else(|| root.join(FILE_NAME)),
        storage: Some(store_root.clone()),
        git_remote,
        notes: Vec::new(),
        next: Vec::new(),
    };
    make_store(process, &store_root, &root, &mut report)?;
    let moved = settings.storage.external_path != loaded.config.storage.external_path;
    write_config(if moved { StorePath::Written } else { StorePath::Kept }, &loaded, &store_root, &mut report)?;
    // Last of what makes a project: until it is there, running init again does all of the above again.
    files::create_dir(&project.data_dir)?;
    look_after_gitignore(process, &project, &mut report).await;
    if options.remote_check == Step::Run {
        look_at_remote(&root, &settings, &mut report);
    }
    if options.auth_check == Step::Run {
        look_at_credential(process, &settings, &mut report);
        look_at_runner(process, &settings, &mut report);
    }
    if options.completion_check == Step::Run
        && let Some(found) = completion::of_shell(process)
        && found.installed.is_none()
    {
        report.warn(format!("{} does not complete lazy's commands yet", found.shell), vec![found.command]);
    }
    report.next = vec![
        format!("git add {FILE_NAME} .gitignore && git commit -m \"set up lazy\""),
        "lazy doctor".into(),
        "lazy create \"<what is to be done>\"".into(),
        "lazy start <task>".into(),
    ];
    Ok(report)
}

async fn already(process: &Process, options: &InitOptions, project: &Project, loaded: &Loaded) -> Result<InitReport> {
    let store = project.storage_root(&loaded.config, process).ok();
    if let Some(asked) = &options.external_path {
        let asked = project.root.join(expand(process, asked)?);
        if store.as_ref() != Some(&asked) {
            let now = store.as_ref().map_or("not a directory of files".into(), |path| path.display().to_string());
            return Err(Error::conflict(format!(
                "{} is initialized already; its store is {now}",
                project.root.display()
            ))
            .hint("to move it: lazy daemon stop, move the directory, set external_path in lazy.toml"));
        }
    }
    let mut report = InitReport {
        status: SetUp::AlreadyInitialized,
        root: project.root.clone(),
        name: project.name.clone(),
        data_dir: project.data_dir.clone(),
        config: loaded.path.clone().unwrap_or_else(|| project.root.join(FILE_NAME)),
        storage: store,
        git_remote: loaded.config.remote.git_remote.clone(),
        notes: Vec::new(),
        next: vec!["lazy doctor".into()],
    };
    if project.data_dir.ends_with(".workshop") {
        report.done("its data stays in .workshop/, where an earlier version put it");
    }
    look_after_gitignore(process, project, &mut report).await;
    Ok(report)
}

/// Refuses the home directory: its `.lazy` is where lazy keeps what belongs to all projects.
fn require_not_home(process: &Process, root: &Path) -> Result<()> {
    let home = process.home().ok().and_then(|home| home.canonicalize().ok());
    match home.as_deref() == Some(root) {
        true => Err(Error::conflict(format!(
            "{} is your home directory; its .lazy directory belongs to all projects, so it cannot be one itself",
            root.display()
        ))
        .hint("run lazy init in a repository below it")),
        false => Ok(()),
    }
}

fn choose_remote(root: &Path, ask: &mut (dyn Ask + Send)) -> Result<String> {
    let names: Vec<String> = config::gitdir::remotes(root).into_iter().map(|remote| remote.name).collect();
    match &names[..] {
        [] => Ok("origin".into()),
        [only] => Ok(only.clone()),
        several if several.iter().any(|name| name == "origin") => Ok("origin".into()),
        several => {
            let index = ask.choose("Which git remote is this project's?", several, 0)?;
            Ok(several.get(index).unwrap_or(&several[0]).clone())
        }
    }
}

/// The `external_path` in force: the command line's, the file's, or the answer to the question.
fn store_path(
    process: &Process,
    options: &InitOptions,
    project: &Project,
    loaded: &Loaded,
    ask: &mut (dyn Ask + Send),
) -> Result<String> {
    let chosen = match (&options.external_path, &loaded.path) {
        (Some(path), _) => path.clone(),
        (None, Some(_)) if !loaded.config.storage.external_path.is_empty() => {
            return Ok(loaded.config.storage.external_path.clone());
        }
        (None, Some(_)) => {
            let default = project.default_storage_root(process)?;
            // Empty stays empty, which is the default, unless another project has it.
            match project::other_owner(&default, &project.root) {
                None => return Ok(String::new()),
                Some(_) => project::free_store(&default, &project.root).display().to_string(),
            }
        }
        (None, None) => {
            let default = project.default_storage_root(process)?;
            let default = project::free_store(&default, &project.root).display().to_string();
            ask.text("Where shall the tasks be stored?", &default)?
        }
    };
    let path = project.root.join(expand(process, &chosen)?);
    project::require_outside(&project.root, &path)?;
    path.into_os_string().into_string().map_err(|path| {
        Error::invalid(format!("{} is not UTF-8, so lazy.toml cannot name it", path.display()))
            .hint("choose another directory: lazy init --external-path <directory>")
    })
}

/// The path with a leading `~/` replaced.
fn expand(process: &Process, path: &str) -> Result<PathBuf> {
    match path.trim() {
        "" => Err(Error::invalid("the path of the task store is empty")),
        "~" => process.home(),
        path => match path.strip_prefix("~/") {
            Some(rest) => Ok(process.home()?.join(rest)),
            None => Ok(PathBuf::from(path)),
        },
    }
}

fn make_store(process: &Process, root: &Path, project_root: &Path, report: &mut InitReport) -> Result<()> {
    if let Some(other) = project::other_owner(root, project_root) {
        let free = project::free_store(root, project_root);
        return Err(Error::conflict(format!(
            "the task store {} belongs to the project {}",
            root.display(),
            other.display()
        ))
        .hint(format!("use another: lazy init --external-path '{}'", free.display())));
    }

    let store = Store::open(process, root).map_err(|error| {
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        match error.kind() {
            Kind::Conflict => error.hint(format!("or use another store: lazy init --external-path ~/.lazy/{name}-2")),
            _ => error.hint(format!("or put the store elsewhere: lazy init --external-path ~/.lazy/{name}")),
        }
    })?;
    project::own_store(root, project_root)?;
    let count = store.rows().len();
    if count > 0 {
        report.done(format!("the store holds {} already", text::plural(count, "task")));
    }
    Ok(())
}

/// Whether `lazy.toml` has to name another store than it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StorePath {
    Kept,
    Written,
}

fn write_config(path: StorePath, loaded: &Loaded, store: &Path, report: &mut InitReport) -> Result<()> {
    match (&loaded.path, path) {
        (None, _) => {
            let initial = Initial { external_path: store, git_remote: &report.git_remote, driver: Driver::Local };
            files::write_atomic(&report.config, initial_text(&initial)?.as_bytes(), Mode::Shared)?;
            report.done(format!("wrote {}", report.config.display()));
        }
        (Some(path), StorePath::Written) => {
            edit::set_value(path, "storage.backend", "external")?;
            edit::set_value(path, "storage.external_path", store.to_string_lossy().as_ref())?;
            report.done(format!("set the store in {}", path.display()));
        }
        (Some(path), StorePath::Kept) => report.done(format!("kept {}", path.display())),
    }
    Ok(())
}

/// Brings `.gitignore` up to date; a failure is a warning, as is a data directory that git already tracks.
async fn look_after_gitignore(process: &Process, project: &Project, report: &mut InitReport) {
    match reconcile_gitignore(&project.root) {
        Ok(done) if done.added.is_empty() && done.removed.is_empty() => {}
        Ok(done) => {
            let added = (!done.added.is_empty()).then(|| format!("added {}", done.added.join(" ")));
            let removed = (!done.removed.is_empty()).then(|| format!("removed {}", done.removed.join(" ")));
            let what: Vec<String> = added.into_iter().chain(removed).collect();
            report.done(format!(".gitignore: {}", what.join(", ")));
        }
        Err(error) => report.warn(
            format!(".gitignore could not be brought up to date: {error}"),
            vec![format!("add these lines to it: {}", gitignore::ENTRIES.join(" "))],
        ),
    }
    match tracked_files(process, &project.root).await {
        Ok(0) => {}
        Ok(count) => report.warn(
            format!("git tracks {} below .lazy/, which is for this machine only", text::plural(count, "file")),
            vec!["git rm -r --cached .lazy && git commit -m \"stop tracking .lazy\"".into()],
        ),
        Err(error) => report.warn(format!("cannot tell whether git tracks files below .lazy/: {error}"), Vec::new()),
    }
}

fn reconcile_gitignore(root: &Path) -> Result<gitignore::Reconciled> {
    let path = root.join(".gitignore");
    let path = path.canonicalize().unwrap_or(path);
    let bytes = files::read_written(&path)?.unwrap_or_default();
    let done = gitignore::reconcile(&bytes);
    if done.bytes != bytes {
        files::write_atomic(&path, &done.bytes, Mode::Shared)?;
    }
    Ok(done)
}

async fn tracked_files(process: &Process, root: &Path) -> Result<usize> {
    let ask = Cmd::new("git").env_of(process).args(["ls-files", "-z", "--", ".lazy"]).cwd(root);
    let output = ask.timeout(Duration::from_secs(20)).output().await?;
    match output.success() {
        true => Ok(output.stdout.iter().filter(|byte| **byte == 0).count()),
        false => Err(Error::unavailable(text::one_line(&output.stderr_text()))),
    }
}

/// Says which forge is behind the remote: this version merges locally whatever it is.
fn look_at_remote(root: &Path, settings: &Config, report: &mut InitReport) {
    let remote = config::gitdir::remotes(root).into_iter().find(|found| found.name == settings.remote.git_remote);
    let Some(url) = remote.and_then(|remote| remote.url) else { return };
    let forge = match url {
        url if url.contains("github") => "GitHub",
        url if url.contains("gitlab") => "GitLab",
        _ => return,
    };
    if settings.remote.driver == Driver::Local {
        report.done(format!(
            "the remote {} is on {forge}; accepted work is merged in this repository, and pushing stays with you",
            settings.remote.git_remote
        ));
    }
}

fn look_at_credential(process: &Process, settings: &Config, report: &mut InitReport) {
    match credential::variable(process) {
        Some(name) => report.done(format!("the model credential is in {name}")),
        None if settings.ollama.enabled => report.done("no model credential is needed: [ollama] is enabled"),
        None => report.warn("no model credential in this shell's environment", credential::remedies()),
    }
}

/// Whether what tasks run in is here: the container engine's program, or the agent's own.
fn look_at_runner(process: &Process, settings: &Config, report: &mut InitReport) {
    if let Some(engine) = Engine::of(settings.runner.kind, process) {
        if let Err(error) = engine.require_installed() {
            report.warn(error.message(), error.hints().to_vec());
        }
        return;
    }
    let path = process.var_os("PATH").unwrap_or_default();
    if settings.agent.agent_id == "claude-code" && proc::which("claude", path).is_none() {
        let hints = vec!["npm install -g @anthropic-ai/claude-code".into()];
        report.warn("Claude Code is not installed here; tasks on the host need it", hints);
    }
}

/// Whether a directory accepts a new file. Leaves none behind.
///
/// # Errors
/// [`Kind::Io`] with the reason.
pub(super) fn require_writable(directory: &Path) -> Result<()> {
    tempfile::tempfile_in(directory).map(drop).io_context(|| format!("cannot write into {}", directory.display()))
}

#[cfg(test)]
mod tests;
