//! What an agent can write into the git directory of its worktree, and that it leads nowhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Fixture, write};
use crate::git::{MergeOutcome, Worktree};

async fn upstream(fixture: &Fixture, content: &str) -> String {
    fixture.write("theirs.txt", content);
    fixture.commit_all("theirs").await
}

fn git_dir(fixture: &Fixture) -> PathBuf {
    fixture.root.join(".git/worktrees/x")
}

async fn assert_clean(worktree: &Worktree) {
    let status = worktree.status().await.expect("reads");
    assert!(status.is_clean(), "{status:?}");
}

/// Makes each of the files a link to one of its own outside, and returns those.
fn link_away(fixture: &Fixture, names: &[&str]) -> Vec<PathBuf> {
    let away = fixture.home().join("away");
    fs::create_dir_all(&away).expect("dir");
    let link = |name: &&str| {
        let (link, victim) = (git_dir(fixture).join(name), away.join(name.replace('/', "-")));
        fs::write(&victim, "precious\n").expect("writes");
        fs::remove_file(&link).ok();
        fs::create_dir_all(link.parent().expect("a parent")).expect("dir");
        symlink(&victim, &link).expect("links");
        victim
    };
    names.iter().map(link).collect()
}

#[tokio::test]
async fn git_writes_through_no_link() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let target = upstream(&fixture, "1\n").await;
    let names = ["COMMIT_EDITMSG", "MERGE_MSG", "MERGE_HEAD", "MERGE_MODE", "ORIG_HEAD", "AUTO_MERGE", "logs/HEAD"];
    let victims = link_away(&fixture, &names);
    let assert_whole = || {
        for victim in &victims {
            assert_eq!(fs::read_to_string(victim).expect("reads"), "precious\n", "{}", victim.display());
        }
    };
    write(worktree.path(), "a.txt", "mine\n");
    worktree.commit("touch /tmp/pwned", &[]).await.expect("commits").expect("something");
    assert_whole();
    assert!(matches!(worktree.merge(&target, "Merge main").await.expect("merges"), MergeOutcome::Merged { .. }));
    assert_whole();
    link_away(&fixture, &names);
    fixture.write("a.txt", "yours\n");
    let conflicting = fixture.commit_all("yours").await;
    let outcome = worktree.merge(&conflicting, "Merge main").await.expect("merges");
    assert!(matches!(outcome, MergeOutcome::Conflicts { .. }), "{outcome:?}");
    assert_whole();
    assert_eq!(worktree.merge_head().as_ref(), Some(&conflicting), "what git left is put in place of the links");
    worktree.abort_merge().await.expect("rolls back");
    assert_whole();
    assert_clean(&worktree).await;
}

#[tokio::test]
async fn a_link_in_place_of_the_index_writes_no_other_index() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let main = fixture.root.join(".git/index");
    let before = fs::read(&main).expect("reads");
    fs::remove_file(git_dir(&fixture).join("index")).expect("removes");
    symlink(&main, git_dir(&fixture).join("index")).expect("links");
    write(worktree.path(), "evil.txt", "evil\n");
    worktree.commit("evil", &[]).await.ok();
    worktree.reset_hard_head().await.ok();
    assert_eq!(fs::read(&main).expect("reads"), before);
    assert_eq!(fixture.git(&["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn neither_another_repository_nor_its_own_settings_are_believed() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let target = upstream(&fixture, "1\n").await;
    fixture.git(&["config", "extensions.worktreeConfig", "true"]).await;
    let (own, fake, ran) = (git_dir(&fixture), worktree.path().join("fake.git"), fixture.home().join("ran"));
    fixture.git(&["init", "--quiet", "--bare", fake.to_str().expect("utf-8")]).await;
    fs::write(own.join("commondir"), format!("{}\n", fake.display())).expect("writes");
    let script = format!("touch '{}'; cat", ran.display());
    fs::write(
        own.join("config.worktree"),
        format!(
            "[filter \"x\"]\n\tclean = {script}\n\tsmudge = {script}\n[merge \"x\"]\n\tdriver = {script}\n\
             [core]\n\thooksPath = {0}\n\tfsmonitor = {0}/f\n\tsshCommand = {0}/f\n",
            worktree.path().display()
        ),
    )
    .expect("writes");
    write(worktree.path(), ".gitattributes", "* filter=x merge=x\n");
    fs::write(fixture.root.join(".git/info/exclude"), "fake.git\n").expect("writes");
    let sha = worktree.commit("mine", &[]).await.expect("commits").expect("something").sha;
    assert_eq!(fixture.git(&["rev-parse", "lazy/x"]).await, sha);
    assert!(matches!(worktree.merge(&target, "Merge main").await.expect("merges"), MergeOutcome::Merged { .. }));
    assert_clean(&worktree).await;
    assert!(!ran.exists(), "a setting of the agent's was run");
}

#[tokio::test]
async fn a_pinned_worktree_moves_its_own_branch_whatever_head_says() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let target = upstream(&fixture, "1\n").await;
    let head = fs::read_to_string(git_dir(&fixture).join("HEAD")).expect("reads");
    let pinned = worktree.clone().pinned("lazy/x").expect("reads").expect("it is there");
    assert_eq!(worktree.clone().pinned("main").expect("reads").expect_err("another"), Some("lazy/x".into()));
    let before = fixture.git(&["rev-parse", "main"]).await;
    fs::write(git_dir(&fixture).join("HEAD"), "ref: refs/heads/main\n").expect("writes");
    write(worktree.path(), "a.txt", "mine\n");
    let sha = pinned.commit("mine", &[]).await.expect("commits").expect("something").sha;
    assert_eq!(fixture.git(&["rev-parse", "lazy/x"]).await, sha);
    // a merge made up meanwhile is not concluded either
    fs::write(git_dir(&fixture).join("MERGE_HEAD"), format!("{target}\n{sha}\n")).expect("writes");
    write(worktree.path(), "a.txt", "mine too\n");
    let sha = pinned.commit("mine too", &[]).await.expect("commits").expect("something").sha;
    assert_eq!(fixture.git(&["log", "-1", "--format=%P", &sha]).await.split(' ').count(), 1);
    assert_eq!(fixture.git(&["rev-parse", "main"]).await, before);
    fs::write(git_dir(&fixture).join("HEAD"), head).expect("writes");
    assert_clean(&worktree).await;
}

#[tokio::test]
async fn what_a_git_did_whose_caller_was_killed_is_put_back() {
    let fixture = Fixture::new().await;
    let worktree = fixture.worktree("x").await;
    let target = upstream(&fixture, "1\n").await;
    // as a killed daemon leaves it: git came to its end alone, in the directory it was given
    let (own, place) = (git_dir(&fixture), fixture.root.join(".git/lazy/x"));
    fs::create_dir_all(&place).expect("dir");
    for name in ["HEAD", "index"] {
        fs::copy(own.join(name), place.join(name)).expect("copies");
    }
    fs::write(place.join("commondir"), fixture.root.join(".git").to_str().expect("utf-8")).expect("writes");
    let lock = fs::File::create(own.join("index.lock")).expect("locks");
    lock.set_modified(std::time::UNIX_EPOCH).expect("dates");
    let merged = crate::proc::Cmd::new("git")
        .env_of(&fixture.process)
        .env("GIT_DIR", &place)
        .env("GIT_WORK_TREE", worktree.path())
        .args(["merge", "--no-ff", "-m", "Merge main", &target])
        .cwd(worktree.path())
        .output()
        .await
        .expect("git runs");
    assert!(merged.success(), "{}", merged.stderr_text());
    assert!(!worktree.status().await.expect("reads").is_clean(), "the index is behind");
    assert_eq!(worktree.commit("nothing", &[]).await.expect("goes on"), None);
    assert_clean(&worktree).await;
    assert!(!place.exists() && !own.join("index.lock").exists());
}

#[tokio::test]
async fn a_sparse_checkout_stays_one() {
    let fixture = Fixture::new().await;
    fixture.write("deep/far.txt", "far\n");
    fixture.write("near/near.txt", "near\n");
    fixture.commit_all("two directories").await;
    let worktree = fixture.worktree("x").await;
    fixture.git_at(worktree.path(), &["sparse-checkout", "set", "--cone", "near"]).await;
    assert!(!worktree.path().join("deep").exists());
    fixture.write("deep/far.txt", "farther\n");
    fixture.write("near/near.txt", "nearer\n");
    let target = fixture.commit_all("both").await;
    write(worktree.path(), "near/mine.txt", "mine\n");
    worktree.commit("mine", &[]).await.expect("commits").expect("something");
    assert!(matches!(worktree.merge(&target, "Merge main").await.expect("merges"), MergeOutcome::Merged { .. }));
    assert_clean(&worktree).await;
    assert!(!worktree.path().join("deep").exists());
    assert_eq!(fs::read_to_string(Path::new(worktree.path()).join("near/near.txt")).expect("reads"), "nearer\n");
}
