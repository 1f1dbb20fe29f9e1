//! Which record of a task lives in which file of its directory.

use std::path::{Path, PathBuf};

use crate::model::TaskId;

/// The directory of all tasks, below the root.
pub(super) const TASKS: &str = "tasks";
/// Writes under way, below the root.
pub(super) const JOURNAL: &str = "journal";
/// The lock that one writer holds, below the root.
pub(super) const LOCK: &str = ".storage-lock";
/// What the store says of itself, below the root.
pub(super) const VERSION: &str = "version.json";
/// An older store's comments, `{notes: [...]}`.
pub(super) const LEGACY_NOTES: &str = "notes.json";
/// An older store's raised items, `{follow_ups: [...]}`.
pub(super) const LEGACY_FOLLOW_UPS: &str = "follow-ups.json";

/// One file of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Part {
    Task,
    Session,
    Turns,
    Commits,
    Prompts,
    Snapshots,
    Reviews,
    Comments,
    Journal,
    Raised,
    Statuses,
    Tags,
}

impl Part {
    pub(super) const ALL: [Part; 12] = [
        Part::Task,
        Part::Session,
        Part::Turns,
        Part::Commits,
        Part::Prompts,
        Part::Snapshots,
        Part::Reviews,
        Part::Comments,
        Part::Journal,
        Part::Raised,
        Part::Statuses,
        Part::Tags,
    ];

    /// The file and the key of the list in it; the task and the session are not wrapped.
    const fn row(self) -> (&'static str, Option<&'static str>) {
        match self {
            Part::Task => ("task.json", None),
            Part::Session => ("session.json", None),
            Part::Turns => ("turns.json", Some("turns")),
            Part::Commits => ("commits.json", Some("commits")),
            Part::Prompts => ("prompt-history.json", Some("versions")),
            Part::Snapshots => ("snapshots.json", Some("snapshots")),
            Part::Reviews => ("reviews.json", Some("reviews")),
            Part::Comments => ("comments.json", Some("comments")),
            Part::Journal => ("journal.json", Some("journal")),
            Part::Raised => ("raised-items.json", Some("raised_items")),
            Part::Statuses => ("status-changelog.json", Some("changes")),
            Part::Tags => ("tag-history.json", Some("events")),
        }
    }

    /// The file's name.
    pub(super) const fn file(self) -> &'static str {
        self.row().0
    }

    /// The key of the list in the file.
    pub(super) const fn key(self) -> Option<&'static str> {
        self.row().1
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of files of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Parts(u16);

impl Parts {
    /// No file.
    pub(super) const NONE: Parts = Parts(0);
    /// What a new task is made of; the session and the journal come with their first row.
    pub(super) const NEW_TASK: Parts = Parts(!(Part::Session.bit() | Part::Journal.bit()));

    /// These files.
    pub(super) fn of(parts: &[Part]) -> Parts {
        Parts(parts.iter().fold(0, |bits, part| bits | part.bit()))
    }

    /// The files of both sets.
    pub(super) const fn plus(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }

    /// The files, in the order they are written: the task last, so that a directory without it is an unfinished one.
    pub(super) fn iter(self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().rev().filter(move |part| self.0 & part.bit() != 0)
    }
}

/// A task's directory relative to the root.
pub(super) fn task_dir(task: TaskId) -> PathBuf {
    Path::new(TASKS).join(task.to_string())
}

/// A task's file relative to the root.
pub(super) fn task_file(task: TaskId, part: Part) -> PathBuf {
    task_dir(task).join(part.file())
}

/// Whether the name is that of a write that did not finish, ours or of another program of the family.
pub(super) fn is_litter(name: &str) -> bool {
    name.ends_with(".tmp") || name.contains(".tmp.") || name.contains(".backup.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_knows_its_files_and_writes_the_task_last() {
        let set = Parts::of(&[Part::Task, Part::Statuses]).plus(Parts::of(&[Part::Turns]));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Part::Statuses, Part::Turns, Part::Task]);
        let new: Vec<Part> = Parts::NEW_TASK.iter().collect();
        assert_eq!(new.len(), 10);
        assert!(!new.contains(&Part::Session) && !new.contains(&Part::Journal));
        assert_eq!(Parts::NONE.iter().count(), 0);
    }

    #[test]
    fn litter_is_told_from_records() {
        for name in [".task.json.abc.tmp", "task.json.4711.1700000000000.tmp", "x.tmp.17", "x.backup.1"] {
            assert!(is_litter(name), "{name}");
        }
        for part in Part::ALL {
            assert!(!is_litter(part.file()), "{}", part.file());
        }
    }
}
