//! Tags.

use super::Repo;
use super::commit::with_author;
use crate::base::{Error, Result};

impl Repo {
    /// Tags a commit, replacing a tag of that name; annotated when there is a message, never signed.
    pub async fn tag(&self, name: &str, sha: &str, message: Option<&str>) -> Result<()> {
        let full = format!("refs/tags/{name}");
        if name.starts_with('-') || gix::validate::reference::name(full.as_str().into()).is_err() {
            return Err(Error::invalid(format!("{name:?} cannot be the name of a tag")));
        }
        let sha = self.require_commit(sha)?;
        let git = self.git().await?;
        let doing = format!("cannot set the tag {name:?}");
        match message {
            None => git.args(["tag", "--force", "--no-sign", name, &sha]).output(&doing).await.map(drop),
            Some(message) => {
                let git = with_author(git, self).await?.args(["tag", "--force", "--annotate", "--no-sign", "--file=-"]);
                let git = git.args(["--cleanup=whitespace", name, &sha]).stdin(message.as_bytes());
                git.output(&doing).await.map(drop)
            }
        }
    }
}
