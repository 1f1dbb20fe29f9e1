//! Commits in a worktree.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Fixture, write};
use crate::base::Kind;
use crate::git::{MergeOutcome, Repo};

fn hook(at: &std::path::Path, name: &str, script: &str) {
    write(at, name, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(at.join(name), fs::Permissions::from_mode(0o755)).expect("executable");
}

#[tokio::test]
async fn everything_or_the_named_files_are_committed() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let start = worktree.head().expect("reads");
    assert_eq!(worktree.commit("nothing", &[]).await.expect("asks"), None);

    write(worktree.path(), "a.txt", "one\n2\nthree\n");
    write(worktree.path(), "neu ü.txt", "x\n");
    write(worktree.path(), "dir/1", "x\n");
    write(worktree.path(), "dir/2", "x\n");
    fs::remove_file(worktree.path().join("b.txt")).expect("removes");
    write(worktree.path(), ".lazy-task-sandbox/secret", "x");
    fixture.git_at(worktree.path(), &["add", "--force", ".lazy-task-sandbox"]).await;

    let named = [worktree.path().join("dir").display().to_string(), "./neu ü.txt".to_string(), "b.txt".to_string()];
    let done = worktree.commit("  some\n\n# kept", &named).await.expect("commits").expect("something");
    assert_eq!(done.files_changed, 4);
    assert!(done.diff_stat.contains("4 files changed"), "{}", done.diff_stat);
    assert_eq!(worktree.head().expect("reads"), done.sha);
    let log = worktree.repo().commits_between(&start, &done.sha).expect("walks");
    assert_eq!(log[0].message.trim(), "some\n\n# kept");
    assert_eq!(worktree.status().await.expect("reads").entries, [" M a.txt"]);

    let rest = worktree.commit("rest", &[]).await.expect("commits").expect("something");
    assert_eq!(rest.files_changed, 1);
    assert!(worktree.status().await.expect("reads").is_clean());
    let tree = fixture.git(&["ls-tree", "-r", "--name-only", &rest.sha]).await;
    assert!(!tree.contains("sandbox"), "{tree}");
    assert!(worktree.path().join(".lazy-task-sandbox/secret").exists());
}

#[tokio::test]
async fn what_cannot_be_committed_is_named() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    write(worktree.path(), "x.ignored", "x");
    write(worktree.path(), "new", "x");
    for (file, word) in [
        ("gone.txt", "no file"),
        ("x.ignored", "ignored"),
        ("../outside", "not a path inside"),
        ("/etc/passwd", "not a path inside"),
        (".lazy-lock", "belongs to lazy"),
        (".lazy-task-sandbox/a", "belongs to lazy"),
    ] {
        let error = worktree.commit("m", &["new".to_string(), file.to_string()]).await.expect_err(file);
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.message().contains(word), "{error}");
    }
    assert_eq!(worktree.commit(" \n\t", &[]).await.expect_err("blank").kind(), Kind::Invalid);
    assert_eq!(worktree.commit("m", &["a.txt".to_string()]).await.expect("unchanged is fine"), None);
    fixture.git_at(worktree.path(), &["checkout", "--quiet", "--detach"]).await;
    assert_eq!(worktree.commit("m", &[]).await.expect_err("detached").kind(), Kind::Conflict);
}

#[tokio::test]
async fn a_user_without_a_name_gets_one() {
    let fixture = Fixture::new().await;
    fs::remove_file(fixture.home().join(".gitconfig")).expect("removes");
    let worktree = fixture.worktree("x").await;
    write(worktree.path(), "new", "x");
    let done = worktree.commit("work", &[]).await.expect("commits").expect("something");
    let author = |sha: String| async move {
        worktree.repo().commits_between(&format!("{sha}^"), &sha).expect("walks")[0].author.clone()
    };
    assert_eq!(author(done.sha).await, "lazy <lazy@localhost>");

    let more = [("GIT_AUTHOR_NAME", "Env"), ("GIT_AUTHOR_EMAIL", "env@example.com")];
    let repo = Repo::discover(&Fixture::process_at(&fixture.home(), &more), &fixture.root).expect("found");
    let worktree = repo.worktree(&fixture.worktree_path("x")).expect("there");
    write(worktree.path(), "new", "y");
    let done = worktree.commit("work", &[]).await.expect("commits").expect("something");
    let shown = fixture.git(&["log", "-1", "--format=%an %ae %cn %ce", &done.sha]).await;
    assert_eq!(shown, "Env env@example.com lazy lazy@localhost");
}

#[tokio::test]
async fn an_empty_commit_takes_nothing_with_it() {
    let fixture = Fixture::new().await;
    hook(&fixture.root, ".git/hooks/pre-commit", "exit 1");
    hook(&fixture.root, ".git/hooks/commit-msg", "exit 1");
    let worktree = fixture.worktree("x").await;
    let before = worktree.head().expect("reads");
    write(worktree.path(), "staged", "x");
    fixture.git_at(worktree.path(), &["add", "staged"]).await;
    let sha = worktree.commit_empty("Initialize task x: do it").await.expect("commits");
    assert_eq!(worktree.head().expect("reads"), sha);
    assert_eq!(fixture.git(&["diff", "--stat", &before, &sha]).await, "");
    assert_eq!(worktree.status().await.expect("reads").entries, ["A  staged"]);
}

#[tokio::test]
async fn hooks_run_unless_an_agent_can_write_them() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    hook(&fixture.root, ".git/hooks/pre-commit", "echo 'the linter says no' >&2; exit 1");
    write(worktree.path(), "new", "x");
    let error = worktree.commit("work", &[]).await.expect_err("refused");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("the linter says no"), "{error}");

    fixture.git(&["config", "core.hooksPath", ".hooks"]).await;
    hook(worktree.path(), ".hooks/pre-commit", "touch ../hook-ran; exit 1");
    worktree.commit("work", &[]).await.expect("commits").expect("something");
    assert!(!worktree.path().join("../hook-ran").exists());
    // nor when a worktree is made of what an agent committed
    hook(worktree.path(), ".hooks/post-checkout", "touch \"$HOME/hook-ran\"");
    worktree.commit("a trap", &[]).await.expect("commits").expect("something");
    let child = fixture.worktree_path("child");
    fixture.repo().add_worktree(&child, "lazy/child", "lazy/x").await.expect("made");
    assert!(child.join(".hooks/post-checkout").exists());
    assert!(!fixture.home().join("hook-ran").exists());
}

#[tokio::test]
async fn a_repository_inside_the_worktree_runs_nothing() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let inner = worktree.path().join("inner");
    fs::create_dir(&inner).expect("makes");
    let marker = fixture.home().join("ran");
    let run = format!("touch '{}'; cat", marker.display());
    fixture.git_at(&inner, &["init", "--quiet"]).await;
    write(&inner, ".gitattributes", "*.txt filter=evil\n");
    write(&inner, "a.txt", "a\n");
    fixture.git_at(&inner, &["add", "."]).await;
    fixture.git_at(&inner, &["commit", "--quiet", "-m", "inner"]).await;
    worktree.commit("with an inner repository", &[]).await.expect("commits");
    fixture.git_at(&inner, &["config", "filter.evil.clean", &run]).await;
    fixture.git_at(&inner, &["config", "core.fsmonitor", &run]).await;
    write(&inner, "a.txt", "changed\n");
    write(worktree.path(), "b.txt", "changed\n");
    worktree.status().await.expect("reads");
    worktree.uncommitted_diff().await.expect("reads");
    worktree.commit("more", &["inner".to_string(), "b.txt".to_string()]).await.expect("commits").expect("something");
    write(worktree.path(), "b.txt", "again\n");
    worktree.commit("more", &[]).await.expect("commits").expect("something");
    worktree.reset_hard_head().await.expect("resets");
    assert!(!marker.exists());
    // the same through a plain git, to see that the trap works
    let plain = crate::proc::Cmd::new("git").env_of(&fixture.process).cwd(worktree.path()).args(["status", "--short"]);
    plain.output().await.expect("git runs");
    assert!(marker.exists());
}

#[tokio::test]
async fn conflicts_must_be_staged_before_a_commit_concludes_the_merge() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    write(worktree.path(), "a.txt", "one\nmine\nthree\n");
    worktree.commit("mine", &[]).await.expect("commits");
    fixture.write("a.txt", "one\ntheirs\nthree\n");
    let theirs = fixture.commit_all("theirs").await;
    let outcome = worktree.merge(&theirs, "Merge main").await.expect("merges");
    assert_eq!(outcome, MergeOutcome::Conflicts { files: vec!["a.txt".to_string()] });
    for files in [vec![], vec!["a.txt".to_string()]] {
        let error = worktree.commit("done", &files).await.expect_err("unmerged");
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.message().contains("a.txt"), "{error}");
    }
    // keeping one's own side leaves nothing staged, and is a resolution all the same
    write(worktree.path(), "a.txt", "one\nmine\nthree\n");
    fixture.git_at(worktree.path(), &["add", "a.txt"]).await;
    let done = worktree.commit("keep mine", &[]).await.expect("concludes").expect("a merge commit");
    assert_eq!((done.files_changed, done.diff_stat.as_str()), (0, ""));
    assert!(worktree.repo().is_ancestor(&theirs, &done.sha).expect("asks"));
    assert_eq!(worktree.merge_state().await.expect("reads"), None);
}
