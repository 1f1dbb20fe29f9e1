//! Torn records: reported, contained, never overwritten.

use super::*;
use crate::base::Kind;

fn file(temp: &Temp, id: TaskId, name: &str) -> PathBuf {
    temp.dir.path().join("tasks").join(id.to_string()).join(name)
}

/// Cuts a file in half; returns what is left of it.
fn tear(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("reads");
    bytes.truncate(bytes.len() / 2);
    std::fs::write(path, &bytes).expect("writes");
    bytes
}

#[test]
fn a_torn_file_damages_its_own_task_only() {
    for name in ["task.json", "session.json", "turns.json", "status-changelog.json", "prompt-history.json"] {
        let temp = Temp::new();
        let (good, bad) = (temp.start(1, "good"), temp.start(2, "bad"));
        let path = file(&temp, bad, name);
        let whole = std::fs::read(&path).expect("reads");
        let torn = tear(&path);
        let temp = temp.reopened();
        temp.one(good, Change::PendingSync(1)).expect("the other task works");
        let error = temp.store.load_task(bad).expect_err("torn");
        assert_eq!(error.kind(), Kind::Io, "{name}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("line ") && text.contains("column "), "{text}");
        let refused = temp.one(bad, Change::PendingSync(1)).expect_err("torn");
        assert_eq!(refused.kind(), Kind::Io, "{name}");
        let twin = temp.store.apply(vec![created(bad, "twin")]).expect_err("never absent");
        assert!(matches!(twin.kind(), Kind::Conflict | Kind::Io), "{twin}");
        assert_eq!(std::fs::read(&path).expect("reads"), torn, "{name} was touched");
        let damaged = temp.store.damaged();
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!((damaged[0].task, damaged[0].path.as_path()), (bad, path.as_path()));
        assert_eq!(temp.store.resolve(&bad.to_string()).expect("named by its id"), bad);
        let mut seen = Vec::new();
        temp.store.for_each_record(|record| seen.push(record.task.id));
        assert_eq!(seen, [good]);
        std::fs::write(&path, &whole).expect("mends");
        assert_eq!(temp.store.damaged(), [], "a mended file counts again");
        temp.one(bad, Change::PendingSync(1)).expect("works again");
        assert_eq!(temp.store.row(bad).expect("row").task.pending_sync, 1);
    }
}

#[test]
fn a_row_of_the_wrong_shape_is_named_by_its_place() {
    let temp = Temp::new();
    let id = temp.start(1, "fix-it");
    temp.one(id, Change::Turn(Box::new(turn(id, 1, Role::Human)))).expect("turn");
    let path = file(&temp, id, "turns.json");
    let text = std::fs::read_to_string(&path).expect("reads");
    std::fs::write(&path, text.replace("\"role\": \"human\"", "\"role\": \"nobody\"")).expect("writes");
    let line = text.lines().position(|line| line.contains("\"role\"")).expect("line") + 1;
    let error = temp.store.load_task(id).expect_err("wrong").to_string();
    assert!(error.contains("nobody") && error.contains(&format!("line {line} column")), "{error}");
    for (content, what) in [("{\"turns\": 5}", "not a list"), ("{\"turns\": [5]}", "not an object"), ("[]", "line 1")] {
        std::fs::write(&path, content).expect("writes");
        let error = temp.store.load_task(id).expect_err("wrong").to_string();
        assert!(error.contains("turns.json") && error.contains(what), "{error}");
    }
}

#[test]
fn an_empty_file_is_torn_and_not_absent() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    std::fs::write(file(&temp, id, "comments.json"), "").expect("writes");
    let error = temp.one(id, Change::Comment(Box::new(comment(id, "c", "x")))).expect_err("torn");
    assert_eq!(error.kind(), Kind::Io);
    let temp = temp.reopened();
    assert_eq!(temp.store.damaged().len(), 1);
    assert_eq!(std::fs::read(file(&temp, id, "comments.json")).expect("reads"), b"");
}

#[test]
fn a_task_that_lost_its_record_is_damaged_and_not_new() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    std::fs::remove_file(file(&temp, id, "task.json")).expect("removes");
    let temp = temp.reopened();
    assert!(temp.store.damaged()[0].message.contains("missing"));
    assert_eq!(temp.store.load_task(id).expect_err("damaged").kind(), Kind::Io);
    let error = temp.store.apply(vec![created(id, "twin")]).expect_err("what is left is not overwritten");
    assert_eq!(error.kind(), Kind::Io);
}

#[test]
fn a_record_in_the_wrong_directory_is_damaged() {
    let temp = Temp::new();
    let (a, b) = (temp.create(1, "aa"), temp.create(2, "bb"));
    std::fs::copy(file(&temp, a, "task.json"), file(&temp, b, "task.json")).expect("copies");
    let temp = temp.reopened();
    let error = temp.store.load_task(b).expect_err("it says it is another");
    assert!(error.to_string().contains(&a.to_string()), "{error}");
    assert_eq!(temp.store.rows().len(), 1);
}

#[test]
fn litter_is_swept_and_strangers_stay() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    let tasks = temp.dir.path().join("tasks");
    std::fs::write(file(&temp, id, ".task.json.x.tmp"), "half").expect("writes");
    std::fs::create_dir(tasks.join(format!("{id}.tmp.17"))).expect("dir");
    std::fs::write(tasks.join("README"), "ours").expect("writes");
    std::fs::create_dir(tasks.join(task_id(7).to_string())).expect("an empty directory of a write that never was");
    std::fs::create_dir_all(file(&temp, task_id(8), "protocol")).expect("dir");
    let temp = temp.reopened();
    assert_no_litter(temp.dir.path());
    assert!(!tasks.join(format!("{id}.tmp.17")).exists());
    assert!(tasks.join("README").exists());
    assert_eq!(temp.store.rows().len(), 1);
    assert_eq!(temp.store.damaged(), []);
    assert_eq!(temp.store.load_task(task_id(7)).expect_err("empty").kind(), Kind::NotFound);
}
