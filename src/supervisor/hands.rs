//! Whose hands move refs: this process's own where the shared git directory can be written, else the daemon's.
//!
//! The repository decides, not a setting: in a container the shared git directory is mounted read-only, and everywhere
//! else it is not. It is looked at once for each command. Reading, and saving what a rollback discards, stay here in
//! either case.

use std::path::PathBuf;

use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::base::{Error, Kind, Process, Result, text};
use crate::git::{MergeOutcome, Rollback, Worktree};
use crate::mcp::Relay;
use crate::model::TaskId;
use crate::model::exchange::TurnTag;
use crate::rpc::commands::{GitOrder, GitOutcome, GitReport, INTERNAL_GIT, MERGE_MESSAGE_LIMIT};

/// Who moves the refs of one worktree.
#[derive(Debug)]
pub(super) struct Hands {
    process: Process,
    worktree: Worktree,
    reach: Reach,
}

#[derive(Debug)]
enum Reach {
    Own,
    Daemon {
        /// The run's configuration file.
        config: Option<PathBuf>,
        /// Opened by the first order.
        relay: Box<OnceCell<Relay>>,
    },
}

impl Hands {
    /// Those for a worktree.
    pub(super) fn of(process: &Process, worktree: &Worktree) -> Hands {
        let reach = match worktree.common_dir_writable() {
            true => Reach::Own,
            false => {
                Reach::Daemon { config: process.var("LAZY_DAEMON_CONFIG").map(PathBuf::from), relay: Box::default() }
            }
        };
        Hands { process: process.clone(), worktree: worktree.clone(), reach }
    }

    /// Merges `sha` of `branch` in, as [`Worktree::merge`].
    pub(super) async fn merge(&self, sha: &str, branch: &str) -> Result<MergeOutcome> {
        let message = text::truncate_chars(&text::one_line(&format!("Merge {branch}")), MERGE_MESSAGE_LIMIT);
        if let Reach::Own = self.reach {
            return self.worktree.merge(sha, &message).await;
        }
        let before = self.worktree.head()?;
        let order = GitOrder::Merge { target: sha.to_string(), message };
        let report = match self.order(&order).await {
            // Whether it was done before the connection broke is told by what is there now.
            Err(error) if error.kind() == Kind::Lost => match self.half_merged(sha).await? {
                Some(files) => return Ok(MergeOutcome::Conflicts { files }),
                None => self.order(&order).await?,
            },
            report => report?,
        };
        match report.outcome {
            GitOutcome::UpToDate if report.head == before => Ok(MergeOutcome::UpToDate),
            GitOutcome::UpToDate | GitOutcome::Merged => Ok(MergeOutcome::Merged { sha: report.head }),
            GitOutcome::Conflicts { files } => Ok(MergeOutcome::Conflicts { files }),
            GitOutcome::Done => Err(Error::internal("the daemon did not say what came of a merge")),
        }
    }

    /// Concludes a merge whose conflicts are resolved, as [`Worktree::commit_merge`].
    pub(super) async fn commit_merge(&self) -> Result<()> {
        match self.reach {
            Reach::Own => self.worktree.commit_merge().await.map(drop),
            Reach::Daemon { .. } => self.order(&GitOrder::MergeCommit).await.map(drop),
        }
    }

    /// Tags a commit of the turn, as [`Worktree::tag_turn`].
    pub(super) async fn tag(&self, task: TaskId, tag: TurnTag, sha: &str) -> Result<()> {
        match self.reach {
            Reach::Own => self.worktree.tag_turn(task, tag, sha).await,
            Reach::Daemon { .. } => self.repeat(&GitOrder::Tag { phase: tag, sha: sha.to_string() }).await,
        }
    }

    /// The unmerged files of a merge of `sha` that is under way.
    async fn half_merged(&self, sha: &str) -> Result<Option<Vec<String>>> {
        let state = self.worktree.merge_state().await?;
        let ours = self.worktree.merge_head().as_deref() == Some(sha);
        Ok(state.filter(|state| ours && !state.unmerged_files.is_empty()).map(|state| state.unmerged_files))
    }

    /// Has the daemon do what may be done twice.
    async fn repeat(&self, order: &GitOrder) -> Result<()> {
        match self.order(order).await {
            Err(error) if error.kind() == Kind::Lost => self.order(order).await.map(drop),
            done => done.map(drop),
        }
    }

    /// Has the daemon do something; waits for one that is away.
    async fn order(&self, order: &GitOrder) -> Result<GitReport> {
        let Reach::Daemon { config, relay } = &self.reach else {
            return Err(Error::internal("the daemon is not asked for what this process can do"));
        };
        let relay = relay
            .get_or_try_init(|| async {
                let config = config.clone().ok_or_else(|| {
                    Error::unavailable(format!(
                        "{} is read-only here and LAZY_DAEMON_CONFIG is not set, so nobody can move refs",
                        self.worktree.repo().common_dir().display()
                    ))
                })?;
                Relay::open(config).await
            })
            .await?;
        let encoded = serde_json::to_value(order)
            .map_err(|source| Error::internal("cannot encode an order for git").caused_by(source))?;
        let arguments = encoded.as_object().cloned().unwrap_or_else(Map::new);
        let tell = |told: String| self.process.err_line(format!("supervisor: {told}"));
        let value: Value = relay.call(INTERNAL_GIT, &arguments, &tell).await?;
        serde_json::from_value(value).map_err(|source| {
            Error::new(Kind::Lost, "the daemon's answer about git is of another version").caused_by(source)
        })
    }
}

impl Rollback for Hands {
    async fn abort_merge(&self) -> Result<()> {
        match self.reach {
            Reach::Own => self.worktree.abort_merge().await,
            Reach::Daemon { .. } => self.repeat(&GitOrder::MergeAbort).await,
        }
    }

    async fn reset_hard_head(&self) -> Result<()> {
        match self.reach {
            Reach::Own => self.worktree.reset_hard_head().await,
            Reach::Daemon { .. } => self.repeat(&GitOrder::ResetHardHead).await,
        }
    }
}
