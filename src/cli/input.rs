//! Text and answers from people: flag, then piped standard input, then the editor or a question, then the default.

use std::os::fd::AsRawFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::app::App;
use super::style::Style;
use crate::base::{Error, Kind, Result, text};

/// How long an open pipe with nothing in it may keep a text waiting that is not needed.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a question means when a person only presses Enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enter {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Go on.
    Yes,
    /// Leave it.
    No,
}

/// Text that a command must have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needed<'a> {
    /// What it is, for people: `the feedback`.
    pub what: &'a str,
    /// The flag that gives it: `--message`.
    pub flag: &'a str,
    /// A command that would work, for the error.
    pub example: &'a str,
}

/// The flag's text, else what was piped in. An empty pipe, a closed one and `/dev/null` count as nothing.
pub(crate) async fn given(app: &App, flag: Option<String>) -> Result<Option<String>> {
    match flag {
        Some(text) => Ok(Some(text)),
        None => piped(app, Some(PATIENCE)).await,
    }
}

/// Text from the flag, the pipe, or the editor.
///
/// # Errors
/// [`Kind::Usage`] naming the flag, when there is none and no person to ask.
pub(crate) async fn required(app: &App, flag: Option<String>, needed: Needed<'_>, template: &str) -> Result<String> {
    if let Some(text) = flag {
        return if text.trim().is_empty() { Err(missing(needed)) } else { Ok(text) };
    }
    if let Some(text) = piped(app, None).await? {
        return Ok(text);
    }
    if app.process.stdin_is_terminal() {
        return super::editor::write(app, needed.what, template).await?.ok_or_else(|| missing(needed));
    }
    Err(missing(needed))
}

fn missing(needed: Needed<'_>) -> Error {
    Error::usage(format!("{} is missing; give it with {} or on standard input", needed.what, needed.flag))
        .hint(needed.example)
}

/// What was piped in, if anything. With a limit, a pipe that stays open and silent is given up after it.
async fn piped(app: &App, limit: Option<Duration>) -> Result<Option<String>> {
    if app.process.stdin_is_terminal() {
        return Ok(None);
    }
    if app.process.reads_real_stdin() {
        let patience = limit.unwrap_or(PATIENCE);
        if !readable_within(patience).await {
            if limit.is_some() {
                app.process.err_line("… nothing came on standard input; going on without");
                return Ok(None);
            }
            app.process.err_line("… waiting for text on standard input");
        }
    }
    let text = app.process.read_stdin_written()?;
    let trimmed = text.trim_end();
    if trimmed.trim().is_empty() {
        return Ok(None);
    }
    super::editor::keep(app, trimmed);
    Ok(Some(trimmed.to_string()))
}

/// Whether a read of standard input would return at once, within `limit`.
async fn readable_within(limit: Duration) -> bool {
    struct Stdin(std::io::Stdin);
    impl AsRawFd for Stdin {
        fn as_raw_fd(&self) -> std::os::fd::RawFd {
            self.0.as_raw_fd()
        }
    }
    // Files and devices cannot be watched, and need not be: reading them returns.
    #[expect(deprecated, reason = "its successor is unsafe, for descriptors that may close; standard input stays open")]
    let Ok(stdin) = AsyncFd::with_interest(Stdin(std::io::stdin()), Interest::READABLE) else { return true };
    tokio::time::timeout(limit, stdin.readable()).await.is_ok()
}

/// Asks a question that is answered with yes or no.
pub(crate) fn confirm(app: &App, question: &str, enter: Enter) -> Result<Answer> {
    let choices = if enter == Enter::Yes { "[Y/n]" } else { "[y/N]" };
    let style = Style::for_stderr(&app.process);
    app.process.err(format!("{} {choices} ", style.bold(question)));
    // the end of input is no answer, and no answer is never a yes
    let Some(line) = app.process.read_line()? else {
        app.process.err_line("");
        return Ok(Answer::No);
    };
    Ok(match (line.trim().to_ascii_lowercase().as_str(), enter) {
        ("y" | "yes", _) | ("", Enter::Yes) => Answer::Yes,
        _ => Answer::No,
    })
}

/// Asks for one line; Enter takes the default.
pub(crate) fn ask_line(app: &App, question: &str, default: &str) -> Result<String> {
    let style = Style::for_stderr(&app.process);
    let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
    app.process.err(format!("{}{shown}: ", style.bold(question)));
    let line =
        app.process.read_line()?.ok_or_else(|| Error::new(Kind::Canceled, format!("no answer to {question:?}")))?;
    let answer = text::one_line(&line);
    Ok(if answer.is_empty() { default.to_string() } else { answer })
}

/// Refuses a step that needs a yes where no person can say it.
pub(crate) fn require_person(app: &App, what: &str, command: &str) -> Result<()> {
    if app.process.stdin_is_terminal() {
        return Ok(());
    }
    Err(Error::usage(format!("{what} needs a yes, and there is no terminal to ask on")).hint(command))
}
