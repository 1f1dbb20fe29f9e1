//! Where accepted work goes. A forge knows how to merge a branch into its target and proves that it happened.
//!
//! Only the local repository so far; the hosted forges get a variant each when they work.

use crate::base::{Error, Kind, Result};
use crate::git::{Repo, SquashMerge, Squashed};

/// The drivers that work in this version.
const DRIVERS: [&str; 1] = ["local"];

/// Where accepted work goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forge {
    /// Into the local repository, by a squash merge; no network.
    Local,
}

impl Forge {
    /// The forge that `[remote] driver` names.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] for a forge that this version does not have; [`Kind::Invalid`] for an unknown word.
    pub fn for_config(driver: &str) -> Result<Forge> {
        let available = DRIVERS.join(", ");
        match driver {
            "local" => Ok(Forge::Local),
            "github" | "gitlab" => Err(Error::new(
                Kind::Unavailable,
                format!("the remote driver {driver:?} is not available in this version; available: {available}"),
            )
            .hint("set driver = \"local\" under [remote] in lazy.toml")),
            _ => Err(Error::invalid(format!("{driver:?} is not a remote driver; available: {available}"))
                .hint("set driver = \"local\" under [remote] in lazy.toml")),
        }
    }

    /// The word in the configuration.
    pub const fn id(self) -> &'static str {
        match self {
            Forge::Local => "local",
        }
    }

    /// Merges, and looks at the target afterwards.
    ///
    /// # Errors
    /// As [`Repo::squash_merge`]; [`Kind::Conflict`] when the target does not contain the merge afterwards. The branch
    /// with the work stands in every case.
    pub async fn merge(&self, repo: &Repo, request: &SquashMerge) -> Result<Squashed> {
        match self {
            Forge::Local => {
                let outcome = repo.squash_merge(request).await?;
                if let Squashed::Merged { sha, .. } = &outcome {
                    require_contained(repo, &request.target, sha)?;
                }
                Ok(outcome)
            }
        }
    }
}

fn require_contained(repo: &Repo, target: &str, sha: &str) -> Result<()> {
    let tip = repo.branch_sha(target)?;
    match tip {
        Some(tip) if repo.is_ancestor(sha, &tip)? => Ok(()),
        _ => Err(Error::conflict(format!("the branch {target:?} does not contain the merge {sha}"))
            .hint(format!("git reflog {target}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_works_is_offered() {
        assert_eq!(Forge::for_config("local").expect("works").id(), "local");
        for driver in ["github", "gitlab"] {
            let error = Forge::for_config(driver).expect_err("not yet");
            assert_eq!(error.kind(), Kind::Unavailable);
            assert!(error.message().contains("not available in this version; available: local"), "{error}");
        }
        assert_eq!(Forge::for_config("gitea").expect_err("unknown").kind(), Kind::Invalid);
    }
}
