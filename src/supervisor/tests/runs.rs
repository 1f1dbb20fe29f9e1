//! Runs of an agent: good, bad and odd.

use super::*;
use crate::model::Usage;
use crate::model::exchange::FailureClass;
use crate::proc;

#[tokio::test]
async fn a_good_run_is_recorded_whole() {
    let rig = Rig::new(
        r#"init; say 'at it'; echo new >new.txt; commit 'add new'; tool Bash; tool_end
           echo '{"kind":"journal","content":"noted"}' >.lazy-task-sandbox/turn-handoff.jsonl
           echo 'not json'; result 'all done'"#,
    )
    .await;
    std::fs::create_dir(rig.worktree.join(".lazy-task-sandbox")).expect("dir");
    std::fs::write(
        rig.worktree.join(".lazy-task-sandbox/turn-handoff.jsonl"),
        "{\"kind\":\"journal\",\"content\":\"stale\"}",
    )
    .expect("writes");
    let before = rig.head().await;
    let answers = rig.completed(Command::Start(rig.work())).await;
    let after = rig.head().await;
    let [answer] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((answer.result.as_str(), answer.session_id.as_str()), ("all done", "s-1"));
    assert_eq!(answer.usage, Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() });
    assert_eq!(answer.model.as_deref(), Some("model-x"));
    assert_eq!(answer.mcp_tools.as_deref(), Some("lazy=connected tools=1"));
    assert_ne!(before, after);
    let shas = [&answer.start_sha, &answer.start_sha_work, &answer.end_sha_work, &answer.end_sha];
    assert_eq!(shas.map(|sha| sha.clone().expect("a sha")), [&before, &before, &after, &after].map(String::clone));
    assert_eq!(answer.agent_handoff.iter().map(|entry| entry.content.as_str()).collect::<Vec<_>>(), ["noted"]);
    assert_eq!(answer.violations, None);
    let tag = format!("turn/{}/post-work/{}", rig.task.short(), &after[..8]);
    assert_eq!(rig.git(&["rev-parse", &format!("{tag}^{{commit}}")]).await, after);

    assert_eq!(rig.given("stdin", 1), "please mend it");
    let args = rig.given("args", 1);
    assert!(!args.contains("--resume") && args.contains("--strict-mcp-config"), "{args}");
    let env = rig.given("env", 1);
    let sandbox = rig.worktree.join(".lazy-task-sandbox");
    assert!(env.contains(&format!("CLAUDE_CONFIG_DIR={}", sandbox.join(".claude").display())), "{env}");
    let mcp = std::fs::read_to_string(sandbox.join("mcp.json")).expect("the MCP configuration");
    for part in ["--daemon-config", "/run/daemon mcp.json", &rig.task.to_string(), "LAZY_MCP_EXPECTED_TASK_ID"] {
        assert!(mcp.contains(part), "{mcp}");
    }
    assert!(!mcp.contains("--read-only"));
    let stream = std::fs::read_to_string(rig.mailbox.stream_path()).expect("the stream");
    assert_eq!(stream.lines().count(), 5, "{stream}");
    let status = rig.mailbox.load_status().expect("reads").expect("a status");
    assert_eq!((status.pre_turn_sha, status.post_work_sha), (Some(before), Some(after)));
    assert_eq!(rig.mailbox.load_agent(), None);
}

#[tokio::test]
async fn garbage_and_no_result_are_a_crash_loop_after_three_tries() {
    for script in ["head -c 3000 /dev/urandom", "init; say hello", "exit 0", "exit 3"] {
        let rig = Rig::new(script).await;
        let failure = rig.failed(Command::Start(rig.work())).await;
        assert_eq!(rig.runs(), 3, "{script}: {failure:?}");
        assert_eq!((failure.failure_class, failure.failure_attempts), (Some(FailureClass::Unknown), Some(3)));
        assert_eq!((failure.phase.as_str(), failure.command_id.as_str()), ("work", "c-1"));
        assert!(failure.agent_had_no_effect && failure.error.contains("3 times in a row"), "{failure:?}");
        assert_eq!(failure.agent.as_deref(), Some("claude-code"));
    }
}

#[tokio::test]
async fn an_agent_that_does_not_exit_after_its_result_is_wound_down() {
    let rig = Rig::new("init; result fine; sleep 600").await;
    let mut work = rig.work();
    work.head.wind_down_timeout_ms = 200;
    let answers = rig.completed(Command::Start(work)).await;
    assert_eq!((answers[0].result.as_str(), rig.runs()), ("fine", 1));
}

#[tokio::test]
async fn an_unusable_result_of_an_agent_that_does_not_exit_is_not_tried_again() {
    let rig = Rig::new(r#"init; echo '{"type":"result","result":"","session_id":"s"}'; sleep 600"#).await;
    let mut work = rig.work();
    work.head.wind_down_timeout_ms = 200;
    let failure = rig.failed(Command::Start(work)).await;
    assert_eq!((rig.runs(), failure.failure_class), (1, Some(FailureClass::Unknown)));
    assert_eq!(failure.session_id.as_deref(), Some("s-1"));
}

#[tokio::test]
async fn the_watchdog_ends_a_silent_agent_with_all_it_started_three_times() {
    // Heartbeats and broken lines are no progress.
    let script = r#"init; tool Bash; sleep 600 & echo $! >>"$FAKE/pids"
        while :; do echo '{"type":"tool_progress","tool_name":"Bash"}'; echo junk; sleep 0.05; done"#;
    let rig = Rig::new(script).await;
    let mut work = rig.work();
    work.head.watchdog_output_timeout_ms = Some(400);
    let failure = rig.failed(Command::Start(work)).await;
    assert_eq!(rig.runs(), 3);
    assert_eq!((failure.watchdog_timeout_ms, failure.watchdog_attempts), (Some(400), Some(3)));
    assert_eq!(failure.watchdog_captured_work, Some(false));
    assert_eq!(failure.session_id.as_deref(), Some("s-3"));
    assert!(failure.error.contains("while in Bash"), "{}", failure.error);
    let pids = std::fs::read_to_string(rig.dir.path().join("fake/pids")).expect("pids");
    assert_eq!(pids.lines().count(), 3);
    for pid in pids.lines() {
        let pid = pid.parse().expect("a number");
        until("the end of a grandchild", || !proc::alive(pid)).await;
    }
}

#[tokio::test]
async fn the_watchdog_does_not_repeat_a_run_that_committed() {
    let rig = Rig::new("init; echo x >x; commit half; sleep 600").await;
    let mut work = rig.work();
    work.head.watchdog_output_timeout_ms = Some(1500);
    let failure = rig.failed(Command::Start(work)).await;
    assert_eq!((rig.runs(), failure.watchdog_captured_work), (1, Some(true)));
    assert!(!failure.agent_had_no_effect && failure.start_sha != failure.end_sha);
}

#[tokio::test]
async fn a_line_beyond_all_measure_is_lost_but_the_turn_is_not() {
    let rig = Rig::new(r#"init; head -c 70000000 /dev/zero | tr '\0' x; echo; result 'still here'"#).await;
    let answers = rig.completed(Command::Start(rig.work())).await;
    assert_eq!(answers[0].result, "still here");
    let stream = std::fs::read_to_string(rig.mailbox.stream_path()).expect("the stream");
    assert!(stream.contains("\"lazy_line_dropped\",\"bytes\":70000000"), "{stream}");
}

#[tokio::test]
async fn a_conversation_that_is_too_long_or_gone_is_dropped_once() {
    for said in ["error 'Prompt is too long'", "echo 'No conversation found with session ID: old' >&2; exit 1"] {
        let rig = Rig::new(&format!("init; case \" $* \" in *' --resume '*) {said};; esac; result ok")).await;
        let mut work = rig.work();
        work.head.agent_session_id = Some("old".into());
        let answers = rig.completed(Command::Unblock(work)).await;
        assert_eq!((answers[0].session_id.as_str(), rig.runs()), ("s-2", 2));
        assert!(rig.given("args", 1).contains("--resume\nold\n"));
        assert!(!rig.given("args", 2).contains("--resume"));
    }
}

#[tokio::test]
async fn a_prompt_that_is_too_long_by_itself_fails_at_once() {
    let rig = Rig::new("init; error 'Prompt is too long'").await;
    let failure = rig.failed(Command::Start(rig.work())).await;
    assert_eq!((rig.runs(), failure.failure_class), (1, Some(FailureClass::FatalConfig)));
}

#[tokio::test]
async fn an_overloaded_service_is_waited_for_and_every_token_counted() {
    let rig = Rig::new(r#"init; test $n -ge 3 || error 'API Error: 529 overloaded_error'; result 'at last'"#).await;
    let answers = rig.completed(Command::Start(rig.work())).await;
    assert_eq!((answers[0].result.as_str(), rig.runs()), ("at last", 3));
    assert_eq!(answers[0].usage.input_tokens, 7 + 7 + 10);
    let status = rig.mailbox.load_status().expect("reads").expect("a status");
    assert_eq!((status.retry_count, status.retry_failure_class, status.errors.len()), (None, None, 0));
}

#[tokio::test]
async fn a_run_that_got_somewhere_is_resumed() {
    let rig =
        Rig::new(r#"init; tool Bash; tool_end; test $n -ge 2 || error 'API Error: 529 overloaded'; result ok"#).await;
    rig.completed(Command::Start(rig.work())).await;
    assert!(rig.given("args", 2).contains("--resume\ns-1\n"));
}

#[tokio::test]
async fn a_refused_credential_is_not_tried_again() {
    let rig = Rig::new("init; error 'API Error: 401 authentication_error: invalid x-api-key'").await;
    let failure = rig.failed(Command::Start(rig.work())).await;
    assert_eq!((rig.runs(), failure.failure_class), (1, Some(FailureClass::FatalAuth)));
    assert_eq!(failure.usage.map(|usage| usage.input_tokens), Some(7));
}

#[tokio::test]
async fn an_agent_without_lazys_tools_is_ended_at_once() {
    let script = r#"echo '{"type":"system","subtype":"init","session_id":"s","tools":["Bash"],"mcp_servers":[{"name":"lazy","status":"failed"}]}'; sleep 600"#;
    let rig = Rig::new(script).await;
    let failure = rig.failed(Command::Start(rig.work())).await;
    assert_eq!(rig.runs(), 1);
    assert!(failure.error.contains("lazy's tools"), "{failure:?}");
}

#[tokio::test]
async fn a_new_command_ends_the_waiting() {
    let rig = Rig::with_env("init; error 'API Error: 529 overloaded'", &[("LAZY_RETRY_SCALE", "1000")]).await;
    rig.mailbox.write_command(&Command::Start(rig.work())).expect("writes");
    let serving = rig.serve(Mode::OneShot);
    let stopping = async {
        until("the wait", || {
            rig.mailbox.load_status().ok().flatten().is_some_and(|status| status.retry_next_delay_ms.is_some())
        })
        .await;
        let status = rig.mailbox.load_status().expect("reads").expect("a status");
        assert_eq!(status.retry_failure_class, Some(FailureClass::TransientOverload));
        assert_eq!((status.retry_count, status.errors.len(), status.errors[0].count), (Some(1), 1, 1));
        let order = crate::model::exchange::Stop { task_id: rig.task, reason: None };
        rig.mailbox.write_command(&Command::Stop(order)).expect("writes");
    };
    let (code, ()) = tokio::join!(serving, stopping);
    assert_eq!(code, 42);
    let Some(Response::Error(failure)) = rig.mailbox.load_response().expect("reads") else { panic!("no error") };
    assert_eq!(failure.failure_class, Some(FailureClass::TransientOverload));
    assert_eq!(rig.mailbox.load_status().expect("reads"), None);
}

#[tokio::test]
async fn a_missing_agent_or_daemon_configuration_is_told() {
    let rig = Rig::new("result x").await;
    std::fs::remove_file(rig.dir.path().join("bin/claude")).expect("removes");
    let mut work = rig.work();
    let path = rig.process.var("PATH").expect("a PATH").to_string();
    let elsewhere = path.split(':').any(|dir| Path::new(dir).join("claude").exists());
    if !elsewhere {
        let failure = rig.failed(Command::Start(work.clone())).await;
        assert_eq!(failure.failure_class, Some(FailureClass::FatalConfig));
        assert!(failure.error.contains("npm install"), "{}", failure.error);
    }
    work.head.agent_id = "nobody".into();
    let failure = rig.failed(Command::Start(work)).await;
    assert!(failure.error.contains("nobody"), "{}", failure.error);

    let rig = Rig::with_env("result x", &[("LAZY_DAEMON_CONFIG", "")]).await;
    let failure = rig.failed(Command::Start(rig.work())).await;
    assert!(failure.error.contains("LAZY_DAEMON_CONFIG"), "{}", failure.error);
    assert_eq!(rig.runs(), 0);
}
