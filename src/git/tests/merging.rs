//! Merging the upstream in, and getting out of a half-done merge.

use std::fs;
use std::path::Path;

use super::{Fixture, write};
use crate::base::{Kind, Millis};
use crate::git::{MergeOutcome, Worktree};

const AT: Millis = Millis(1_700_000_000_000);

/// A worktree in the middle of a merge that conflicts in `a.txt` and takes `theirs.txt` along.
async fn conflicted(fixture: &Fixture) -> (Worktree, String) {
    let worktree = fixture.worktree("x").await;
    write(worktree.path(), "a.txt", "one\nmine\nthree\n");
    worktree.commit("mine", &[]).await.expect("commits");
    fixture.write("a.txt", "one\ntheirs\nthree\n");
    fixture.write("theirs.txt", "theirs\n");
    let theirs = fixture.commit_all("theirs").await;
    let outcome = worktree.merge(&theirs, "Merge main").await.expect("merges");
    assert_eq!(outcome, MergeOutcome::Conflicts { files: vec!["a.txt".to_string()] });
    (worktree, theirs)
}

async fn assert_clean(worktree: &Worktree) {
    assert!(!crate::git::seems_to_merge(worktree.path()));
    assert_eq!(worktree.merge_state().await.expect("reads"), None);
    let status = worktree.status().await.expect("reads");
    assert!(status.is_clean(), "{status:?}");
}

#[tokio::test]
async fn a_clean_merge_is_committed_and_a_second_one_is_up_to_date() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    assert_eq!(worktree.merge("main", "Merge main").await.expect("asks"), MergeOutcome::UpToDate);
    fixture.write("theirs.txt", "theirs\n");
    let theirs = fixture.commit_all("theirs").await;
    let MergeOutcome::Merged { sha } = worktree.merge(&theirs, "Merge main").await.expect("merges") else {
        panic!("it is clean")
    };
    assert_eq!(worktree.head().expect("reads"), sha);
    let shown = fixture.git(&["log", "-1", "--format=%s|%P", &sha]).await;
    let (subject, parents) = shown.split_once('|').expect("two parts");
    assert_eq!((subject, parents.split(' ').count()), ("Merge main", 2));
    assert_eq!(worktree.merge(&theirs, "Merge main").await.expect("asks"), MergeOutcome::UpToDate);
    assert_eq!(worktree.merge("nope", "m").await.expect_err("unknown").kind(), Kind::NotFound);
}

#[tokio::test]
async fn uncommitted_files_in_the_way_stop_a_merge_before_it_begins() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    fixture.write("b.txt", "theirs\n");
    let theirs = fixture.commit_all("theirs").await;
    write(worktree.path(), "b.txt", "dirty\n");
    let error = worktree.merge(&theirs, "Merge main").await.expect_err("in the way");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("b.txt"), "{error}");
    assert_eq!(worktree.merge_state().await.expect("reads"), None);
    assert_eq!(worktree.status().await.expect("reads").entries, [" M b.txt"]);
}

#[tokio::test]
async fn conflicts_stay_in_place_and_are_described() {
    let fixture = Fixture::new().await;
    let (worktree, theirs) = conflicted(&fixture).await;
    assert!(crate::git::seems_to_merge(worktree.path()));
    let state = worktree.merge_state().await.expect("reads").expect("half-done");
    assert!(state.merge_in_progress);
    assert_eq!(state.unmerged_files, ["a.txt"]);
    assert!(state.summary.contains(&theirs[..8]) && state.summary.contains("a.txt"), "{}", state.summary);
    assert_eq!(worktree.merge(&theirs, "m").await.expect_err("half-done").kind(), Kind::Conflict);
    assert_eq!(worktree.commit_merge().await.expect_err("unmerged").kind(), Kind::Conflict);

    write(worktree.path(), "a.txt", "one\nboth\nthree\n");
    fixture.git_at(worktree.path(), &["add", "a.txt"]).await;
    let state = worktree.merge_state().await.expect("reads").expect("not committed");
    assert!(state.unmerged_files.is_empty() && state.summary.contains("not committed"), "{}", state.summary);
    let sha = worktree.commit_merge().await.expect("concludes");
    assert!(worktree.repo().is_ancestor(&theirs, &sha).expect("asks"));
    let message = fixture.git(&["log", "-1", "--format=%B", &sha]).await;
    assert_eq!(message, "Merge main");
    assert_clean(&worktree).await;
    assert_eq!(worktree.commit_merge().await.expect_err("nothing to conclude").kind(), Kind::Conflict);
}

#[tokio::test]
async fn a_rollback_saves_what_it_discards() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("clean").await;
    assert_eq!(worktree.recover(&worktree, "unblock", AT).await.expect("asks"), None);

    let (worktree, _) = conflicted(&fixture).await;
    write(worktree.path(), "a.txt", "one\nhalf resolved\nthree\n");
    write(worktree.path(), "untracked.txt", "stays\n");
    let record = worktree.recover(&worktree, "unblock", AT).await.expect("recovers").expect("something");
    assert_eq!((record.found.as_str(), record.context.as_str()), ("merge_in_progress", "unblock"));
    assert_eq!(record.files, ["a.txt"]);
    let path = record.patch_path.expect("saved");
    assert!(path.ends_with(".lazy/recovery/merge-rollback-2023-11-14T22-13-20-000Z.patch"), "{path}");
    let patch = fs::read_to_string(&path).expect("reads");
    assert!(patch.contains("+half resolved") && patch.contains("theirs.txt"), "{patch}");
    assert_eq!(worktree.status().await.expect("reads").entries, ["?? untracked.txt"]);
    assert_eq!(fs::read_to_string(worktree.path().join("a.txt")).expect("reads"), "one\nmine\nthree\n");

    // the patch brings it back, and a second rollback at the same moment keeps the first
    fixture.git_at(worktree.path(), &["apply", &path]).await;
    assert_eq!(fs::read_to_string(worktree.path().join("a.txt")).expect("reads"), "one\nhalf resolved\nthree\n");
    worktree.reset_hard_head().await.expect("resets");
    fs::remove_file(worktree.path().join("theirs.txt")).expect("the patch made it");
    worktree.merge("main", "again").await.expect("merges");
    let second = worktree.recover(&worktree, "sync", AT).await.expect("recovers").expect("something");
    assert_ne!(second.patch_path.as_deref(), Some(path.as_str()));
    assert_eq!(fs::read_to_string(&path).expect("reads"), patch);
}

#[tokio::test]
async fn a_rollback_that_cannot_save_says_so() {
    let fixture = Fixture::new().await;
    let (worktree, _) = conflicted(&fixture).await;
    write(worktree.path(), ".lazy", "a file where the directory should be");
    let record = worktree.recover(&worktree, "start", AT).await.expect("recovers").expect("something");
    assert_eq!(record.patch_path, None);
    assert!(record.summary.contains("could not be saved"), "{}", record.summary);
    assert_eq!(worktree.merge_state().await.expect("reads"), None);
}

#[tokio::test]
async fn unmerged_files_without_a_merge_are_recovered() {
    let fixture = Fixture::new().await;
    let (worktree, _) = conflicted(&fixture).await;
    let git_dir = fixture.git_at(worktree.path(), &["rev-parse", "--absolute-git-dir"]).await;
    fs::remove_file(std::path::Path::new(&git_dir).join("MERGE_HEAD")).expect("removes");
    let state = worktree.merge_state().await.expect("reads").expect("unmerged");
    assert!(!state.merge_in_progress);
    let record = worktree.recover(&worktree, "sync", AT).await.expect("recovers").expect("something");
    assert_eq!(record.found, "unmerged_files");
    assert!(record.patch_path.is_some());
    assert_clean(&worktree).await;
}

#[tokio::test]
async fn the_first_step_of_settling_is_to_roll_back() {
    let fixture = Fixture::new().await;
    let (worktree, _) = conflicted(&fixture).await;
    let settled = worktree.settle(&worktree, AT).await;
    assert!(settled.settled && settled.detail.contains("rolled back"), "{settled:?}");
    assert!(!worktree.path().join(".lazy/recovery").exists());
    assert_clean(&worktree).await;
    assert!(worktree.settle(&worktree, AT).await.settled);
}

#[tokio::test]
async fn a_file_rewritten_with_its_own_bytes_does_not_stop_settling() {
    let fixture = Fixture::new().await;
    let (worktree, _) = conflicted(&fixture).await;
    // the same bytes, another time: git calls the entry out of date until it looks again
    let path = worktree.path().join("theirs.txt");
    let bytes = fs::read(&path).expect("reads");
    fs::remove_file(&path).expect("removes");
    fs::write(&path, bytes).expect("writes");
    fs::File::options()
        .append(true)
        .open(&path)
        .and_then(|file| file.set_modified(std::time::SystemTime::UNIX_EPOCH))
        .expect("another time");
    let settled = worktree.settle(&worktree, AT).await;
    assert!(settled.settled, "{settled:?}");
    assert!(!worktree.path().join(".lazy/recovery").exists(), "nothing had to be discarded");
    assert_clean(&worktree).await;
}

#[tokio::test]
async fn a_file_changed_after_the_merge_is_saved_before_a_reset() {
    let fixture = Fixture::new().await;
    let (worktree, _) = conflicted(&fixture).await;
    // taken along by the merge, changed since: git refuses to roll back over it
    write(worktree.path(), "theirs.txt", "changed by a check\n");
    let settled = worktree.settle(&worktree, AT).await;
    assert!(settled.settled && settled.detail.contains("merge-settle-"), "{settled:?}");
    assert_clean(&worktree).await;
    let directory = worktree.path().join(".lazy/recovery");
    let patch = fs::read_dir(directory).expect("lists").next().expect("one").expect("entry").path();
    assert!(fs::read_to_string(&patch).expect("reads").contains("+changed by a check"));
}

#[tokio::test]
async fn nothing_is_reset_that_could_not_be_saved() {
    let fixture = Fixture::new().await;
    let (worktree, _) = conflicted(&fixture).await;
    write(worktree.path(), "theirs.txt", "changed by a check\n");
    let elsewhere = fixture.home().join("elsewhere");
    fs::create_dir(&elsewhere).expect("makes");
    fs::create_dir_all(worktree.path().join(".lazy")).expect("makes");
    std::os::unix::fs::symlink(&elsewhere, worktree.path().join(".lazy/recovery")).expect("links");
    let settled = worktree.settle(&worktree, AT).await;
    assert!(!settled.settled);
    assert!(settled.detail.contains("reset --hard HEAD") && settled.detail.contains("merge --abort"), "{settled:?}");
    assert_eq!(fs::read_to_string(worktree.path().join("theirs.txt")).expect("reads"), "changed by a check\n");
    assert!(worktree.merge_state().await.expect("reads").is_some());
    assert_eq!(fs::read_dir(&elsewhere).expect("lists").count(), 0);
}

#[tokio::test]
async fn locks_of_a_killed_git_are_removed_once_nobody_can_hold_them() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let git_dir = fixture.root.join(".git/worktrees/x");
    let locks = [git_dir.join("index.lock"), fixture.root.join(".git/refs/heads/lazy/x.lock")];
    let taken = |lock: &Path, seconds_ago: u64| {
        let file = std::fs::File::create(lock).expect("locks");
        let now = u64::try_from(fixture.process.now().0).expect("after 1970");
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(now - seconds_ago * 1000);
        file.set_modified(at).expect("dates");
    };
    for lock in &locks {
        write(worktree.path(), "a.txt", &format!("{}\n", lock.display()));
        taken(lock, 3);
        let error = worktree.commit("work", &[]).await.expect_err("somebody may hold it");
        let name = lock.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(error.message().contains(name), "{error}");
        assert!(error.hints().iter().any(|hint| hint.contains("rm ") && hint.contains(name)), "{error:?}");
        taken(lock, 60);
        worktree.commit("work", &[]).await.expect("the lock is orphaned").expect("commits");
        assert!(!lock.exists());
    }
    // a git at work there keeps its lock, however old
    taken(&locks[0], 3600);
    let mut git = std::process::Command::new("git")
        .args(["cat-file", "--batch"])
        .current_dir(worktree.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("git runs");
    while crate::proc::working_in("git", &[worktree.path()]).is_some_and(|pids| !pids.contains(&git.id())) {
        std::thread::yield_now();
    }
    write(worktree.path(), "a.txt", "last\n");
    worktree.commit("work", &[]).await.expect_err("held");
    assert!(locks[0].exists());
    git.kill().expect("kills");
    git.wait().expect("ends");
    worktree.commit("work", &[]).await.expect("nobody holds it").expect("commits");
    // the main checkout is a person's
    let main = fixture.repo().worktree(&fixture.root).expect("a checkout");
    let lock = fixture.root.join(".git/index.lock");
    taken(&lock, 3600);
    fixture.write("a.txt", "mine\n");
    let error = main.commit("work", &[]).await.expect_err("not ours to judge");
    assert!(error.message().contains("index.lock") && lock.exists(), "{error}");
}

#[tokio::test]
async fn a_merge_goes_on_over_the_lock_of_a_killed_git() {
    let fixture = Fixture::new().await;
    let (worktree, _) = conflicted(&fixture).await;
    let lock = fixture.root.join(".git/worktrees/x/index.lock");
    let file = std::fs::File::create(&lock).expect("locks");
    file.set_modified(std::time::UNIX_EPOCH).expect("dates");
    let record = worktree.recover(&worktree, "sync", AT).await.expect("recovers").expect("something");
    assert!(record.patch_path.is_some() && !lock.exists(), "{record:?}");
    assert_clean(&worktree).await;
}
