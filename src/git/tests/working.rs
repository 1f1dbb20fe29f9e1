//! Worktrees come and go.

use std::fs;

use super::{Fixture, write};
use crate::base::Kind;
use crate::git::{ChangeKind, DiffFormat, DiffRange};

#[tokio::test]
async fn a_worktree_is_made_restored_and_removed() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    let sha = repo.require_commits().expect("a commit");
    let path = fixture.worktree_path("größe x");
    let worktree = repo.add_worktree(&path, "lazy/größe", "main").await.expect("made");
    assert_eq!(worktree.path(), path);
    assert_eq!(worktree.head().expect("reads"), sha);
    assert_eq!(worktree.branch().expect("reads").as_deref(), Some("lazy/größe"));
    assert!(worktree.common_dir_writable());

    repo.remove_worktree(&path).await.expect("removed");
    repo.remove_worktree(&path).await.expect("removed again");
    assert!(!path.exists());
    assert_eq!(repo.worktree(&path).expect_err("gone").kind(), Kind::NotFound);
    assert_eq!(repo.branch_sha("lazy/größe").expect("reads"), Some(sha));

    let back = repo.restore_worktree(&path, "lazy/größe").await.expect("restored");
    assert!(back.status().await.expect("reads").is_clean());
    // a directory that somebody removed by hand is in nobody's way
    fs::remove_dir_all(&path).expect("removes");
    repo.restore_worktree(&path, "lazy/größe").await.expect("restored over the stale record");
    fs::remove_dir_all(&path).expect("removes");
    repo.remove_worktree(&path).await.expect("forgotten");
    repo.delete_branch("lazy/größe").await.expect("deleted");
    repo.delete_branch("lazy/größe").await.expect("deleted again");
    assert_eq!(fixture.git(&["worktree", "list"]).await.lines().count(), 1);
    assert_eq!(repo.restore_worktree(&path, "lazy/größe").await.expect_err("no branch").kind(), Kind::NotFound);
}

#[tokio::test]
async fn a_clash_is_refused_and_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    let path = fixture.worktree_path("x");
    fixture.git(&["branch", "lazy"]).await;
    let error = repo.add_worktree(&path, "lazy/x", "main").await.expect_err("no room below lazy");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("\"lazy\" leaves no room for \"lazy/x\""), "{error}");
    assert_eq!(error.hints(), ["git branch -m lazy lazy-branch"]);

    fixture.git(&["branch", "-m", "lazy", "lazy/x/y"]).await;
    let error = repo.add_worktree(&path, "lazy/x", "main").await.expect_err("no room above lazy/x/y");
    assert!(error.message().contains("lazy/x/y"), "{error}");

    fixture.git(&["branch", "-m", "lazy/x/y", "lazy/x"]).await;
    let error = repo.add_worktree(&path, "lazy/x", "main").await.expect_err("taken");
    assert!(error.message().contains("\"lazy/x\" exists already"), "{error}");
    assert!(error.hints()[0].starts_with("git branch -m lazy/x"));

    assert_eq!(repo.add_worktree(&path, "lazy/z", "nope").await.expect_err("no start").kind(), Kind::NotFound);
    for bad in ["-x", "a b", "a..b", "x.lock", "", "HEAD", "a/"] {
        assert_eq!(repo.add_worktree(&path, bad, "main").await.expect_err(bad).kind(), Kind::Invalid, "{bad:?}");
    }
    write(&path, "mine.txt", "mine");
    let error = repo.add_worktree(&path, "lazy/z", "main").await.expect_err("the directory is taken");
    assert_eq!(error.kind(), Kind::Conflict);
    assert_eq!(fs::read_to_string(path.join("mine.txt")).expect("untouched"), "mine");
    assert_eq!(repo.branch_sha("lazy/z").expect("reads"), None);
    assert_eq!(fixture.git(&["worktree", "list"]).await.lines().count(), 1);
}

#[tokio::test]
async fn a_failure_half_way_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    write(&fixture.root, ".git/hooks/post-checkout", "#!/bin/sh\necho 'no luck today' >&2\nexit 1\n");
    use std::os::unix::fs::PermissionsExt;
    let hook = fixture.root.join(".git/hooks/post-checkout");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = fixture.worktree_path("x");
    let error = repo.add_worktree(&path, "lazy/x", "main").await.expect_err("the hook fails");
    assert!(error.message().contains("no luck today"), "{error}");
    assert!(!path.exists());
    assert_eq!(repo.branch_sha("lazy/x").expect("reads"), None);
    assert_eq!(fixture.git(&["worktree", "list"]).await.lines().count(), 1);
    assert!(!fixture.root.join(".git/worktrees/x").exists());
}

#[tokio::test]
async fn the_project_itself_and_strangers_are_not_removed() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    for path in [fixture.root.clone(), fixture.home(), fixture.root.join(".git")] {
        assert_eq!(repo.remove_worktree(&path).await.expect_err("refused").kind(), Kind::Invalid, "{}", path.display());
    }
    let stranger = fixture.home().join("photos");
    write(&stranger, "1.jpg", "x");
    assert_eq!(repo.remove_worktree(&stranger).await.expect_err("not ours").kind(), Kind::Conflict);
    let link = fixture.worktree_path("link");
    fs::create_dir_all(link.parent().expect("a parent")).expect("makes");
    std::os::unix::fs::symlink(&stranger, &link).expect("links");
    assert_eq!(repo.remove_worktree(&link).await.expect_err("leads away").kind(), Kind::Conflict);
    assert!(stranger.join("1.jpg").exists());
    assert_eq!(repo.worktree(&stranger).expect_err("not one").kind(), Kind::Conflict);
}

#[tokio::test]
async fn a_branch_checked_out_elsewhere_is_neither_restored_nor_deleted() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    let worktree = fixture.worktree("x").await;
    let error = repo.restore_worktree(&fixture.worktree_path("y"), "lazy/x").await.expect_err("checked out");
    assert!(error.message().contains(&worktree.path().display().to_string()), "{error}");
    assert_eq!(repo.delete_branch("lazy/x").await.expect_err("checked out").kind(), Kind::Conflict);
    assert!(!fixture.worktree_path("y").exists());
}

#[tokio::test]
async fn a_changed_git_file_makes_it_no_worktree() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    let (mine, other) = (fixture.worktree("mine").await, fixture.worktree("other").await);
    let link = fs::read_to_string(mine.path().join(".git")).expect("reads");
    let evil = fixture.home().join("evil.git");
    fixture
        .git_at(&fixture.home(), &["clone", "--quiet", "--bare", &fixture.root.display().to_string(), "evil.git"])
        .await;
    for target in [evil.clone(), fixture.root.join(".git"), fixture.root.join(".git/worktrees/other")] {
        fs::write(mine.path().join(".git"), format!("gitdir: {}\n", target.display())).expect("writes");
        assert_eq!(repo.worktree(mine.path()).expect_err("led away").kind(), Kind::Conflict, "{}", target.display());
    }
    // a value made before keeps to the directories it was made with
    assert_eq!(mine.branch().expect("reads").as_deref(), Some("lazy/mine"));
    assert!(mine.status().await.expect("reads").is_clean());
    fs::write(mine.path().join(".git"), link).expect("writes");
    repo.worktree(mine.path()).expect("good again");
    repo.worktree(other.path()).expect("never touched");
}

#[tokio::test]
async fn lazys_own_files_are_no_change() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    for own in [".lazy-task-sandbox/.claude/settings.json", ".lazy-lock", ".lazy/recovery/old.patch"] {
        write(worktree.path(), own, "x");
    }
    assert!(worktree.status().await.expect("reads").is_clean());
    assert_eq!(worktree.uncommitted_diff().await.expect("reads"), "");
    let exclude = fs::read_to_string(fixture.root.join(".git/info/exclude")).expect("reads");
    fixture.worktree("y").await;
    assert_eq!(fs::read_to_string(fixture.root.join(".git/info/exclude")).expect("reads"), exclude);
    assert_eq!(fixture.git_at(worktree.path(), &["status", "--porcelain"]).await, "");

    write(worktree.path(), "a.txt", "one\n2\nthree\n");
    write(worktree.path(), "neu ü.txt", "x");
    write(worktree.path(), "dir/in/file", "x");
    fixture.git_at(worktree.path(), &["rm", "--quiet", "b.txt"]).await;
    let mut entries = worktree.status().await.expect("reads").entries;
    entries.sort();
    assert_eq!(entries, [" M a.txt", "?? dir/", "?? neu ü.txt", "D  b.txt"]);
    let diff = worktree.uncommitted_diff().await.expect("reads");
    assert!(diff.starts_with("# staged\ndiff --git a/b.txt b/b.txt\n"), "{diff}");
    assert!(diff.contains("# unstaged\ndiff --git a/a.txt b/a.txt\n"), "{diff}");
    assert!(diff.ends_with("# untracked\ndir/in/file\nneu ü.txt\n"), "{diff}");
}

#[tokio::test]
async fn differences_are_told_whatever_the_user_set() {
    let fixture = Fixture::new().await;
    for setting in [
        ["color.ui", "always"],
        ["diff.orderFile", "/not/there"],
        ["log.showSignature", "true"],
        ["diff.noprefix", "true"],
        ["diff.external", "false"],
        ["diff.renames", "false"],
    ] {
        fixture.git(&["config", setting[0], setting[1]]).await;
    }
    let repo = fixture.repo();
    fixture.git(&["checkout", "--quiet", "-b", "work"]).await;
    fixture.git(&["mv", "a.txt", "c ü.txt"]).await;
    fixture.git(&["rm", "--quiet", "b.txt"]).await;
    fixture.write("new/file.txt", "x\n");
    fixture.commit_all("work").await;
    fixture.git(&["checkout", "--quiet", "main"]).await;
    fixture.write("later.txt", "x\n");
    fixture.commit_all("later").await;

    let three = DiffRange::ThreeDot { base: "main".into(), head: "work".into() };
    let two = DiffRange::TwoDot { from: "main".into(), to: "work".into() };
    let names = repo.diff(&three, DiffFormat::NameStatus, &[]).await.expect("diff");
    assert_eq!(names, "D\tb.txt\nR100\ta.txt\tc ü.txt\nA\tnew/file.txt\n");
    let names = repo.diff(&two, DiffFormat::NameStatus, &["later.txt".into()]).await.expect("diff");
    assert_eq!(names, "D\tlater.txt\n");
    let patch = repo.diff(&three, DiffFormat::Patch, &["new".into()]).await.expect("diff");
    assert!(patch.starts_with("diff --git a/new/file.txt b/new/file.txt\n"), "{patch}");
    assert!(repo.diff(&three, DiffFormat::Stat, &[]).await.expect("diff").contains("3 files changed"));
    assert!(repo.diff(&three, DiffFormat::ShortStat, &[]).await.expect("diff").starts_with(" 3 files changed"));
    assert_eq!(repo.diff(&three, DiffFormat::Patch, &["*.none".into()]).await.expect("diff"), "");
    let unknown = DiffRange::TwoDot { from: "main".into(), to: "nope".into() };
    assert_eq!(repo.diff(&unknown, DiffFormat::Stat, &[]).await.expect_err("unknown").kind(), Kind::NotFound);

    let base = repo.merge_base("main", "work").expect("asks").expect("one");
    let changed = repo.changed_files(&base, "work").await.expect("lists");
    let told: Vec<(String, ChangeKind)> = changed.into_iter().map(|file| (file.path, file.change)).collect();
    assert_eq!(
        told,
        [
            ("b.txt".to_string(), ChangeKind::Deleted),
            ("c ü.txt".to_string(), ChangeKind::Renamed { from: "a.txt".to_string() }),
            ("new/file.txt".to_string(), ChangeKind::Added),
        ]
    );
}

#[tokio::test]
async fn tags_are_set_and_moved() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    let first = repo.require_commits().expect("a commit");
    repo.tag("lazy-accept-1", "main", Some("accepted\n# not a comment")).await.expect("tags");
    assert_eq!(fixture.git(&["cat-file", "-t", "lazy-accept-1"]).await, "tag");
    assert!(fixture.git(&["cat-file", "tag", "lazy-accept-1"]).await.ends_with("accepted\n# not a comment"));
    fixture.write("b.txt", "2");
    let second = fixture.commit_all("second").await;
    repo.tag("lazy-accept-1", &second, None).await.expect("moves");
    assert_eq!(fixture.git(&["rev-parse", "lazy-accept-1"]).await, second);
    assert_eq!(repo.tag("a b", &second, None).await.expect_err("bad name").kind(), Kind::Invalid);
    assert_eq!(repo.tag("ok", "nope", None).await.expect_err("no commit").kind(), Kind::NotFound);

    let worktree = fixture.worktree("x").await;
    let task: crate::model::TaskId = "0a1b2c3d-0000-4000-8000-000000000001".parse().expect("an id");
    worktree.tag_turn(task, crate::model::exchange::TurnTag::PostWork, &first).await.expect("tags");
    worktree.tag_turn(task, crate::model::exchange::TurnTag::PostWork, &first).await.expect("tags again");
    let name = format!("turn/0a1b2c3d/post-work/{}", &first[..8]);
    assert_eq!(fixture.git(&["rev-parse", &name]).await, first);
}
