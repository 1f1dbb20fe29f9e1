//! Values of flags, read with errors that list what is possible.

use crate::model::{Effort, Priority, RunnerKind, TaskType};

/// An effort.
pub(crate) fn effort(text: &str) -> Result<Effort, String> {
    Effort::parse(text).map_err(|error| error.to_string())
}

/// A kind of task.
pub(crate) fn task_type(text: &str) -> Result<TaskType, String> {
    TaskType::parse(text).map_err(|error| error.to_string())
}

/// A priority.
pub(crate) fn priority(text: &str) -> Result<Priority, String> {
    Priority::parse(text).map_err(|error| error.to_string())
}

/// A runner as people type it; the empty text, which clears it, is left to the operation.
pub(crate) fn runner(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    RunnerKind::parse_alias(text).map(|_| text.to_string()).map_err(|error| error.to_string())
}

/// A model's name: not blank.
pub(crate) fn model(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("a model has a name".into()) } else { Ok(text.trim().to_string()) }
}

/// `true` or `false`, as people type them.
pub(crate) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Lines of an output: 1-based, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lines {
    first: usize,
    last: usize,
}

/// `N..M`, `N..` or `..M`.
pub(crate) fn lines(text: &str) -> Result<Lines, String> {
    let wrong = || format!("{text:?} is not a range of lines; write N..M, N.. or ..M, counted from 1");
    let (first, last) = text.split_once("..").ok_or_else(wrong)?;
    if first.is_empty() && last.is_empty() {
        return Err(wrong());
    }
    let number = |text: &str, default: usize| match text {
        "" => Ok(default),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map_err(|_| wrong()),
        _ => Err(wrong()),
    };
    let range = Lines { first: number(first, 1)?, last: number(last, usize::MAX)? };
    if range.first == 0 || range.first > range.last { Err(wrong()) } else { Ok(range) }
}

impl Lines {
    /// Those lines of `text`, each with its end.
    pub fn of(self, text: &str) -> String {
        text.split_inclusive('\n').skip(self.first - 1).take(self.last - self.first + 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_from_one_and_include_both_ends() {
        let text = "a\nb\nc\nd";
        assert_eq!(lines("2..3").expect("range").of(text), "b\nc\n");
        assert_eq!(lines("3..").expect("range").of(text), "c\nd");
        assert_eq!(lines("..1").expect("range").of(text), "a\n");
        assert_eq!(lines("9..").expect("range").of(text), "");
        assert_eq!(lines("1..18446744073709551615").expect("range").of(text), text);
        for wrong in ["", "..", "0..2", "3..2", "a..b", "2", "-1..2", "1..2..3", "+1..2"] {
            assert!(lines(wrong).expect_err(wrong).contains("N..M"), "{wrong}");
        }
    }
}
