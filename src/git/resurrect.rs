//! The guard against files that come back from the dead: a branch that still carries what the target deleted.

use std::collections::BTreeSet;

use super::Repo;
use super::program::fields;
use crate::base::Result;

/// The most added files that are looked up.
const CAP: usize = 2000;

/// A file that a merge would bring back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resurrection {
    /// Path from the root of the repository.
    pub path: String,
    /// Full id of the commit in the target's history that deleted it last.
    pub deleted_in: String,
}

impl Repo {
    /// The files that `branch` adds, that neither `target` nor the commit they part at has, and that the target's
    /// history deleted; sorted by path. Looks at the first 2000 added files and logs a warning when there are more.
    pub async fn resurrections(&self, target: &str, branch: &str) -> Result<Vec<Resurrection>> {
        let (target, branch) = (self.require_commit(target)?, self.require_commit(branch)?);
        let Some(base) = self.merge_base(&target, &branch)? else { return Ok(Vec::new()) };
        let added = self.changed_paths(&base, &branch, "--diff-filter=A").await?;
        let missing: BTreeSet<String> =
            self.changed_paths(&target, &branch, "--diff-filter=A").await?.into_iter().collect();
        let mut wanted: Vec<String> = added.into_iter().filter(|path| missing.contains(path)).collect();
        if wanted.len() > CAP {
            tracing::warn!(
                files = wanted.len(),
                cap = CAP,
                "too many added files: only the first are checked against deletions"
            );
            wanted.truncate(CAP);
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.deletions(&target, &wanted).await
    }

    async fn deletions(&self, target: &str, paths: &[String]) -> Result<Vec<Resurrection>> {
        let git = self.git().await?.reading().args(["--literal-pathspecs", "log", "--full-history", "--no-renames"]);
        let git = git.args([
            "--diff-filter=D",
            "--name-only",
            "--no-ext-diff",
            "--no-show-signature",
            "-z",
            "--format=%x01%H",
            target,
            "--",
        ]);
        let bytes = git.args(paths).output("cannot read the history of the target").await?;
        // newest first: "\x01<id>" opens a commit, the paths it deleted follow
        let mut found: Vec<Resurrection> = Vec::new();
        let mut commit = String::new();
        for field in fields(&bytes) {
            match field.trim_start_matches('\n').strip_prefix('\x01') {
                Some(id) => commit = id.trim().to_string(),
                None => {
                    let path = field.strip_prefix('\n').unwrap_or(&field);
                    if !path.is_empty() && !found.iter().any(|known| known.path == path) {
                        found.push(Resurrection { path: path.to_string(), deleted_in: commit.clone() });
                    }
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }
}
