//! Naming, listing, the lock, and readers beside a writer.

use super::*;
use crate::base::Kind;
use crate::model::task::META_TASK_REF;

#[test]
fn one_writer_at_a_time() {
    let temp = Temp::new();
    let error = Store::open(&temp.process, temp.dir.path()).expect_err("in use");
    assert_eq!(error.kind(), Kind::Conflict);
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    assert!(text.contains(".storage-lock"), "{text}");
    let clone = temp.store.clone();
    let Temp { store, dir, process } = temp;
    drop(store);
    assert!(Store::open(&process, dir.path()).is_err(), "a clone still holds it");
    drop(clone);
    open(dir.path());
}

#[test]
fn tasks_are_named_by_id_code_and_prefix() {
    let temp = Temp::new();
    let (a, b) = (temp.create(1, "fix-it"), temp.create(2, ""));
    assert_eq!(temp.store.resolve("fix-it").expect("code"), a);
    assert_eq!(temp.store.resolve(&b.to_string()).expect("id"), b);
    assert_eq!(temp.store.resolve("aaaa").expect_err("both").kind(), Kind::Ambiguous);
    assert_eq!(temp.store.resolve("nothing").expect_err("none").kind(), Kind::NotFound);
    assert!(temp.store.ref_taken("fix-it", b));
    assert!(!temp.store.ref_taken("fix-it", a), "its own does not count");
    temp.one(b, Change::Meta(META_TASK_REF.into(), Some("fix-it-26-01-01".into()))).expect("sets");
    assert!(temp.store.ref_taken("fix-it-26-01-01", a));
}

#[test]
fn rows_come_newest_first_without_what_is_long() {
    let temp = Temp::new();
    for number in 1..=3 {
        let mut task = new_task(task_id(number), "");
        task.created_at = Millis(i64::from(number) * 10);
        temp.one(task_id(number), Change::Created { task: Box::new(task), by: human() }).expect("creates");
    }
    let order = |store: &Store| store.rows().iter().map(|row| row.id()).collect::<Vec<_>>();
    assert_eq!(order(&temp.store), [task_id(3), task_id(2), task_id(1)]);
    assert!(temp.store.rows().iter().all(|row| row.task.prompt.is_empty()));
    let temp = temp.reopened();
    assert_eq!(order(&temp.store), [task_id(3), task_id(2), task_id(1)]);
}

#[test]
fn a_reader_never_sees_half_a_list() {
    let temp = Temp::new();
    let id = temp.start(1, "fix-it");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) || reads == 0 {
                let record = temp.record(id);
                assert_eq!(record.statuses.last().map(|row| row.status), Some(record.task.status));
                assert_eq!(record.task.pending_sync as usize, record.comments.len());
                reads += 1;
            }
        });
        for number in 1..=20_u32 {
            let to = if number % 2 == 1 { Status::Blocked } else { Status::Working };
            let edits = vec![
                Edit::new(id, Change::Comment(Box::new(comment(id, &number.to_string(), "x")))),
                Edit::new(id, Change::Status { to, by: human() }),
                Edit::new(id, Change::PendingSync(number)),
            ];
            temp.store.apply(edits).expect("applies");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().expect("the reader saw whole lists only");
    });
}

#[test]
fn subscribers_see_the_order_that_the_disk_has() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    let mut events = temp.store.subscribe();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = temp.store.clone();
            scope.spawn(move || {
                for number in 0..5 {
                    let tag = format!("t{thread}-{number}");
                    store.apply(vec![Edit::new(id, Change::Tagged { tag, by: human() })]).expect("applies");
                }
            });
        }
    });
    let mut told = Vec::new();
    while let Ok(applied) = events.try_recv() {
        for edit in &applied.edits {
            match &edit.effect {
                super::super::Effect::Tagged { tag } => told.push(tag.clone()),
                other => panic!("only tags were added: {other:?}"),
            }
        }
    }
    let kept: Vec<String> = temp.record(id).tag_events.iter().map(|event| event.tag.clone()).collect();
    assert_eq!(told.len(), 20);
    assert_eq!(told, kept);
}
