//! The command line: words in, one operation, its report out.
//!
//! A command file resolves what was typed, refuses what cannot be, asks the daemon for one operation and prints the
//! report. Everything that changes a task goes through the daemon; this room cannot reach the store, git or the
//! operations.
//!
//! **Streams.** Standard output is the answer (or one JSON value with `--json`), standard error is the talk: phases,
//! warnings, questions, errors. Colour only on a terminal without `NO_COLOR` and with a `TERM` other than `dumb`. A
//! reader that goes away ends the command quietly with 0.
//!
//! **Words.** [`words`] reads what `argh` does not: `--name=value`, `-h` and `--help` anywhere, `-V`, `--`, `-n20`, the
//! last one of a repeated flag winning unless the flag collects. [`table`] is the one list of commands that help,
//! completion and dispatch read.
//!
//! **Exit codes.** 0 done (also a question answered with no), 1 refused or failed, 2 a wrong command line, 130
//! interrupted; `wait` and `--follow` say with 0 or 1 how the turn ended.
//!
//! **Refused:** unknown commands and flags (with the nearest one), a question where no person can answer it, a file of
//! text that is not UTF-8.
//!
//! **Files owned:** `<root>/.lazy/recovery/`: text from an editor, a pipe or a flag, kept until the daemon has it.

mod app;
mod background;
mod choose;
mod commands;
mod demo;
mod editor;
mod fields;
mod follow;
mod help;
mod input;
mod progress;
mod render;
mod session;
mod style;
mod table;
mod words;

use crate::base::{Error, Kind, Process, Result};

use app::App;
use words::Asked;

/// Runs the command that the process's arguments ask for and returns the exit code.
///
/// # Errors
/// What the command refused; [`render_error`] prints it.
pub async fn main(process: &Process) -> Result<u8> {
    let app = App::new(process);
    match run(&app).await {
        // The reader of our output went away: it has what it wanted.
        Err(error) if error.kind() == Kind::Canceled && error.message().is_empty() => Ok(0),
        Err(error) => Err(editor::not_delivered(error)),
        Ok(code) => {
            editor::delivered(&app);
            Ok(code)
        }
    }
}

async fn run(app: &App) -> Result<u8> {
    let args = app.process.args().get(1..).unwrap_or_default();
    match words::read(args)? {
        Asked::Overview => app.process.out(help::overview(app.style))?,
        Asked::Version => app.process.out_line(format!("lazy {}", env!("CARGO_PKG_VERSION")))?,
        Asked::Usage(topic) => app.process.out(help::usage(topic, app.style))?,
        Asked::Run(entry, tokens) => {
            app.process.require_cwd()?;
            let tokens = choose::complete(app, entry, tokens).await?;
            return words::launch(app, entry, &tokens)?.await;
        }
    }
    Ok(0)
}

/// Prints a refusal on standard error: `Error: message`, then each hint as an indented `try:` line.
pub fn render_error(process: &Process, error: &Error) {
    if error.kind() == Kind::Canceled && error.message().is_empty() {
        return;
    }
    process.err(render::error::text(error, style::Style::for_stderr(process)));
}

#[cfg(test)]
mod tests;
