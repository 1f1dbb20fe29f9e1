//! The two timers that watch an agent, as a pure value: fed with events and instants, it says "when next" and "now".
//!
//! Before the final result the *watchdog* runs: it is pushed back by every completed step and fires when none came for
//! its whole time. The final result stops it and starts the *wind-down*: the time the agent has to exit by itself. So
//! at most one timer is armed. The first verdict stands for good; a run is never killed twice for two reasons.

use std::time::{Duration, Instant};

/// Why a run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// No completed step for the watchdog's time.
    NoProgress,
    /// The final result was there, but the agent did not exit.
    WindDown,
}

/// The timers of one run.
#[derive(Debug, Clone)]
pub struct Guard {
    watchdog: Option<Duration>,
    wind_down: Option<Duration>,
    state: State,
    tools: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Watching { since: Instant },
    WindingDown { since: Instant },
    Killed(Kill),
}

impl Guard {
    /// Timers of the given lengths; an absent or zero one never fires. Nothing is armed before the first event.
    pub fn new(watchdog: Option<Duration>, wind_down: Option<Duration>) -> Guard {
        let positive = |limit: Duration| !limit.is_zero();
        Guard {
            watchdog: watchdog.filter(|limit| positive(*limit)),
            wind_down: wind_down.filter(|limit| positive(*limit)),
            state: State::Idle,
            tools: Vec::new(),
        }
    }

    /// The run started, or a step was completed.
    pub fn on_progress(&mut self, now: Instant) {
        match self.state {
            State::Idle => self.state = State::Watching { since: now },
            State::Watching { since } => self.state = State::Watching { since: since.max(now) },
            State::WindingDown { .. } | State::Killed(_) => {}
        }
    }

    /// The final result came. A second one does not give the agent more time.
    pub fn on_result(&mut self, now: Instant) {
        if matches!(self.state, State::Idle | State::Watching { .. }) {
            self.state = State::WindingDown { since: now };
        }
    }

    /// A tool call began; its name goes into the kill message.
    pub fn on_tool_start(&mut self, id: &str, name: &str) {
        // A stream that starts tools and never ends one must not grow this without bound.
        if self.tools.len() < 64 && !self.tools.iter().any(|(known, _)| known == id) {
            self.tools.push((id.to_string(), name.to_string()));
        }
    }

    /// A tool call ended.
    pub fn on_tool_end(&mut self, id: &str) {
        self.tools.retain(|(known, _)| known != id);
    }

    /// The tools that began and have not ended, oldest first.
    pub fn tools_in_flight(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|(_, name)| name.as_str())
    }

    /// Whether the final result was seen.
    pub fn saw_result(&self) -> bool {
        matches!(self.state, State::WindingDown { .. } | State::Killed(Kill::WindDown))
    }

    /// When to ask again; `None` when no timer is armed.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Watching { since } => since.checked_add(self.watchdog?),
            State::WindingDown { since } => since.checked_add(self.wind_down?),
            State::Idle | State::Killed(_) => None,
        }
    }

    /// Whether the run is to be ended at `now`; once it is, the same reason for ever.
    pub fn poll(&mut self, now: Instant) -> Option<Kill> {
        if let State::Killed(reason) = self.state {
            return Some(reason);
        }
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        let reason = if self.saw_result() { Kill::WindDown } else { Kill::NoProgress };
        self.state = State::Killed(reason);
        Some(reason)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Event {
        Progress,
        Result,
        Poll,
    }

    fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
        let event = prop_oneof![4 => Just(Event::Progress), 1 => Just(Event::Result), 4 => Just(Event::Poll)];
        proptest::collection::vec((0_u64..40, event), 1..60)
    }

    proptest! {
        /// Against a model kept in plain milliseconds: the verdict comes exactly when the armed timer has run out.
        #[test]
        fn the_verdict_is_that_of_the_model(
            script in events(),
            watchdog in proptest::option::of(0_u64..60),
            wind_down in proptest::option::of(0_u64..60),
        ) {
            let start = Instant::now();
            let mut guard = Guard::new(watchdog.map(Duration::from_millis), wind_down.map(Duration::from_millis));
            guard.on_progress(start);
            let (mut now, mut last, mut result, mut killed) = (0, 0, None, None);
            for (wait, event) in script {
                now += wait;
                let at = start + Duration::from_millis(now);
                match event {
                    Event::Progress => { guard.on_progress(at); if result.is_none() { last = now; } }
                    Event::Result => { guard.on_result(at); if killed.is_none() { result = result.or(Some(now)); } }
                    Event::Poll => {
                        let due = match result {
                            Some(since) => wind_down.filter(|w| *w > 0).map(|w| (since + w, Kill::WindDown)),
                            None => watchdog.filter(|w| *w > 0).map(|w| (last + w, Kill::NoProgress)),
                        };
                        if killed.is_none() {
                            killed = due.filter(|(at, _)| now >= *at).map(|(_, kill)| kill);
                        }
                        prop_assert_eq!(guard.poll(at), killed);
                        prop_assert!(killed.is_none() || guard.deadline().is_none());
                    }
                }
            }
        }

        /// Asking never changes when the answer comes.
        #[test]
        fn asking_early_moves_no_deadline(
            limit in 1_u64..1_000_000,
            before in proptest::collection::vec(0_u64..1_000_000, 0..20),
        ) {
            let start = Instant::now();
            let mut guard = Guard::new(Some(Duration::from_millis(limit)), None);
            guard.on_progress(start);
            for at in before.into_iter().filter(|at| *at < limit) {
                prop_assert_eq!(guard.poll(start + Duration::from_millis(at)), None);
            }
            prop_assert_eq!(guard.deadline(), Some(start + Duration::from_millis(limit)));
            prop_assert_eq!(guard.poll(start + Duration::from_millis(limit)), Some(Kill::NoProgress));
        }
    }

    #[test]
    fn an_endless_limit_is_no_limit() {
        let mut guard = Guard::new(Some(Duration::MAX), Some(Duration::ZERO));
        let now = Instant::now();
        guard.on_progress(now);
        assert_eq!(guard.deadline(), None);
        guard.on_result(now);
        assert_eq!(guard.poll(now + Duration::from_secs(1 << 30)), None);
    }

    #[test]
    fn tools_in_flight_are_those_not_ended() {
        let mut guard = Guard::new(None, None);
        guard.on_tool_start("1", "Bash");
        guard.on_tool_start("2", "Read");
        guard.on_tool_start("2", "Read");
        guard.on_tool_end("1");
        assert_eq!(guard.tools_in_flight().collect::<Vec<_>>(), ["Read"]);
    }
}
