//! When a failed run is tried again: a pure value, fed with failures, answering with a delay or an end.

use std::time::Duration;

use crate::model::exchange::FailureClass;

/// Seconds before the next attempt after a failure that passes by itself; the last one repeats.
const TRANSIENT: [u64; 5] = [5, 10, 20, 40, 60];
/// The same after a failure nobody understands.
const UNKNOWN: [u64; 3] = [15, 30, 60];
/// Attempts while nothing listens where the model should be, about nine minutes.
const UNREACHABLE_ATTEMPTS: u32 = 12;
/// So many unexplained failures in a row, each this quick, are a crash loop.
const CRASH_LOOP: u32 = 3;
const QUICK: Duration = Duration::from_secs(10);
/// So many unexplained failures in a row end the turn however slow they are: each of them costs tokens.
const UNKNOWN_ATTEMPTS: u32 = 10;
/// So many times the watchdog may end a run without result or commit.
pub(super) const WATCHDOG_KILLS: u32 = 3;

/// What to do after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Try again after this time, not yet scaled.
    Again(Duration),
    /// Stop; why, in words.
    GiveUp(String),
}

/// The failures of one turn so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Ladder {
    attempts: u32,
    transient: u32,
    unreachable: u32,
    unknown: u32,
    quick: u32,
    kills: u32,
}

impl Ladder {
    /// How many attempts failed.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How many of them the watchdog ended.
    pub(super) fn kills(&self) -> u32 {
        self.kills
    }

    /// An attempt failed and is repeated at once in another way; it counts, but moves no step.
    pub(super) fn note(&mut self) {
        self.attempts += 1;
    }

    /// A run failed with `class` after it `ran` this long.
    pub(super) fn failed(&mut self, class: FailureClass, ran: Duration) -> Verdict {
        self.attempts += 1;
        if class != FailureClass::Unknown {
            (self.unknown, self.quick) = (0, 0);
        }
        if class != FailureClass::TransientUnreachable {
            self.unreachable = 0;
        }
        match class {
            FailureClass::FatalAuth => Verdict::GiveUp("the credential was refused".into()),
            FailureClass::FatalConfig => Verdict::GiveUp("the agent cannot be run as configured".into()),
            FailureClass::TransientOverload | FailureClass::TransientNetwork => self.transient_step(),
            FailureClass::TransientUnreachable => {
                self.unreachable += 1;
                if self.unreachable >= UNREACHABLE_ATTEMPTS {
                    return Verdict::GiveUp(format!("the model could not be reached in {} attempts", self.unreachable));
                }
                self.transient_step()
            }
            FailureClass::Unknown => {
                self.unknown += 1;
                self.quick = if ran < QUICK { self.quick + 1 } else { 0 };
                if self.quick >= CRASH_LOOP {
                    return Verdict::GiveUp(format!(
                        "the agent failed {} times in a row right after its start",
                        self.quick
                    ));
                }
                if self.unknown >= UNKNOWN_ATTEMPTS {
                    return Verdict::GiveUp(format!("the agent failed {} times in a row", self.unknown));
                }
                Verdict::Again(step(&UNKNOWN, self.unknown))
            }
        }
    }

    /// The watchdog ended a run that left neither result nor commit.
    pub(super) fn killed(&mut self) -> Verdict {
        self.attempts += 1;
        self.kills += 1;
        if self.kills >= WATCHDOG_KILLS {
            return Verdict::GiveUp(format!("the watchdog ended the agent {} times", self.kills));
        }
        self.transient_step()
    }

    fn transient_step(&mut self) -> Verdict {
        self.transient += 1;
        Verdict::Again(step(&TRANSIENT, self.transient))
    }
}

fn step(seconds: &[u64], count: u32) -> Duration {
    let at = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX).min(seconds.len() - 1);
    Duration::from_secs(seconds[at])
}

#[cfg(test)]
mod tests {
    use FailureClass::{FatalAuth, FatalConfig, TransientNetwork, TransientOverload, TransientUnreachable, Unknown};
    use proptest::prelude::*;

    use super::*;

    const SLOW: Duration = Duration::from_secs(60);

    fn seconds(verdicts: impl IntoIterator<Item = Verdict>) -> Vec<u64> {
        let delay = |verdict| match verdict {
            Verdict::Again(delay) => delay.as_secs(),
            Verdict::GiveUp(_) => 0,
        };
        verdicts.into_iter().map(delay).collect()
    }

    #[test]
    fn each_class_has_its_pace() {
        let mut ladder = Ladder::default();
        let delays = seconds((0..7).map(|_| ladder.failed(TransientOverload, Duration::ZERO)));
        assert_eq!(delays, [5, 10, 20, 40, 60, 60, 60]);
        let mut ladder = Ladder::default();
        assert_eq!(seconds((0..5).map(|_| ladder.failed(Unknown, SLOW))), [15, 30, 60, 60, 60]);
        let mut ladder = Ladder::default();
        let delays = seconds((0..12).map(|_| ladder.failed(TransientUnreachable, SLOW)));
        assert_eq!(delays, [5, 10, 20, 40, 60, 60, 60, 60, 60, 60, 60, 0]);
        let mut ladder = Ladder::default();
        assert_eq!(seconds((0..3).map(|_| ladder.killed())), [5, 10, 0]);
        assert_eq!((ladder.attempts(), ladder.kills()), (3, 3));
    }

    #[test]
    fn three_quick_unexplained_failures_are_a_crash_loop() {
        let mut ladder = Ladder::default();
        assert_eq!(seconds((0..3).map(|_| ladder.failed(Unknown, Duration::ZERO))), [15, 30, 0]);
        let mut ladder = Ladder::default();
        ladder.failed(Unknown, Duration::ZERO);
        ladder.failed(Unknown, Duration::ZERO);
        ladder.failed(TransientNetwork, Duration::ZERO);
        assert!(matches!(ladder.failed(Unknown, Duration::ZERO), Verdict::Again(_)));
    }

    proptest! {
        /// Whatever happens: fatal classes stop at once, delays stay on the ladder, and only overload and network can
        /// go on without end.
        #[test]
        fn no_ladder_is_endless_but_for_a_busy_service(
            script in proptest::collection::vec((0_u8..6, 0_u64..20), 0..200),
        ) {
            let mut ladder = Ladder::default();
            for (class, ran) in &script {
                let class = [FatalAuth, FatalConfig, TransientOverload, TransientNetwork, TransientUnreachable, Unknown]
                    [usize::from(*class)];
                match ladder.failed(class, Duration::from_secs(*ran)) {
                    Verdict::Again(delay) => {
                        prop_assert!(!matches!(class, FatalAuth | FatalConfig));
                        prop_assert!((5..=60).contains(&delay.as_secs()));
                    }
                    Verdict::GiveUp(_) => prop_assert!(!matches!(class, TransientOverload | TransientNetwork)),
                }
            }
            prop_assert_eq!(ladder.attempts() as usize, script.len());
        }
    }
}
