//! A room imports only from its row.

use super::sources;

/// The one place where the arrows are drawn: a room and what it may import.
const ROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("model", &["base"]),
    ("proc", &["base", "model"]),
    ("http", &["base", "model"]),
    ("config", &["base", "model"]),
    ("store", &["base", "model"]),
    ("exchange", &["base", "model"]),
    ("git", &["base", "model", "proc"]),
    ("agent", &["base", "model", "proc"]),
    ("forge", &["base", "model", "proc", "git"]),
    ("rpc", &["base", "model", "http"]),
    ("runner", &["base", "model", "proc", "config", "agent"]),
    ("proxy", &["base", "model", "http", "config"]),
    ("mcp", &["base", "model", "proc", "http", "rpc"]),
    ("ops", &["base", "model", "config", "store", "git", "agent", "forge", "runner", "exchange", "rpc"]),
    ("supervisor", &["base", "model", "proc", "git", "agent", "rpc", "mcp", "exchange"]),
    ("container", &["base", "model", "proc"]),
    // proxy: the rules and the audit trail are read where no daemon runs
    ("setup", &["base", "model", "proc", "config", "store", "git", "runner", "rpc", "agent", "proxy"]),
    (
        "daemon",
        &["base", "model", "http", "config", "store", "git", "forge", "rpc", "mcp", "proxy", "ops", "proc", "agent"],
    ),
    ("demo", &["base", "model", "proc", "http", "agent"]),
    ("cli", &["base", "model", "proc", "config", "rpc", "setup", "demo", "agent", "exchange"]),
    ("applet", &["base", "model", "config", "cli", "container", "daemon", "demo", "mcp", "supervisor"]),
    ("lib", &[]),
    ("bin", &[]),
];

#[test]
fn a_room_imports_only_from_its_row() {
    let mut broken = Vec::new();
    for source in sources() {
        let Some((_, allowed)) = ROWS.iter().find(|(room, _)| *room == source.room) else {
            broken.push(format!("src/{}: the room {} has no row", source.path, source.room));
            continue;
        };
        for room in imported(&source.code) {
            let known = ROWS.iter().any(|(name, _)| *name == room);
            if known && room != source.room && !allowed.contains(&room.as_str()) {
                broken.push(format!("src/{}: {} may not import {room}", source.path, source.room));
            }
        }
    }
    assert!(broken.is_empty(), "arrows that are not drawn:\n{}", broken.join("\n"));
}

/// Rooms named after `crate::`, also inside `use crate::{…}`.
fn imported(code: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with('$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            None => rooms.push(word(rest)),
            Some(list) => {
                let mut depth = 0;
                let mut start = true;
                for (i, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && depth == 0 && !c.is_whitespace() => {
                            rooms.push(word(&list[i..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    rooms.sort();
    rooms.dedup();
    rooms
}

#[test]
fn the_guard_sees_nested_imports() {
    let found = imported("use crate::{base::{Error, Result}, ops};\nlet x = crate::store::Store::open();");
    assert_eq!(found, ["base", "ops", "store"]);
}
