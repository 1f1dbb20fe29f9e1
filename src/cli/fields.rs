//! Values of flags, read with errors that list what is possible.

use std::time::Duration;

use crate::model::{Effort, Priority, RunnerKind, TaskType};
use crate::setup::stats::By;

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

/// A length of time: a number and `s`, `m`, `h` or `d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no length of time; write 90s, 30m, 2h or 7d");
    let (at, unit) = text.char_indices().next_back().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..at].parse().map_err(|_| wrong())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// A way to put requests together.
pub(crate) fn by(text: &str) -> Result<By, String> {
    let names: Vec<&str> = By::ALL.iter().map(|by| by.name()).collect();
    let found = By::ALL.into_iter().find(|by| by.name() == text);
    found.ok_or_else(|| format!("{text:?} is none of {}", names.join(", ")))
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

    #[test]
    fn lengths_of_time_have_a_unit() {
        let read = |text: &str| duration(text).map(|length| length.as_secs());
        assert_eq!([read("90s"), read("30m"), read("2h"), read("7d")], [Ok(90), Ok(1800), Ok(7200), Ok(604_800)]);
        for wrong in ["", "2", "h", "2 h", "-1h", "2é", "99999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
