//! What every step of one command needs, and what it notes for the response.

use std::path::PathBuf;
use std::time::Duration;

use super::fault::Fault;
use super::hands::Hands;
use super::report::Reporter;
use super::stop::Stop;
use crate::base::Process;
use crate::exchange::{Mailbox, StreamFile};
use crate::git::{MergeOutcome, Repo, SANDBOX_DIR, Worktree};
use crate::model::Usage;
use crate::model::exchange::{Completed, Failure, Head, MergeSettled, Phase, TurnTag, WorktreeRecovery};
use crate::model::turn::MergeConflict;

/// One command being answered.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) process: &'a Process,
    pub(super) mailbox: &'a Mailbox,
    pub(super) head: &'a Head,
    /// The word in the command's `type`.
    pub(super) context: &'static str,
    pub(super) worktree: Worktree,
    /// Who moves refs.
    pub(super) hands: Hands,
    pub(super) sandbox: PathBuf,
    pub(super) reporter: Reporter,
    pub(super) stream: StreamFile,
    pub(super) stop: Stop,
    pub(super) notes: Notes,
}

/// What a failing command has to tell as well.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Tokens of every attempt so far.
    pub(super) usage: Usage,
    /// A half-done merge that was rolled back.
    pub(super) recovery: Option<WorktreeRecovery>,
    /// HEAD before anything; set once the command may change something.
    pub(super) start_sha: Option<String>,
    /// Whether the handoff file is this command's own.
    pub(super) handoff: Handoff,
}

/// Whose the handoff file is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Handoff {
    /// An earlier turn's, or nobody's.
    #[default]
    Foreign,
    /// This command's: it was cleared before the agent ran.
    Ours,
}

/// A merge that came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Merged {
    /// There was nothing to do.
    UpToDate,
    /// HEAD is this merge commit.
    At(String),
}

/// A merge as far as it goes without an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attempted {
    /// It came to its end.
    Merged(Merged),
    /// It stopped, and is left in place, at these files.
    Conflicts(Vec<String>),
}

impl<'a> Turn<'a> {
    /// Opens the worktree for a command.
    pub(super) fn open(
        process: &'a Process,
        mailbox: &'a Mailbox,
        (head, context): (&'a Head, &'static str),
        worktree: &std::path::Path,
        (reporter, stop): (Reporter, Stop),
    ) -> Result<Turn<'a>, Fault> {
        let worktree = Repo::discover(process, worktree)?.worktree(worktree)?;
        let stream = mailbox.open_stream().unwrap_or_else(|error| {
            tracing::warn!(%error, "the agent's stream is not kept");
            StreamFile::closed()
        });
        let sandbox = worktree.path().join(SANDBOX_DIR);
        let hands = Hands::of(process, &worktree);
        let notes = Notes::default();
        Ok(Turn { process, mailbox, head, context, worktree, hands, sandbox, reporter, stream, stop, notes })
    }

    /// Rolls back a half-done merge that stands in the way, and notes what was found.
    pub(super) async fn recover(&mut self) -> Result<(), Fault> {
        self.notes.recovery = self.worktree.recover(&self.hands, self.context, self.process.now()).await?;
        Ok(())
    }

    /// Notes HEAD as the turn's beginning and returns it.
    pub(super) fn begin(&mut self) -> Result<String, Fault> {
        let sha = self.worktree.head()?;
        self.notes.start_sha = Some(sha.clone());
        self.reporter.shas(|status| status.pre_turn_sha = Some(sha.clone()));
        Ok(sha)
    }

    /// Merges `sha` in. Conflicts do not stay: the merge is settled, and the fault says how.
    pub(super) async fn merge(&mut self, sha: &str, branch: &str) -> Result<Merged, Fault> {
        match self.try_merge(sha, branch).await? {
            Attempted::Merged(merged) => Ok(merged),
            Attempted::Conflicts(files) => Err(self.conflicting(sha, branch, &files).await),
        }
    }

    /// Merges `sha` in and leaves conflicts in place. Any other failure is settled.
    pub(super) async fn try_merge(&mut self, sha: &str, branch: &str) -> Result<Attempted, Fault> {
        let problem = match self.hands.merge(sha, branch).await {
            Ok(MergeOutcome::UpToDate) => return Ok(Attempted::Merged(Merged::UpToDate)),
            Ok(MergeOutcome::Merged { sha }) => match self.worktree.merge_state().await? {
                None => return Ok(Attempted::Merged(Merged::At(sha))),
                Some(state) => Fault::new(format!("the merge of {branch} did not come to its end: {}", state.summary)),
            },
            Ok(MergeOutcome::Conflicts { files }) => return Ok(Attempted::Conflicts(files)),
            Err(error) => Fault::from(error),
        };
        Err(self.settled(problem).await)
    }

    /// What a merge that stops at conflicts is told as, once it is settled.
    pub(super) async fn conflicting(&self, sha: &str, branch: &str, files: &[String]) -> Fault {
        let what = format!("{branch} ({}) conflicts with the task's branch in {}", short(sha), listed(files));
        self.settled(Fault::new(what)).await
    }

    /// Gets out of the merge behind a problem, which then says how.
    pub(super) async fn settled(&self, problem: Fault) -> Fault {
        let settled = self.settle().await;
        let mut fault = problem.in_phase(Phase::MergeAndFix.as_str());
        fault.failure.error.push_str(&format!(". {}", settled.detail));
        fault.failure.merge_state = Some(settled);
        fault
    }

    /// Gets out of a merge that failed; how is said in the answer.
    pub(super) async fn settle(&self) -> MergeSettled {
        self.worktree.settle(&self.hands, self.process.now()).await
    }

    /// The unmerged files with their markers, for the record of a merge that will be settled.
    pub(super) fn conflict_record(&self, files: &[String], source: &str) -> Vec<MergeConflict> {
        let content = |path: &String| {
            let bytes = std::fs::read(self.worktree.path().join(path)).unwrap_or_default();
            String::from_utf8_lossy(&bytes[..bytes.len().min(64 << 10)]).into_owned()
        };
        let record = |path: &String| MergeConflict {
            path: path.clone(),
            content: content(path),
            merge_source: source.to_string(),
        };
        files.iter().map(record).collect()
    }

    /// Tags a commit of the turn. A tag that cannot be set is not worth failing a turn for.
    pub(super) async fn tag(&self, tag: TurnTag, sha: &str) {
        if let Err(error) = self.hands.tag(self.head.task_id, tag, sha).await {
            tracing::warn!(%error, tag = tag.as_str(), "the turn's commit could not be tagged");
        }
    }

    /// An answer with what is known of every answer of this command.
    pub(super) fn completed(&self) -> Completed {
        Completed {
            agent: Some(self.head.agent_id.clone()),
            model: self.head.model_id.clone(),
            effort: self.head.effort.map(|effort| effort.as_str().to_string()),
            ..Completed::default()
        }
    }

    /// The failure with everything a reader needs to go on from it.
    pub(super) async fn complete(&self, mut failure: Failure) -> Failure {
        failure.usage = Some(self.notes.usage).filter(|usage| !usage.is_zero()).or(failure.usage);
        failure.agent = Some(self.head.agent_id.clone());
        failure.model = self.head.model_id.clone();
        failure.effort = self.head.effort.map(|effort| effort.as_str().to_string());
        failure.session_id = failure.session_id.or_else(|| self.head.agent_session_id.clone());
        failure.worktree_recovery = self.notes.recovery.clone();
        failure.start_sha = self.notes.start_sha.clone();
        if let Some(start) = &self.notes.start_sha {
            failure.end_sha = self.worktree.head().ok();
            let clean = self.worktree.status().await.is_ok_and(|status| status.is_clean());
            failure.agent_had_no_effect = clean && failure.end_sha.as_ref() == Some(start);
        }
        if self.notes.handoff == Handoff::Ours {
            failure.agent_handoff = super::handoff::collect(&self.sandbox);
        }
        failure
    }

    /// `LAZY_RETRY_SCALE`: what delays between attempts are multiplied with, for tests.
    pub(super) fn scaled(&self, delay: Duration) -> Duration {
        let scale = self.process.var("LAZY_RETRY_SCALE").and_then(|text| text.parse::<f64>().ok());
        scale.and_then(|scale| Duration::try_from_secs_f64(delay.as_secs_f64() * scale).ok()).unwrap_or(delay)
    }
}

/// The first 8 digits of a commit id.
pub(super) fn short(sha: &str) -> &str {
    sha.get(..8).unwrap_or(sha)
}

/// Up to five names, then how many more.
pub(super) fn listed(files: &[String]) -> String {
    let shown = files.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
