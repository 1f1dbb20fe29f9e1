//! A real repository, and programs made of a few lines of shell.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::base::{Millis, Process};

/// A repository in a directory of its own, with a home beside it.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    pub base: PathBuf,
    pub root: PathBuf,
}

impl Place {
    /// With one commit on `main`.
    pub fn new() -> Place {
        let place = Place::without_commits();
        place.git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
        place
    }

    pub fn without_commits() -> Place {
        let dir = tempfile::tempdir().expect("temp dir");
        let base = dir.path().canonicalize().expect("exists");
        let root = base.join("my äpp");
        fs::create_dir_all(&root).expect("makes the root");
        fs::create_dir_all(base.join("home")).expect("makes the home");
        let place = Place { _dir: dir, base, root };
        place.git(&["init", "--quiet", "--initial-branch=main"]);
        place
    }

    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    pub fn process(&self, more: &[(&str, &str)]) -> Process {
        self.process_at(&self.root, more)
    }

    pub fn process_at(&self, cwd: &Path, more: &[(&str, &str)]) -> Process {
        let (path, home) = (std::env::var("PATH").expect("a PATH"), self.home());
        let mut env = vec![("PATH", path.as_str()), ("HOME", home.to_str().expect("utf-8"))];
        env.extend_from_slice(&[("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
        env.extend_from_slice(more);
        Process::fake(["lazy"], &env, cwd, Millis(1_700_000_000_000))
    }

    pub fn git(&self, args: &[&str]) -> String {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.org"])
            .args(args)
            .current_dir(&self.root)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("utf-8")
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
        fs::write(path, text).expect("writes");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).expect("reads")
    }
}

/// Puts a program of a few lines of shell into a directory.
pub(crate) fn program(directory: &Path, name: &str, lines: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).expect("writes");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("sets the mode");
}
