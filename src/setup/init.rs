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
    if let Err(error) = crate::runner::Runner::for_kind(settings.runner.kind, process, process.cwd()) {
        report.warn(error.message(), error.hints().to_vec());
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
mod tests {
    use super::*;
    use crate::config::gitdir;
    use crate::setup::report::Level;
    use crate::setup::testing::Place;
    use std::fs;

    /// Answers from a list, and remembers the questions.
    struct Script {
        answers: Vec<&'static str>,
        questions: Vec<String>,
    }

    impl Script {
        fn new(answers: &[&'static str]) -> Script {
            Script { answers: answers.iter().rev().copied().collect(), questions: Vec::new() }
        }

        fn next(&mut self, question: &str) -> Option<&'static str> {
            self.questions.push(question.to_string());
            self.answers.pop()
        }
    }

    impl Ask for Script {
        fn text(&mut self, question: &str, default: &str) -> Result<String> {
            Ok(self.next(question).filter(|answer| !answer.is_empty()).unwrap_or(default).to_string())
        }

        fn choose(&mut self, question: &str, options: &[String], default: usize) -> Result<usize> {
            let answer = self.next(question);
            Ok(options.iter().position(|option| Some(option.as_str()) == answer).unwrap_or(default))
        }
    }

    fn defaults() -> InitOptions {
        InitOptions { interactive: Interactivity::Defaults, ..InitOptions::default() }
    }

    fn at(path: &str) -> InitOptions {
        InitOptions { external_path: Some(path.into()), ..defaults() }
    }

    #[tokio::test]
    async fn a_project_is_set_up_with_the_defaults() {
        let place = Place::new();
        place.git(&["remote", "add", "origin", "git@github.com:team/thing.git"]);
        let process = place.process(&[("ANTHROPIC_API_KEY", "sk-x"), ("SHELL", "/bin/bash")]);
        let report = init(&process, defaults()).await.expect("sets up");
        let store = place.home().join(".lazy/thing");
        assert_eq!((report.status, report.storage.as_ref()), (SetUp::Initialized, Some(&store)));
        assert!(store.join("version.json").is_file() && place.root.join(".lazy").is_dir());
        let loaded = config::load_for_daemon(&process, &place.root).expect("loads");
        assert_eq!(loaded.config.storage.external_path, store.to_str().expect("utf-8"));
        assert_eq!((loaded.unknown.len(), loaded.warnings.len()), (0, 0));
        assert!(place.read(".gitignore").contains("\n.lazy/\n"));
        let text = report.lines().join("\n");
        for said in ["Initialized lazy in", "ANTHROPIC_API_KEY", "is on GitHub", "lazy completion bash", "lazy create"]
        {
            assert!(text.contains(said), "{said} is not in {text}");
        }
        assert!(!text.contains("sk-x"));
        let json = serde_json::to_value(&report).expect("serializes");
        assert_eq!(json["status"], "initialized");
        let found = Project::find(&process, &place.root).expect("is a project now");
        assert_eq!((found.name.as_str(), found.root), ("thing", place.root.clone()));
    }

    #[tokio::test]
    async fn again_only_looks_after_gitignore() {
        let place = Place::new();
        let process = place.process(&[]);
        init(&process, defaults()).await.expect("sets up");
        let config = place.read("lazy.toml");
        place.write(".gitignore", ".lazy/logs/\nmine\n");
        let report = init(&process, defaults()).await.expect("looks");
        assert_eq!(report.status, SetUp::AlreadyInitialized);
        assert!(report.lines()[0].contains("already initialized"));
        assert_eq!(place.read("lazy.toml"), config);
        let ignored = place.read(".gitignore");
        assert!(ignored.starts_with("mine\n") && ignored.contains("\n.lazy/\n"), "{ignored}");
        let once_more = init(&process, defaults()).await.expect("looks");
        assert!(once_more.notes.is_empty(), "{:?}", once_more.notes);
        assert_eq!(place.read(".gitignore"), ignored);
        let error = init(&process, at("~/elsewhere")).await.expect_err("another store");
        assert_eq!(error.kind(), Kind::Conflict);
        let same = report.storage.expect("has one");
        init(&process, at(same.to_str().expect("utf-8"))).await.expect("the same store is no change");
    }

    #[tokio::test]
    async fn preconditions_are_refused_before_anything_is_made() {
        let place = Place::without_commits();
        let process = place.process(&[]);
        let refused = |options| init(&process, options);
        assert_eq!(refused(defaults()).await.expect_err("no commit").kind(), Kind::Conflict);
        let error = refused(InitOptions::default()).await.expect_err("no terminal");
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.hints()[0].contains("--non-interactive"));
        let outside = place.process_at(&place.base, &[]);
        assert_eq!(init(&outside, defaults()).await.expect_err("no repository").kind(), Kind::NotFound);
        place.git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
        for inside in ["tasks", "../my äpp/x", place.root.to_str().expect("utf-8")] {
            let error = refused(at(inside)).await.expect_err(inside);
            assert_eq!(error.kind(), Kind::Config, "{inside}: {error}");
        }
        assert_eq!(refused(at("  ")).await.expect_err("blank").kind(), Kind::Invalid);
        place.write("lazy.toml", "[runner\n");
        assert_eq!(refused(defaults()).await.expect_err("does not parse").kind(), Kind::Config);
        let left: Vec<_> = fs::read_dir(&place.root).expect("lists").map(|e| e.expect("entry").file_name()).collect();
        assert_eq!(left.len(), 2, "only .git and lazy.toml: {left:?}");
        assert!(!place.home().join(".lazy").exists());
    }

    #[tokio::test]
    async fn a_home_is_no_project() {
        let place = Place::new();
        let process = place.process(&[("HOME", place.root.to_str().expect("utf-8"))]);
        let error = init(&process, defaults()).await.expect_err("is home");
        assert!(error.message().contains("home directory"), "{error}");
    }

    #[tokio::test]
    async fn questions_are_asked_only_where_there_is_a_choice() {
        let place = Place::new();
        for name in ["alpha", "beta"] {
            place.git(&["remote", "add", name, &format!("/srv/{name}.git")]);
        }
        let process = place.process(&[]);
        let mut script = Script::new(&["beta", "~/tasks"]);
        let report = init_asking(&process, InitOptions::default(), &mut script).await.expect("sets up");
        assert_eq!(script.questions.len(), 2, "{:?}", script.questions);
        assert_eq!((report.git_remote.as_str(), report.name.as_str()), ("beta", "beta"));
        assert_eq!(report.storage, Some(place.home().join("tasks")));
        let config = config::load_for_daemon(&process, &place.root).expect("loads").config;
        assert_eq!(config.remote.git_remote, "beta");
        assert_eq!(config.storage.external_path, place.home().join("tasks").to_str().expect("utf-8"));
    }

    #[tokio::test]
    async fn a_clone_that_brings_its_settings_is_not_asked() {
        let place = Place::new();
        place.write("lazy.toml", "# ours\n[runner]\ntype = \"podman\"\n");
        let process = place.process(&[]);
        let mut script = Script::new(&[]);
        let report = init_asking(&process, InitOptions::default(), &mut script).await.expect("sets up");
        assert!(script.questions.is_empty());
        assert_eq!(report.storage, Some(place.home().join(".lazy/my äpp")));
        assert_eq!(place.read("lazy.toml"), "# ours\n[runner]\ntype = \"podman\"\n");
        fs::remove_dir_all(place.root.join(".lazy")).expect("removes");
        init(&process, at("~/other")).await.expect("sets up");
        let text = place.read("lazy.toml");
        assert!(text.starts_with("# ours\n[runner]\n") && text.contains("/home/other"), "{text}");
    }

    #[tokio::test]
    async fn a_store_in_use_is_left_alone() {
        let place = Place::new();
        let process = place.process(&[]);
        let held = Store::open(&process, &place.home().join(".lazy/my äpp")).expect("opens");
        let error = init(&process, defaults()).await.expect_err("in use");
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.hints().iter().any(|hint| hint.contains("--external-path ~/.lazy/my äpp-2")), "{error}");
        assert!(!place.root.join(".lazy").exists() && !place.root.join("lazy.toml").exists());
        drop(held);
        init(&process, defaults()).await.expect("sets up");
    }

    #[tokio::test]
    async fn tracked_files_are_said_and_stay() {
        let place = Place::new();
        place.write(".lazy/x/a", "1");
        place.write(".lazy/b", "2");
        place.git(&["add", "--force", "."]);
        place.git(&["commit", "--quiet", "-m", "oops"]);
        let report = init(&place.process(&[]), defaults()).await.expect("looks");
        let note = report.notes.iter().find(|note| note.level == Level::Warning).expect("a warning");
        assert!(note.text.contains("tracks 2 files"), "{note:?}");
        assert!(note.hints[0].starts_with("git rm -r --cached .lazy"));
        assert_eq!(place.git(&["ls-files", ".lazy"]).lines().count(), 2);
    }

    #[tokio::test]
    async fn from_a_linked_worktree_the_main_checkout_is_set_up() {
        let place = Place::new();
        place.git(&["worktree", "add", "--quiet", "../side", "-b", "side"]);
        let side = place.base.join("side");
        assert_eq!(gitdir::main_checkout(&side).expect("found"), place.root);
        let report = init(&place.process_at(&side, &[]), defaults()).await.expect("sets up");
        assert_eq!(report.root, place.root);
        assert!(place.root.join("lazy.toml").is_file() && !side.join("lazy.toml").exists());
    }

    #[tokio::test]
    async fn an_older_project_keeps_its_directory() {
        let place = Place::new();
        fs::create_dir(place.root.join(".workshop")).expect("directory");
        let report = init(&place.process(&[]), defaults()).await.expect("looks");
        assert_eq!(report.status, SetUp::AlreadyInitialized);
        assert!(report.lines().join("\n").contains(".workshop"), "{report:?}");
        assert!(!place.root.join(".lazy").exists());
    }
}
