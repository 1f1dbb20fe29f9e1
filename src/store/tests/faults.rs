//! A disk that refuses: nothing is half-written, and the error says the truth.
//!
//! A limit on the size of files stands in for a full disk: the system refuses the write in the same place. The test
//! binary starts itself again below `ulimit -f`; with `LAZY_TEST_FULL` in the environment a test is that process.

use std::process::Command;

use super::*;
use crate::base::Kind;
use crate::model::{RaisedItem, RaisedStatus};
use crate::store::journal::{Failed, Journal, NewFile};

const ROOT: &str = "LAZY_TEST_FULL";

fn child() -> Option<PathBuf> {
    Process::real().expect("process").var(ROOT).map(PathBuf::from)
}

/// Runs the named test in a process whose files may have at most 64 KiB.
fn run_limited(test: &str, root: &Path) {
    let output = Command::new("sh")
        // Blocks of 512 bytes in one shell, of 1024 in another: 32 to 64 KiB.
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("the test binary"))
        .args(["--exact", &format!("store::tests::faults::{test}"), "--test-threads", "1", "--nocapture"])
        .env(ROOT, root)
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn big() -> String {
    "x".repeat(200_000)
}

#[test]
fn a_full_disk_leaves_everything_as_it_was() {
    let Some(root) = child() else {
        let dir = tempfile::tempdir().expect("temp dir");
        let temp = Temp { store: open(dir.path()), dir, process: process() };
        temp.start(1, "fix-it");
        let Temp { store, dir, .. } = temp;
        drop(store);
        return run_limited("a_full_disk_leaves_everything_as_it_was", dir.path());
    };
    let store = open(&root);
    let id = task_id(1);
    let before = tree(&root);
    let rows = store.rows();
    let mut events = store.subscribe();
    let small = || Edit::new(id, Change::Status { to: Status::Blocked, by: human() });
    let mut long_turn = turn(id, 1, Role::Agent);
    long_turn.content = big();
    let mut long_task = new_task(task_id(2), "long");
    long_task.goal = big();
    let big_ones = [
        Edit::new(id, Change::Turn(Box::new(long_turn))),
        Edit::new(id, Change::Comment(Box::new(comment(id, "c", &big())))),
        Edit::new(id, Change::Prompt(big())),
        Edit::new(id, Change::Meta("k".into(), Some(big()))),
        Edit::new(task_id(2), Change::Created { task: Box::new(long_task), by: human() }),
    ];
    for edit in big_ones {
        for list in
            [vec![edit.clone()], vec![small(), edit.clone()], vec![edit.clone(), created(task_id(3), "cc"), small()]]
        {
            let error = store.apply(list).expect_err("too big");
            assert_eq!(error.kind(), Kind::Io);
            assert!(error.message().contains("nothing was applied"), "{error}");
            assert_eq!(tree(&root), before, "{edit:?}");
            assert_eq!(store.rows(), rows);
        }
    }
    assert!(events.try_recv().is_err(), "nothing was told");
    assert_eq!(std::fs::read_dir(root.join("tasks")).expect("lists").count(), 1, "no directory of a task that is not");
    store.apply(vec![small()]).expect("what fits is written");
    drop(store);
    assert_eq!(open(&root).row(id).expect("row").status(), Status::Blocked);
}

/// A store in which the record of task 1 is large, and the place of task 2 takes no files: it leads into `/proc`.
fn obstructed(root: &Path) {
    let store = open(root);
    let id = task_id(1);
    let mut item = RaisedItem::new(id, big(), true, NOW);
    item.id = "item".into();
    store.apply(vec![created(id, "aa"), Edit::new(id, Change::Raised(Box::new(item)))]).expect("prepares");
    std::os::unix::fs::symlink("/proc/self", place_of_two(root)).expect("links");
}

/// Shortens the large record, and creates task 2.
fn obstructed_edits() -> Vec<Edit> {
    let mut item = RaisedItem::new(task_id(1), "short", true, NOW);
    item.id = "item".into();
    item.status = RaisedStatus::Dismissed;
    vec![Edit::new(task_id(1), Change::RaisedUpdated(Box::new(item))), created(task_id(2), "bb")]
}

fn place_of_two(root: &Path) -> PathBuf {
    root.join("tasks").join(task_id(2).to_string())
}

#[test]
fn a_list_that_cannot_be_put_in_place_is_taken_back() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path();
    obstructed(root);
    let store = open(root);
    let before = store.load_task(task_id(1)).expect("reads");
    let error = store.apply(obstructed_edits()).expect_err("nothing can be written there");
    assert!(error.message().contains("nothing was applied"), "{error}");
    assert_eq!(store.load_task(task_id(1)).expect("reads"), before);
    std::fs::remove_file(place_of_two(root)).expect("removes the link");
    store.apply(obstructed_edits()).expect("the way is free");
    assert!(store.load_task(task_id(2)).is_ok());
    assert_no_litter(root);
}

#[test]
fn a_list_that_cannot_be_taken_back_stops_all_writes_until_it_is_completed() {
    let Some(root) = child() else {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path();
        obstructed(root);
        run_limited("a_list_that_cannot_be_taken_back_stops_all_writes_until_it_is_completed", root);
        std::fs::remove_file(place_of_two(root)).expect("removes the link");
        let store = open(root);
        assert_eq!(store.load_task(task_id(1)).expect("reads").raised[0].status, RaisedStatus::Dismissed);
        assert_eq!(store.load_task(task_id(2)).expect("reads").task.code.expect("code").as_str(), "bb");
        assert_eq!(store.rows().len(), 2);
        return assert_no_litter(root);
    };
    let store = open(&root);
    let rows = store.rows();
    let error = store.apply(obstructed_edits()).expect_err("the large record cannot be written back");
    assert!(error.message().contains("opening the store again completes it"), "{error}");
    assert_eq!(store.rows(), rows);
    let refused = store.apply(vec![created(task_id(3), "cc")]).expect_err("poisoned");
    assert!(refused.message().contains("takes no writes until it is opened again"), "{refused}");
    let unreadable = store.load_task(task_id(1)).expect_err("its files may be half-written");
    assert_eq!(unreadable.kind(), Kind::Io);
}

#[test]
fn a_failure_after_the_decision_is_undone() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path();
    std::fs::create_dir_all(root.join("tasks/x/b.json/inside")).expect("a directory stands in the way");
    std::fs::write(root.join("tasks/x/a.json"), "old").expect("writes");
    let mut journal = Journal::open(root).expect("opens");
    let file = |path: &str| NewFile { path: path.into(), bytes: b"new".to_vec() };
    let before = tree(root);
    let error = journal.write(&[file("tasks/x/a.json"), file("tasks/y/c.json"), file("tasks/x/b.json")]);
    match error.expect_err("b.json is a directory") {
        Failed::NotApplied(error) => assert!(error.to_string().contains("b.json"), "{error}"),
        Failed::Unclear(error) => panic!("it was undone: {error}"),
    }
    assert_eq!(tree(root), before);
    assert!(!root.join("tasks/y").exists());
    journal.write(&[file("tasks/x/a.json"), file("tasks/y/c.json")]).expect("the next write works");
    assert_eq!(std::fs::read(root.join("tasks/y/c.json")).expect("reads"), b"new");
    assert_no_litter(root);
}

#[test]
fn an_intent_that_makes_no_sense_is_thrown_away() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path();
    std::fs::create_dir_all(root.join("journal")).expect("dir");
    std::fs::write(root.join("outside"), "mine").expect("writes");
    let intent = |path: &str, content: &[u8]| {
        let hash = blake3::hash(content).to_hex().to_string();
        serde_json::json!({ "files": [{ "path": path, "staged": "00000001.0", "blake3": hash }] }).to_string()
    };
    let cases = [
        "{\"files\": [{".to_string(),
        intent("../outside", b"new"),
        intent("version.json", b"new"),
        intent("tasks/x/a.json", b"something else"),
    ];
    for text in cases {
        std::fs::write(root.join("journal/00000001.0"), "new").expect("writes");
        std::fs::write(root.join("journal/00000001.json"), &text).expect("writes");
        Journal::open(root).expect("opens");
        assert_no_litter(root);
        assert_eq!(std::fs::read(root.join("outside")).expect("reads"), b"mine");
        assert!(!root.join("tasks/x/a.json").exists() && !root.join("version.json").exists(), "{text}");
    }
    std::fs::create_dir_all(root.join("tasks")).expect("dir");
    std::fs::write(root.join("journal/00000001.0"), "new").expect("writes");
    std::fs::write(root.join("journal/00000001.json"), intent("tasks/x/a.json", b"new")).expect("writes");
    Journal::open(root).expect("opens");
    assert_eq!(std::fs::read(root.join("tasks/x/a.json")).expect("reads"), b"new", "one that does is completed");
}
