//! Accepting work: one commit on the target branch, made without a checkout, that never touches a person's own work.
//!
//! The merge is computed on objects alone (`merge-tree`), the commit is made beside the branches (`commit-tree`), and
//! the branch moves last: by compare-and-swap where nobody has it checked out, else by a fast-forward in that checkout,
//! which moves branch, index and files together and refuses as a whole when uncommitted work is in the way. That
//! overlap is looked for first, so that the refusal names the files and nothing was moved. Git moves the files before
//! the branch: whether the branch can move is tried first, and when it did not move in the end, index and files are
//! taken back.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::checkout::Checkout;
use super::program::fields;
use super::worktree::Untracked;
use super::worktrees::quoted;
use super::{Repo, Worktree};
use crate::base::{Error, Kind, Result};

/// How often a target that moves meanwhile is followed.
const ATTEMPTS: u32 = 4;

/// What to merge, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SquashMerge {
    /// The local branch with the work.
    pub branch: String,
    /// The local branch that receives it.
    pub target: String,
    /// The whole message of the one commit.
    pub message: String,
    /// The commit the target must be at, when the caller judged that one; a target elsewhere is refused.
    pub expected_target: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Squashed {
    /// The target has one commit more.
    Merged {
        /// Full id of that commit.
        sha: String,
        /// What happened to a checkout of the target.
        checkout: CheckoutEffect,
    },
    /// The two sides changed the same lines. Nothing moved.
    Conflicts {
        /// The paths concerned.
        files: Vec<String>,
    },
    /// The target has all of it already. Nothing moved.
    NothingToMerge,
}

/// What a merge did to the checkout that has the target branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckoutEffect {
    /// The target is checked out nowhere; only the branch moved.
    NotCheckedOut,
    /// The files in this checkout moved with the branch.
    FastForwarded {
        /// Its directory.
        path: PathBuf,
    },
}

enum Step {
    Done(CheckoutEffect),
    TargetMoved,
}

impl Repo {
    /// Puts the work of `branch` onto `target` as one commit whose only parent is the target.
    ///
    /// # Errors
    /// [`Kind::NotFound`] for an unknown branch; [`Kind::Conflict`] when the target is not where it was expected, when
    /// its checkout is in the middle of a merge or rebase, and when uncommitted files there overlap with the change;
    /// [`Kind::Unavailable`] when git is older than 2.38. Nothing has moved then.
    pub async fn squash_merge(&self, request: &SquashMerge) -> Result<Squashed> {
        let SquashMerge { branch, target, message, expected_target } = request;
        if message.trim().is_empty() {
            return Err(Error::invalid("the message of the merge is blank"));
        }
        let version = self.git_version().await?;
        if version < (2, 38) {
            let (major, minor) = version;
            return Err(Error::unavailable(format!(
                "git is {major}.{minor}; merging without a checkout needs 2.38 or newer"
            ))
            .hint("install a newer git: https://git-scm.com/downloads"));
        }
        for _ in 0..ATTEMPTS {
            let old = self.require_branch_sha(target)?;
            let work = self.require_branch_sha(branch)?;
            if let Some(expected) = expected_target.as_deref().filter(|expected| *expected != old) {
                return Err(target_moved(target).hint(format!("git log --oneline {}..{target}", short(expected))));
            }
            if self.is_ancestor(&work, &old)? {
                return Ok(Squashed::NothingToMerge);
            }
            let tree = match self.merge_trees(&old, &work).await? {
                Merged::Tree(tree) => tree,
                Merged::Conflicts(files) => return Ok(Squashed::Conflicts { files }),
            };
            if self.resolve_tree(&old)? == tree {
                return Ok(Squashed::NothingToMerge);
            }
            let sha = self.commit_tree(&tree, &old, message).await?;
            let step = match self.checkout_of(target)? {
                None => self.swap_ref(request, &sha, &old).await?,
                Some(checkout) => self.fast_forward(&checkout, request, &sha, &old).await?,
            };
            if let Step::Done(checkout) = step {
                return Ok(Squashed::Merged { sha, checkout });
            }
        }
        Err(target_moved(target).hint("something else commits to it all the time; try again when it rests"))
    }

    fn require_branch_sha(&self, branch: &str) -> Result<String> {
        self.branch_sha(branch)?
            .ok_or_else(|| Error::not_found(format!("there is no local branch {branch:?}")).hint("git branch --list"))
    }

    async fn merge_trees(&self, target: &str, work: &str) -> Result<Merged> {
        if self.merge_base(target, work)?.is_none() {
            return Err(
                Error::conflict("the two branches have no commit in common").hint("git merge-base --all <a> <b>")
            );
        }
        let git =
            self.git().await?.args(["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", target, work]);
        let answer = git.run().await?;
        let mut found = fields(&answer.stdout).into_iter();
        match (answer.code, found.next()) {
            (0, Some(tree)) => Ok(Merged::Tree(tree)),
            (1, Some(_)) => Ok(Merged::Conflicts(found.filter(|path| !path.is_empty()).collect())),
            _ => Err(answer.refusal("cannot compute the merge")),
        }
    }

    fn resolve_tree(&self, commit: &str) -> Result<String> {
        let repo = self.open()?;
        let id = repo.rev_parse_single(format!("{commit}^{{tree}}").as_str());
        id.map(|id| id.to_string())
            .map_err(|source| Error::internal(format!("cannot read the tree of {commit}: {source}")))
    }

    /// The checkout whose files would fall behind when `branch` moves.
    fn checkout_of(&self, branch: &str) -> Result<Option<Checkout>> {
        let mut found = Vec::new();
        for checkout in self.checkouts().into_iter().filter(|checkout| checkout.holds(branch)) {
            // a record that its own work tree does not confirm is stale, or was made up by whoever can write it
            let is_main = checkout == *self.checkout();
            if is_main || Checkout::linked(&checkout.path, self.common_dir()).as_ref() == Some(&checkout) {
                found.push(checkout);
            } else if checkout.is_locked() {
                return Err(Error::conflict(format!(
                    "the branch {branch:?} is checked out in {}, which is locked and not there",
                    checkout.path.display()
                ))
                .hint(format!("git worktree unlock {}", quoted(&checkout.path))));
            }
        }
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => {
                let paths: Vec<String> = found.iter().map(|checkout| checkout.path.display().to_string()).collect();
                Err(Error::conflict(format!(
                    "the branch {branch:?} is checked out in several places: {}",
                    paths.join(", ")
                ))
                .hint("switch all but one of them to another branch: git switch <branch>"))
            }
        }
    }

    async fn swap_ref(&self, request: &SquashMerge, new: &str, old: &str) -> Result<Step> {
        let target = &request.target;
        let reason = format!("lazy: squash merge of {}", request.branch);
        let git = self.git().await?.args(["update-ref", "-m", &reason, &format!("refs/heads/{target}"), new, old]);
        let answer = git.run().await?;
        match self.branch_sha(target)? {
            Some(now) if now == new => Ok(Step::Done(CheckoutEffect::NotCheckedOut)),
            Some(now) if now != old => Ok(Step::TargetMoved),
            _ => Err(answer.refusal(&format!("cannot move the branch {target:?}"))),
        }
    }

    async fn fast_forward(&self, checkout: &Checkout, request: &SquashMerge, new: &str, old: &str) -> Result<Step> {
        let target = &request.target;
        let here = checkout.path.display();
        if let Some((what, end)) = checkout.half_done() {
            return Err(Error::conflict(format!("{here} has {target:?} checked out and is in the middle of a {what}"))
                .hint(format!("finish the {what} there, or give it up: cd {} && {end}", quoted(&checkout.path)))
                .hint("then accept again"));
        }
        self.require_no_overlap(checkout, target, new, old).await?;
        self.require_movable(checkout, target, new, old).await?;
        // judged by the branch, not by the exit code: a hook that runs afterwards may fail or take too long
        let git = self.trusted_hooks(self.git_in(checkout).await?, &checkout.path).await?.slow();
        let git = git.args(["merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash"]);
        let answer = git.args(["--no-stat", "--no-progress", "--quiet", new]).run().await;
        let now = self.branch_sha(target)?;
        if now.as_deref() == Some(new) {
            return Ok(Step::Done(CheckoutEffect::FastForwarded { path: checkout.path.clone() }));
        }
        self.take_back(checkout, new, now.as_deref().unwrap_or(old)).await?;
        match answer {
            _ if now.as_deref().is_some_and(|now| now != old) => Ok(Step::TargetMoved),
            Err(error) => Err(error),
            Ok(answer) => {
                Err(answer.refusal(&format!("cannot move {target:?} forward in {here}")).hint(put_away(checkout)))
            }
        }
    }

    /// Refuses when the branch cannot move, e.g. because of a lock that a killed git left: the move is prepared, which
    /// takes every lock and asks the hooks that may refuse it, and given up.
    async fn require_movable(&self, checkout: &Checkout, target: &str, new: &str, old: &str) -> Result<()> {
        let git = self.trusted_hooks(self.git_in(checkout).await?, &checkout.path).await?.slow();
        let order = format!("start\nupdate HEAD {new} {old}\nprepare\nabort\n");
        let answer = git.args(["update-ref", "--stdin"]).stdin(order).run().await?;
        match (answer.success(), self.branch_sha(target)?) {
            // one that moved meanwhile is found by the merge itself, and followed
            (false, Some(now)) if now == old => Err(answer.refusal(&format!("the branch {target:?} cannot move"))),
            _ => Ok(()),
        }
    }

    /// Gives index and files back what they had before a fast-forward to `new` whose branch stayed at `now`. Only what
    /// the fast-forward itself changed is touched; git refuses as a whole when somebody changed one of those files
    /// since.
    async fn take_back(&self, checkout: &Checkout, new: &str, now: &str) -> Result<()> {
        let worktree = Worktree::new(self.clone(), checkout.clone());
        let changed = self.changed_paths(now, new, "--diff-filter=ACDMRTUX").await?;
        let entries = worktree.entries(Untracked::Each, &[]).await?;
        let left: Vec<&str> =
            entries.iter().map(|entry| entry.path.as_str()).filter(|path| changed.iter().any(|c| c == path)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let git = self.git_in(checkout).await?.without_hooks().slow();
        let answer = git.args(["read-tree", "-m", "-u", new, now]).run().await?;
        if answer.success() {
            return Ok(());
        }
        let (path, new) = (quoted(&checkout.path), short(new));
        Err(answer
            .refusal(&format!(
                "the merge failed after it had changed files in {}, and they could not be taken back ({})",
                checkout.path.display(),
                left.join(", ")
            ))
            .hint(format!("when nothing holds it any more, take them back: git -C {path} read-tree -m -u {new} HEAD"))
            .hint(format!("what you changed there yourself is not lost; see it with: git -C {path} diff {new}")))
    }

    /// Refuses when uncommitted work lies on a path that the merge changes, or beside one in a way that leaves no
    /// room: a file where a directory comes, or the other way round.
    async fn require_no_overlap(&self, checkout: &Checkout, target: &str, new: &str, old: &str) -> Result<()> {
        let changed = self.changed_paths(old, new, "--diff-filter=ACDMRTUX").await?;
        let added: BTreeSet<String> = self.changed_paths(old, new, "--diff-filter=A").await?.into_iter().collect();
        let entries = Worktree::new(self.clone(), checkout.clone()).entries(Untracked::Each, &[]).await?;
        let unmerged: Vec<&str> = entries
            .iter()
            .filter(|e| e.letters.contains('U') || ["AA", "DD"].contains(&e.letters.as_str()))
            .map(|e| e.path.as_str())
            .collect();
        if !unmerged.is_empty() {
            return Err(Error::conflict(format!(
                "{} has {target:?} checked out and unresolved conflicts in {}",
                checkout.path.display(),
                unmerged.join(", ")
            ))
            .hint("resolve and stage them, then accept again: git add <file>"));
        }
        let changed: BTreeSet<&str> = changed.iter().map(String::as_str).collect();
        let mut overlap: BTreeSet<&str> = entries
            .iter()
            .map(|entry| entry.path.trim_end_matches('/'))
            .filter(|path| collides(&changed, path))
            .collect();
        // ignored files are in no status, and are somebody's work all the same
        overlap
            .extend(added.iter().map(String::as_str).filter(|path| super::commit::exists(&checkout.path.join(path))));
        if overlap.is_empty() {
            return Ok(());
        }
        let files: Vec<&str> = overlap.into_iter().collect();
        Err(Error::new(
            Kind::Conflict,
            format!("uncommitted changes in {} overlap with the merge: {}", checkout.path.display(), files.join(", ")),
        )
        .with_details(serde_json::json!({ "path": checkout.path, "files": files }))
        .hint(put_away(checkout)))
    }
}

enum Merged {
    Tree(String),
    Conflicts(Vec<String>),
}

/// Whether `path` is one of `changed`, lies below one, or has one below it.
fn collides(changed: &BTreeSet<&str>, path: &str) -> bool {
    let above = path.match_indices('/').any(|(at, _)| changed.contains(&path[..at]));
    let prefix = format!("{path}/");
    let below = changed.range(prefix.as_str()..).next().is_some_and(|next| next.starts_with(&prefix));
    changed.contains(path) || above || below
}

fn put_away(checkout: &Checkout) -> String {
    format!("commit or stash them, then accept again: cd {} && git stash --include-untracked", quoted(&checkout.path))
}

fn target_moved(target: &str) -> Error {
    Error::conflict(format!("the branch {target:?} moved in the meantime"))
}

fn short(sha: &str) -> &str {
    sha.get(..8).unwrap_or(sha)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_collide_with_themselves_and_across_levels() {
        let changed: BTreeSet<&str> = ["a/b", "c", "d-e", "d/x"].into();
        for (path, expected) in [
            ("a/b", true),
            ("a", true),
            ("a/b/c", true),
            ("a/c", false),
            ("c/d", true),
            ("d", true),
            ("d-", false),
            ("b", false),
        ] {
            assert_eq!(collides(&changed, path), expected, "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn collisions_are_what_they_are_said_to_be(
            changed in proptest::collection::btree_set("[a-c.-]{1,2}(/[a-c.-]{1,2}){0,2}", 0..6),
            path in "[a-c.-]{1,2}(/[a-c.-]{1,2}){0,2}",
        ) {
            let set: BTreeSet<&str> = changed.iter().map(String::as_str).collect();
            let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
            let expected = set.iter().any(|known| *known == path || below(known, &path) || below(&path, known));
            proptest::prop_assert_eq!(collides(&set, &path), expected);
        }
    }
}
