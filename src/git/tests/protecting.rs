//! Protected files, and files that come back from the dead.

use std::fs;

use super::{Fixture, write};
use crate::base::Kind;
use crate::git::Resurrection;
use crate::model::ViolationStatus;

#[tokio::test]
async fn protected_files_may_grow_and_not_otherwise_change() {
    let fixture = Fixture::new().await;
    for name in ["grows.lock", "changes.lock", "goes.lock", "moves.lock", "deep/in.lock", "mode.lock", "free.txt"] {
        fixture.write(name, &format!("{name}\nline\n"));
    }
    fs::write(fixture.root.join("binary.lock"), [0, 1, 2, 255]).expect("writes");
    let start = fixture.commit_all("protected files").await;
    let worktree = fixture.worktree("x").await;
    let at = worktree.path();
    write(at, "grows.lock", "grows.lock\nline\nand more\n");
    write(at, "changes.lock", "changed\nline\n");
    write(at, "deep/in.lock", "deep/in.lock\nlin\n");
    write(at, "free.txt", "changed\n");
    write(at, "made.lock", "by the task\n");
    fs::write(at.join("binary.lock"), [0, 1, 2, 254]).expect("writes");
    fs::remove_file(at.join("goes.lock")).expect("removes");
    fs::rename(at.join("moves.lock"), at.join("moved.txt")).expect("renames");
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(at.join("mode.lock"), fs::Permissions::from_mode(0o755)).expect("executable");
    let first = worktree.commit("turn", &[]).await.expect("commits").expect("something").sha;

    let patterns = ["*.lock".to_string()];
    let found = worktree.violations(&patterns, &start, &first, &start).await.expect("scans");
    let files: Vec<&str> = found.iter().map(|violation| violation.file.as_str()).collect();
    assert_eq!(files, ["binary.lock", "changes.lock", "deep/in.lock", "goes.lock", "mode.lock", "moves.lock"]);
    assert!(found.iter().all(|v| v.base_sha == start && v.status == ViolationStatus::Pending));

    // what the task itself made is its own, also in a later turn
    write(at, "made.lock", "changed by the task\n");
    fs::remove_file(at.join("free.txt")).expect("removes");
    let second = worktree.commit("turn", &[]).await.expect("commits").expect("something").sha;
    assert_eq!(worktree.violations(&patterns, &first, &second, &start).await.expect("scans"), []);

    // a revert gives each one the content it may have
    for violation in &found {
        worktree.revert_file(&violation.file, &violation.base_sha).await.expect("reverts");
    }
    let third = worktree.commit("reverted", &[]).await.expect("commits").expect("something").sha;
    assert_eq!(worktree.violations(&patterns, &start, &third, &start).await.expect("scans"), []);
    assert_eq!(fs::read(at.join("binary.lock")).expect("reads"), [0, 1, 2, 255]);
    worktree.revert_file("made.lock", &start).await.expect("reverts");
    assert!(!at.join("made.lock").exists());
    fs::remove_file(at.join("goes.lock")).expect("removes");
    write(at, "goes.lock/in the way", "a directory where the file was\n");
    worktree.commit("a directory", &[]).await.expect("commits");
    worktree.revert_file("goes.lock", &start).await.expect("reverts");
    assert_eq!(fs::read_to_string(at.join("goes.lock")).expect("a file again"), "goes.lock\nline\n");
    worktree.revert_file("never.was", &start).await.expect("nothing to do");
}

#[tokio::test]
async fn a_scan_that_fails_is_an_error() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let start = worktree.head().expect("reads");
    write(worktree.path(), "a.txt", "changed\n");
    let end = worktree.commit("turn", &[]).await.expect("commits").expect("something").sha;
    let all = ["*".to_string()];
    assert_eq!(worktree.violations(&all, &start, &start, "nope").await.expect("the same commit"), []);
    assert_eq!(worktree.violations(&[], &start, &end, &start).await.expect("no patterns"), []);
    assert_eq!(worktree.violations(&all, &start, "nope", &start).await.expect_err("unknown").kind(), Kind::NotFound);
    assert_eq!(worktree.violations(&all, &start, &end, "nope").await.expect_err("unknown").kind(), Kind::NotFound);
    let bad = worktree.violations(&["a[".to_string()], &start, &end, &start).await.expect_err("no glob");
    assert_eq!(bad.kind(), Kind::Invalid);
    for outside in ["../x", "/etc/passwd"] {
        assert_eq!(worktree.revert_file(outside, &start).await.expect_err("outside").kind(), Kind::Invalid);
    }
}

#[tokio::test]
async fn deleted_files_do_not_come_back_unseen() {
    let fixture = Fixture::new().await;
    fixture.write("dead [1].txt", "x\n");
    fixture.write("alive.txt", "x\n");
    fixture.commit_all("both").await;
    fixture.git(&["rm", "--quiet", "dead [1].txt"]).await;
    let killed = fixture.commit_all("remove it").await;
    fixture.write("later.txt", "x\n");
    fixture.commit_all("later").await;
    let worktree = fixture.worktree("x").await;
    write(worktree.path(), "dead [1].txt", "back\n");
    write(worktree.path(), "fresh.txt", "new\n");
    write(worktree.path(), "alive.txt", "changed\n");
    worktree.commit("work", &[]).await.expect("commits");
    let repo = fixture.repo();
    let found = repo.resurrections("main", "lazy/x").await.expect("scans");
    assert_eq!(found, [Resurrection { path: "dead [1].txt".into(), deleted_in: killed }]);
    // accepted there meanwhile: nothing comes back any more
    fixture.write("dead [1].txt", "back\n");
    fixture.commit_all("restored on purpose").await;
    assert_eq!(repo.resurrections("main", "lazy/x").await.expect("scans"), []);
    assert_eq!(repo.resurrections("main", "nope").await.expect_err("unknown").kind(), Kind::NotFound);
}

#[tokio::test]
async fn two_deleted_files_are_told_with_their_commits() {
    let fixture = Fixture::new().await;
    fixture.write("p.txt", "x\n");
    fixture.write("q.txt", "x\n");
    fixture.write("r.txt", "x\n");
    fixture.commit_all("three").await;
    fixture.git(&["rm", "--quiet", "r.txt"]).await;
    let first = fixture.commit_all("r goes").await;
    fixture.git(&["rm", "--quiet", "p.txt", "q.txt"]).await;
    let second = fixture.commit_all("p and q go").await;
    let worktree = fixture.worktree("x").await;
    for name in ["p.txt", "q.txt", "r.txt"] {
        write(worktree.path(), name, "back\n");
    }
    worktree.commit("work", &[]).await.expect("commits");
    let found = fixture.repo().resurrections("main", "lazy/x").await.expect("scans");
    let told: Vec<(&str, &str)> = found.iter().map(|r| (r.path.as_str(), r.deleted_in.as_str())).collect();
    assert_eq!(told, [("p.txt", second.as_str()), ("q.txt", second.as_str()), ("r.txt", first.as_str())]);
}
