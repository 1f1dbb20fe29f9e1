//! Any sequence of edits leaves the disk and the memory equal.

use proptest::prelude::*;

use super::*;
use crate::model::{RaisedItem, Target};
use crate::store::{Interruption, SessionPatch, TaskPatch};

fn any_change(task: u32) -> impl Strategy<Value = Change> {
    let id = task_id(task);
    let status = (0..Status::ALL.len(), prop::bool::ANY).prop_map(|(at, system)| Change::Status {
        to: Status::ALL[at],
        by: if system { Actor::System.into() } else { human() },
    });
    let code =
        prop::option::of(0..3_u8).prop_map(|code| code.map(|code| Code::new(&format!("code-{code}")).expect("a code")));
    let target = prop::option::of(1..4_u32).prop_map(|parent| match parent {
        Some(parent) => Target::Task { parent_task_id: task_id(parent) },
        None => Target::default_branch(),
    });
    let fields = (prop::option::of("[a-z]{0,4}"), prop::option::of(code), prop::option::of(target)).prop_map(
        |(goal, code, target)| Change::Task(Box::new(TaskPatch { goal, code, target, ..Default::default() })),
    );
    let session = (any::<[bool; 4]>(), prop::option::of(0..9_u32)).prop_map(|(flags, reserved)| {
        let interrupted =
            flags[0].then(|| Interruption { reason: "r".into(), exit_code: None, logs: Some("log".into()) });
        Change::Session(Box::new(SessionPatch {
            interrupted,
            reopened: flags[1],
            ended: flags[2].then_some((Millis(9), crate::model::Outcome::Accepted)),
            touched: flags[3],
            reserved_turn_sequence: reserved,
            ..Default::default()
        }))
    });
    let turn = (1..6_u32, prop::bool::ANY).prop_map(move |(sequence, agent)| {
        Change::Turn(Box::new(turn(id, sequence, if agent { Role::Agent } else { Role::Human })))
    });
    let raised = ("[a-b]", prop::bool::ANY)
        .prop_map(move |(text, blocking)| Change::Raised(Box::new(RaisedItem::new(id, text, blocking, Millis(2)))));
    prop_oneof![
        5 => status,
        2 => Just(Change::Created { task: Box::new(new_task(id, "")), by: human() }),
        2 => fields,
        2 => session,
        2 => Just(Change::SessionStarted(Box::new(super::session(id)))),
        2 => turn,
        1 => raised,
        1 => "[a-c]{0,2}".prop_map(Change::Prompt),
        1 => ("[a-b]", prop::option::of("[a-b]")).prop_map(|(key, value)| Change::Meta(key, value)),
        1 => (0..3_u32).prop_map(Change::PendingSync),
        1 => Just(Change::FeedbackConsumed),
        1 => "[a-c]{1,2}".prop_map(move |name| Change::Comment(Box::new(comment(id, &name, "text")))),
        1 => "[a-b]".prop_map(|tag| Change::Tagged { tag, by: human() }),
        1 => "[a-b]".prop_map(|tag| Change::Untagged { tag, by: human() }),
    ]
}

fn any_edit() -> impl Strategy<Value = Edit> {
    (1..4_u32).prop_flat_map(|task| any_change(task).prop_map(move |change| Edit::new(task_id(task), change)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_disk_and_the_memory_stay_equal(lists in prop::collection::vec(prop::collection::vec(any_edit(), 1..4), 1..12)) {
        let temp = Temp::within(memory_dir());
        for number in 1..=2 {
            temp.start(number, "");
        }
        for list in lists {
            let before = tree(temp.dir.path());
            let rows = temp.store.rows();
            if let Err(error) = temp.store.apply(list.clone()) {
                prop_assert!(!matches!(error.kind(), crate::base::Kind::Internal | crate::base::Kind::Io), "{error}");
                prop_assert_eq!(tree(temp.dir.path()), before, "a refused list touched the disk: {:?}", list);
                prop_assert_eq!(temp.store.rows(), rows);
            }
        }
        let records = |temp: &Temp| temp.store.rows().iter().map(|row| temp.record(row.id())).collect::<Vec<_>>();
        let (rows, read) = (temp.store.rows(), records(&temp));
        for record in &read {
            prop_assert_eq!(record.statuses.last().map(|row| row.status), Some(record.task.status));
            prop_assert_eq!(record.task.completed_at.is_some(), record.task.status.is_terminal());
        }
        let temp = temp.reopened();
        prop_assert_eq!(temp.store.rows(), rows);
        prop_assert_eq!(records(&temp), read);
        prop_assert_eq!(temp.store.damaged(), vec![]);
        assert_no_litter(temp.dir.path());
    }
}
