//! Colours, decided once for each stream.

use crate::base::Process;
use crate::base::text::COLOR_MARKS;
use crate::model::{Role, Status};

/// Whether and how a stream is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Text only.
    Plain,
    /// Colours, marked in the text: the process turns them into escape sequences when it writes.
    Ansi,
}

macro_rules! paints {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        $($(#[$doc])* pub fn $name(self, text: impl AsRef<str>) -> String { self.paint($code, text.as_ref()) })*
    };
}

impl Style {
    /// For the answer.
    pub fn for_stdout(process: &Process) -> Style {
        if process.color() { Style::Ansi } else { Style::Plain }
    }

    /// For the talk.
    pub fn for_stderr(process: &Process) -> Style {
        let plain = process.var_os("NO_COLOR").is_some() || process.var("TERM") == Some("dumb");
        if process.stderr_is_terminal() && !plain { Style::Ansi } else { Style::Plain }
    }

    paints! {
        /// Ids, commands, labels of tasks.
        id = "36",
        /// Models.
        model = "35",
        /// Commit hashes.
        sha = "33",
        /// Headers, labels, counts.
        bold = "1",
        /// Separators, times, durations.
        dim = "2",
        /// Failures.
        error = "1;31",
        /// Warnings.
        warning = "33",
        /// Successes.
        success = "32",
        /// Lines that a patch adds.
        added = "32",
        /// Lines that a patch removes.
        removed = "31",
        /// Where a piece of a patch belongs.
        hunk = "36",
    }

    /// A status word. Decorated ones, such as `working(agent)`, stay uncoloured.
    pub fn status(self, text: &str) -> String {
        let code = match text {
            "working" => "34",
            "blocked" => "33",
            "submitted" | "merging" => "36",
            "pairing" => "35",
            "complete" | "accepted" => "32",
            "conflict" | "zombie" | "interrupted" | "abandoned" | "rejected" => "31",
            "queued" | "ended" => "2",
            _ => return text.to_string(),
        };
        self.paint(code, text)
    }

    /// A status in colour.
    pub fn of(self, status: Status) -> String {
        self.status(status.as_str())
    }

    /// Whose turn.
    pub fn role(self, role: Role, text: &str) -> String {
        self.paint(if role == Role::Human { "32" } else { "34" }, text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_string(),
            Style::Ansi if text.is_empty() => String::new(),
            Style::Ansi => {
                let (begin, end) = COLOR_MARKS;
                format!("{begin}{code}{end}{text}{begin}0{end}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::text::for_terminal;

    #[test]
    fn only_exact_status_words_are_coloured() {
        assert_eq!(for_terminal(&Style::Ansi.status("blocked")), "\x1b[33mblocked\x1b[0m");
        assert_eq!(Style::Ansi.status("blocked [STOPPED]"), "blocked [STOPPED]");
        assert_eq!(Style::Plain.status("blocked"), "blocked");
    }
}
