//! The bytes of a task's files: what is new, in the place of what was there, around what this version does not know.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::layout::Part;
use super::migrate::Object;
use super::record::TaskRecord;
use crate::base::{Result, json as json_file};
use crate::model::{Comment, Commit, JournalEntry, PromptVersion, RaisedItem, Session, Snapshot, Turn};

/// A row of a list.
trait Row: Serialize + DeserializeOwned {
    /// Its id; rows without one are never changed.
    fn id(&self) -> Option<&str>;
}

macro_rules! rows_with_ids {
    ($($name:ty),*) => { $(impl Row for $name { fn id(&self) -> Option<&str> { Some(&self.id) } })* };
}

rows_with_ids!(Turn, Commit, PromptVersion, Comment, JournalEntry, RaisedItem, Snapshot);

impl Row for crate::model::StatusChange {
    fn id(&self) -> Option<&str> {
        None
    }
}

impl Row for crate::model::TagEvent {
    fn id(&self) -> Option<&str> {
        None
    }
}

/// The new bytes of one file; `None` when the record has nothing for it. `raw` is what was read from the files.
pub(super) fn encode(part: Part, raw: &BTreeMap<Part, Object>, record: &TaskRecord) -> Result<Option<Vec<u8>>> {
    let before = raw.get(&part);
    let object = match part {
        Part::Task => merged(before, &record.task),
        Part::Session => {
            let Some(session) = &record.session else { return Ok(None) };
            let same = before.and_then(|raw| raw.get("id")) == Some(&json!(session.id));
            merged::<Session>(before.filter(|_| same), session)
        }
        Part::Turns => list(part, before, &record.turns),
        Part::Commits => list(part, before, &record.commits),
        Part::Prompts => list(part, before, &record.prompts),
        Part::Snapshots => list(part, before, &record.snapshots),
        Part::Comments => list(part, before, &record.comments),
        Part::Journal => list(part, before, &record.journal),
        Part::Raised => list(part, before, &record.raised),
        Part::Statuses => list(part, before, &record.statuses),
        Part::Tags => list(part, before, &record.tag_events),
        // Written empty with a new task and never again: other programs of the family own it.
        Part::Reviews => Object::from_iter([("reviews".to_string(), json!([]))]),
    };
    json_file::pretty(&object).map(Some)
}

fn list<T: Row>(part: Part, before: Option<&Object>, rows: &[T]) -> Object {
    let key = part.key().unwrap_or_default();
    let mut object = before.cloned().unwrap_or_default();
    let old = match object.get_mut(key).map(Value::take) {
        Some(Value::Array(old)) => old,
        _ => Vec::new(),
    };
    let by_id: BTreeMap<&str, &Object> = old
        .iter()
        .filter_map(Value::as_object)
        .filter_map(|row| Some((row.get("id").and_then(Value::as_str)?, row)))
        .collect();
    let values = rows
        .iter()
        .enumerate()
        .map(|(at, row)| {
            let raw = match row.id() {
                Some(id) => by_id.get(id).copied(),
                None => old.get(at).and_then(Value::as_object),
            };
            Value::Object(merged(raw, row))
        })
        .collect();
    object.insert(key.to_string(), Value::Array(values));
    object
}

/// `raw` with the fields in which `new` differs from what `raw` says today.
fn merged<T: Serialize + DeserializeOwned>(raw: Option<&Object>, new: &T) -> Object {
    let new = fields(new);
    let Some(raw) = raw else { return new };
    let old = T::deserialize(Value::Object(raw.clone())).map(|old| fields(&old)).unwrap_or_default();
    let mut object = raw.clone();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        object.shift_remove(key);
    }
    for (key, value) in new {
        if !object.contains_key(&key) || old.get(&key) != Some(&value) {
            object.insert(key, value);
        }
    }
    object
}

fn fields(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        // Every record is a struct of plain fields; there is nothing in it that JSON cannot say.
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use crate::model::{Task, TaskId};

    #[test]
    fn what_this_version_does_not_know_survives() {
        let id = TaskId::random();
        let task = Task::new(id, "goal", Millis(5));
        let mut raw = fields(&task);
        raw.insert("budget".into(), json!({ "tokens": 7 }));
        raw.insert("created_at".into(), json!("1970-01-01 00:00:00"));
        let mut changed: Task = serde_json::from_value(Value::Object(raw.clone())).expect("reads");
        changed.pending_sync = 3;
        let out = merged(Some(&raw), &changed);
        assert_eq!(out["budget"], json!({ "tokens": 7 }));
        assert_eq!(out["created_at"], json!("1970-01-01 00:00:00"), "an unchanged field stays as it was written");
        assert_eq!(out["pending_sync"], json!(3));
    }

    #[test]
    fn a_field_that_ends_goes() {
        let task = Task::new(TaskId::random(), "goal", Millis(5));
        let mut turn = Turn::new(crate::model::SessionId::random(), 1, crate::model::Role::Human, "x", Millis(1));
        turn.effort = Some("high".into());
        let raw = fields(&turn);
        turn.effort = None;
        assert!(!merged(Some(&raw), &turn).contains_key("effort"));
        assert!(merged(None, &task).contains_key("goal"));
    }
}
