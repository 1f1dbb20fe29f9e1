//! Discovery and plain reads.

use std::fs;
use std::path::Path;

use super::Fixture;
use crate::base::Kind;
use crate::git::Repo;
use crate::git::program::Git;

#[tokio::test]
async fn any_directory_leads_to_the_main_checkout() {
    let fixture = Fixture::new().await;
    fs::create_dir_all(fixture.root.join("deep/er")).expect("makes");
    let worktree = fixture.worktree("x").await;
    fs::create_dir_all(worktree.path().join("in/side")).expect("makes");
    for start in [
        fixture.root.clone(),
        fixture.root.join("deep/er"),
        fixture.root.join(".git"),
        worktree.path().to_path_buf(),
        worktree.path().join("in/side"),
    ] {
        let repo = Repo::discover(&fixture.process, &start).unwrap_or_else(|e| panic!("{}: {e}", start.display()));
        assert_eq!(repo.root(), fixture.root, "{}", start.display());
        assert_eq!(repo.common_dir(), fixture.root.join(".git"));
        assert_eq!(repo.head_branch().expect("reads").as_deref(), Some("main"));
    }
}

#[tokio::test]
async fn no_repository_and_a_bare_one_are_refused() {
    let fixture = Fixture::empty().await;
    let outside = fixture.home().join("outside");
    fs::create_dir(&outside).expect("makes");
    let error = Repo::discover(&fixture.process, &outside).expect_err("no repository");
    assert_eq!((error.kind(), error.hints()[0].as_str()), (Kind::NotFound, "git init"));
    assert_eq!(Repo::discover(&fixture.process, Path::new("/no/such/dir")).expect_err("gone").kind(), Kind::Io);

    fixture.git_at(&outside, &["init", "--quiet", "--bare", "bare.git"]).await;
    let error = Repo::discover(&fixture.process, &outside.join("bare.git")).expect_err("bare");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("bare repository"), "{error}");
}

#[tokio::test]
async fn a_checkout_of_a_bare_repository_is_its_own_project() {
    let fixture = Fixture::new().await;
    let home = fixture.home();
    fixture.git_at(&home, &["clone", "--quiet", "--bare", &fixture.root.display().to_string(), "bare.git"]).await;
    fixture.git_at(&home.join("bare.git"), &["worktree", "add", "--quiet", "../check out", "main"]).await;
    let root = home.join("check out");
    let repo = Repo::discover(&fixture.process, &root).expect("a project");
    assert_eq!((repo.root(), repo.common_dir()), (root.as_path(), home.join("bare.git").as_path()));
    let path = root.join(".lazy/worktrees/x");
    let worktree = repo.add_worktree(&path, "lazy/x", "main").await.expect("a worktree");
    super::write(worktree.path(), "new.txt", "new\n");
    worktree.commit("work", &[]).await.expect("commits").expect("something");
    assert_eq!(Repo::discover(&fixture.process, &path).expect("found").root(), root);
    assert!(repo.worktree(&root).expect("the root is one").status().await.expect("reads").is_clean());
}

#[tokio::test]
async fn a_submodule_is_a_project_of_its_own() {
    let fixture = Fixture::new().await;
    let outer = fixture.home().join("outer");
    fs::create_dir(&outer).expect("makes");
    fixture.git_at(&outer, &["init", "--quiet", "--initial-branch=main"]).await;
    let source = fixture.root.display().to_string();
    fixture.git_at(&outer, &["-c", "protocol.file.allow=always", "submodule", "add", "--quiet", &source, "sub"]).await;
    fixture.git_at(&outer, &["commit", "--quiet", "-m", "with a submodule"]).await;
    let root = outer.join("sub");
    let repo = Repo::discover(&fixture.process, &root).expect("the submodule");
    assert_eq!(repo.root(), root);
    assert_eq!(repo.common_dir(), outer.join(".git/modules/sub"));
    let path = root.join(".lazy/worktrees/x");
    let worktree = repo.add_worktree(&path, "lazy/x", "HEAD").await.expect("a worktree");
    super::write(worktree.path(), "new.txt", "new\n");
    let done = worktree.commit("work", &[]).await.expect("commits").expect("something");
    assert_eq!(Repo::discover(&fixture.process, &path).expect("found").root(), root);
    assert_eq!(repo.branch_sha("lazy/x").expect("reads"), Some(done.sha));
}

#[tokio::test]
async fn commits_are_needed_and_branches_found() {
    let fixture = Fixture::empty().await;
    let repo = fixture.repo();
    let error = repo.require_commits().expect_err("unborn");
    assert_eq!(error.kind(), Kind::Conflict);
    assert_eq!(error.hints(), ["git commit --allow-empty -m \"first commit\""]);
    assert_eq!(repo.default_branch("origin").expect("the branch checked out"), "main");
    assert_eq!(repo.head_branch().expect("reads").as_deref(), Some("main"));

    fixture.write("a", "a");
    let sha = fixture.commit_all("first").await;
    assert_eq!(repo.require_commits().expect("a commit"), sha);
    assert_eq!(repo.resolve("main").expect("reads"), Some(sha.clone()));
    assert_eq!(repo.resolve(&sha[..7]).expect("reads"), Some(sha.clone()));
    for nothing in ["nope", "", "--all", "main:a", "refs/heads/nope", "^main", "a..b"] {
        assert_eq!(repo.resolve(nothing).expect("reads"), None, "{nothing:?}");
    }
    assert_eq!(repo.branch_sha("HEAD").expect("reads"), None);

    fixture.git(&["branch", "-m", "main", "master"]).await;
    assert_eq!(repo.default_branch("origin").expect("master"), "master");
    fixture.git(&["branch", "-m", "master", "trunk"]).await;
    assert_eq!(repo.default_branch("origin").expect("checked out"), "trunk");
    fixture.git(&["checkout", "--quiet", "--detach"]).await;
    assert_eq!(repo.head_branch().expect("reads"), None);
    let error = repo.default_branch("origin").expect_err("detached and unknown");
    assert_eq!((error.kind(), error.hints()[0].as_str()), (Kind::Conflict, "git switch -c main"));
    fixture.git(&["update-ref", "refs/remotes/origin/dev/el", "HEAD"]).await;
    fixture.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/dev/el"]).await;
    assert_eq!(repo.default_branch("origin").expect("the remote's"), "dev/el");
}

#[tokio::test]
async fn remotes_are_read_from_the_configuration() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    assert_eq!(repo.remotes(), Vec::<String>::new());
    fixture.git(&["remote", "add", "origin", "git@example.com:a/b.git"]).await;
    fixture.git(&["remote", "add", "fork", "https://example.com/f.git"]).await;
    assert_eq!(repo.remotes(), ["fork", "origin"]);
    assert_eq!(repo.remote_url("origin").as_deref(), Some("git@example.com:a/b.git"));
    assert_eq!(repo.remote_url("nope"), None);
}

#[tokio::test]
async fn history_is_told_oldest_first() {
    let fixture = Fixture::new().await;
    let repo = fixture.repo();
    let first = repo.require_commits().expect("a commit");
    fixture.git(&["branch", "old"]).await;
    fixture.write("b.txt", "2\n");
    let second = fixture.commit_all("second\n\nwith a body").await;
    fixture.write("b.txt", "3\n");
    let third = fixture.commit_all("third").await;
    let commits = repo.commits_between("old", "main").expect("walks");
    assert_eq!(commits.iter().map(|c| c.sha.clone()).collect::<Vec<_>>(), [second.clone(), third.clone()]);
    assert_eq!(commits[0].message, "second\n\nwith a body");
    assert_eq!(commits[0].author, "Tester <tester@example.com>");
    assert!(commits[0].timestamp.0 > 1_000_000_000_000);
    assert_eq!(repo.commits_between("main", "old").expect("walks"), []);
    assert_eq!(repo.commits_between("main", "main").expect("walks"), []);

    assert!(repo.is_ancestor(&first, &third).expect("asks"));
    assert!(repo.is_ancestor(&third, &third).expect("asks"));
    assert!(!repo.is_ancestor(&third, &first).expect("asks"));
    fixture.git(&["checkout", "--quiet", "--orphan", "island"]).await;
    let island = fixture.commit_all("alone").await;
    assert_eq!(repo.merge_base(&island, &third).expect("asks"), None);
    assert!(!repo.is_ancestor(&first, &island).expect("asks"));
    assert_eq!(repo.is_ancestor("nope", "main").expect_err("unknown").kind(), Kind::NotFound);
}

#[tokio::test]
async fn formats_that_cannot_be_read_are_refused_in_words() {
    let fixture = Fixture::empty().await;
    for (flag, word) in [("--object-format=sha256", "sha256"), ("--ref-format=reftable", "reftable")] {
        let at = fixture.home().join(word);
        fs::create_dir(&at).expect("makes");
        if !fixture.try_git_at(&at, &["init", "--quiet", flag]).await {
            continue; // a git that cannot make one cannot meet one
        }
        let error = Repo::discover(&fixture.process, &at).expect_err(word);
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        assert!(error.to_string().to_lowercase().contains(word), "{error}");
    }
}

#[tokio::test]
async fn git_gets_the_environment_of_the_process_and_no_other_repository() {
    let fixture = Fixture::new().await;
    let elsewhere = fixture.home().join("elsewhere").display().to_string();
    let stray = [("GIT_DIR", elsewhere.as_str()), ("GIT_INDEX_FILE", "/nowhere"), ("GIT_WORK_TREE", "/")];
    let process = Fixture::process_at(&fixture.home(), &stray);
    let repo = Repo::discover(&process, &fixture.root).expect("found by the directory");
    assert_eq!(repo.root(), fixture.root);
    assert!(repo.worktree(&fixture.root).expect("main").status().await.expect("reads").is_clean());

    let bare =
        crate::base::Process::fake(["lazy"], &[("PATH", "/nonexistent")], &fixture.home(), crate::base::Millis(0));
    let error = Git::found_from(&bare, &fixture.root).arg("version").run().await.expect_err("no git there");
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.message().contains("git"), "{error}");
}
