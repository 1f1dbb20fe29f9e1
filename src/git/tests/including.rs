//! Untracked files for a new worktree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::{Fixture, write};
use crate::base::Kind;

#[tokio::test]
async fn untracked_files_are_copied_and_nothing_leaves_the_tree() {
    let fixture = Fixture::new().await;
    let outside = fixture.home().join("outside");
    write(&outside, "secret", "secret\n");
    fixture.write(".env", "KEY=1\n");
    fixture.write("sub/.env", "KEY=2\n");
    fixture.write("config/local ü.yml", "x\n");
    fixture.write("config/deep/er.yml", "x\n");
    fixture.write("x.ignored", "ignored\n");
    fixture.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(fixture.root.join("run.sh"), fs::Permissions::from_mode(0o700)).expect("executable");
    symlink(".env", fixture.root.join(".env.link")).expect("links");
    symlink(outside.join("secret"), fixture.root.join(".env.out")).expect("links");
    symlink("../outside/secret", fixture.root.join(".env.up")).expect("links");
    symlink(&outside, fixture.root.join("away")).expect("links");

    let worktree = fixture.worktree("x").await;
    let patterns: Vec<String> = [
        ".env*",
        "config/",
        "*.ignored",
        "/run.sh",
        "away",
        "away/**",
        "a.txt",
        ".lazy/**",
        "{run,walk}.sh",
        "**/nothing",
    ]
    .map(String::from)
    .into();
    let copied = fixture.repo().copy_untracked(&patterns, worktree.path()).await.expect("copies");
    assert_eq!(copied, [".env", ".env.link", "config/deep/er.yml", "config/local ü.yml", "run.sh", "x.ignored"]);
    assert_eq!(fs::read_to_string(worktree.path().join(".env.link")).expect("reads"), "KEY=1\n");
    assert_eq!(fs::metadata(worktree.path().join("run.sh")).expect("there").permissions().mode() & 0o777, 0o700);
    for absent in ["sub/.env", ".env.out", ".env.up", "away"] {
        assert!(worktree.path().join(absent).symlink_metadata().is_err(), "{absent}");
    }
    assert_eq!(fixture.repo().copy_untracked(&patterns, worktree.path()).await.expect("again"), Vec::<String>::new());
    assert_eq!(fixture.repo().copy_untracked(&[], worktree.path()).await.expect("nothing"), Vec::<String>::new());
    let bad = fixture.repo().copy_untracked(&["{".into()], worktree.path()).await.expect_err("no glob");
    assert_eq!(bad.kind(), Kind::Invalid);
}

#[tokio::test]
async fn a_link_in_the_worktree_leads_no_copy_away() {
    let fixture = Fixture::new().await;
    let outside = fixture.home().join("outside");
    fs::create_dir(&outside).expect("makes");
    fixture.write("config/local.yml", "x\n");
    let worktree = fixture.worktree("x").await;
    symlink(&outside, worktree.path().join("config")).expect("links");
    let copied = fixture.repo().copy_untracked(&["config/".into()], worktree.path()).await.expect("copies");
    assert_eq!(copied, Vec::<String>::new());
    assert_eq!(fs::read_dir(&outside).expect("lists").count(), 0);
}
