//! Time as unix milliseconds, and the two forms people read.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

/// Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// Milliseconds from `earlier` to `self`, at least 0.
    pub fn since(self, earlier: Millis) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }

    /// This moment plus `duration`.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Millis {
        Millis(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// `YYYY-MM-DD HH:MM` in UTC.
    pub fn minute(self) -> String {
        self.timestamp().map(|t| t.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_else(|| "-".into())
    }

    /// RFC 3339 in UTC with milliseconds.
    pub fn iso(self) -> String {
        self.timestamp().map(|t| t.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()).unwrap_or_default()
    }

    /// `yy-mm-dd` in UTC, the date part of a task ref that would otherwise clash.
    pub fn short_date(self) -> String {
        self.timestamp().map(|t| t.strftime("%y-%m-%d").to_string()).unwrap_or_default()
    }

    /// Reads RFC 3339, or `YYYY-MM-DD HH:MM:SS` as UTC.
    pub fn parse(text: &str) -> Option<Millis> {
        if let Ok(at) = text.parse::<Timestamp>() {
            return Some(Millis(at.as_millisecond()));
        }
        let at: jiff::civil::DateTime = text.parse().ok()?;
        Some(Millis(at.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond()))
    }

    fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.0).ok()
    }
}

/// `Hh Mm`, `Mm Ss` or `Ss`.
pub fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s}s"),
        (h, m, _) => format!("{h}h {m}m"),
    }
}

/// Where the time comes from.
#[derive(Debug)]
pub enum Clock {
    /// The system's clock.
    System,
    /// A clock that stands still until it is moved: tests.
    Fixed(AtomicI64),
}

impl Clock {
    /// Now.
    pub fn now(&self) -> Millis {
        match self {
            Clock::System => Millis(Timestamp::now().as_millisecond()),
            Clock::Fixed(at) => Millis(at.load(Ordering::Relaxed)),
        }
    }

    /// Moves a fixed clock forward; the system's clock does not listen.
    pub fn advance(&self, by: Duration) {
        if let Clock::Fixed(at) = self {
            at.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back() {
        let at = Millis::parse("2026-03-04T05:06:07.089Z").expect("parses");
        assert_eq!(at.iso(), "2026-03-04T05:06:07.089Z");
        assert_eq!(at.minute(), "2026-03-04 05:06");
        assert_eq!(at.short_date(), "26-03-04");
        assert_eq!(Millis::parse("2026-03-04 05:06:07"), Millis::parse("2026-03-04T05:06:07Z"));
        assert_eq!(Millis::parse("yesterday"), None);
    }

    #[test]
    fn durations_take_two_units() {
        assert_eq!(duration_text(Duration::from_secs(9)), "9s");
        assert_eq!(duration_text(Duration::from_secs(61)), "1m 1s");
        assert_eq!(duration_text(Duration::from_secs(7322)), "2h 2m");
    }
}
