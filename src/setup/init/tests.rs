//! `lazy init`: what it asks, writes and leaves alone.

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
    for said in ["Initialized lazy in", "ANTHROPIC_API_KEY", "is on GitHub", "lazy completion bash", "lazy create"] {
        assert!(text.contains(said), "{said} is not in {text}");
    }
    assert!(!text.contains("sk-x"));
    let json = serde_json::to_value(&report).expect("serializes");
    assert_eq!(json["status"], "initialized");
    let found = Project::find(&process, &place.root).expect("is a project now");
    assert_eq!((found.name.as_str(), found.root), ("thing", place.root.clone()));
}

#[tokio::test]
async fn what_tasks_run_in_is_looked_for() {
    const HOST: &str = "[runner]\ntype = \"dangerously-host-process-without-any-isolation\"\n";
    for (settings, there, warned) in [
        ("", "", Some("Docker is not installed")),
        ("", "docker", None),
        ("[runner]\ntype = \"podman\"\n", "docker", Some("Podman is not installed")),
        (HOST, "docker", Some("Claude Code is not installed")),
        (HOST, "claude", None),
    ] {
        let place = Place::new();
        let bin = place.base.join("bin");
        fs::create_dir(&bin).expect("makes");
        let git = proc::which("git", std::env::var_os("PATH").expect("a PATH")).expect("git");
        std::os::unix::fs::symlink(&git, bin.join("git")).expect("links");
        if !there.is_empty() {
            std::os::unix::fs::symlink(&git, bin.join(there)).expect("links");
        }
        if !settings.is_empty() {
            place.write("lazy.toml", settings);
        }
        let process = place.process(&[("PATH", bin.to_str().expect("utf-8")), ("ANTHROPIC_API_KEY", "sk-x")]);
        let report = init(&process, defaults()).await.expect("sets up");
        let warnings: Vec<_> = report.notes.iter().filter(|note| note.level == Level::Warning).collect();
        let said: Vec<_> = warnings.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(said.len(), usize::from(warned.is_some()), "{settings} {there}: {said:?}");
        assert!(warned.is_none_or(|words| said[0].contains(words)), "{settings} {there}: {said:?}");
        assert!(warnings.iter().all(|note| !note.hints.is_empty()), "{settings} {there}");
    }
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
