//! A numbered menu where a command needs a task and a person can say which: no task was named, or the name fits several.
//!
//! Without a terminal nothing is asked: the refusal names what is missing, or lists what the name fits.

use super::app::App;
use super::progress::Talk;
use super::render;
use super::session::Session;
use super::table::Entry;
use super::words::{self, Tokens};
use crate::base::{Error, Kind, Result};
use crate::rpc::commands::{List, ListParams, ListView, TaskLine};

/// Commands that offer tasks when none is named, and which.
const OFFERS: &[(&str, ListView)] = &[
    ("accept", ListView::Blocked),
    ("ask", ListView::Blocked),
    ("diff", ListView::Blocked),
    ("reject", ListView::Blocked),
    ("show", ListView::Open),
    ("status", ListView::Open),
    ("unblock", ListView::Blocked),
    ("view", ListView::Open),
];

/// Whether a command without a task is completed by a menu.
pub(crate) fn offers(command: &str) -> bool {
    view(command).is_some()
}

fn view(command: &str) -> Option<ListView> {
    OFFERS.iter().find(|(known, _)| *known == command).map(|(_, view)| *view)
}

/// The words of a command, with the task that a person chose when they named none.
///
/// # Errors
/// [`Kind::Usage`] naming the missing word where nobody can be asked; [`Kind::NotFound`] when there is nothing to offer.
pub(crate) async fn complete(app: &App, entry: &Entry, mut tokens: Tokens) -> Result<Tokens> {
    let Some(view) = view(entry.words).filter(|_| tokens.positionals.is_empty()) else { return Ok(tokens) };
    let for_a_program = tokens.flags.iter().any(|(name, _)| name == "--json");
    if !app.process.stdin_is_terminal() || for_a_program {
        words::require_positionals(entry.words, &(entry.info)(), &tokens.positionals)?;
        return Ok(tokens);
    }
    let session = Session::open(app, Talk::Narrate).await?;
    let report = session.call_quietly::<List>(&ListParams { view, ..ListParams::default() }).await?;
    if report.tasks.is_empty() {
        return Err(match view {
            ListView::Blocked => Error::not_found("no task waits for you").hint("lazy list"),
            _ => Error::not_found("there are no open tasks").hint("lazy list --all"),
        });
    }
    tokens.positionals.push(one_of(app, &format!("lazy {} which task?", entry.words), &report.tasks)?);
    Ok(tokens)
}

/// The id of the task that a person chooses.
///
/// # Errors
/// [`Kind::Canceled`] when they choose none: an empty line, or the end of the input.
pub(crate) fn one_of(app: &App, question: &str, tasks: &[TaskLine]) -> Result<String> {
    app.process.err_line(question);
    let width = tasks.len().to_string().len();
    for (number, task) in (1..).zip(tasks) {
        let number: usize = number;
        app.process.err_line(format!("  {number:>width$}  {}", render::list::candidate(task)));
    }
    loop {
        app.process.err(format!("1 to {}, Enter for none: ", tasks.len()));
        let answer = app.process.read_line()?.unwrap_or_default();
        if answer.trim().is_empty() {
            return Err(Error::new(Kind::Canceled, "no task was chosen"));
        }
        let chosen = answer.trim().parse::<usize>().ok().and_then(|number| tasks.get(number.checked_sub(1)?));
        match chosen {
            Some(task) => return Ok(task.id.to_string()),
            None => app.process.err_line(format!("{:?} is none of them", answer.trim())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Millis, Process};
    use std::path::Path;

    #[test]
    fn a_number_is_asked_for_until_one_is_given() {
        let line = |id: &str| -> TaskLine {
            serde_json::from_value(serde_json::json!({
                "id": id, "code": null, "goal": "g", "status": "blocked", "stopped": false, "crashed": false,
                "type": "task", "priority": "normal", "agent": "demo", "model": null, "parent_task_id": null,
                "tags": [], "turns": 0, "created_at": 0, "last_active_at": 0, "duration_ms": 0, "open_blocking": 0,
                "depth": 0 }))
            .expect("a row")
        };
        let tasks = [line("aaaaaaaa-0000-4000-8000-000000000001"), line("bbbbbbbb-0000-4000-8000-000000000002")];
        let ask = |input: &[u8]| {
            let process = Process::fake(["lazy"], &[], Path::new("/"), Millis(0)).with_stdin(input);
            let chosen = one_of(&App::new(&process), "Which?", &tasks);
            (chosen, process.captured().1)
        };
        let (chosen, said) = ask(b"0\n3\nx\n2\n");
        assert_eq!(chosen.expect("chosen"), tasks[1].id.to_string());
        assert!(said.contains("  1  aaaaaaaa") && said.matches("is none of them").count() == 3, "{said}");
        for input in [&b""[..], b"\n"] {
            assert_eq!(ask(input).0.expect_err("none").kind(), Kind::Canceled);
        }
    }
}
