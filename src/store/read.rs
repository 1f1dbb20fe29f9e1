//! Reading a task's directory: its records, and the JSON they came from, so that a rewrite keeps what this version does
//! not know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::layout::{self, Part};
use super::migrate::{self, Object};
use super::record::TaskRecord;
use crate::base::{Error, Kind, Result, files};
use crate::model::{PromptVersion, Session, Status, StatusChange, Task, TaskId};

/// A record with the JSON of the files it came from, brought to the present names.
pub(super) struct Loaded {
    /// The record.
    pub(super) record: TaskRecord,
    /// The whole object of each file that is there.
    pub(super) raw: BTreeMap<Part, Object>,
}

/// A file that is not what it should be.
pub(super) struct Torn {
    /// The file.
    pub(super) path: PathBuf,
    /// What is wrong with it.
    pub(super) error: Error,
}

/// Reads the whole record of a task; `None` when nothing of it is there.
pub(super) fn load(root: &Path, id: TaskId) -> Result<Option<Loaded>, Torn> {
    let dir = root.join(layout::task_dir(id));
    let mut raw = BTreeMap::new();
    let Some(task) = load_task(&dir, id, &mut raw)? else { return Ok(None) };
    let session = load_session(&dir, &mut raw)?;
    let comments = list(&dir, Part::Comments, &mut raw, Some((layout::LEGACY_NOTES, "notes")))?;
    let raised = list(&dir, Part::Raised, &mut raw, Some((layout::LEGACY_FOLLOW_UPS, "follow_ups")))?;
    let mut record = TaskRecord {
        turns: list(&dir, Part::Turns, &mut raw, None)?,
        commits: list(&dir, Part::Commits, &mut raw, None)?,
        prompts: list(&dir, Part::Prompts, &mut raw, None)?,
        journal: list(&dir, Part::Journal, &mut raw, None)?,
        statuses: list(&dir, Part::Statuses, &mut raw, None)?,
        tag_events: list(&dir, Part::Tags, &mut raw, None)?,
        snapshots: list(&dir, Part::Snapshots, &mut raw, None)?,
        comments,
        raised,
        session,
        task,
    };
    record.turns.sort_by_key(|turn| turn.sequence);
    record.prompts.sort_by_key(|prompt| prompt.version);
    record.comments.sort_by_key(|comment| comment.created_at);
    record.journal.sort_by_key(|entry| entry.created_at);
    record.commits.sort_by_key(|commit| commit.timestamp);
    complete_history(&mut record);
    Ok(Some(Loaded { record, raw }))
}

/// The task of a directory; `None` when the directory holds no record at all.
pub(super) fn load_task(dir: &Path, id: TaskId, raw: &mut BTreeMap<Part, Object>) -> Result<Option<Task>, Torn> {
    let path = dir.join(Part::Task.file());
    let task: Option<Task> = whole(&path, Part::Task, raw)?;
    match task {
        Some(task) if task.id == id => Ok(Some(task)),
        Some(task) => {
            let error = Error::new(Kind::Io, format!("{} says that it is task {}", path.display(), task.id));
            Err(Torn { path, error })
        }
        None if Part::ALL.iter().any(|part| dir.join(part.file()).exists()) => {
            let error = Error::new(Kind::Io, format!("{} is missing beside the task's other records", path.display()));
            Err(Torn { path, error })
        }
        None => Ok(None),
    }
}

/// The session of a directory; `None` when the task was never started.
pub(super) fn load_session(dir: &Path, raw: &mut BTreeMap<Part, Object>) -> Result<Option<Session>, Torn> {
    whole(&dir.join(Part::Session.file()), Part::Session, raw)
}

/// Reads a file as `T`, without keeping anything else of it; `None` when it does not exist.
pub(super) fn light<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Torn> {
    let Some(bytes) = bytes(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|source| not_json(path, &source, None))
}

/// A history that an older store did not keep, from what else is known.
fn complete_history(record: &mut TaskRecord) {
    let task = &record.task;
    if record.statuses.is_empty() {
        let row =
            |status, timestamp| StatusChange { status, timestamp, actor: None, actor_email: None, actor_name: None };
        record.statuses.push(row(Status::Backlog, task.created_at));
        let mut last = task.created_at;
        if let Some(session) = &record.session {
            record.statuses.push(row(Status::Working, session.started_at));
            last = session.last_interaction_at.unwrap_or(session.started_at);
        }
        if record.statuses.last().is_none_or(|row| row.status != task.status) {
            record.statuses.push(row(task.status, task.completed_at.unwrap_or(last)));
        }
    }
    if record.prompts.is_empty() && !task.prompt.is_empty() {
        record.prompts.push(PromptVersion {
            // Not random: two reads of one store must agree.
            id: task.id.to_string(),
            task_id: task.id,
            version: 1,
            content: task.prompt.clone(),
            created_at: task.created_at,
            session_id: None,
        });
    }
}

fn whole<T: DeserializeOwned>(path: &Path, part: Part, raw: &mut BTreeMap<Part, Object>) -> Result<Option<T>, Torn> {
    let Some(bytes) = bytes(path)? else { return Ok(None) };
    let mut object = parse_object(path, &bytes)?;
    migrate::object(part, &mut object);
    let value = typed(&object).map_err(|source| {
        let position = serde_json::from_slice::<T>(&bytes).err().map(|e| (e.line(), e.column()));
        not_json(path, &source, position)
    })?;
    raw.insert(part, object);
    Ok(Some(value))
}

fn list<T: DeserializeOwned>(
    dir: &Path,
    part: Part,
    raw: &mut BTreeMap<Part, Object>,
    legacy: Option<(&str, &str)>,
) -> Result<Vec<T>, Torn> {
    let key = part.key().unwrap_or_default();
    let path = dir.join(part.file());
    let mut rows = Vec::new();
    let mut object = read_list(&path, key, part, &mut rows)?;
    if let Some((file, legacy_key)) = legacy {
        let mut older: Vec<(Value, T)> = Vec::new();
        read_list(&dir.join(file), legacy_key, part, &mut older)?;
        older.retain(|(row, _)| !rows.iter().any(|(known, _): &(Value, T)| known.get("id") == row.get("id")));
        if !older.is_empty() {
            object.get_or_insert_default();
            older.append(&mut rows);
            rows = older;
        }
    }
    let (values, rows): (Vec<Value>, Vec<T>) = rows.into_iter().unzip();
    if let Some(mut object) = object {
        object.insert(key.into(), Value::Array(values));
        raw.insert(part, object);
    }
    Ok(rows)
}

fn read_list<T: DeserializeOwned>(
    path: &Path,
    key: &str,
    part: Part,
    rows: &mut Vec<(Value, T)>,
) -> Result<Option<Object>, Torn> {
    let Some(bytes) = bytes(path)? else { return Ok(None) };
    let mut object = parse_object(path, &bytes)?;
    let wrong = |what: &str| Torn {
        path: path.to_path_buf(),
        error: Error::new(Kind::Io, format!("{} is not the JSON it should be: {what}", path.display())),
    };
    let values = match object.get_mut(key).map(Value::take) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values,
        Some(_) => return Err(wrong(&format!("{key:?} is not a list"))),
    };
    for (at, value) in values.into_iter().enumerate() {
        let Value::Object(mut row) = value else {
            return Err(wrong(&format!("row {} of {key:?} is not an object", at + 1)));
        };
        if path.ends_with(layout::LEGACY_FOLLOW_UPS) {
            migrate::follow_up(&mut row);
        }
        migrate::object(part, &mut row);
        let record = typed(&row).map_err(|source| not_json(path, &source, locate::<T>(&bytes, key, at)))?;
        rows.push((Value::Object(row), record));
    }
    Ok(Some(object))
}

fn typed<T: DeserializeOwned>(object: &Object) -> serde_json::Result<T> {
    use serde::de::IntoDeserializer as _;
    // By reference: the object itself is kept for the rewrite.
    T::deserialize(object.into_deserializer())
}

fn bytes(path: &Path) -> Result<Option<Vec<u8>>, Torn> {
    files::read_optional(path).map_err(|error| Torn { path: path.to_path_buf(), error })
}

fn parse_object(path: &Path, bytes: &[u8]) -> Result<Object, Torn> {
    serde_json::from_slice(bytes).map_err(|source| not_json(path, &source, None))
}

fn not_json(path: &Path, source: &serde_json::Error, position: Option<(usize, usize)>) -> Torn {
    let place = match position {
        Some((line, column)) if source.line() == 0 => format!(" at line {line} column {column}"),
        _ => String::new(),
    };
    let message = format!("{} is not the JSON it should be: {source}{place}", path.display());
    let error = Error::new(Kind::Io, message).hint(format!("mend or restore the file: {}", path.display()));
    Torn { path: path.to_path_buf(), error }
}

/// Where in the file the row stands that does not read as `T`: the line and column of what is wrong in it.
fn locate<T: DeserializeOwned>(bytes: &[u8], key: &str, at: usize) -> Option<(usize, usize)> {
    let object: BTreeMap<String, &RawValue> = serde_json::from_slice(bytes).ok()?;
    let rows: Vec<&RawValue> = serde_json::from_str(object.get(key)?.get()).ok()?;
    let row = rows.get(at)?.get();
    let start = row.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
    let before = bytes.get(..start)?;
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
    let (inner_line, inner_column) =
        serde_json::from_str::<T>(row).err().map_or((1, 1), |error| (error.line(), error.column()));
    Some((line + inner_line, if inner_line == 1 { column + inner_column } else { inner_column }))
}
