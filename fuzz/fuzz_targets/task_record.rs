//! A task's records, of this and of older stores: each is read, or named as damaged; never lost, never a panic.

#![no_main]

use std::fs;
use std::path::Path;

use lazy::base::{Millis, Process};
use lazy::store::Store;
use libfuzzer_sys::fuzz_target;

const ID: &str = "0b6c1f1e-5a0b-4c1d-9f53-2f6f9a1f7c11";

fuzz_target!(|input: (Fields, Vec<(u8, Vec<u8>)>)| {
    const FILES: [&str; 10] = [
        "session.json",
        "turns.json",
        "commits.json",
        "prompt-history.json",
        "comments.json",
        "notes.json",
        "raised-items.json",
        "follow-ups.json",
        "status-changelog.json",
        "tag-history.json",
    ];
    let (Fields(task), others) = input;
    let dir = tempfile::tempdir().expect("a directory");
    let home = dir.path().join("tasks").join(ID);
    fs::create_dir_all(&home).expect("creates");
    fs::write(home.join("task.json"), task).expect("writes");
    for (file, bytes) in others {
        fs::write(home.join(FILES[usize::from(file) % FILES.len()]), bytes).expect("writes");
    }
    let process = Process::fake(["lazy"], &[], Path::new("/nowhere"), Millis(0));
    let store = Store::open(&process, dir.path()).expect("one bad record closes no store");
    let id = ID.parse().expect("an id");
    let known = store.rows().iter().any(|row| row.id() == id);
    let damaged = store.damaged().iter().any(|damaged| damaged.task == id);
    assert!(known || damaged, "a task that has records is there, or named");
    store.load_task(id).ok();
});

/// A task record: the fuzzer's bytes, put behind an id and a status so that most of it is reached.
#[derive(Debug)]
struct Fields(Vec<u8>);

impl<'a> arbitrary::Arbitrary<'a> for Fields {
    fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        let rest = Vec::<u8>::arbitrary(u)?;
        if u.arbitrary()? {
            return Ok(Fields(rest));
        }
        let mut text = format!("{{\"id\":\"{ID}\",\"goal\":\"g\",\"status\":\"blocked\",\"created_at\":1").into_bytes();
        text.extend(rest);
        text.push(b'}');
        Ok(Fields(text))
    }
}
