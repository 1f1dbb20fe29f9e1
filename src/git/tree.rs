//! What a commit's tree holds, read without a checkout.

use super::Repo;
use crate::base::{Error, Result};

/// The tree of one commit.
pub(super) struct TreePaths {
    repo: gix::Repository,
    commit: gix::ObjectId,
}

impl TreePaths {
    /// Whether the tree has something at `path`.
    pub fn contains(&self, path: &str) -> Result<bool> {
        let failed = |source: gix::Error| Error::internal(format!("cannot read the tree of {}: {source}", self.commit));
        let tree = self.repo.find_commit(self.commit).map_err(failed)?.tree().map_err(failed)?;
        Ok(tree.lookup_entry_by_path(path).map_err(failed)?.is_some())
    }
}

impl Repo {
    /// The tree of the commit that `rev` names.
    pub(super) fn tree_paths(&self, rev: &str) -> Result<TreePaths> {
        Ok(TreePaths { commit: self.id(rev)?, repo: self.open()? })
    }
}
