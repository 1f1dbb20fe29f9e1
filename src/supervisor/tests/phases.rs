//! What comes before and after the agent.

use super::*;
use crate::model::exchange::Maintain;

#[tokio::test]
async fn a_question_can_only_read() {
    let rig = Rig::new(
        r#"init; echo '{"kind":"journal","content":"x"}' >.lazy-task-sandbox/turn-handoff.jsonl; result 'it is so'"#,
    )
    .await;
    let mut ask = rig.work();
    ask.head.agent_session_id = Some("s-0".into());
    ask.head.post_turn_check = Some("exit 1".into());
    let answers = rig.completed(Command::Ask(ask)).await;
    assert_eq!((answers.len(), answers[0].result.as_str()), (1, "it is so"));
    assert_eq!((answers[0].check_exit_code, answers[0].agent_handoff.len()), (None, 0));
    assert!(rig.given("args", 1).contains("--disallowedTools"));
    assert!(rig.given("env", 1).contains("LAZY_MCP_READ_ONLY=1"));
    let sandbox = rig.worktree.join(".lazy-task-sandbox");
    assert!(std::fs::read_to_string(sandbox.join("mcp.json")).expect("reads").contains("--read-only"));
    let system = std::fs::read_to_string(sandbox.join("system-prompt.md")).expect("reads");
    assert!(system.ends_with("---\n\nbe good"), "{system}");
}

#[tokio::test]
async fn protected_files_are_asked_about_once_and_the_last_scan_counts() {
    let script = r#"init
        if test $n = 1; then echo changed >Makefile; echo new >new.mk; commit work; result worked
        else git show HEAD~1:Makefile >Makefile; commit undone; result 'undone: Makefile'; fi"#;
    let rig = Rig::new(script).await;
    let mut work = rig.work();
    work.head.protected_patterns = vec!["Makefile".into(), "*.mk".into()];
    let answers = rig.completed(Command::Start(work)).await;
    let [work, asked] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((work.result.as_str(), work.violations.as_ref()), ("worked", None));
    assert_eq!(asked.violations.as_deref(), Some(&[][..]));
    let supervised = asked.supervised.as_ref().expect("supervised");
    assert_eq!(supervised.kind, "permission_pushback");
    assert!(supervised.prompt.contains("  - Makefile") && !supervised.prompt.contains("new.mk"));
    assert!(rig.given("args", 2).contains("--resume\ns-1\n"));
    assert_eq!(work.end_sha_work, asked.start_sha_work);
    assert_eq!(asked.end_sha_work, Some(rig.head().await));
    assert_eq!(work.end_sha, asked.end_sha_work);
}

#[tokio::test]
async fn violations_stand_when_the_agent_cannot_be_asked() {
    let rig = Rig::new("init; test $n = 1 || exit 9; echo changed >Makefile; commit work; result worked").await;
    let mut work = rig.work();
    work.head.protected_patterns = vec!["Makefile".into()];
    let before = rig.head().await;
    let answers = rig.completed(Command::Start(work)).await;
    assert_eq!(rig.runs(), 2, "a follow-up is tried once");
    let violations = answers[1].violations.as_ref().expect("scanned");
    assert_eq!((violations.len(), violations[0].file.as_str(), &violations[0].base_sha), (1, "Makefile", &before));
    assert!(answers[1].result.contains("could not be asked"), "{}", answers[1].result);
    assert_eq!(answers[1].session_id, "s-1");
}

#[tokio::test]
async fn groups_left_alone_are_asked_about_and_the_check_is_run() {
    let rig = Rig::new("init; test $n = 1 && { echo x >code.rs; commit code; }; result r$n").await;
    let mut work = rig.work();
    let group = |title: &str, pattern: &str| Maintain {
        title: title.into(),
        pattern: pattern.into(),
        instructions: "keep".into(),
    };
    work.maintain = vec![group("Docs", "docs/**"), group("Code", "*.rs")];
    work.head.post_turn_check = Some("echo out; echo err >&2; test -f code.rs && exit 4".into());
    let answers = rig.completed(Command::Start(work)).await;
    assert_eq!(answers.len(), 2);
    let supervised = answers[1].supervised.as_ref().expect("supervised");
    assert_eq!(supervised.kind, "maintain");
    assert!(supervised.prompt.contains("Docs") && !supervised.prompt.contains("Code"));
    assert_eq!(answers[1].violations, None);
    let system = std::fs::read_to_string(rig.worktree.join(".lazy-task-sandbox/system-prompt.md")).expect("reads");
    assert!(system.contains("- Docs (docs/**): keep"), "{system}");
    assert_eq!(answers[0].check_exit_code, Some(4));
    assert_eq!(answers[0].check_output.as_deref(), Some("--- stdout\nout\n--- stderr\nerr"));
}

#[tokio::test]
async fn a_check_has_its_time() {
    let rig = Rig::new("init; result ok").await;
    let mut work = rig.work();
    work.head.post_turn_check = Some("echo begun; sleep 600".into());
    work.head.post_turn_timeout = Some(1);
    let answers = rig.completed(Command::Start(work)).await;
    assert_eq!(answers[0].check_exit_code, Some(-2));
    assert_eq!(answers[0].check_output.as_deref(), Some("--- stdout\nbegun"));
}

#[tokio::test]
async fn a_sync_merges_once() {
    let rig = Rig::new("exit 1").await;
    rig.write("b.txt", "b\n");
    rig.git(&["add", "-A"]).await;
    rig.git(&["commit", "-qm", "second"]).await;
    let before = rig.head().await;
    let answers = rig.completed(rig.sync().await).await;
    let report = answers[0].sync.clone().expect("a report");
    assert_eq!((report.merged, report.conflicts, answers[0].session_id.as_str()), (true, 0, ""));
    let after = rig.head().await;
    assert_eq!((answers[0].start_sha_work.as_ref(), answers[0].end_sha_work.as_ref()), (Some(&before), Some(&after)));
    assert!(rig.worktree.join("b.txt").exists());
    let again = rig.completed(rig.sync().await).await;
    assert!(!again[0].sync.as_ref().expect("a report").merged && again[0].start_sha_work.is_none());
    assert!(again[0].result.contains("up to date"), "{}", again[0].result);
    assert_eq!((rig.head().await, rig.runs()), (after, 0));
}

/// A commit on either side to the same line.
async fn diverge(rig: &Rig) {
    rig.write("a.txt", "main\n");
    rig.git(&["commit", "-qam", "main side"]).await;
    std::fs::write(rig.worktree.join("a.txt"), "task\n").expect("writes");
    rig.git_at(&rig.worktree, &["commit", "-qam", "task side"]).await;
}

#[tokio::test]
async fn a_conflicting_sync_fails_and_leaves_the_worktree_as_it_was() {
    let rig = Rig::new("exit 1").await;
    diverge(&rig).await;
    let before = rig.head().await;
    let failure = rig.failed(rig.sync().await).await;
    assert_eq!(failure.phase, "merge_and_fix");
    assert!(failure.error.contains("a.txt") && failure.error.contains("rolled back"), "{}", failure.error);
    assert!(failure.merge_state.expect("settled").settled);
    assert_eq!(rig.head().await, before);
    assert_eq!(rig.git_at(&rig.worktree, &["status", "--porcelain"]).await, "");
    assert_eq!(rig.runs(), 3, "the agent was asked three times");
}

#[tokio::test]
async fn conflicts_that_the_agent_staged_and_left_are_concluded() {
    let rig = Rig::new("init; echo both >a.txt; git add a.txt; result joined").await;
    diverge(&rig).await;
    let before = rig.head().await;
    let answers = rig.completed(rig.sync().await).await;
    let report = answers[0].sync.as_ref().expect("a report");
    assert_eq!((report.merged, report.conflicts, rig.runs()), (true, 1, 1));
    assert!(answers[0].result.contains("resolved by the agent: a.txt") && answers[0].result.ends_with("joined"));
    assert_eq!(answers[0].start_sha.as_ref(), Some(&before));
    assert_eq!(std::fs::read_to_string(rig.worktree.join("a.txt")).expect("reads"), "both\n");
    assert_eq!(rig.git_at(&rig.worktree, &["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a_merge_before_the_work_is_not_the_works_own() {
    let rig = Rig::new("init; echo x >x; commit x; result ok").await;
    rig.write("b.txt", "b\n");
    rig.git(&["add", "-A"]).await;
    rig.git(&["commit", "-qm", "second"]).await;
    let before = rig.head().await;
    let mut work = rig.work();
    work.sync_before_work = true;
    let answers = rig.completed(Command::Start(work.clone())).await;
    assert_eq!(answers[0].start_sha.as_ref(), Some(&before));
    let merge = rig.git_at(&rig.worktree, &["rev-parse", "HEAD^"]).await;
    assert_eq!(answers[0].start_sha_work.as_ref(), Some(&merge));
    assert_ne!(merge, before);

    diverge(&rig).await;
    let failure = rig.failed(Command::Unblock(work)).await;
    assert_eq!((failure.phase.as_str(), rig.runs()), ("merge_and_fix", 1));
    assert!(failure.merge_state.expect("settled").settled);
}

#[tokio::test]
async fn a_conflict_after_the_work_is_recorded_and_rolled_back() {
    let rig = Rig::new("init; result ok").await;
    diverge(&rig).await;
    let before = rig.head().await;
    let mut work = rig.work();
    work.sync_after_work = true;
    let answers = rig.completed(Command::Start(work)).await;
    let [conflict] = answers[0].merge_conflicts.as_slice() else { panic!("{answers:?}") };
    assert_eq!((conflict.path.as_str(), conflict.merge_source.as_str()), ("a.txt", "main"));
    assert!(conflict.content.contains("<<<<<<<"));
    assert_eq!(rig.head().await, before);
    assert_eq!(rig.git_at(&rig.worktree, &["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a_half_done_merge_is_rolled_back_by_the_next_command_and_reported() {
    let rig = Rig::new("init; result ok").await;
    diverge(&rig).await;
    let merge = Cmd::new("git").args(["merge", "main"]).env_of(&rig.process).cwd(&rig.worktree).output().await;
    assert!(!merge.expect("runs").success());
    let ask = rig.completed(Command::Ask(rig.work())).await;
    assert_eq!(ask[0].worktree_recovery, None, "a question rolls nothing back");
    assert!(rig.process.captured().1.contains("the next command rolls it back"));
    let answers = rig.completed(Command::Unblock(rig.work())).await;
    let recovery = answers[0].worktree_recovery.as_ref().expect("reported");
    assert_eq!((recovery.context.as_str(), recovery.files.as_slice()), ("unblock", &["a.txt".to_string()][..]));
    assert!(Path::new(recovery.patch_path.as_ref().expect("saved")).exists());
}

#[tokio::test]
async fn what_came_from_the_upstream_is_nobodys_violation() {
    let script = r#"init; echo mine >b.txt; commit mine; git merge -q --no-edit main
        test "$EDIT" = none || { echo changed >Makefile; commit work; }; result worked"#;
    for (edit, asked) in [("none", 1), ("some", 2)] {
        let rig = Rig::with_env(script, &[("EDIT", edit)]).await;
        rig.write("Makefile", "all:\n\techo upstream\n");
        rig.write("c.txt", "upstream\n");
        rig.git(&["commit", "-qam", "upstream"]).await;
        rig.git(&["add", "-A"]).await;
        rig.git(&["commit", "-qm", "more of it"]).await;
        let mut work = rig.work();
        work.head.protected_patterns = vec!["Makefile".into()];
        let group =
            |pattern: &str| Maintain { title: "Kept".into(), pattern: pattern.into(), instructions: "keep".into() };
        work.maintain = vec![group("b.txt")];
        let answers = rig.completed(Command::Start(work)).await;
        assert_eq!(answers.len(), asked, "{answers:#?}");
        assert!(rig.worktree.join("c.txt").exists(), "the upstream was merged in");
    }
}
