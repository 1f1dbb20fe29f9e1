//! What lazy's own supervisor asks for; no person, no agent and no client ever does.

use serde::{Deserialize, Serialize};

use super::command;
use crate::model::exchange::TurnTag;

command!(
    /// Moves refs for the supervisor of a task whose shared git directory is read-only. In no table of commands and in
    /// no list of tools: it is reached as the tool [`INTERNAL_GIT`] with the task's own token alone.
    InternalGit = "internalGit": InternalGitParams => GitReport
);

/// The name of the tool behind [`InternalGit`].
pub const INTERNAL_GIT: &str = "lazy_internal_git";

/// Characters of a merge's message.
pub const MERGE_MESSAGE_LIMIT: usize = 200;

/// Whose refs, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InternalGitParams {
    /// The task.
    pub task: String,
    /// What is asked for.
    pub order: GitOrder,
}

/// Something that git does in a task's worktree, as the tool's arguments have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum GitOrder {
    /// Merge a commit of the task's upstream in, always with a merge commit; conflicts stay in place.
    Merge {
        /// Full id of the commit.
        target: String,
        /// One line, at most [`MERGE_MESSAGE_LIMIT`] characters.
        message: String,
    },
    /// Roll a half-done merge back.
    MergeAbort,
    /// Commit a merge whose conflicts are all resolved.
    MergeCommit,
    /// Make index and tracked files equal to HEAD.
    ResetHardHead,
    /// Tag a commit of the turn as `turn/<task>/<phase>/<commit>`.
    Tag {
        /// Which commit it is.
        phase: TurnTag,
        /// Full id of the commit, which must lie on the task's branch.
        sha: String,
    },
}

/// What git did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitReport {
    /// What came of it.
    #[serde(flatten)]
    pub outcome: GitOutcome,
    /// Full id of HEAD afterwards.
    pub head: String,
}

/// What came of a [`GitOrder`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum GitOutcome {
    /// A merge had nothing to do.
    UpToDate,
    /// A merge was made and committed.
    Merged,
    /// A merge is left in place for someone to resolve.
    Conflicts {
        /// The unmerged paths.
        files: Vec<String>,
    },
    /// Anything but a merge was done.
    Done,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn orders_and_reports_cross_the_wire() {
        let sha = "0".repeat(40);
        for (order, wire) in [
            (
                GitOrder::Merge { target: sha.clone(), message: "Merge main".into() },
                json!({ "operation": "merge", "target": sha, "message": "Merge main" }),
            ),
            (GitOrder::ResetHardHead, json!({ "operation": "reset_hard_head" })),
            (
                GitOrder::Tag { phase: TurnTag::PostRemoteSync, sha: sha.clone() },
                json!({ "operation": "tag", "phase": "post-remote-sync", "sha": sha }),
            ),
        ] {
            assert_eq!(serde_json::to_value(&order).expect("encodes"), wire);
            assert_eq!(serde_json::from_value::<GitOrder>(wire).expect("decodes"), order);
        }
        let report = GitReport { outcome: GitOutcome::Conflicts { files: vec!["a".into()] }, head: sha.clone() };
        let wire = json!({ "outcome": "conflicts", "files": ["a"], "head": sha });
        assert_eq!(serde_json::to_value(&report).expect("encodes"), wire);
        assert_eq!(serde_json::from_value::<GitReport>(wire).expect("decodes"), report);
        for tag in TurnTag::ALL {
            assert_eq!(serde_json::to_value(tag).expect("encodes"), tag.as_str());
        }
    }
}
