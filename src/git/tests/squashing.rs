//! Accepting work, beside and inside a person's checkout.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Fixture, write};
use crate::base::{Kind, Result};
use crate::forge::Forge;
use crate::git::{CheckoutEffect, Repo, SquashMerge, Squashed};

/// What a merge may not touch: HEAD, the branch, the index entries and every file, byte for byte.
#[derive(Debug, PartialEq, Eq)]
struct Photo {
    head: String,
    refs: String,
    index: String,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

async fn photo(fixture: &Fixture, at: &Path) -> Photo {
    let mut files = BTreeMap::new();
    let mut todo = vec![at.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).expect("lists").flatten() {
            let path = entry.path();
            match path.file_name().and_then(|name| name.to_str()) {
                Some(".git" | ".lazy") => {}
                _ if path.is_dir() => todo.push(path),
                _ => drop(files.insert(path.clone(), fs::read(&path).expect("reads"))),
            }
        }
    }
    Photo {
        head: fixture.git_at(at, &["rev-parse", "--symbolic-full-name", "HEAD"]).await,
        refs: fixture.git(&["for-each-ref", "refs/heads"]).await,
        index: fixture.git_at(at, &["ls-files", "--stage"]).await,
        files,
    }
}

fn request(target: &str) -> SquashMerge {
    SquashMerge {
        branch: "lazy/x".into(),
        target: target.into(),
        message: "Accept task x\n\nDone.".into(),
        expected_target: None,
    }
}

async fn accept(repo: &Repo, target: &str) -> Result<Squashed> {
    Forge::Local.merge(repo, &request(target)).await
}

/// A task branch that changes `a.txt`, adds `new/ü.txt` and removes `b.txt`, in two commits.
async fn work(fixture: &Fixture) -> Repo {
    let worktree = fixture.worktree("x").await;
    write(worktree.path(), "a.txt", "one\nmine\nthree\n");
    worktree.commit("first half", &[]).await.expect("commits");
    write(worktree.path(), "new/ü.txt", "new\n");
    fs::remove_file(worktree.path().join("b.txt")).expect("removes");
    worktree.commit("second half", &[]).await.expect("commits");
    fixture.repo()
}

fn program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("makes");
    fs::write(path, script).expect("writes");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

async fn assert_one_commit(fixture: &Fixture, target: &str, old: &str, sha: &str) {
    assert_eq!(fixture.git(&["rev-parse", target]).await, sha);
    assert_eq!(fixture.git(&["log", "-1", "--format=%P|%B", sha]).await, format!("{old}|Accept task x\n\nDone."));
    assert_eq!(fixture.git(&["diff", "--stat", sha, "lazy/x", "--", "a.txt", "new", "b.txt"]).await, "");
}

#[tokio::test]
async fn the_checkout_of_the_target_moves_along() {
    let fixture = Fixture::new().await;
    let repo = work(&fixture).await;
    let old = repo.require_commits().expect("a commit");
    let Squashed::Merged { sha, checkout } = accept(&repo, "main").await.expect("merges") else { panic!("clean") };
    assert_eq!(checkout, CheckoutEffect::FastForwarded { path: fixture.root.clone() });
    assert_one_commit(&fixture, "main", &old, &sha).await;
    assert_eq!(fixture.read("a.txt"), "one\nmine\nthree\n");
    assert!(!fixture.root.join("b.txt").exists());
    assert_eq!(fixture.git(&["status", "--porcelain"]).await, "");
    assert_eq!(accept(&repo, "main").await.expect("again"), Squashed::NothingToMerge);
}

#[tokio::test]
async fn unrelated_uncommitted_work_stays_byte_for_byte() {
    let fixture = Fixture::new().await;
    fixture.write("c.txt", "c\n");
    fixture.write("d.txt", "d\n");
    fixture.commit_all("more files").await;
    let repo = work(&fixture).await;
    fixture.write("c.txt", "staged\n");
    fixture.git(&["add", "c.txt"]).await;
    fixture.write("c.txt", "staged, then changed\n");
    fixture.write("d.txt", "changed\n");
    fixture.write("untracked ü/file", "untracked\n");
    fixture.write("staged new.txt", "staged\n");
    fixture.git(&["add", "staged new.txt"]).await;
    let staged_before = fixture.git(&["ls-files", "--stage", "--", "c.txt", "d.txt", "staged new.txt"]).await;
    let status_before = fixture.git(&["status", "--porcelain", "--untracked-files=all"]).await;

    let outcome = accept(&repo, "main").await.expect("merges");
    assert!(matches!(outcome, Squashed::Merged { checkout: CheckoutEffect::FastForwarded { .. }, .. }), "{outcome:?}");
    assert_eq!(fixture.read("a.txt"), "one\nmine\nthree\n");
    assert_eq!(fixture.read("c.txt"), "staged, then changed\n");
    assert_eq!(fixture.read("d.txt"), "changed\n");
    assert_eq!(fixture.read("untracked ü/file"), "untracked\n");
    assert_eq!(fixture.git(&["ls-files", "--stage", "--", "c.txt", "d.txt", "staged new.txt"]).await, staged_before);
    assert_eq!(fixture.git(&["status", "--porcelain", "--untracked-files=all"]).await, status_before);
}

#[tokio::test]
async fn overlapping_uncommitted_work_stops_the_merge_before_anything_moves() {
    for (case, file) in [
        ("changed", "a.txt"),
        ("staged", "a.txt"),
        ("removed", "a.txt"),
        ("changed", "b.txt"),
        ("untracked", "new/ü.txt"),
        ("ignored", "new/ü.txt"),
        ("a file where a directory comes", "new"),
    ] {
        let fixture = Fixture::new().await;
        let repo = work(&fixture).await;
        match case {
            "removed" => fs::remove_file(fixture.root.join(file)).expect("removes"),
            _ => fixture.write(file, "precious\n"),
        }
        match case {
            "staged" => drop(fixture.git(&["add", file]).await),
            "ignored" => write(&fixture.root, ".git/info/exclude", "/new/\n"),
            _ => {}
        }
        let before = photo(&fixture, &fixture.root).await;
        let error = accept(&repo, "main").await.expect_err(case);
        assert_eq!(error.kind(), Kind::Conflict, "{case} {file}: {error}");
        assert!(error.message().contains(file), "{case} {file}: {error}");
        assert!(error.message().contains(&fixture.root.display().to_string()), "{error}");
        assert!(error.hints()[0].contains("commit or stash them, then accept again"), "{error}");
        assert_eq!(photo(&fixture, &fixture.root).await, before, "{case} {file}");
    }
}

#[tokio::test]
async fn what_only_git_sees_is_refused_by_git() {
    let fixture = Fixture::new().await;
    let repo = work(&fixture).await;
    fixture.git(&["update-index", "--assume-unchanged", "a.txt"]).await;
    fixture.write("a.txt", "precious\n");
    let before = photo(&fixture, &fixture.root).await;
    let error = accept(&repo, "main").await.expect_err("git sees it");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("a.txt"), "{error}");
    assert_eq!(photo(&fixture, &fixture.root).await, before);
}

#[tokio::test]
async fn a_target_that_is_not_checked_out_moves_alone() {
    let fixture = Fixture::new().await;
    let repo = work(&fixture).await;
    let old = repo.require_commits().expect("a commit");
    fixture.git(&["checkout", "--quiet", "-b", "elsewhere"]).await;
    fixture.write("a.txt", "dirty\n");
    fixture.write("b.txt", "staged\n");
    fixture.git(&["add", "b.txt"]).await;
    let mut before = photo(&fixture, &fixture.root).await;
    let Squashed::Merged { sha, checkout } = accept(&repo, "main").await.expect("merges") else { panic!("clean") };
    assert_eq!(checkout, CheckoutEffect::NotCheckedOut);
    assert_one_commit(&fixture, "main", &old, &sha).await;
    let mut after = photo(&fixture, &fixture.root).await;
    assert_ne!(before.refs, after.refs);
    (before.refs, after.refs) = Default::default();
    assert_eq!(after, before);
    assert!(fixture.git(&["reflog", "-1", "main"]).await.contains("lazy: squash merge of lazy/x"));
}

#[tokio::test]
async fn a_detached_head_is_no_checkout_of_the_target() {
    let fixture = Fixture::new().await;
    let repo = work(&fixture).await;
    fixture.git(&["checkout", "--quiet", "--detach"]).await;
    let head = fixture.git(&["rev-parse", "HEAD"]).await;
    let Squashed::Merged { checkout, .. } = accept(&repo, "main").await.expect("merges") else { panic!("clean") };
    assert_eq!(checkout, CheckoutEffect::NotCheckedOut);
    assert_eq!(fixture.git(&["rev-parse", "HEAD"]).await, head);
    assert_eq!(fixture.git(&["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a_child_goes_into_the_worktree_of_its_parent() {
    let fixture = Fixture::new().await;
    let parent = fixture.worktree("parent").await;
    let repo = work(&fixture).await;
    write(parent.path(), "notes.txt", "unrelated\n");
    let Squashed::Merged { checkout, .. } = accept(&repo, "lazy/parent").await.expect("merges") else {
        panic!("clean")
    };
    assert_eq!(checkout, CheckoutEffect::FastForwarded { path: parent.path().to_path_buf() });
    assert_eq!(parent.status().await.expect("reads").entries, ["?? notes.txt"]);
    assert_eq!(fs::read_to_string(parent.path().join("a.txt")).expect("reads"), "one\nmine\nthree\n");
    assert_eq!(fixture.read("a.txt"), "one\ntwo\nthree\n");

    // a record whose directory is gone holds nothing back
    fs::remove_dir_all(parent.path()).expect("removes");
    let x = repo.worktree(&fixture.worktree_path("x")).expect("there");
    write(x.path(), "more.txt", "more\n");
    x.commit("more", &[]).await.expect("commits");
    let Squashed::Merged { checkout, .. } = accept(&repo, "lazy/parent").await.expect("merges") else {
        panic!("clean")
    };
    assert_eq!(checkout, CheckoutEffect::NotCheckedOut);
}

#[tokio::test]
async fn conflicts_are_named_and_nothing_moves() {
    let fixture = Fixture::new().await;
    let repo = work(&fixture).await;
    fixture.write("a.txt", "one\ntheirs\nthree\n");
    fixture.write("b.txt", "changed where the branch removes\n");
    fixture.commit_all("theirs").await;
    let before = photo(&fixture, &fixture.root).await;
    let outcome = accept(&repo, "main").await.expect("asks");
    assert_eq!(outcome, Squashed::Conflicts { files: vec!["a.txt".into(), "b.txt".into()] });
    assert_eq!(photo(&fixture, &fixture.root).await, before);
}

#[tokio::test]
async fn a_target_in_the_middle_of_something_is_named() {
    for (what, commands) in [
        ("merge", vec![vec!["merge", "--quiet", "theirs"]]),
        ("cherry-pick", vec![vec!["cherry-pick", "theirs"]]),
        ("rebase", vec![vec!["rebase", "--quiet", "theirs"]]),
    ] {
        let fixture = Fixture::new().await;
        let repo = work(&fixture).await;
        fixture.git(&["checkout", "--quiet", "-b", "theirs"]).await;
        fixture.write("shared.txt", "theirs\n");
        fixture.commit_all("theirs").await;
        fixture.git(&["checkout", "--quiet", "main"]).await;
        fixture.write("shared.txt", "mine\n");
        fixture.commit_all("mine").await;
        for command in &commands {
            assert!(!fixture.try_git_at(&fixture.root, command).await, "{what} conflicts");
        }
        let before = photo(&fixture, &fixture.root).await;
        let error = accept(&repo, "main").await.expect_err(what);
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        assert!(error.message().contains(&format!("in the middle of a {what}")), "{error}");
        assert_eq!(photo(&fixture, &fixture.root).await, before);
    }
}

#[tokio::test]
async fn conflicts_left_by_a_stash_are_named() {
    let fixture = Fixture::new().await;
    let repo = work(&fixture).await;
    fixture.write("c.txt", "c\n");
    fixture.commit_all("c").await;
    fixture.write("c.txt", "stashed\n");
    fixture.git(&["stash", "--quiet"]).await;
    fixture.write("c.txt", "committed\n");
    fixture.commit_all("c again").await;
    assert!(!fixture.try_git_at(&fixture.root, &["stash", "pop"]).await);
    let error = accept(&repo, "main").await.expect_err("unresolved");
    assert!(error.message().contains("unresolved conflicts in c.txt"), "{error}");
}

#[tokio::test]
async fn a_target_that_moved_is_refused_or_followed() {
    let fixture = Fixture::new().await;
    let repo = work(&fixture).await;
    let judged = repo.require_commits().expect("a commit");
    fixture.write("c.txt", "c\n");
    let moved = fixture.commit_all("meanwhile").await;
    let stale = SquashMerge { expected_target: Some(judged), ..request("main") };
    let error = repo.squash_merge(&stale).await.expect_err("moved");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("moved"), "{error}");
    assert_eq!(fixture.git(&["rev-parse", "main"]).await, moved);
    let fresh = SquashMerge { expected_target: Some(moved.clone()), ..request("main") };
    let Squashed::Merged { sha, .. } = repo.squash_merge(&fresh).await.expect("merges") else { panic!("clean") };
    assert_one_commit(&fixture, "main", &moved, &sha).await;
    assert_eq!(fixture.read("c.txt"), "c\n");
}

#[tokio::test]
async fn a_target_that_moves_during_the_merge_is_followed() {
    for (checked_out, meanwhile) in [
        (true, "commit --quiet --allow-empty -m meanwhile"),
        (false, "update-ref refs/heads/main $(\"$real\" commit-tree -p main -m meanwhile 'main^{tree}')"),
    ] {
        let fixture = Fixture::new().await;
        work(&fixture).await;
        if !checked_out {
            fixture.git(&["checkout", "--quiet", "-b", "elsewhere"]).await;
        }
        // a git that lets somebody else commit to main between our look at it and our move of it, once
        let path = std::env::var("PATH").expect("a PATH");
        let real = std::env::split_paths(&path).map(|at| at.join("git")).find(|at| at.is_file()).expect("git");
        let bin = fixture.home().join("bin");
        let script = format!(
            "#!/bin/sh\nreal='{}'\ncase \" $* \" in *' merge-tree '*)\n\
             [ -e '{1}/raced' ] || {{ touch '{1}/raced'; \"$real\" {meanwhile} || exit 9; }};;\nesac\nexec \"$real\" \"$@\"\n",
            real.display(),
            bin.display()
        );
        program(&bin.join("git"), &script);
        let path = format!("{}:{path}", bin.display());
        let process = Fixture::process_at(&fixture.home(), &[("PATH", &path)]);
        let repo = Repo::discover(&process, &fixture.root).expect("found");
        let Squashed::Merged { sha, .. } = accept(&repo, "main").await.expect("merges") else { panic!("clean") };
        let theirs = fixture.git(&["rev-parse", "main^"]).await;
        assert_eq!(fixture.git(&["log", "-1", "--format=%s", &theirs]).await, "meanwhile");
        assert_one_commit(&fixture, "main", &theirs, &sha).await;
        assert_eq!(fixture.git(&["status", "--porcelain"]).await, "");
    }
}

#[tokio::test]
async fn a_branch_that_cannot_move_changes_nothing() {
    for lock in ["refs/heads/main.lock", "HEAD.lock", "index.lock"] {
        let fixture = Fixture::new().await;
        let repo = work(&fixture).await;
        fixture.write("staged.txt", "staged\n");
        fixture.git(&["add", "staged.txt"]).await;
        fixture.write("mine.txt", "mine\n");
        let before = photo(&fixture, &fixture.root).await;
        let lock_file = fixture.root.join(".git").join(lock);
        fs::write(&lock_file, "").expect("locks");
        let error = accept(&repo, "main").await.expect_err("locked");
        assert!(error.message().contains(lock), "{error}");
        assert!(error.hints().iter().any(|hint| hint.contains(lock)), "{error:?}");
        assert_eq!(photo(&fixture, &fixture.root).await, before, "{lock}");
        fs::remove_file(&lock_file).expect("unlocks");
        assert!(matches!(accept(&repo, "main").await.expect("merges"), Squashed::Merged { .. }));
        assert_eq!(fixture.git(&["status", "--porcelain"]).await, "A  staged.txt\n?? mine.txt");
    }
}

#[tokio::test]
async fn a_branch_that_fails_to_move_at_last_gets_its_files_back() {
    let fixture = Fixture::new().await;
    work(&fixture).await;
    fixture.write("staged.txt", "staged\n");
    fixture.git(&["add", "staged.txt"]).await;
    fixture.write(".gitignore", ".lazy/\n*.ignored\n# mine\n");
    fixture.write("c.ignored", "ignored\n");
    let before = photo(&fixture, &fixture.root).await;
    // a git that meets a locked branch only when the files have moved
    let path = std::env::var("PATH").expect("a PATH");
    let real = std::env::split_paths(&path).map(|at| at.join("git")).find(|at| at.is_file()).expect("git");
    let bin = fixture.home().join("bin");
    let lock = fixture.root.join(".git/refs/heads/main.lock");
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' --ff-only '*)\n\
         touch '{1}'; '{0}' \"$@\"; code=$?; rm '{1}'; exit $code;;\nesac\nexec '{0}' \"$@\"\n",
        real.display(),
        lock.display()
    );
    program(&bin.join("git"), &script);
    let path = format!("{}:{path}", bin.display());
    let process = Fixture::process_at(&fixture.home(), &[("PATH", &path)]);
    let repo = Repo::discover(&process, &fixture.root).expect("found");
    let error = accept(&repo, "main").await.expect_err("locked");
    assert!(error.message().contains("main.lock"), "{error}");
    assert_eq!(photo(&fixture, &fixture.root).await, before);
    assert_eq!(fixture.git(&["status", "--porcelain"]).await, " M .gitignore\nA  staged.txt");
}

#[tokio::test]
async fn merges_at_the_same_time_all_arrive() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    fixture.git(&["checkout", "--quiet", "--detach"]).await;
    let names = ["p", "q", "r"];
    for name in names {
        let worktree = fixture.worktree(name).await;
        write(worktree.path(), &format!("{name}.txt"), "x\n");
        worktree.commit(name, &[]).await.expect("commits");
    }
    let merges = names.map(|name| {
        let repo = repo.clone();
        let request = SquashMerge { branch: format!("lazy/{name}"), message: name.into(), ..request("main") };
        tokio::spawn(async move { repo.squash_merge(&request).await })
    });
    for merge in merges {
        let outcome = merge.await.expect("ends").expect("merges");
        assert!(matches!(outcome, Squashed::Merged { .. }), "{outcome:?}");
    }
    let files = fixture.git(&["ls-tree", "--name-only", "main"]).await;
    assert!(names.iter().all(|name| files.contains(&format!("{name}.txt"))), "{files}");
    assert_eq!(fixture.git(&["rev-list", "--count", "main"]).await, "4");
}

#[tokio::test]
async fn names_and_messages_are_checked() {
    let fixture = Fixture::new().await;
    let repo = work(&fixture).await;
    assert_eq!(accept(&repo, "nope").await.expect_err("no target").kind(), Kind::NotFound);
    let blank = SquashMerge { message: "\n".into(), ..request("main") };
    assert_eq!(repo.squash_merge(&blank).await.expect_err("blank").kind(), Kind::Invalid);
    let gone = SquashMerge { branch: "lazy/gone".into(), ..request("main") };
    assert_eq!(repo.squash_merge(&gone).await.expect_err("no branch").kind(), Kind::NotFound);
    fixture.git(&["checkout", "--quiet", "--orphan", "island"]).await;
    fixture.commit_all("alone").await;
    let error = accept(&repo, "island").await.expect_err("nothing in common");
    assert!(error.message().contains("in common"), "{error}");
}

#[tokio::test]
async fn work_that_cancels_out_is_nothing() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    write(worktree.path(), "a.txt", "other\n");
    worktree.commit("there", &[]).await.expect("commits");
    write(worktree.path(), "a.txt", "one\ntwo\nthree\n");
    worktree.commit("and back", &[]).await.expect("commits");
    assert_eq!(accept(&fixture.repo(), "main").await.expect("asks"), Squashed::NothingToMerge);
}

#[tokio::test]
async fn an_old_git_is_told_apart() {
    let fixture = Fixture::new().await;
    work(&fixture).await;
    let bin = fixture.home().join("bin");
    let script = "#!/bin/sh\ncase \" $* \" in *\" version \"*) echo 'git version 2.30.2';; *) echo unexpected >&2; exit 1;; esac\n";
    program(&bin.join("git"), script);
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let process = Fixture::process_at(&fixture.home(), &[("PATH", &path)]);
    let repo = Repo::discover(&process, &fixture.root).expect("found");
    let error = accept(&repo, "main").await.expect_err("too old");
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.message().contains("2.30") && error.message().contains("2.38"), "{error}");
}
