//! Records of older stores, brought to the present names before they are read. What serde's aliases and the model's
//! own readers cannot do: keys that must go, values with a new meaning, files that became other files.

use serde_json::{Map, Value, json};

use super::layout::Part;

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// The old name of a key that holds a person, and the present one.
const PERSONS: [(&str, &str); 4] = [
    ("actor_user_id", "actor_email"),
    ("resolved_by_user_id", "resolved_by_email"),
    ("unresolved_by_user_id", "unresolved_by_email"),
    ("flagged_by_user_id", "flagged_by_email"),
];

/// Metadata keys that said where the work goes before a task had a target.
const BRANCH_METADATA: [&str; 2] = ["remote_target_branch", "github_pr_target_branch"];

/// Brings the object of an unwrapped file, or one row of a list, to the present names.
pub(super) fn object(part: Part, object: &mut Object) {
    match part {
        Part::Task => task(object),
        Part::Session => rename(object, "claude_session_id", "agent_session_id"),
        Part::Turns => {
            present_model(object);
            text(object, "content");
        }
        Part::Comments | Part::Journal | Part::Raised => text(object, "content"),
        _ => {}
    }
    persons(object);
    if let Some(Value::Array(comments)) = object.get_mut("comments") {
        comments.iter_mut().filter_map(Value::as_object_mut).for_each(persons);
    }
}

/// A follow-up of an older store as the raised item it became: one that gates nothing.
pub(super) fn follow_up(object: &mut Object) {
    const KNOWN: [&str; 7] =
        ["open", "responded", "answered", "acknowledged", "dismissed", "promoted_subtask", "promoted_peer"];
    let decided = object.contains_key("resolved_at") || object.get("resolved").is_some_and(|v| *v == json!(true));
    let known = object.get("status").and_then(Value::as_str).is_some_and(|status| KNOWN.contains(&status));
    if !known {
        object.insert("status".into(), json!(if decided { "acknowledged" } else { "open" }));
    }
    object.insert("blocking".into(), json!(false));
    object.entry("migrated_from").or_insert(json!("follow_up"));
}

fn task(object: &mut Object) {
    rename(object, "title", "goal");
    present_model(object);
    for key in ["prompt", "goal"] {
        text(object, key);
    }
    for (key, value) in [("tags", json!([])), ("type", json!("task")), ("priority", json!("normal"))] {
        replace_null(object, key, value);
    }
    replace_null(object, "agent_id", json!("claude-code"));
    replace_null(object, "pending_sync", json!(0));
    let parent = object.shift_remove("parent_task_id").filter(|value| !value.is_null());
    let mut branch = None;
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        for key in BRANCH_METADATA {
            let value = metadata.shift_remove(key);
            branch = branch.or(value.and_then(|value| value.as_str().map(str::to_string)));
        }
        metadata.retain(|_, value| !value.is_null());
        for value in metadata.values_mut().filter(|value| !value.is_string()) {
            *value = json!(value.to_string());
        }
    }
    if object.get("target").is_none_or(Value::is_null) {
        let target = match parent {
            Some(parent) => json!({ "kind": "task", "parentTaskId": parent }),
            None => json!({ "kind": "branch", "branch": branch.unwrap_or_default() }),
        };
        object.insert("target".into(), target);
    }
}

fn rename(object: &mut Object, old: &str, new: &str) {
    if let Some(value) = object.shift_remove(old)
        && object.get(new).is_none_or(Value::is_null)
    {
        object.insert(new.into(), value);
    }
}

fn replace_null(object: &mut Object, key: &str, value: Value) {
    if object.get(key).is_some_and(Value::is_null) {
        object.insert(key.into(), value);
    }
}

fn text(object: &mut Object, key: &str) {
    replace_null(object, key, json!(""));
}

fn present_model(object: &mut Object) {
    let present = match object.get("model").and_then(Value::as_str) {
        Some("apprentice") => "haiku",
        Some("journeyman") => "sonnet",
        Some("master") => "opus",
        _ => return,
    };
    object.insert("model".into(), json!(present));
}

fn persons(object: &mut Object) {
    for (old, new) in PERSONS {
        if object.get(old).is_some() {
            rename(object, old, new);
            // An id that is no address names nobody any more.
            if object.get(new).is_none_or(|value| !value.as_str().is_some_and(|text| text.contains('@'))) {
                object.shift_remove(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated(part: Part, value: Value) -> Value {
        let Value::Object(mut map) = value else { panic!("an object") };
        object(part, &mut map);
        Value::Object(map)
    }

    #[test]
    fn a_parent_and_a_branch_become_a_target() {
        let child = migrated(Part::Task, json!({ "title": "t", "parent_task_id": "p", "model": "master" }));
        assert_eq!(child, json!({ "goal": "t", "model": "opus", "target": { "kind": "task", "parentTaskId": "p" } }));
        let top = migrated(
            Part::Task,
            json!({ "goal": "t", "parent_task_id": null, "metadata": { "remote_target_branch": "dev", "n": 3, "x": null } }),
        );
        assert_eq!(top["target"], json!({ "kind": "branch", "branch": "dev" }));
        assert_eq!(top["metadata"], json!({ "n": "3" }));
        let kept =
            migrated(Part::Task, json!({ "target": { "kind": "branch", "branch": "x" }, "parent_task_id": "p" }));
        assert_eq!(kept, json!({ "target": { "kind": "branch", "branch": "x" } }));
    }

    #[test]
    fn persons_keep_addresses_only() {
        let with = migrated(Part::Comments, json!({ "content": null, "actor_user_id": "a@b.c" }));
        assert_eq!(with, json!({ "content": "", "actor_email": "a@b.c" }));
        assert_eq!(migrated(Part::Statuses, json!({ "actor_user_id": "4711" })), json!({}));
        let both = migrated(Part::Turns, json!({ "actor_user_id": "x@y.z", "actor_email": "a@b.c" }));
        assert_eq!(both, json!({ "actor_email": "a@b.c" }));
        let item = migrated(
            Part::Raised,
            json!({ "resolved_by_user_id": "r@x.y", "comments": [{ "actor_user_id": "c@x.y" }] }),
        );
        assert_eq!(item, json!({ "resolved_by_email": "r@x.y", "comments": [{ "actor_email": "c@x.y" }] }));
    }

    #[test]
    fn the_agents_conversation_has_one_name() {
        let session = migrated(Part::Session, json!({ "claude_session_id": "a", "agent_session_id": null }));
        assert_eq!(session, json!({ "agent_session_id": "a" }));
    }

    #[test]
    fn a_follow_up_gates_nothing() {
        let Value::Object(mut open) = json!({ "id": "1", "content": "later" }) else { panic!("object") };
        follow_up(&mut open);
        assert_eq!(open["status"], "open");
        assert_eq!(open["blocking"], false);
        assert_eq!(open["migrated_from"], "follow_up");
        let Value::Object(mut done) = json!({ "id": "1", "status": "done", "resolved_at": 5 }) else {
            panic!("object")
        };
        follow_up(&mut done);
        assert_eq!(done["status"], "acknowledged");
    }
}
