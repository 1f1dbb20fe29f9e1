//! Every rendering, as it looks.

use serde_json::json;

use super::*;
use crate::base::{Error, Kind, Millis};
use crate::cli::style::Style;
use crate::model::Status;
use crate::rpc::commands::*;
use crate::rpc::state_dir::DaemonStatus;

const PLAIN: Style = Style::Plain;
const NOON: i64 = 1_780_000_000_000;

fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).expect("the value is of that type")
}

fn id(n: u32) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

fn brief(n: u32, code: Option<&str>, status: &str) -> serde_json::Value {
    json!({ "id": id(n), "code": code, "goal": format!("Goal number {n}"), "status": status })
}

fn line(n: u32, code: &str, goal: &str, status: &str, depth: u32, more: serde_json::Value) -> serde_json::Value {
    let mut value = json!({
        "id": id(n), "code": code, "goal": goal, "status": status, "stopped": false, "crashed": false, "type": "task",
        "priority": "normal", "agent": "claude-code", "model": "claude-opus-4-7", "parent_task_id": null, "tags": [],
        "turns": n, "created_at": NOON, "last_active_at": NOON, "duration_ms": n * 61_000, "open_blocking": 0,
        "depth": depth,
    });
    let fields = value.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    value
}

fn listing() -> ListReport {
    let tasks = json!([
        line(
            1,
            "login",
            "Make the login remember people who come back",
            "working",
            0,
            json!({ "substate": "agent", "tags": ["ui"] })
        ),
        line(2, "login-tests", "Test it", "blocked", 1, json!({ "stopped": true, "type": "test", "parent": "login" })),
        line(3, "a-code-too-long-for-the-column", "Deep", "interrupted", 2, json!({ "crashed": true })),
        line(4, "login-docs", "Write it down", "queued", 1, json!({ "queue": [2, 3], "model": null })),
        line(0, "idea", "日本語の目標", "backlog", 0, json!({ "hidden_descendants": 2, "open_blocking": 1 })),
        line(6, "done", "Was done", "complete", 0, json!({ "outcome": "accepted" })),
    ]);
    ListReport { tasks: read(tasks), hidden: 2, damaged: Vec::new() }
}

#[test]
fn lists() {
    insta::assert_snapshot!("list_tree", list::table(&listing(), list::Layout::Tree, PLAIN, None));
    let narrow = list::table(&listing(), list::Layout::Tree, PLAIN, Some(80));
    assert!(narrow.lines().nth(1).is_some_and(|rule| rule.chars().count() <= 80), "{narrow}");
    insta::assert_snapshot!("list_flat", list::table(&listing(), list::Layout::Flat, PLAIN, None));
    assert_eq!(list::table(&ListReport::default(), list::Layout::Tree, PLAIN, None), "");
    assert_eq!(list::candidate(&listing().tasks[4]), "00000000  backlog       2026-05-28 20:26  日本語の目標");
}

#[test]
fn colour_adds_only_escapes() {
    let strip = |text: String| {
        let mut out = String::new();
        let text = crate::base::text::for_terminal(&text).into_owned();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("\x1b[") {
            out.push_str(&rest[..at]);
            rest = rest[at..].split_once('m').map_or("", |(_, after)| after);
        }
        out + rest
    };
    for layout in [list::Layout::Tree, list::Layout::Flat] {
        assert_eq!(
            strip(list::table(&listing(), layout, Style::Ansi, None)),
            list::table(&listing(), layout, PLAIN, None)
        );
    }
    let report = shown();
    let ansi = show::task(&report, show::Form::Flat, show::Depth::Brief, Style::Ansi);
    assert_ne!(crate::base::text::for_terminal(&ansi), strip(ansi.clone()));
    assert_eq!(strip(ansi), show::task(&report, show::Form::Flat, show::Depth::Brief, PLAIN));
}

fn shown() -> ShowReport {
    let session = id(99);
    let turn = |sequence: u32, role: &str, content: &str, more: serde_json::Value| {
        let mut value = json!({ "id": format!("t{sequence}"), "session_id": session, "sequence": sequence, "role": role,
            "content": content, "timestamp": NOON });
        value.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        value
    };
    read(json!({
        "task": {
            "id": id(1), "code": "login", "goal": "Make the login remember people", "prompt": "The form forgets.\nMend it.",
            "type": "fix", "status": "blocked", "created_at": NOON, "model": "claude-opus-4-7", "tags": ["ui"],
            "target": { "kind": "task", "parentTaskId": id(7) }, "branched_from_sha": "0123456789abcdef",
        },
        "session": {
            "id": session, "task_id": id(1), "agent_id": "claude-code", "started_at": NOON, "git_branch": "lazy/login",
            "git_start_sha": "0123456789abcdef", "agent_session_id": "s-1", "last_interaction_at": NOON,
            "total_duration_ms": 125_000, "interrupt_reason": "the run was killed", "interrupt_exit_code": 137,
            "interrupt_at": NOON, "interrupt_logs": "last words", "consecutive_interruptions": 1, "user_stopped": true,
            "total_usage": { "inputTokens": 100, "outputTokens": 2300, "cacheCreationTokens": 50_000, "cacheReadTokens": 1_200_000 },
        },
        "turns": [
            turn(1, "human", "The form forgets.", json!({ "actor": "human", "prompt": "The whole prompt\nas sent" })),
            turn(2, "agent", "Found it:\nthe cookie had no date.", json!({ "agent": "claude-code", "model": "claude-opus-4-7",
                "effort": "medium", "check_exit_code": 1, "check_output": "2 failed\n",
                "usage": { "inputTokens": 100, "outputTokens": 2300 },
                "violations": [{ "file": "Makefile", "base_sha": "aa", "status": "pending" }] })),
            turn(3, "human", "The check failed.", json!({ "actor": "system", "auto_triggered": true })),
            turn(4, "agent", "", json!({ "agent_had_no_effect": true, "merge_conflicts": [
                { "path": "src/a.rs", "content": "<<<<<<<", "merge_source": "main" },
                { "path": "b.md", "content": "<<<<<<<", "merge_source": "main" },
            ] })),
            turn(5, "human", "Why?", json!({ "actor": "human", "turn_type": "ask" })),
        ],
        "commits": [{ "id": "c1", "session_id": session, "sha": "89abcdef01234567", "message": "Give the cookie a date\n\nmore",
            "status": "pending_review", "timestamp": NOON }],
        "comments": [{ "id": "n1", "task_id": id(1), "content": "Mind the old clients.\nAll.", "created_at": NOON, "actor": "human",
            "actor_name": "Reviewer" }],
        "journal": [{ "id": "j1", "task_id": id(1), "content": "Cookies, not storage.", "created_at": NOON, "actor": "agent" }],
        "raised_items": [
            { "id": "abcdef12-0000", "task_id": id(1), "content": "May old cookies die?", "blocking": true, "created_at": NOON,
              "status": "open" },
            { "id": "bbcdef12-0000", "task_id": id(1), "content": "Logs are noisy", "blocking": false, "created_at": NOON,
              "status": "dismissed", "resolution": "known" },
        ],
        "status_history": [
            { "status": "backlog", "timestamp": NOON, "actor": "human" },
            { "status": "working", "timestamp": NOON, "actor": "human" },
            { "status": "blocked", "timestamp": NOON, "actor": "system" },
        ],
        "tag_history": [{ "tag": "ui", "action": "tag", "timestamp": NOON, "actor": "human" }],
        "parent": brief(7, Some("portal"), "working"),
        "children": [brief(8, None, "backlog")],
        "worktree": "/srv/my app/.lazy/worktrees/login",
        "merge_state": { "merge_in_progress": true, "unmerged_files": ["a.rs"], "summary": "1 file with conflicts" },
        "substate": null, "progress": null, "supervisor": null,
        "runner": { "kind": "dangerously-host-process-without-any-isolation", "alive": false, "posture": "sandboxed" },
        "prompt_versions": 1,
    }))
}

#[test]
fn shows() {
    let report = shown();
    insta::assert_snapshot!("show_flat", show::task(&report, show::Form::Flat, show::Depth::Brief, PLAIN));
    insta::assert_snapshot!("show_chunks_full", show::task(&report, show::Form::Chunks, show::Depth::Full, PLAIN));
    insta::assert_snapshot!("show_json", serde_json::to_string_pretty(&json::task(&report)).expect("encodes"));
    insta::assert_snapshot!("before_feedback", follow_up::before_feedback(&report, PLAIN));
    insta::assert_snapshot!("feedback_template", follow_up::feedback_template(&report));
    insta::assert_snapshot!("before_start", follow_up::before_start(&report, PLAIN));
}

#[test]
fn a_task_that_never_started_and_one_that_works() {
    let mut report = shown();
    report.task.status = Status::Working;
    report.substate = Some("agent".into());
    report.progress = Some("reading".into());
    report.supervisor = Some(read(json!({ "phase": "retrying", "command": "start", "phase_started_at": null,
        "retry_count": 2, "retry_reason": "overloaded", "retry_next_delay_ms": 30_000, "errors": [] })));
    let text = show::task(&report, show::Form::Flat, show::Depth::Brief, PLAIN);
    assert!(text.starts_with("Supervisor: retrying (start) · reading\n"), "{text}");
    assert!(text.contains("Retry State:    attempt 2, overloaded, next in 30s"), "{text}");
    report.session = None;
    report.task.prompt = String::new();
    let text = show::task(&report, show::Form::Flat, show::Depth::Brief, PLAIN);
    assert!(text.contains("Session: (not started)\n  lazy start login\n"), "{text}");
    assert!(text.ends_with("--- Prompt ---\n(no prompt yet)\n"), "{text}");
}

#[test]
fn moved_tasks() {
    let created: CreateReport = read(json!({ "task": brief(1, Some("login"), "backlog"), "task_type": "fix",
        "parent": brief(7, Some("portal"), "working"), "target_branch": null, "agent": "claude-code",
        "agent_source": "project default", "model": "claude-opus-4-7", "effort": "high",
        "runner": "dangerously-host-process-without-any-isolation", "prompt_chars": 26, "tags": ["ui", "web"] }));
    insta::assert_snapshot!("created", moved::created(&created, PLAIN));
    let bare = CreateReport { prompt_chars: 0, parent: None, target_branch: Some("dev".into()), ..created };
    assert!(moved::created(&bare, PLAIN).contains("Target:         branch dev"));
    assert!(moved::created(&bare, PLAIN).ends_with("Give it a prompt: lazy edit login --prompt \"…\"\n"));
    let edited: EditReport =
        read(json!({ "task": brief(1, Some("login"), "backlog"), "changes": ["goal: a -> b", "model: - -> m"] }));
    insta::assert_snapshot!("edited", moved::edited(&edited, PLAIN));
    let launch: LaunchReport = read(json!({ "task": brief(1, None, "working"), "branch": "lazy/00000001",
        "worktree": "/srv/p/.lazy/worktrees/00000001", "runner": "docker", "run": "lazy-00000001", "target_branch": "main",
        "parent": null, "turn": 3, "queued": null, "warnings": [] }));
    insta::assert_snapshot!("started", moved::launched(&launch, moved::Launched::Started, PLAIN));
    assert!(
        moved::launched(&launch, moved::Launched::Unblocked, PLAIN).starts_with("Task 00000001 unblocked (turn 3)\n")
    );
    let queued = LaunchReport { queued: Some((4, 4)), ..launch };
    assert!(
        moved::launched(&queued, moved::Launched::Resumed, PLAIN)
            .starts_with("Task 00000001 is queued (4/4 running)\n")
    );
    let stopped: StatusReport = read(json!({ "task": brief(1, Some("login"), "blocked"), "previous": "working",
        "branch": "lazy/login", "reason": "Two lines\nof reason", "warnings": [] }));
    let next = [("Go on", "lazy resume login".to_string())];
    insta::assert_snapshot!("stopped", moved::status_changed(&stopped, "Stopped", &next, PLAIN));
    let accepted: AcceptReport = read(
        json!({ "task": brief(1, Some("login"), "complete"), "merge_sha": "89abcdef01234567",
        "target_branch": "main", "diff_stat": "3 files changed, 10 insertions(+)", "reparented": [brief(8, None, "backlog")],
        "already": false, "warnings": [] }),
    );
    insta::assert_snapshot!("accepted", moved::accepted(&accepted, PLAIN));
}

#[test]
fn worktrees_and_projects() {
    let report: TaskStatusReport = read(json!({ "task": brief(1, Some("login"), "blocked"), "substate": null,
        "parent": brief(7, Some("portal"), "working"), "branch": "lazy/login", "target_branch": "main",
        "worktree": "/srv/p/.lazy/worktrees/login", "worktree_exists": true, "baseline": "0123456789abcdef",
        "head": "89abcdef01234567", "commits": [{ "sha": "89abcdef01234567", "message": "Give the cookie a date" }],
        "uncommitted": (0..12).map(|n| format!("?? file{n}")).collect::<Vec<_>>(), "merge_state": null,
        "agent_session_id": "s-1", "agent": "claude-code", "last_interrupt": "the run was killed",
        "actions": ["lazy unblock login -m \"…\"", "lazy accept login"] }));
    insta::assert_snapshot!("task_status", status::task(&report, PLAIN));
    let report: SystemStatusReport = read(
        json!({ "version": "0.1.0", "project": "/srv/p", "offline": true, "driver": "local",
        "remote": "origin", "storage": "/home/u/.lazy/p", "credential": "ANTHROPIC_API_KEY", "damaged": ["tasks/x/task.json"],
        "counts": [["blocked", 2], ["working", 0]], "runner": "docker", "agent": "claude-code", "effort": "medium",
        "default_target": { "kind": "branch", "branch": "" } }),
    );
    insta::assert_snapshot!("system_status", status::system(&report, PLAIN));
}

#[test]
fn notes_raised_items_and_searches() {
    let item = json!({ "id": "abcdef12-0000", "task_id": id(1), "content": "May old cookies die?\nmore", "blocking": true,
        "created_at": NOON, "status": "open" });
    let done = json!({ "id": "bbcdef12-0000", "task_id": id(1), "content": "x", "title": "Logs\tare noisy", "blocking": false,
        "created_at": NOON, "status": "promoted_peer", "promoted_task_code": "logs", "pending_comment": "done" });
    let report: ListRaisedReport = read(json!({ "open_blocking": 1, "open_non_blocking": 0, "items": [
        { "task": brief(1, Some("login"), "blocked"), "item": item }, { "task": brief(1, Some("login"), "blocked"), "item": done } ] }));
    insta::assert_snapshot!("raised", raised::table(&report, Millis(NOON + 7_200_000), PLAIN));
    let promoted: RaisedReport = read(
        json!({ "task": brief(1, Some("login"), "blocked"), "item": done, "promoted": brief(9, Some("logs"), "backlog") }),
    );
    insta::assert_snapshot!("promoted", raised::decided(&promoted, PLAIN));
    let tagged: TagReport =
        read(json!({ "task_id": id(1), "display_id": "login", "tag": "ui", "tags": ["ui", "web"] }));
    assert_eq!(notes::tagged(&tagged, "Tagged", PLAIN), "Tagged task login; tags now: #ui #web\n");
    let hit = |kind: &str, more: serde_json::Value| {
        let mut value = json!({ "task_id": id(1), "task_code": "login", "task_goal": "The login", "match_type": kind,
            "content": "the cookie\nhad no date", "line": 3 });
        value.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        value
    };
    let found: SearchReport = read(json!({ "query": "cookie", "total": 3, "matches": [
        hit("turn", json!({ "turn_seq": 12 })), hit("commit", json!({ "sha": "89abcdef01234567" })) ] }));
    insta::assert_snapshot!("search_table", search::matches(&found, search::Shape::Table, PLAIN));
    insta::assert_snapshot!("search_grouped", search::matches(&found, search::Shape::Grouped, PLAIN));
    let nothing = SearchReport { hint: Some("Try --fuzzy.".into()), ..SearchReport::default() };
    assert_eq!(search::matches(&nothing, search::Shape::Table, PLAIN), "No matches found. Try --fuzzy.\n");
}

#[test]
fn turns_as_they_happen() {
    let events: Vec<WatchEvent> = read(json!([
        { "kind": "phase", "phase": "work", "detail": null },
        { "kind": "phase", "phase": "retrying", "detail": "overloaded\nagain" },
        { "kind": "text", "text": "I look\nat it.\u{1b}[31m\n" },
        { "kind": "tool", "name": "Read", "summary": "src/login.rs" },
        { "kind": "progress", "message": "half way" },
        { "kind": "commit", "sha": "89abcdef01234567", "message": "Give the cookie a date" },
        { "kind": "status", "status": "blocked" },
    ]));
    let live: String = events.iter().map(|event| watch::live(event, PLAIN)).collect();
    insta::assert_snapshot!("watch_live", live);
    let since = std::time::Duration::from_secs(83);
    let followed: Vec<String> = events.iter().map(|event| watch::followed(event, since, "login", PLAIN)).collect();
    assert!(followed.iter().all(|line| line.starts_with("[01:23] [login] ") && line.matches('\n').count() == 1));
    insta::assert_snapshot!("watch_followed", followed.concat());
    let ended: WaitReport =
        read(json!({ "timed_out": false, "task_id": id(1), "display_id": "login", "status": "blocked",
        "head_sha": "89abcdef01234567", "merge_state": null, "tasks": [],
        "pending": [{ "task_id": id(2), "display_id": "docs", "status": "working" }] }));
    insta::assert_snapshot!("wait", wait::ended(&ended, PLAIN));
}

#[test]
fn daemons_and_refusals() {
    let status: DaemonStatus = read(json!({ "status": "running", "pid": 4711, "uptime": 3_725_000, "version": "0.1.0",
        "binaryId": "0123456789abcdef", "instanceId": "x", "projectRoot": "/srv/p", "webPort": 26024, "bindHost": "0.0.0.0",
        "proxy": { "address": "http://127.0.0.1:4000", "upstream": "https://api.anthropic.com" },
        "agents": { "running": 2, "limit": 4 } }));
    insta::assert_snapshot!("daemon_status", daemon::status(&status, daemon::Build::Other, PLAIN));
    let row = |root: &str, root_exists: bool, status: Option<DaemonStatus>| daemon::Row {
        pid: Some(4711),
        port: Some(26024),
        status,
        root: root.into(),
        root_exists,
    };
    let rows = [row("/srv/p", true, Some(status)), row("/srv/gone", false, None)];
    insta::assert_snapshot!("daemon_list", daemon::list(&rows, 1, PLAIN));
    insta::assert_snapshot!("daemon_absent", daemon::absent(Some("no credential"), PLAIN));
    let error = Error::new(Kind::Ambiguous, "\"ab\" fits 2 tasks")
        .with_details(json!({ "lines": ["ab000001  working  x", "ab000002  blocked  y"] }))
        .hint("lazy list --all");
    insta::assert_snapshot!("refusal", error::text(&error, PLAIN));
}
