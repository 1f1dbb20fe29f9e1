//! A parent that ends without a merge: its open children are never left pointing at a branch without a task.

use serde_json::Value;

use super::life::script;
use super::world::{Agent, World};

/// A started parent with one commit, a started child of it, and a child in the backlog.
fn family() -> World {
    let world = World::new(Agent::Demo, script(Agent::Demo));
    world.ok(&["create", "--goal", "Greet people", "--code", "parent", "--prompt", "Write greeting.txt"]);
    world.ok(&["start", "parent"]);
    assert_eq!(world.settled("parent"), "blocked");
    world.ok(&["create", "--goal", "Below", "--code", "child", "--prompt", "Write greeting.txt", "--parent", "parent"]);
    world.ok(&["start", "child"]);
    assert_eq!(world.settled("child"), "blocked");
    world.ok(&["create", "--goal", "Later", "--code", "later", "--prompt", "x", "--parent", "parent"]);
    world
}

fn line(world: &World, task: &str) -> Value {
    let rows: Value = serde_json::from_str(&world.ok(&["list", "--all", "--json"])).expect("JSON");
    rows.as_array().expect("rows").iter().find(|row| row["code"] == task).expect("the task is listed").clone()
}

#[test]
fn a_parent_with_open_children_is_not_turned_down_before_they_are_decided() {
    let world = family();
    for verb in ["reject", "close"] {
        let said = world.refused(&[verb, "parent", "--yes", "--reason", "not like this"]);
        for part in ["2 open children", "child (blocked)", "later (backlog)", "--retarget-children", "lazy close child"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(said.contains("with the work of parent"), "what the child's branch carries is told: {said}");
    }
    assert_eq!(world.status("parent"), "blocked", "nothing was changed");

    world.ok(&["close", "later", "--yes", "--reason", "not needed"]);
    world.ok(&["close", "child", "--yes", "--reason", "not needed"]);
    world.ok(&["reject", "parent", "--yes", "--reason", "not like this"]);
    assert_eq!(world.status("parent"), "abandoned");
    let said = world.ok(&["reopen", "later"]);
    assert!(!said.contains("Error"), "{said}");
    assert!(line(&world, "later")["parent"].is_null(), "a reopened child goes where its parent would have gone");
}

#[test]
fn children_of_a_parent_that_was_turned_down_merge_where_it_would_have() {
    let world = family();
    let output = world.lazy(&["reject", "parent", "--yes", "--reason", "not like this", "--retarget-children"]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("now merge into main"), "{out}");
    assert!(err.contains("holds work of parent"), "{err}");
    for task in ["child", "later"] {
        assert!(line(&world, task)["parent"].is_null(), "{task}");
        assert!(line(&world, task)["orphaned"].is_null(), "{task}");
    }
    let said = world.refused(&["create", "--goal", "Too late", "--prompt", "x", "--parent", "parent"]);
    assert!(said.contains("cannot be a parent"), "{said}");
    world.ok(&["accept", "child", "--yes"]);
    assert_eq!(world.status("child"), "complete");
}

/// A store written before children were looked after holds such tasks: they say so, and can be given a place.
#[test]
fn an_orphan_of_an_older_store_says_so() {
    let world = family();
    world.ok(&["daemon", "stop", "--yes"]);
    let id = world.store_task("parent");
    let path = id.join("task.json");
    let mut task: Value = serde_json::from_slice(&std::fs::read(&path).expect("reads")).expect("JSON");
    task["status"] = "abandoned".into();
    std::fs::write(&path, task.to_string()).expect("writes");

    assert_eq!(line(&world, "later")["orphaned"], "parent abandoned");
    assert!(world.ok(&["list"]).contains("[parent abandoned]"));
    assert!(world.ok(&["show", "child"]).contains("nowhere to merge into"));
    assert!(world.ok(&["status", "child"]).contains("lazy edit child --parent"));
    let said = world.refused(&["start", "later"]);
    assert!(said.contains("nowhere to merge into") && said.contains("lazy edit later --parent"), "{said}");
    world.ok(&["edit", "later", "--parent", "main"]);
    world.ok(&["edit", "child", "--parent", "main"]);
    assert!(!world.ok(&["show", "child"]).contains("nowhere to merge into"));
}
