//! A real repository in a temporary directory, with an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::base::{Millis, Process};
use crate::git::program::Git;
use crate::git::{Repo, Worktree};

/// A repository with one commit on `main`, in a directory whose name has spaces and letters beyond ASCII.
pub(crate) struct Fixture {
    /// Kept for its end, which removes the directory.
    _dir: tempfile::TempDir,
    pub process: Process,
    pub root: PathBuf,
}

impl Fixture {
    pub async fn new() -> Fixture {
        let fixture = Fixture::empty().await;
        fixture.write("a.txt", "one\ntwo\nthree\n");
        fixture.write("b.txt", "b\n");
        fixture.write(".gitignore", ".lazy/\n*.ignored\n");
        fixture.commit_all("first").await;
        fixture
    }

    /// Without a commit.
    pub async fn empty() -> Fixture {
        let dir = tempfile::tempdir().expect("temp dir");
        let home = dir.path().canonicalize().expect("exists");
        let root = home.join("mein größtes projekt");
        fs::create_dir(&root).expect("makes the root");
        fs::write(home.join(".gitconfig"), "[user]\nname = Tester\nemail = tester@example.com\n").expect("config");
        let process = Fixture::process_at(&home, &[]);
        let fixture = Fixture { _dir: dir, process, root };
        fixture.git(&["init", "--quiet", "--initial-branch=main"]).await;
        fixture
    }

    pub fn process_at(home: &Path, more: &[(&str, &str)]) -> Process {
        let path = std::env::var("PATH").expect("a PATH");
        let home_text = home.to_str().expect("a path in UTF-8").to_string();
        let mut env = vec![("PATH", path.as_str()), ("HOME", home_text.as_str()), ("GIT_CONFIG_NOSYSTEM", "1")];
        env.extend_from_slice(more);
        Process::fake(["lazy"], &env, home, Millis(1_700_000_000_000))
    }

    pub fn home(&self) -> PathBuf {
        self.root.parent().expect("a parent").to_path_buf()
    }

    pub fn repo(&self) -> Repo {
        Repo::discover(&self.process, &self.root).expect("a repository")
    }

    pub fn worktree_path(&self, name: &str) -> PathBuf {
        self.root.join(".lazy/worktrees").join(name)
    }

    /// A worktree on `lazy/<name>` from main.
    pub async fn worktree(&self, name: &str) -> Worktree {
        let path = self.worktree_path(name);
        self.repo().add_worktree(&path, &format!("lazy/{name}"), "main").await.expect("a worktree")
    }

    pub async fn git(&self, args: &[&str]) -> String {
        self.git_at(&self.root, args).await
    }

    pub async fn git_at(&self, at: &Path, args: &[&str]) -> String {
        let git = Git::found_from(&self.process, at).args(args);
        git.text(&format!("git {args:?}")).await.expect("git").trim_end().to_string()
    }

    /// Whatever git answers.
    pub async fn try_git_at(&self, at: &Path, args: &[&str]) -> bool {
        Git::found_from(&self.process, at).args(args).run().await.expect("git runs").success()
    }

    pub fn write(&self, name: &str, text: &str) {
        write(&self.root, name, text);
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).expect("a file")
    }

    pub async fn commit_all(&self, message: &str) -> String {
        self.git(&["add", "--all"]).await;
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]).await;
        self.git(&["rev-parse", "HEAD"]).await
    }
}

pub(crate) fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("makes the parent");
    fs::write(path, text).expect("writes");
}
