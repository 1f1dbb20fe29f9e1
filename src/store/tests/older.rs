//! Stores that other versions wrote: they open, and what this version does not know survives.

use serde_json::{Value, json};

use super::*;
use crate::model::{RaisedStatus, Target};
use crate::store::SessionPatch;

fn write(root: &Path, id: TaskId, name: &str, value: Value) {
    let dir = root.join("tasks").join(id.to_string());
    std::fs::create_dir_all(&dir).expect("dir");
    std::fs::write(dir.join(name), serde_json::to_vec_pretty(&value).expect("json")).expect("writes");
}

fn read(root: &Path, id: TaskId, name: &str) -> Value {
    let path = root.join("tasks").join(id.to_string()).join(name);
    serde_json::from_slice(&std::fs::read(path).expect("reads")).expect("json")
}

fn old_store() -> (tempfile::TempDir, TaskId) {
    let dir = tempfile::tempdir().expect("temp dir");
    let (root, id) = (dir.path(), task_id(1));
    write(
        root,
        id,
        "task.json",
        json!({ "id": id, "title": "Old", "prompt": "do it", "status": "active", "model": "journeyman",
            "created_at": "2025-01-02T03:04:05Z", "parent_task_id": null, "pending_sync": true, "tags": null,
            "metadata": { "remote_target_branch": "dev", "effort": "low" }, "later": { "x": 1 } }),
    );
    write(
        root,
        id,
        "session.json",
        json!({ "id": session_id(id), "task_id": id, "agent_id": "claude-code", "started_at": "2025-01-02 03:05:00",
            "git_branch": "lazy/old", "git_start_sha": "a", "claude_session_id": "talk", "turn_owner_name": "N" }),
    );
    write(
        root,
        id,
        "turns.json",
        json!({ "turns": [
            { "id": "t2", "session_id": session_id(id), "sequence": 2, "role": "agent", "content": null,
              "timestamp": 20, "turn_type": "review", "budget": 5 },
            { "id": "t1", "session_id": session_id(id), "sequence": 1, "role": "human", "content": "go",
              "timestamp": 10, "actor_user_id": "who@x.y", "feedback_delivery": "pending" },
        ], "format": "later" }),
    );
    write(
        root,
        id,
        "notes.json",
        json!({ "notes": [{ "id": "n", "task_id": id, "content": "note", "created_at": 5 }] }),
    );
    write(
        root,
        id,
        "follow-ups.json",
        json!({ "follow_ups": [{ "id": "f", "task_id": id, "content": "later", "created_at": 6 }] }),
    );
    write(root, id, "comments.json", json!({ "comments": [] }));
    (dir, id)
}

#[test]
fn an_older_store_opens_with_todays_meaning() {
    let (dir, id) = old_store();
    let store = open(dir.path());
    assert_eq!(store.damaged(), []);
    let record = store.load_task(id).expect("reads");
    assert_eq!((record.task.goal.as_str(), record.task.status), ("Old", Status::Blocked));
    assert_eq!(record.task.model.as_deref(), Some("sonnet"));
    assert_eq!(record.task.target, Target::Branch { branch: "dev".into() });
    assert_eq!(record.task.meta("effort"), Some("low"));
    assert_eq!(record.session.as_ref().and_then(|s| s.agent_session_id.as_deref()), Some("talk"));
    assert_eq!(record.turns.iter().map(|turn| turn.sequence).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(record.turns[0].actor_email.as_deref(), Some("who@x.y"));
    assert_eq!(record.turns[1].content, "");
    assert_eq!(record.comments[0].content, "note");
    assert_eq!((record.raised[0].blocking, record.raised[0].status), (false, RaisedStatus::Open));
    assert_eq!(record.raised[0].migrated_from.as_deref(), Some("follow_up"));
    let steps: Vec<Status> = record.statuses.iter().map(|row| row.status).collect();
    assert_eq!(steps, [Status::Backlog, Status::Working, Status::Blocked]);
    assert_eq!(record.prompts[0].content, "do it");
    let row = store.row(id).expect("row");
    assert_eq!((row.turn_count, row.comment_count, row.open_non_blocking), (2, 1, 1));
    assert_eq!(row.task.prompt, "");
}

#[test]
fn a_rewrite_keeps_what_it_does_not_know() {
    let (dir, id) = old_store();
    let root = dir.path();
    let store = open(root);
    let mut edits = vec![
        Edit::new(id, Change::PendingSync(4)),
        Edit::new(id, Change::Session(Box::new(SessionPatch { touched: true, ..Default::default() }))),
        Edit::new(id, Change::FeedbackConsumed),
        Edit::new(id, Change::Comment(Box::new(comment(id, "c", "new")))),
        Edit::new(id, Change::Status { to: Status::Working, by: human() }),
    ];
    edits.push(Edit::new(id, Change::Turn(Box::new(turn(id, 3, Role::Human)))));
    store.apply(edits).expect("applies");
    let task = read(root, id, "task.json");
    assert_eq!(task["later"], json!({ "x": 1 }));
    assert_eq!(task["created_at"], json!("2025-01-02T03:04:05Z"), "what did not change is not rewritten");
    assert_eq!((&task["goal"], &task["pending_sync"]), (&json!("Old"), &json!(4)));
    assert!(task.get("title").is_none() && task.get("parent_task_id").is_none());
    let session = read(root, id, "session.json");
    assert_eq!(session["turn_owner_name"], json!("N"));
    assert_eq!(session["last_interaction_at"], json!(NOW.0));
    let turns = read(root, id, "turns.json");
    assert_eq!(turns["format"], json!("later"));
    assert_eq!(turns["turns"][1]["turn_type"], json!("review"));
    assert_eq!(turns["turns"][1]["budget"], json!(5));
    assert_eq!(turns["turns"][0]["feedback_delivery"], json!("consumed"));
    assert_eq!(turns["turns"].as_array().map(Vec::len), Some(3));
    let comments = read(root, id, "comments.json");
    assert_eq!(comments["comments"].as_array().map(Vec::len), Some(2), "the notes moved over");
    let history = read(root, id, "status-changelog.json");
    assert_eq!(history["changes"].as_array().map(Vec::len), Some(4), "the made-up history is kept with the new row");
    let before = (store.rows(), store.load_task(id).expect("reads"));
    drop(store);
    let store = open(root);
    assert_eq!((store.rows(), store.load_task(id).expect("reads")), before);
}

#[test]
fn a_store_of_a_later_layout_is_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::write(dir.path().join("version.json"), r#"{"schema_version": 2}"#).expect("writes");
    let error = Store::open(&process(), dir.path()).expect_err("later");
    assert!(error.message().contains("layout 2"), "{error}");
    std::fs::write(
        dir.path().join("version.json"),
        r#"{"schema_version": 1, "migrated_at": "x", "migrated_from": "y"}"#,
    )
    .expect("writes");
    open(dir.path());
    let text = std::fs::read_to_string(dir.path().join("version.json")).expect("reads");
    assert!(text.contains("migrated_from"), "a version that fits is not rewritten");
}
