//! Commits: in a worktree through the git program, and as bare objects.

use std::path::Path;

use super::program::{Answer, Git, fields};
use super::reserved::{LOCK_FILE, RECOVERY_DIR, SANDBOX_DIR, require_inside};
use super::worktree::{Entry, Untracked};
use super::{Repo, Worktree};
use crate::base::{Error, Result};

/// The author of commits in a repository whose user told git no name.
const FALLBACK_NAME: &str = "lazy";
const FALLBACK_EMAIL: &str = "lazy@localhost";

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Full id.
    pub sha: String,
    /// How many files it changes against its first parent.
    pub files_changed: usize,
    /// `git diff --stat` against its first parent.
    pub diff_stat: String,
}

impl Worktree {
    /// Commits `files` (paths in the worktree; everything when empty) and what was staged before. Concludes a merge
    /// whose conflicts are all resolved and staged. `None` when there is nothing to commit and no merge to conclude.
    ///
    /// lazy's own files are never committed. Hooks run as they would for a person, except hooks that lie inside the
    /// worktree itself: those are files an agent can write, and they would run outside of its isolation.
    ///
    /// # Errors
    /// [`crate::base::Kind::Invalid`] for a blank message and for a file that is not there, ignored, or outside;
    /// [`crate::base::Kind::Conflict`] for unmerged paths, a detached HEAD, and a hook that refuses.
    pub async fn commit(&self, message: &str, files: &[String]) -> Result<Option<Committed>> {
        if message.trim().is_empty() {
            return Err(Error::invalid("the commit message is blank"));
        }
        self.require_branch()?;
        self.clear_stale_locks()?;
        self.require_merged("commit").await?;
        self.stage(files).await?;
        self.unstage_own().await?;
        if !self.has_staged().await? && self.checkout().merge_head().is_none() {
            return Ok(None);
        }
        let git = with_author(self.git().await?, self.repo()).await?;
        let git = self.repo().trusted_hooks(git, self.path()).await?.args([
            "commit",
            "--quiet",
            "--cleanup=whitespace",
            "--file=-",
        ]);
        let before = self.head().ok();
        let answer = git.stdin(message.trim_end()).slow().run().await?;
        let sha = self.require_moved(before.as_deref(), &answer)?;
        self.describe(sha).await.map(Some)
    }

    /// Commits nothing, with a message: no file, no hook, whatever is staged stays staged.
    pub async fn commit_empty(&self, message: &str) -> Result<String> {
        self.require_branch()?;
        self.clear_stale_locks()?;
        let head = self.head()?;
        let sha = self.repo().commit_tree(&format!("{head}^{{tree}}"), &head, message).await?;
        let git = self.git().await?.without_hooks();
        git.args(["update-ref", "-m", "commit: empty, by lazy", "HEAD", &sha, &head])
            .output("cannot move the branch")
            .await?;
        Ok(sha)
    }

    /// Stages what changed at or below `files`, all when empty.
    ///
    /// `git add` on a whole tree enters submodules and runs what their configuration says; a list of changed paths
    /// keeps it out of them.
    pub(super) async fn stage(&self, files: &[String]) -> Result<()> {
        let named = files.iter().map(|file| require_inside(self.path(), file)).collect::<Result<Vec<_>>>()?;
        let entries = self.entries(Untracked::Each, &named).await?;
        self.require_known(&named, &entries).await?;
        // a path whose second letter is blank is staged as it stands
        let changed = entries.iter().filter(|entry| !entry.letters.ends_with(' '));
        let list: Vec<u8> = changed.flat_map(|entry| entry.path.bytes().chain([0])).collect();
        if list.is_empty() {
            return Ok(());
        }
        let git = self.git().await?.args(["--literal-pathspecs", "-c", "advice.addEmbeddedRepo=false", "add", "--all"]);
        let git = git.args(["--pathspec-from-file=-", "--pathspec-file-nul"]).stdin(list);
        git.slow().output("cannot stage the changes").await.map(drop)
    }

    /// Whether the index differs from HEAD.
    pub(super) async fn has_staged(&self) -> Result<bool> {
        let git = self.git().await?.reading().args(["diff", "--cached", "--quiet", "--no-ext-diff"]);
        let answer = git.run().await?;
        match answer.code {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(answer.refusal("cannot compare the index with HEAD")),
        }
    }

    /// Refuses while paths are unmerged, naming them.
    pub(super) async fn require_merged(&self, verb: &str) -> Result<()> {
        let unmerged = self.unmerged().await?;
        if unmerged.is_empty() {
            return Ok(());
        }
        Err(Error::conflict(format!("cannot {verb}: these files still have merge conflicts: {}", unmerged.join(", ")))
            .hint("resolve the conflicts, then stage the files: git add <file>"))
    }

    /// The new HEAD after a call that should have moved it.
    pub(super) fn require_moved(&self, before: Option<&str>, answer: &Answer) -> Result<String> {
        let now = self.head()?;
        // the ref decides, not the exit code: a hook that runs after the commit may fail
        match before == Some(now.as_str()) || !answer.success() && self.checkout().merge_head().is_some() {
            true => Err(answer.refusal("the commit was refused")),
            false => Ok(now),
        }
    }

    async fn describe(&self, sha: String) -> Result<Committed> {
        let show = |format: &'static str, sha: String| async move {
            let git = self.git().await?.reading().args([
                "log",
                "-1",
                "--format=",
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                "--no-show-signature",
            ]);
            git.args(["-m", "--first-parent", "--root", "-z", format, &sha, "--"])
                .output("cannot read the commit")
                .await
        };
        let names = fields(&show("--name-only", sha.clone()).await?);
        let stat = String::from_utf8_lossy(&show("--stat", sha.clone()).await?).replace('\0', "\n");
        let files_changed = names.iter().filter(|name| !name.trim().is_empty()).count();
        Ok(Committed { sha, files_changed, diff_stat: stat.trim_matches('\n').to_string() })
    }

    fn require_branch(&self) -> Result<()> {
        match self.branch()? {
            Some(_) => Ok(()),
            None => Err(Error::conflict(format!(
                "HEAD of {} is detached: a commit would be on no branch",
                self.path().display()
            ))
            .hint("git switch <branch>")),
        }
    }

    /// Every named file changed, or is tracked and unchanged.
    async fn require_known(&self, named: &[String], entries: &[Entry]) -> Result<()> {
        let below = |file: &str, path: &str| {
            let file = file.trim_end_matches('/');
            file.is_empty()
                || file == "."
                || path.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        for file in named.iter().filter(|file| !entries.iter().any(|entry| below(file, &entry.path))) {
            let git = self.git().await?.reading().args(["--literal-pathspecs", "ls-files", "-z", "--", file]);
            if !git.output("cannot list the files").await?.is_empty() {
                continue;
            }
            return Err(match self.path().join(file).symlink_metadata() {
                Ok(_) => Error::invalid(format!("{file:?} is ignored by a .gitignore file and cannot be committed")),
                Err(_) => Error::invalid(format!("there is no file {file:?} in {}", self.path().display())),
            });
        }
        Ok(())
    }

    /// Takes lazy's own files out of the index, whoever put them there.
    async fn unstage_own(&self) -> Result<()> {
        let own = [SANDBOX_DIR, LOCK_FILE, RECOVERY_DIR];
        let git = self
            .git()
            .await?
            .reading()
            .args(["diff", "--cached", "--name-only", "-z", "--no-ext-diff", "--"])
            .args(own);
        if git.output("cannot read the index").await?.is_empty() {
            return Ok(());
        }
        let git = self.git().await?.args(["reset", "--quiet", "HEAD", "--"]).args(own);
        git.output("cannot take lazy's own files out of the index").await.map(drop)
    }
}

impl Repo {
    /// A commit object with one parent; signed when the user's settings sign commits. No ref moves.
    pub(super) async fn commit_tree(&self, tree: &str, parent: &str, message: &str) -> Result<String> {
        let git = with_author(self.git().await?, self).await?;
        let signs = self.setting("--type=bool", "commit.gpgSign").await?.as_deref() == Some("true");
        let git = git.args(["commit-tree", tree, "-p", parent, "-F", "-"]);
        let git = if signs { git.arg("-S") } else { git };
        let message = format!("{}\n", message.trim_end());
        let sha = git.stdin(message).text("cannot make the commit").await.map_err(|error| match signs {
            true => error.hint("commits are signed here; try: git commit --allow-empty -S -m test"),
            false => error,
        })?;
        Ok(sha.trim().to_string())
    }

    /// A call whose hooks do not run when they lie inside the worktree at `path`: an agent can write there, and they
    /// would run outside of its isolation. The hooks of the main checkout are its user's.
    pub(super) async fn trusted_hooks(&self, git: Git, path: &Path) -> Result<Git> {
        if path == self.root() {
            return Ok(git);
        }
        let Some(hooks) = self.setting("--type=path", "core.hooksPath").await? else { return Ok(git) };
        // a relative path counts from the top of the worktree
        let hooks = path.join(hooks);
        let real = hooks.canonicalize().unwrap_or_else(|_| hooks.clone());
        Ok(if hooks.starts_with(path) || real.starts_with(path) { git.without_hooks() } else { git })
    }

    /// A setting of git, the user's own included.
    pub(super) async fn setting(&self, kind: &str, name: &str) -> Result<Option<String>> {
        let answer = self.git().await?.reading().args(["config", kind, "--get", name]).run().await?;
        let text = String::from_utf8_lossy(&answer.stdout).trim().to_string();
        Ok((answer.success() && !text.is_empty()).then_some(text))
    }
}

/// Gives the call an author of its own when the user told git none.
pub(super) async fn with_author(mut git: Git, repo: &Repo) -> Result<Git> {
    let known = repo.setting("--no-type", "user.email").await?.is_some() || repo.process().var("EMAIL").is_some();
    if known {
        return Ok(git);
    }
    for role in ["AUTHOR", "COMMITTER"] {
        for (what, fallback) in [("NAME", FALLBACK_NAME), ("EMAIL", FALLBACK_EMAIL)] {
            let name = format!("GIT_{role}_{what}");
            if repo.process().var(&name).is_none() {
                git = git.env(&name, fallback);
            }
        }
    }
    Ok(git)
}

/// Whether `path` exists in any form, also as a dangling link.
pub(super) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
