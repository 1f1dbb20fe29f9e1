//! A merge of the upstream: a clean one is announced by the supervisor, conflicts are put to the agent; what it does not
//! resolve is rolled back and fails.

use super::fault::Fault;
use super::resolve;
use super::turn::{Attempted, Merged, Turn, short};
use crate::model::exchange::{Completed, Phase, Sync, SyncReport, TurnTag};

/// The supervisor's own word on the merge.
pub(super) async fn run(turn: &mut Turn<'_>, sync: &Sync) -> Result<Vec<Completed>, Fault> {
    turn.reporter.phase(Phase::ReadingCommand);
    turn.recover().await?;
    let start = turn.begin()?;
    turn.reporter.phase(Phase::MergeAndFix);
    let target = sync.upstream_sha.as_str();
    let branch = turn.head.parent_branch.clone().unwrap_or_else(|| "the upstream".into());
    if let Ok(Some(here)) = turn.worktree.repo().resolve(&branch)
        && here != target
    {
        // The daemon resolved the target against the remote; this side may see an older ref.
        let (seen, told) = (short(&here), short(target));
        turn.process.err_line(format!("supervisor: {branch} is {seen} here, but {told} is merged as the daemon said"));
    }
    turn.reporter.shas(|status| status.upstream_merge_sha = Some(target.to_string()));
    let in_phase = |fault: Fault| fault.in_phase(Phase::MergeAndFix.as_str());
    let merged = match turn.try_merge(target, &branch).await.map_err(in_phase)? {
        Attempted::Merged(merged) => merged,
        Attempted::Conflicts(files) => {
            let resolved = resolve::run(turn, (target, &branch), &files, &start).await.map_err(in_phase)?;
            return Ok(vec![announce(turn, (target, &branch), &files, start, resolved).await]);
        }
    };
    let mut answer = Completed { worktree_recovery: turn.notes.recovery.clone(), ..Completed::default() };
    answer.start_sha = Some(start.clone());
    match merged {
        Merged::UpToDate => {
            answer.result = format!("Already up to date with {branch} ({}).", short(target));
            answer.end_sha = Some(start);
            answer.sync = Some(SyncReport { merged: false, conflicts: 0 });
        }
        Merged::At(sha) => {
            turn.tag(TurnTag::PostMerge, &sha).await;
            turn.reporter.shas(|status| status.post_merge_sha = Some(sha.clone()));
            answer.result =
                format!("Merged {branch} ({}) without conflicts; HEAD is now {}.", short(target), short(&sha));
            answer.start_sha_work = Some(start);
            answer.end_sha_work = Some(sha.clone());
            answer.end_sha = Some(sha);
            answer.sync = Some(SyncReport { merged: true, conflicts: 0 });
        }
    }
    turn.reporter.phase(Phase::MergeAndFixDone);
    turn.reporter.phase(Phase::WritingResponse);
    Ok(vec![answer])
}

/// The agent's answer under the supervisor's word on what came of it.
async fn announce(
    turn: &mut Turn<'_>,
    (target, branch): (&str, &str),
    files: &[String],
    start: String,
    resolved: resolve::Resolved,
) -> Completed {
    let sha = resolved.sha;
    turn.tag(TurnTag::PostMerge, &sha).await;
    turn.reporter.shas(|status| status.post_merge_sha = Some(sha.clone()));
    let headline = resolve::headline(branch, target, files, &sha);
    let mut answer = resolved.answer;
    answer.result = format!("{headline}\n\n{}", answer.result).trim_end().to_string();
    answer.worktree_recovery = turn.notes.recovery.clone();
    (answer.start_sha, answer.start_sha_work) = (Some(start.clone()), Some(start));
    (answer.end_sha, answer.end_sha_work) = (Some(sha.clone()), Some(sha));
    let conflicts = u32::try_from(files.len()).unwrap_or(u32::MAX);
    answer.sync = Some(SyncReport { merged: true, conflicts });
    turn.reporter.phase(Phase::MergeAndFixDone);
    turn.reporter.phase(Phase::WritingResponse);
    answer
}
