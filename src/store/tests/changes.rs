//! What each change does, and what it refuses.

use super::*;
use crate::base::Kind;
use crate::model::notes::TagAction;
use crate::model::task::InFlightTurn;
use crate::model::{
    Commit, CommitStatus, Delivery, JournalEntry, Outcome, Priority, RaisedItem, RaisedStatus, RunnerKind, Snapshot,
    Target, TaskType, TurnKind, Usage, Violation, ViolationStatus,
};
use crate::store::{Effect, Interruption, SessionPatch, TaskPatch};

fn patch(patch: TaskPatch) -> Change {
    Change::Task(Box::new(patch))
}

fn to(status: Status) -> Change {
    Change::Status { to: status, by: human() }
}

#[test]
fn a_new_task_has_its_first_prompt_and_its_first_status() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    let record = temp.record(id);
    assert_eq!(record.task, new_task(id, "fix-it"));
    assert_eq!((record.prompts.len(), record.prompts[0].version), (1, 1));
    assert_eq!(record.prompts[0].content, "prompt of fix-it");
    assert_eq!(record.statuses.len(), 1);
    assert_eq!(record.statuses[0].status, Status::Backlog);
    assert_eq!(record.statuses[0].timestamp, record.task.created_at);
    let dir = temp.dir.path().join("tasks").join(id.to_string());
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("lists")
        .map(|e| e.expect("entry").file_name().into_string().expect("utf8"))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "comments.json",
            "commits.json",
            "prompt-history.json",
            "raised-items.json",
            "reviews.json",
            "snapshots.json",
            "status-changelog.json",
            "tag-history.json",
            "task.json",
            "turns.json"
        ]
    );
}

#[test]
fn a_code_belongs_to_one_live_task() {
    let temp = Temp::new();
    let first = temp.create(1, "fix-it");
    let error = temp.store.apply(vec![created(task_id(2), "fix-it")]).expect_err("taken");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains(&first.short()) && error.message().contains("backlog"), "{error}");
    assert!(temp.store.row(task_id(2)).is_none());
    let second = temp.create(2, "other");
    let take = patch(TaskPatch { code: Some(Some(Code::new("fix-it").expect("code"))), ..Default::default() });
    assert_eq!(temp.one(second, take.clone()).expect_err("taken").kind(), Kind::Conflict);
    temp.one(first, to(Status::Abandoned)).expect("closes");
    temp.one(second, take).expect("the code of a finished task is free");
    let error = temp.one(first, to(Status::Backlog)).expect_err("reopening would make two of it");
    assert!(error.message().contains(&second.short()), "{error}");
    temp.one(first, patch(TaskPatch { code: Some(None), ..Default::default() })).expect("a code is never frozen");
    temp.one(first, to(Status::Backlog)).expect("reopens without it");
}

#[test]
fn two_tasks_of_one_list_cannot_share_a_code() {
    let temp = Temp::new();
    let error = temp.store.apply(vec![created(task_id(1), "same"), created(task_id(2), "same")]).expect_err("twice");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(temp.store.rows().is_empty());
    assert_eq!(temp.store.load_task(task_id(1)).expect_err("nothing").kind(), Kind::NotFound);
}

#[test]
fn a_status_comes_with_its_history_and_its_end() {
    let temp = Temp::new();
    let id = temp.start(1, "fix-it");
    temp.one(id, to(Status::Working)).expect("staying is fine");
    assert_eq!(temp.record(id).statuses.len(), 2, "staying writes nothing");
    let error = temp.one(id, to(Status::Complete)).expect_err("not from working");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("fix-it"), "{error}");
    let list = [Status::Blocked, Status::Merging, Status::Complete].map(|status| Edit::new(id, to(status)));
    temp.store.apply(list.to_vec()).expect("a list of steps");
    let record = temp.record(id);
    assert_eq!(record.task.completed_at, Some(NOW));
    let steps: Vec<Status> = record.statuses.iter().map(|row| row.status).collect();
    assert_eq!(steps, [Status::Backlog, Status::Working, Status::Blocked, Status::Merging, Status::Complete]);
    temp.one(id, to(Status::Blocked)).expect("reopens");
    assert_eq!(temp.record(id).task.completed_at, None);
    assert_eq!(temp.one(id, to(Status::Zombie)).expect_err("only the daemon").kind(), Kind::Conflict);
    temp.one(id, Change::Status { to: Status::Zombie, by: Actor::System.into() }).expect("the daemon may");
}

#[test]
fn a_list_with_one_refusal_changes_nothing() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    let before = tree(temp.dir.path());
    let row = temp.store.row(id);
    let edits =
        vec![Edit::new(id, Change::PendingSync(7)), created(task_id(2), "other"), Edit::new(id, to(Status::Merging))];
    assert_eq!(temp.store.apply(edits).expect_err("backlog cannot merge").kind(), Kind::Conflict);
    assert_eq!(tree(temp.dir.path()), before);
    assert_eq!(temp.store.row(id), row);
    let unknown = temp.one(task_id(9), Change::PendingSync(1)).expect_err("unknown");
    assert_eq!(unknown.kind(), Kind::NotFound);
}

#[test]
fn a_finished_task_is_frozen_but_for_its_handles() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    temp.one(id, to(Status::Abandoned)).expect("closes");
    let none = TaskPatch::default;
    let frozen = [
        TaskPatch { goal: Some("x".into()), ..none() },
        TaskPatch { task_type: Some(TaskType::Fix), ..none() },
        TaskPatch { priority: Some(Priority::High), ..none() },
        TaskPatch { target: Some(Target::Branch { branch: "dev".into() }), ..none() },
        TaskPatch { model: Some(Some("opus".into())), ..none() },
        TaskPatch { agent_id: Some("cursor".into()), ..none() },
        TaskPatch { runner_type: Some(Some(RunnerKind::Host)), ..none() },
    ];
    for fields in frozen {
        let error = temp.one(id, patch(fields.clone())).expect_err("frozen");
        assert_eq!(error.kind(), Kind::Conflict, "{fields:?}");
        assert!(error.hints()[0].starts_with("lazy reopen"));
    }
    assert_eq!(temp.one(id, Change::Prompt("x".into())).expect_err("frozen").kind(), Kind::Conflict);
    temp.one(id, Change::Prompt("prompt of fix-it".into())).expect("what it is already");
    temp.one(id, patch(TaskPatch { goal: Some("goal of fix-it".into()), ..none() })).expect("what it is already");
    temp.one(id, patch(TaskPatch { close_reason: Some(Some("done elsewhere".into())), ..none() })).expect("free");
    temp.one(id, Change::Meta("k".into(), Some("v".into()))).expect("free");
    temp.one(id, Change::Tagged { tag: "later".into(), by: human() }).expect("free");
    temp.one(id, Change::Comment(Box::new(comment(id, "c", "free")))).expect("free");
}

#[test]
fn fields_prompts_and_metadata_change() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    let fields = TaskPatch {
        goal: Some("new goal".into()),
        priority: Some(Priority::Urgent),
        model: Some(Some("opus".into())),
        branched_from_sha: Some(Some("abc".into())),
        ..Default::default()
    };
    temp.one(id, patch(fields)).expect("changes");
    temp.one(id, Change::Prompt("second".into())).expect("changes");
    temp.one(id, Change::Prompt("second".into())).expect("the same again");
    temp.one(id, Change::Meta("effort".into(), Some("high".into()))).expect("sets");
    temp.one(id, Change::PendingSync(2)).expect("sets");
    let record = temp.record(id);
    assert_eq!((record.task.goal.as_str(), record.task.priority), ("new goal", Priority::Urgent));
    assert_eq!(record.task.prompt, "second");
    assert_eq!(record.prompts.iter().map(|p| p.version).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(record.task.meta("effort"), Some("high"));
    assert_eq!(record.task.pending_sync, 2);
    temp.one(id, Change::Meta("effort".into(), None)).expect("removes");
    temp.one(id, Change::Meta("effort".into(), None)).expect("removing again is fine");
    assert_eq!(temp.record(id).task.metadata, None);
}

#[test]
fn parents_exist_and_form_no_circle() {
    let temp = Temp::new();
    let (a, b) = (temp.create(1, "aa"), temp.create(2, "bb"));
    let into =
        |parent| patch(TaskPatch { target: Some(Target::Task { parent_task_id: parent }), ..Default::default() });
    temp.one(b, into(a)).expect("b goes into a");
    assert_eq!(temp.store.children(a)[0].id(), b);
    let error = temp.one(a, into(b)).expect_err("a circle");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("aa into bb into aa"), "{error}");
    assert_eq!(temp.one(a, into(a)).expect_err("itself").kind(), Kind::Conflict);
    assert_eq!(temp.one(a, into(task_id(9))).expect_err("unknown").kind(), Kind::NotFound);
    let mut orphan = new_task(task_id(3), "cc");
    orphan.target = Target::Task { parent_task_id: task_id(9) };
    let change = Change::Created { task: Box::new(orphan), by: human() };
    assert_eq!(temp.one(task_id(3), change).expect_err("unknown").kind(), Kind::NotFound);
}

#[test]
fn a_session_runs_once_at_a_time() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    let touch = || Change::Session(Box::new(SessionPatch { touched: true, ..Default::default() }));
    assert_eq!(temp.one(id, touch()).expect_err("no session").kind(), Kind::Conflict);
    let turn_one = || Change::Turn(Box::new(turn(id, 1, Role::Human)));
    assert_eq!(temp.one(id, turn_one()).expect_err("no session").kind(), Kind::Conflict);
    let begin = || Change::SessionStarted(Box::new(session(id)));
    temp.one(id, begin()).expect("begins");
    assert_eq!(temp.one(id, begin()).expect_err("runs already").kind(), Kind::Conflict);
    let end = SessionPatch { ended: Some((Millis(5), Outcome::Rejected)), ..Default::default() };
    temp.one(id, Change::Session(Box::new(end))).expect("ends");
    let ended = temp.record(id).session.expect("session");
    assert_eq!((ended.ended_at, ended.outcome), (Some(Millis(5)), Some(Outcome::Rejected)));
    let reopen = SessionPatch { reopened: true, ..Default::default() };
    temp.one(id, Change::Session(Box::new(reopen))).expect("opens again");
    let open = temp.record(id).session.expect("session");
    assert_eq!((open.ended_at, open.outcome, open.agent_session_id), (None, None, None));
}

#[test]
fn session_fields_follow_their_rules() {
    let temp = Temp::new();
    let id = temp.start(1, "fix-it");
    let logs: Vec<String> = (1..=60).map(|n| format!("line {n}")).collect();
    let interrupted = Interruption { reason: "died".into(), exit_code: Some(9), logs: Some(logs.join("\n")) };
    let apply = |patch: SessionPatch| {
        temp.one(id, Change::Session(Box::new(patch))).expect("applies");
        temp.record(id).session.expect("session")
    };
    let none = SessionPatch::default;
    let after = apply(SessionPatch { interrupted: Some(interrupted), user_stopped: Some(true), ..none() });
    assert_eq!((after.consecutive_interruptions, after.user_stopped), (1, true));
    assert_eq!((after.interrupt_reason.as_deref(), after.interrupt_at), (Some("died"), Some(NOW)));
    let logs = after.interrupt_logs.expect("logs");
    assert!(logs.starts_with("line 11\n") && logs.ends_with("line 60"));
    assert_eq!(temp.store.row(id).expect("row").session.as_ref().expect("session").interrupt_logs, None);
    let after = apply(SessionPatch { interruptions_reset: true, auto_resumed: Some(true), ..none() });
    assert_eq!((after.consecutive_interruptions, after.user_stopped, after.auto_resumed), (0, false, true));
    let after = apply(SessionPatch { agent_id: Some("claude-code".into()), ..none() });
    assert_eq!(after.agent_session_id.as_deref(), Some("conversation"), "the same agent keeps its conversation");
    let after = apply(SessionPatch { agent_id: Some("cursor".into()), ..none() });
    assert_eq!(after.agent_session_id, None);
    let usage = Usage { input_tokens: 3, ..Default::default() };
    let fields = SessionPatch {
        container_name: Some(Some("lazy-fix-it".into())),
        runner_type: Some(RunnerKind::Host),
        upstream_merge_sha: Some("m".into()),
        reserved_turn_sequence: Some(4),
        notes_delivered_through: Some(Millis(8)),
        usage_added: Some(usage),
        ..none()
    };
    apply(fields);
    let after = apply(SessionPatch { usage_added: Some(usage), touched: true, ..none() });
    assert_eq!(after.total_usage.map(|usage| usage.input_tokens), Some(6));
    assert_eq!(after.container_name.as_deref(), Some("lazy-fix-it"));
    assert_eq!(after.last_interaction_at, Some(NOW));
    assert_eq!(temp.record(id).next_sequence(), 5);
}

#[test]
fn turns_count_time_and_tokens() {
    let temp = Temp::new();
    let id = temp.start(1, "fix-it");
    let mut asked = turn(id, 1, Role::Human);
    asked.timestamp = Millis(NOW.0 - 200);
    asked.feedback_delivery = Some(Delivery::Pending);
    temp.one(id, Change::Turn(Box::new(asked))).expect("asks");
    let mut answer = turn(id, 2, Role::Agent);
    answer.usage = Some(Usage { output_tokens: 5, ..Default::default() });
    temp.one(id, Change::Turn(Box::new(answer))).expect("answers");
    let record = temp.record(id);
    let session = record.session.expect("session");
    assert_eq!(session.total_duration_ms, 200);
    assert_eq!(session.total_usage.map(|usage| usage.output_tokens), Some(5));
    assert_eq!(session.last_interaction_at, Some(NOW));
    assert_eq!(record.turns[1].timestamp, NOW, "a turn without a time gets the store's");
    let mut late = turn(id, 3, Role::Agent);
    late.timestamp = Millis(NOW.0 - 900);
    temp.one(id, Change::Turn(Box::new(late))).expect("a response found late");
    let session = temp.record(id).session.expect("session");
    assert_eq!((session.total_duration_ms, session.last_interaction_at), (200, Some(NOW)));
    let again = temp.one(id, Change::Turn(Box::new(turn(id, 2, Role::Human)))).expect_err("the number is taken");
    assert_eq!(again.kind(), Kind::Conflict);
    assert_eq!(temp.one(id, Change::Turn(Box::new(turn(id, 0, Role::Human)))).expect_err("zero").kind(), Kind::Invalid);
    temp.one(id, Change::FeedbackConsumed).expect("consumes");
    assert_eq!(temp.record(id).turns[0].feedback_delivery, Some(Delivery::Consumed));
    assert_eq!(temp.store.row(id).expect("row").turn_count, 3);
}

#[test]
fn protected_file_decisions_are_replaced_by_turn() {
    let temp = Temp::new();
    let id = temp.start(1, "fix-it");
    let answer = turn(id, 1, Role::Agent);
    let turn_id = answer.id.clone();
    temp.one(id, Change::Turn(Box::new(answer))).expect("answers");
    let set = vec![Violation { file: "lazy.toml".into(), base_sha: "b".into(), status: ViolationStatus::Pending }];
    let change = |turn: &str| Change::Violations { turn: turn.into(), violations: set.clone() };
    temp.one(id, change(&turn_id)).expect("sets");
    assert_eq!(temp.record(id).turns[0].violations.as_deref(), Some(&set[..]));
    assert_eq!(temp.one(id, change("no-such")).expect_err("no such turn").kind(), Kind::NotFound);
}

#[test]
fn what_stands_already_is_not_added_again() {
    let temp = Temp::new();
    let id = temp.start(1, "fix-it");
    let mut events = temp.store.subscribe();
    let commit = |sha: &str| {
        Change::Commit(Box::new(Commit {
            id: format!("id-{sha}"),
            session_id: session_id(id),
            sha: sha.into(),
            message: "m".into(),
            status: CommitStatus::PendingReview,
            timestamp: Millis(0),
        }))
    };
    let entry = |text: &str, actor| {
        let json = serde_json::json!({ "id": format!("{text}{actor}"), "task_id": id, "content": text, "created_at": 0, "actor": actor });
        Change::Journal(Box::new(serde_json::from_value::<JournalEntry>(json).expect("an entry")))
    };
    let raise = |text: &str| Change::Raised(Box::new(RaisedItem::new(id, text, true, Millis(0))));
    let tag = |name: &str| Change::Tagged { tag: name.into(), by: human() };
    let twice = [commit("a"), entry("x", "agent"), raise("why?"), tag("needs-review")];
    for change in twice.iter().chain(&twice) {
        temp.one(id, change.clone()).expect("applies");
    }
    temp.one(id, entry("x", "human")).expect("another actor");
    let record = temp.record(id);
    assert_eq!((record.commits.len(), record.journal.len(), record.raised.len()), (1, 2, 1));
    assert_eq!((record.task.tags.len(), record.tag_events.len()), (1, 1));
    assert_eq!(record.commits[0].timestamp, NOW);
    let mut told = Vec::new();
    while let Ok(applied) = events.try_recv() {
        told.extend(applied.edits.iter().map(|edit| edit.effect.clone()));
    }
    assert_eq!(told.len(), 5, "what changed nothing is not told: {told:?}");
    let untag = || Change::Untagged { tag: "needs-review".into(), by: human() };
    temp.one(id, untag()).expect("removes");
    temp.one(id, untag()).expect("idempotent");
    let record = temp.record(id);
    assert!(record.task.tags.is_empty());
    assert_eq!(record.tag_events.iter().map(|e| e.action).collect::<Vec<_>>(), [TagAction::Tag, TagAction::Untag]);
    assert_eq!(temp.one(id, tag("--")).expect_err("no tag").kind(), Kind::Invalid);
}

#[test]
fn raised_items_gate_until_they_are_decided() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    let mut item = RaisedItem::new(id, "why?", true, Millis(3));
    let note = RaisedItem::new(id, "by the way", false, Millis(4));
    temp.store
        .apply(vec![
            Edit::new(id, Change::Raised(Box::new(item.clone()))),
            Edit::new(id, Change::Raised(Box::new(note))),
        ])
        .expect("raises");
    let row = temp.store.row(id).expect("row");
    assert_eq!((row.open_blocking, row.open_non_blocking), (1, 1));
    item.status = RaisedStatus::Dismissed;
    temp.one(id, Change::RaisedUpdated(Box::new(item.clone()))).expect("decides");
    assert_eq!(temp.store.row(id).expect("row").open_blocking, 0);
    item.id = "other".into();
    assert_eq!(temp.one(id, Change::RaisedUpdated(Box::new(item))).expect_err("unknown").kind(), Kind::NotFound);
}

#[test]
fn rows_of_another_task_are_refused() {
    let temp = Temp::new();
    let id = temp.create(1, "fix-it");
    let stray = comment(task_id(2), "c", "text");
    assert_eq!(temp.one(id, Change::Comment(Box::new(stray))).expect_err("stray").kind(), Kind::Invalid);
    let item = RaisedItem::new(task_id(2), "text", true, Millis(1));
    assert_eq!(temp.one(id, Change::Raised(Box::new(item))).expect_err("stray").kind(), Kind::Invalid);
    temp.one(id, Change::Comment(Box::new(comment(id, "c", "text")))).expect("its own");
    let again = temp.one(id, Change::Comment(Box::new(comment(id, "c", "text")))).expect_err("the id is taken");
    assert_eq!(again.kind(), Kind::Conflict);
    assert_eq!(temp.store.row(id).expect("row").comment_count, 1);
}

#[test]
fn waited_for_turns_and_snapshots_are_kept() {
    let temp = Temp::new();
    let id = temp.start(1, "fix-it");
    let waited = InFlightTurn {
        session_id: session_id(id),
        owner: "ask".into(),
        turn_type: TurnKind::Ask,
        turn_sequence: 2,
        human_turn_sequence: 1,
        restore_status: Status::Blocked,
        started_at: Millis(1),
        expires_at: Millis(2),
    };
    temp.one(id, Change::InFlight(Some(Box::new(waited.clone())))).expect("begins");
    assert_eq!(temp.record(id).task.in_flight_turn, Some(waited));
    temp.one(id, Change::InFlight(None)).expect("ends");
    assert_eq!(temp.record(id).task.in_flight_turn, None);
    let snapshot = Snapshot {
        id: "s".into(),
        session_id: session_id(id),
        turn_sequence: 1,
        uncommitted_diff: "d".into(),
        git_status: "M x".into(),
        timestamp: Millis(0),
    };
    temp.one(id, Change::Snapshot(Box::new(snapshot))).expect("kept");
    assert_eq!(temp.record(id).snapshots[0].timestamp, NOW);
}

#[test]
fn subscribers_learn_what_changed() {
    let temp = Temp::new();
    let mut events = temp.store.subscribe();
    let id = temp.start(1, "fix-it");
    let created = events.try_recv().expect("told");
    assert_eq!(created.edits[0].effect, Effect::Created);
    let started = events.try_recv().expect("told");
    assert_eq!(started.tasks(), [id]);
    assert_eq!(started.new_status(id), Some(Status::Working));
    assert_eq!(
        started.edits.iter().map(|edit| edit.effect.clone()).collect::<Vec<_>>(),
        [Effect::SessionStarted, Effect::Status { from: Status::Backlog, to: Status::Working }]
    );
}
