//! The state machine: which status may follow which, and why not.

use serde::{Deserialize, Serialize};

use super::Actor;
use crate::base::{Error, Result};

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Created, never started.
    Backlog,
    /// Started at the agent cap; the daemon launches it when a slot is free.
    Queued,
    /// A turn is running.
    Working,
    /// The turn is over; a reviewer decides.
    #[serde(alias = "active")]
    Blocked,
    /// As blocked, with changes to protected files to decide.
    Conflict,
    /// A pull or merge request is open.
    Submitted,
    /// A person works in the task's own session.
    Pairing,
    /// The run ended without a response.
    #[serde(alias = "draft")]
    Interrupted,
    /// The merge is under way.
    Merging,
    /// Its branch turned out to be merged; on its way to complete.
    Zombie,
    /// Accepted.
    Complete,
    /// Rejected or closed.
    #[serde(alias = "closed")]
    Abandoned,
}

use Status::*;

impl Status {
    /// Every status.
    pub const ALL: [Status; 12] = [
        Backlog,
        Queued,
        Working,
        Blocked,
        Conflict,
        Submitted,
        Pairing,
        Interrupted,
        Merging,
        Zombie,
        Complete,
        Abandoned,
    ];

    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Backlog => "backlog",
            Queued => "queued",
            Working => "working",
            Blocked => "blocked",
            Conflict => "conflict",
            Submitted => "submitted",
            Pairing => "pairing",
            Interrupted => "interrupted",
            Merging => "merging",
            Zombie => "zombie",
            Complete => "complete",
            Abandoned => "abandoned",
        }
    }

    /// Reads a stored name.
    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Complete or abandoned: goal, prompt, model, type, priority, agent, runner and target are frozen.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Complete | Abandoned)
    }

    /// Waiting for a reviewer: blocked, conflict or submitted.
    pub const fn waits_for_review(self) -> bool {
        matches!(self, Blocked | Conflict | Submitted)
    }

    /// The worktree is in use and must not be merged into.
    pub const fn is_active(self) -> bool {
        matches!(self, Working | Interrupted | Pairing | Merging)
    }

    /// The statuses that may follow this one, the zombie edge of the daemon aside.
    pub const fn next(self) -> &'static [Status] {
        match self {
            Backlog => &[Working, Blocked, Abandoned, Queued],
            Queued => &[Working, Backlog, Abandoned],
            Working => &[Blocked, Conflict, Interrupted, Merging, Submitted],
            Blocked => &[Working, Conflict, Submitted, Merging, Pairing, Abandoned, Backlog],
            Conflict => &[Working, Blocked, Submitted, Merging, Pairing, Abandoned],
            Interrupted => &[Working, Blocked, Conflict, Merging, Pairing, Abandoned],
            Submitted => &[Working, Blocked, Conflict, Merging, Pairing, Abandoned],
            Pairing => &[Blocked, Conflict],
            Merging => &[Complete, Blocked, Conflict, Submitted],
            Zombie => &[Complete],
            Complete | Abandoned => &[Blocked, Backlog],
        }
    }

    /// Whether `actor` may move a task from this status to `to`. Staying is always allowed.
    ///
    /// # Errors
    /// [`crate::base::Kind::Conflict`] naming both statuses and the ones that may follow.
    pub fn require_transition(self, to: Status, actor: Actor) -> Result<()> {
        if self == to || self.next().contains(&to) {
            return Ok(());
        }
        if to == Zombie {
            return match (self.is_terminal(), actor) {
                (false, Actor::System) => Ok(()),
                _ => Err(Error::conflict(format!("a {self} task cannot become zombie: only the daemon does that"))),
            };
        }
        let allowed: Vec<&str> = self.next().iter().map(|status| status.as_str()).collect();
        Err(Error::conflict(format!(
            "a {self} task cannot become {to}; from {self} it may become {}",
            allowed.join(", ")
        )))
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_status() -> impl Strategy<Value = Status> {
        (0..Status::ALL.len()).prop_map(|at| Status::ALL[at])
    }

    fn any_actor() -> impl Strategy<Value = Actor> {
        (0..Actor::ALL.len()).prop_map(|at| Actor::ALL[at])
    }

    proptest! {
        #[test]
        fn names_read_back(status in any_status()) {
            prop_assert_eq!(Status::parse(status.as_str()), Some(status));
            let json = serde_json::to_string(&status).expect("encodes");
            prop_assert_eq!(json, format!("\"{status}\""));
        }

        #[test]
        fn staying_is_always_allowed(status in any_status(), actor in any_actor()) {
            prop_assert!(status.require_transition(status, actor).is_ok());
        }

        #[test]
        fn only_the_daemon_makes_zombies(from in any_status(), actor in any_actor()) {
            let allowed = from.require_transition(Zombie, actor).is_ok();
            prop_assert_eq!(allowed, from == Zombie || (actor == Actor::System && !from.is_terminal()));
        }

        #[test]
        fn a_refusal_names_both_ends(from in any_status(), to in any_status(), actor in any_actor()) {
            if let Err(error) = from.require_transition(to, actor) {
                let text = error.to_string();
                prop_assert!(text.contains(from.as_str()) && text.contains(to.as_str()));
            }
        }

        #[test]
        fn nothing_runs_out_of_a_finished_task_without_reopening(to in any_status()) {
            for from in [Complete, Abandoned] {
                if from.require_transition(to, Actor::Human).is_ok() {
                    prop_assert!(matches!(to, Blocked | Backlog) || to == from);
                }
            }
        }
    }

    #[test]
    fn every_status_can_reach_an_end() {
        for start in Status::ALL {
            let mut seen = vec![start];
            let mut at = 0;
            while at < seen.len() {
                for next in seen[at].next() {
                    if !seen.contains(next) {
                        seen.push(*next);
                    }
                }
                at += 1;
            }
            assert!(seen.iter().any(|status| status.is_terminal()), "{start} never ends");
        }
    }
}
