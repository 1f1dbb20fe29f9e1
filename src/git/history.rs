//! Questions about commits: who descends from whom, and what lies between.

use gix::traverse::commit::topo;

use super::Repo;
use crate::base::{Error, Millis, Result};

/// A commit, as far as anyone here needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitInfo {
    /// Full id.
    pub sha: String,
    /// The whole message without trailing line ends.
    pub message: String,
    /// `Name <address>` of the author.
    pub author: String,
    /// When it was committed.
    pub timestamp: Millis,
}

impl Repo {
    /// Whether `descendant` contains `ancestor` (a commit contains itself).
    pub fn is_ancestor(&self, ancestor: &str, descendant: &str) -> Result<bool> {
        let ancestor = self.require_commit(ancestor)?;
        Ok(self.merge_base(&ancestor, descendant)?.is_some_and(|base| base == ancestor))
    }

    /// The best common ancestor; `None` when the histories have nothing in common.
    pub fn merge_base(&self, a: &str, b: &str) -> Result<Option<String>> {
        let (a, b) = (self.id(a)?, self.id(b)?);
        let repo = self.open()?;
        let bases = repo
            .merge_bases_many(a, &[b])
            .map_err(|source| Error::internal(format!("cannot find where {a} and {b} part: {source}")))?;
        Ok(bases.first().map(|id| id.to_string()))
    }

    /// The commits that `to` has and `from` has not, parents before children.
    pub fn commits_between(&self, from: &str, to: &str) -> Result<Vec<CommitInfo>> {
        self.commits_beyond(&[from], to)
    }

    /// The commits that `to` has and none of `from` has, parents before children.
    pub fn commits_beyond(&self, from: &[&str], to: &str) -> Result<Vec<CommitInfo>> {
        let to = self.id(to)?;
        let ends = from.iter().map(|rev| self.id(rev)).collect::<Result<Vec<_>>>()?;
        if ends.contains(&to) {
            // The walk gives its tip even when that is where it ends.
            return Ok(Vec::new());
        }
        let repo = self.open()?;
        let failed = |source: &dyn std::fmt::Display| {
            Error::internal(format!("cannot walk from {} to {to}: {source}", from.join(", ")))
        };
        let walk = topo::Builder::from_iters(&repo.objects, [to], Some(ends))
            .sorting(topo::Sorting::TopoOrder)
            .build()
            .map_err(|source| failed(&source))?;
        let mut found = Vec::new();
        for step in walk {
            let id = step.map_err(|source| failed(&source))?.id;
            let commit = repo.find_commit(id).map_err(|source| failed(&source))?;
            let commit = commit.decode().map_err(|source| failed(&source))?;
            let author = commit.author().map_err(|source| failed(&source))?;
            let time = commit.committer().ok().and_then(|who| who.time().ok()).map_or(0, |time| time.seconds);
            found.push(CommitInfo {
                sha: id.to_string(),
                message: commit.message.to_string().trim_end().to_string(),
                author: format!("{} <{}>", author.name, author.email),
                timestamp: Millis(time.saturating_mul(1000)),
            });
        }
        found.reverse();
        Ok(found)
    }

    /// The id of the commit that `rev` names.
    pub(super) fn id(&self, rev: &str) -> Result<gix::ObjectId> {
        let sha = self.require_commit(rev)?;
        gix::ObjectId::from_hex(sha.as_bytes())
            .map_err(|source| Error::internal(format!("{sha} is not an id: {source}")))
    }
}
