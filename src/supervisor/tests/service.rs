//! The loop around the commands.

use super::*;
use crate::base::json;
use crate::exchange::AgentRecord;
use crate::model::exchange::Stop;
use crate::proc;

#[tokio::test]
async fn a_stop_ends_it_with_its_own_code() {
    for mode in [Mode::OneShot, Mode::Loop] {
        let rig = Rig::new("exit 1").await;
        rig.mailbox
            .write_command(&Command::Stop(Stop { task_id: rig.task, reason: Some("r".into()) }))
            .expect("writes");
        assert_eq!(rig.serve(mode).await, 42);
        assert!(!rig.mailbox.has_response());
    }
}

#[tokio::test]
async fn a_loop_serves_until_the_stop() {
    let rig = Rig::new("init; result r$n").await;
    rig.mailbox.write_command(&Command::Start(rig.work())).expect("writes");
    let serving = rig.serve(Mode::Loop);
    let asking = async {
        until("the response", || rig.mailbox.has_response()).await;
        rig.mailbox.write_command(&Command::Unblock(rig.work())).expect("writes");
        until("the second response", || rig.mailbox.has_response()).await;
        rig.mailbox.write_command(&Command::Stop(Stop { task_id: rig.task, reason: None })).expect("writes");
    };
    assert_eq!(tokio::join!(serving, asking).0, 42);
    let kept = rig.mailbox.superseded();
    let texts: Vec<String> = kept
        .into_iter()
        .map(|(_, response)| match response {
            Response::Completed { responses, .. } => responses[0].result.clone(),
            Response::Error(failure) => failure.error,
        })
        .collect();
    assert_eq!(texts, ["r1", "r2"]);
}

#[tokio::test]
async fn another_protocol_version_is_refused() {
    let rig = Rig::new("exit 1").await;
    let mut work = rig.work();
    work.head.protocol_version = PROTOCOL_VERSION + 1;
    let failure = rig.failed(Command::Start(work)).await;
    assert_eq!((failure.phase.as_str(), failure.command_id.as_str(), rig.runs()), ("reading_command", "c-1", 0));
    assert!(failure.error.contains("lazy upgrade"), "{}", failure.error);
}

#[tokio::test]
async fn a_torn_or_foreign_command_is_answered_too() {
    let rig = Rig::new("exit 1").await;
    for (text, says) in [
        ("{\"type\":\"start\",", "not readable"),
        ("{\"type\":\"dance\",\"command_id\":\"c-7\",\"protocol_version\":99}", "lazy upgrade"),
    ] {
        std::fs::create_dir_all(rig.mailbox.dir()).expect("dir");
        std::fs::write(rig.mailbox.dir().join("command.json"), text).expect("writes");
        assert_eq!(rig.serve(Mode::OneShot).await, 0);
        let Some(Response::Error(failure)) = rig.mailbox.load_response().expect("reads") else { panic!("no error") };
        assert!(failure.error.contains(says), "{}", failure.error);
        assert_eq!(failure.command_id, if text.contains("c-7") { "c-7" } else { "" });
    }
}

#[tokio::test]
async fn a_missing_worktree_is_told() {
    let rig = Rig::new("exit 1").await;
    std::fs::remove_dir_all(&rig.worktree).expect("removes");
    let failure = rig.failed(Command::Start(rig.work())).await;
    assert_eq!(failure.phase, "reading_command");
    assert!(failure.error.contains("task-one"), "{}", failure.error);
}

#[tokio::test]
async fn a_signal_ends_the_agent_and_leaves_no_response() {
    let rig = Rig::new("init; sleep 600 & echo $! >\"$FAKE/pid\"; trap '' TERM; while :; do sleep 0.1; done").await;
    rig.mailbox.write_command(&Command::Start(rig.work())).expect("writes");
    let (stopper, stop) = stop::pair();
    let args = rig.args(Mode::OneShot);
    let serving = serve::serve(&rig.process, &args, &rig.mailbox, stop);
    let pid_file = rig.dir.path().join("fake/pid");
    let stopping = async {
        until("the agent", || std::fs::read_to_string(&pid_file).is_ok_and(|text| text.ends_with('\n'))).await;
        let agent = rig.mailbox.load_agent().expect("recorded");
        stopper.stop();
        (agent, std::time::Instant::now())
    };
    let (served, (agent, since)) = tokio::join!(serving, stopping);
    served.expect("serves");
    assert!(since.elapsed() < Duration::from_secs(15));
    assert!(!rig.mailbox.has_response());
    let child = std::fs::read_to_string(&pid_file).expect("pid").trim().parse().expect("a number");
    assert!(!proc::alive(agent.pid));
    until("the end of a grandchild", || !proc::alive(child)).await;
}

#[tokio::test]
async fn an_agent_left_by_a_killed_supervisor_is_ended_first() {
    let rig = Rig::new("init; result ok").await;
    let log = rig.dir.path().join("log");
    let pid = proc::spawn_detached(Cmd::new("sleep").arg("600"), &log).expect("spawns");
    rig.mailbox.write_command(&Command::Start(rig.work())).expect("writes");
    rig.mailbox.write_agent(AgentRecord { pid, start_time: proc::start_time(pid) }).expect("writes");
    rig.serve(Mode::OneShot).await;
    assert!(!proc::alive(pid));

    // The same id with another start is somebody else.
    let pid = proc::spawn_detached(Cmd::new("sleep").arg("600"), &log).expect("spawns");
    rig.mailbox.write_command(&Command::Start(rig.work())).expect("writes");
    rig.mailbox.write_agent(AgentRecord { pid, start_time: Some(1) }).expect("writes");
    rig.serve(Mode::OneShot).await;
    assert!(proc::alive(pid));
    proc::terminate_group(pid, proc::GRACE).await.expect("ends what the test started");
}

#[tokio::test]
async fn the_status_has_the_stored_form() {
    let rig = Rig::new("init; result ok").await;
    rig.completed(Command::Start(rig.work())).await;
    let status: serde_json::Value =
        json::load(&rig.mailbox.dir().join("status.json")).expect("reads").expect("is there");
    assert_eq!(status["phase"], "writing_response");
    assert_eq!(status["command_type"], "start");
    assert_eq!(status["pid"], std::process::id());
}

#[test]
fn a_read_only_turn_loses_every_tool_that_writes() {
    let denied: Vec<&str> = crate::agent::CLAUDE_WRITING_TOOLS.split_whitespace().collect();
    for tool in crate::mcp::catalogue::all() {
        let name = format!("mcp__lazy__{}", tool.name);
        let writes = tool.access == crate::mcp::catalogue::Access::Write;
        assert_eq!(denied.contains(&name.as_str()), writes, "{name}");
    }
}
