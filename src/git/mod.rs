//! The repository: one [`Repo`], its worktrees, and the few ways in which work moves between branches.
//!
//! Reads go through gix and start no program. Everything that touches hooks, signing, the index, conflicts or a
//! checkout goes through the git program.
//!
//! What holds here:
//! - A person's work is never lost or touched: a merge is computed without a checkout, the branch moves by
//!   compare-and-swap or by a fast-forward that refuses as a whole, and a conflict or an overlap is an answer, given
//!   before anything moved ([`Repo::squash_merge`]).
//! - A half-done merge is never left unsaid: it is concluded, rolled back after its difference was saved, or reported
//!   with the commands that end it ([`Worktree::settle`], [`Worktree::recover`]).
//! - A failed scan is an error, never an empty answer ([`Worktree::violations`]).
//! - What fails while making a worktree leaves neither directory, branch nor record behind.
//! - An agent can write its worktree and the git directory of that worktree. So a worktree counts only when its `.git`
//!   file and the repository's record of it agree, git never gets to see that git directory (`private`), submodules
//!   are not entered, and hooks that lie inside the worktree do not run.
//! - A lock that a killed git left in a task's worktree is removed once nobody can hold it; anywhere else it is named
//!   (`stale`).
//! - The environment of git comes from [`crate::base::Process`]; it never prompts, and no call is unbounded.
//!
//! Any directory of a project leads to it, also one inside a linked worktree: the project is then the main checkout.
//! A submodule is a project of its own. When the main repository is bare, the linked checkout is the project.
//!
//! Files owned: `<common>/lazy/`, `<worktree>/.lazy-lock`, `<worktree>/.lazy/recovery/*.patch`, three lines in `<common>/info/exclude`.
//!
//! Refused: bare repositories, sha256 objects, reftable, git older than 2.38 for merging.

mod checkout;
mod commit;
mod diff;
mod globs;
mod history;
mod include;
mod lock;
mod merge;
mod mounts;
mod private;
mod program;
mod protected;
mod repo;
mod reserved;
mod resurrect;
mod settle;
mod squash;
mod stale;
mod tag;
#[cfg(test)]
mod tests;
mod tree;
mod worktree;
mod worktrees;

pub use checkout::seems_to_merge;
pub use commit::Committed;
pub use diff::{ChangeKind, ChangedFile, DiffFormat, DiffRange};
pub use history::CommitInfo;
pub use lock::WorktreeLock;
pub use merge::{MergeOutcome, MergeState};
pub use mounts::GitPaths;
pub use repo::Repo;
pub use reserved::{LOCK_FILE, RECOVERY_DIR, SANDBOX_DIR};
pub use resurrect::Resurrection;
pub use settle::Rollback;
pub use squash::{CheckoutEffect, SquashMerge, Squashed};
pub use worktree::{Worktree, WorktreeStatus};
