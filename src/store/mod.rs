//! The task store: a directory of readable JSON files with one writer, an index in memory, and writes that happen whole
//! or not at all.
//!
//! **Files owned** (root = `[storage] external_path`): `version.json`, `.storage-lock`, `journal/` (writes under way),
//! `tasks/<uuid>/…`. The layout and the field names are fixed: another program of the family opens the same store.
//!
//! **Invariants.** A list of [`Edit`]s is applied whole or not at all, also across SIGKILL and a full disk. A status and
//! its history row cannot come apart. An edit that breaks the transition table is refused and nothing is written. Every
//! applied list is published to subscribers after it is durable, in order. Listing reads no file. A reader sees the files
//! of a task as they were before a list or after it, never between. Fields and rows that this version does not know
//! survive a rewrite; records of older versions are brought to the present names when they are read and on disk when
//! they are next written.
//!
//! **How a list is applied.** One writer at a time: the records it names are read, each [`Change`] is worked in by pure
//! functions (`apply`, with what needs other tasks in `plan`), and the files that changed are written by the journal
//! (`journal`: staged, decided by an intent, put in place, withdrawn; a start completes or discards what a crash left).
//! Checkpoints for crash tests, in order: `store.staged-file`, `store.before-intent`, `store.after-intent`,
//! `store.between-files`, `store.after-files`, `store.after-intent-removed`; `store.replayed-file` when a start completes
//! a write, `store.restored-file` when a failed one is taken back. A list that touches one file needs no intent.
//!
//! **Refused:** a second writer (named by pid), a store of a later schema, a torn record (named by path; the task is
//! reported as damaged, the others work), a code that belongs to a live task, parents in a circle, the frozen fields of
//! a finished task, and every write after one that failed and could not be taken back, until the store is opened anew.

mod apply;
mod apply_session;
mod change;
mod event;
mod face;
mod index;
mod journal;
mod layout;
mod migrate;
mod plan;
mod read;
mod record;
mod scan;
#[cfg(test)]
mod tests;
mod write;

pub use change::{Change, Edit, Interruption, SessionPatch, TaskPatch};
pub use event::{Applied, AppliedEdit, Effect};
pub use face::{Damaged, Store};
pub use record::{TaskRecord, TaskRow};
