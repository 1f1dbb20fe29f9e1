//! A process killed at every checkpoint of a write, and of the completion of one.
//!
//! The test binary starts itself again: with `LAZY_TEST_STORE` in the environment a test is the process to be killed.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;
use crate::base::checkpoint;
use crate::model::RaisedItem;

const ROOT: &str = "LAZY_TEST_STORE";

/// What the killed process was to write: three tasks, nineteen files.
fn edits() -> Vec<Edit> {
    let (a, b, c) = (task_id(1), task_id(2), task_id(3));
    let mut item = RaisedItem::new(a, "why?", true, NOW);
    item.id = "item".into();
    let mut answer = turn(a, 1, Role::Agent);
    answer.id = "turn".into();
    let entry = serde_json::json!({ "id": "j", "task_id": a, "content": "x", "created_at": 1, "actor": "agent" });
    vec![
        Edit::new(a, Change::Turn(Box::new(answer))),
        Edit::new(a, Change::Status { to: Status::Blocked, by: human() }),
        Edit::new(a, Change::Comment(Box::new(comment(a, "c", "note")))),
        Edit::new(a, Change::Raised(Box::new(item))),
        Edit::new(a, Change::Journal(Box::new(serde_json::from_value(entry).expect("an entry")))),
        created(c, "cc"),
        Edit::new(b, Change::PendingSync(3)),
        Edit::new(b, Change::Tagged { tag: "tag".into(), by: human() }),
    ]
}

const FILES: u32 = 19;

fn prepare(root: &Path) {
    let store = open(root);
    for (number, code) in [(1, "aa"), (2, "bb")] {
        let id = task_id(number);
        let begin = vec![
            created(id, code),
            Edit::new(id, Change::SessionStarted(Box::new(session(id)))),
            Edit::new(id, Change::Status { to: Status::Working, by: human() }),
        ];
        store.apply(begin).expect("prepares");
    }
}

/// Everything the store says, the random ids of prompts aside.
fn contents(store: &Store) -> Vec<TaskRecord> {
    assert_eq!(store.damaged(), []);
    let mut records = Vec::new();
    store.for_each_record(|mut record| {
        record.prompts.iter_mut().for_each(|prompt| prompt.id = String::new());
        records.push(record);
    });
    assert_eq!(records.len(), store.rows().len());
    records.sort_by_key(|record| record.task.id);
    records
}

/// The part of the process that is killed; `None` when this is the test itself.
fn child(work: impl FnOnce(&Path)) -> Option<()> {
    let process = Process::real().expect("process");
    let root = PathBuf::from(process.var(ROOT)?);
    checkpoint::arm(process.var("LAZY_CHECKPOINT"), process.var("LAZY_CHECKPOINT_FILE").map(Path::new));
    work(&root);
    Some(())
}

/// Runs the named test as a child up to the checkpoint and kills it there; `false` when it ended without coming by.
fn kill_at(test: &str, root: &Path, checkpoint: &str, count: u32) -> bool {
    let marker = root.with_extension(format!("marker-{checkpoint}-{count}"));
    let mut child = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["--exact", &format!("store::tests::crash::{test}"), "--test-threads", "1"])
        .env(ROOT, root)
        .env("LAZY_CHECKPOINT", format!("{checkpoint}:{count}"))
        .env("LAZY_CHECKPOINT_FILE", &marker)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    loop {
        if std::fs::read_to_string(&marker).is_ok_and(|text| text.ends_with('\n')) {
            child.kill().expect("kills");
            child.wait().expect("ends");
            std::fs::remove_file(&marker).expect("removes");
            return true;
        }
        if let Some(status) = child.try_wait().expect("asks") {
            assert!(status.success(), "the child failed before {checkpoint}:{count}: {status}");
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_write_killed_anywhere_happened_whole_or_not_at_all() {
    if child(|root| open(root).apply(edits()).expect("applies")).is_some() {
        return;
    }
    let dir = memory_dir();
    let reference = dir.path().join("reference");
    prepare(&reference);
    let store = open(&reference);
    let before = contents(&store);
    store.apply(edits()).expect("applies");
    let after = contents(&store);
    assert_ne!(before, after);
    let each = |name: &'static str| (1..=FILES).map(move |count| (name, count));
    let undecided = each("store.staged-file").chain([("store.before-intent", 1), ("files.before-rename", 1)]);
    let decided = [("store.after-intent", 1)]
        .into_iter()
        .chain(each("store.between-files"))
        .chain([("store.after-files", 1), ("store.after-intent-removed", 1)]);
    let all = undecided.map(|at| (at, &before)).chain(decided.map(|at| (at, &after)));
    for (number, ((checkpoint, count), expected)) in all.enumerate() {
        let root = dir.path().join(format!("store-{number}"));
        prepare(&root);
        let test = "a_write_killed_anywhere_happened_whole_or_not_at_all";
        assert!(kill_at(test, &root, checkpoint, count), "{checkpoint}:{count} was not reached");
        let store = open(&root);
        assert_eq!(&contents(&store), expected, "killed at {checkpoint}:{count}");
        assert_no_litter(&root);
        store.apply(vec![Edit::new(task_id(2), Change::PendingSync(9))]).expect("the store takes writes");
        if *expected == before {
            store.apply(edits()).expect("the lost list can be applied again");
        }
    }
    let root = dir.path().join("one-more");
    prepare(&root);
    let test = "a_write_killed_anywhere_happened_whole_or_not_at_all";
    assert!(!kill_at(test, &root, "store.between-files", FILES + 1), "there are more files than were tried");
    assert_eq!(contents(&open(&root)), after);
}

#[test]
fn a_completion_killed_anywhere_is_completed_by_the_next_start() {
    if child(|root| open(root).apply(edits()).expect("applies")).is_some() {
        return;
    }
    let test = "a_completion_killed_anywhere_is_completed_by_the_next_start";
    let dir = memory_dir();
    let reference = dir.path().join("reference");
    prepare(&reference);
    let store = open(&reference);
    store.apply(edits()).expect("applies");
    let after = contents(&store);
    for count in [1, 2, 10, FILES - 1, FILES] {
        let root = dir.path().join(format!("store-{count}"));
        prepare(&root);
        assert!(kill_at(test, &root, "store.between-files", 4), "the write is reached");
        assert!(kill_at(test, &root, "store.replayed-file", count), "the completion is reached");
        let store = open(&root);
        assert_eq!(contents(&store), after, "killed at file {count} of the completion");
        assert_no_litter(&root);
    }
}

#[test]
fn a_single_file_killed_before_its_rename_is_the_old_one() {
    if child(|root| {
        let edit = Edit::new(task_id(1), Change::Comment(Box::new(comment(task_id(1), "c", "note"))));
        open(root).apply(vec![edit]).expect("applies");
    })
    .is_some()
    {
        return;
    }
    let test = "a_single_file_killed_before_its_rename_is_the_old_one";
    let dir = memory_dir();
    let root = dir.path().join("store");
    prepare(&root);
    assert!(kill_at(test, &root, "files.before-rename", 1));
    let store = open(&root);
    assert!(store.load_task(task_id(1)).expect("reads").comments.is_empty());
    assert_no_litter(&root);
}
