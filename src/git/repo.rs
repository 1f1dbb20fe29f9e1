//! The repository: finding it, and what can be read from it without starting a program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix::sec::Trust;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::checkout::{Checkout, Head};
use super::program::Git;
use crate::base::{Error, Kind, Process, Result, ResultExt};

/// A repository with a main checkout. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Repo(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    process: Process,
    checkout: Checkout,
    /// Set once git itself agreed to work here (it refuses directories of other users).
    agreed: OnceCell<()>,
    version: OnceCell<(u32, u32)>,
    /// Held while a worktree is made, so that cleaning up after a failure meets nobody else's.
    making: Mutex<()>,
}

impl Repo {
    /// The repository that `start` lies in: from any directory of it, also from inside a linked worktree, which leads
    /// to the main checkout. A submodule is a repository of its own. Where the main repository is bare and all
    /// checkouts are linked, the checkout that `start` lies in is the root (lazy's own worktrees lead to theirs).
    ///
    /// # Errors
    /// [`Kind::NotFound`] when there is no repository; [`Kind::Conflict`] for a bare one, and for one in a format that
    /// is not supported (sha256 objects, reftable).
    pub fn discover(process: &Process, start: &Path) -> Result<Repo> {
        let start = process.cwd().join(start);
        let start = start.canonicalize().io_context(|| format!("cannot enter {}", start.display()))?;
        let ceilings: Vec<PathBuf> = process
            .var_os("GIT_CEILING_DIRECTORIES")
            .map(|list| std::env::split_paths(list).filter(|path| path.is_absolute()).collect())
            .unwrap_or_default();
        let options = gix::discover::upwards::Options {
            ceiling_dirs: ceilings,
            match_ceiling_dir_or_error: false,
            ..Default::default()
        };
        let (found, _) = gix::discover::upwards_opts(&start, options).map_err(|_| not_a_repository(&start))?;
        let (git_dir, work_tree) = found.into_repository_and_work_tree_directories();
        let repo = open(&git_dir)?;
        require_known_format(&repo)?;
        let common_dir = canonical(repo.common_dir())?;
        let git_dir = canonical(repo.git_dir())?;
        let path = match git_dir == common_dir {
            true => work_tree.or_else(|| repo.workdir().map(Path::to_path_buf)).or_else(|| beside(&repo, &common_dir)),
            false => main_work_tree(&common_dir),
        };
        let checkout = match path {
            Some(path) => Checkout { path: canonical(&path)?, git_dir: common_dir.clone(), common_dir, pin: None },
            None if git_dir == common_dir => return Err(bare(&common_dir)),
            None => root_of_linked(&start, &common_dir).ok_or_else(|| bare(&common_dir))?,
        };
        Ok(Repo(Arc::new(Inner {
            process: process.clone(),
            checkout,
            agreed: OnceCell::new(),
            version: OnceCell::new(),
            making: Mutex::new(()),
        })))
    }

    /// The main checkout's directory, absolute and free of symbolic links.
    pub fn root(&self) -> &Path {
        &self.0.checkout.path
    }

    /// The git directory that all checkouts share, absolute and free of symbolic links.
    pub fn common_dir(&self) -> &Path {
        &self.0.checkout.common_dir
    }

    /// The full id of HEAD's commit in the main checkout.
    ///
    /// # Errors
    /// [`Kind::Conflict`] while there is no commit.
    pub fn require_commits(&self) -> Result<String> {
        self.resolve("HEAD")?.ok_or_else(|| {
            Error::conflict(format!("the repository {} has no commit yet", self.root().display()))
                .hint("git commit --allow-empty -m \"first commit\"")
        })
    }

    /// The branch checked out in the main checkout, which may not have a commit yet; `None` when HEAD is detached.
    pub fn head_branch(&self) -> Result<Option<String>> {
        match self.0.checkout.head()? {
            Head::Branch(name) => Ok(Some(name)),
            Head::Ref(_) | Head::Detached(_) => Ok(None),
        }
    }

    /// The full id of the commit that `rev` names, as git reads it; `None` when it names none.
    pub fn resolve(&self, rev: &str) -> Result<Option<String>> {
        let repo = self.open()?;
        if rev.trim().is_empty() || rev.starts_with('-') {
            return Ok(None);
        }
        let peeled = format!("{rev}^{{commit}}");
        Ok(repo.rev_parse_single(peeled.as_str()).ok().map(|id| id.to_string()))
    }

    /// The full id of the commit that the local `branch` points to; `None` when there is no such branch.
    pub fn branch_sha(&self, branch: &str) -> Result<Option<String>> {
        self.ref_sha(&format!("refs/heads/{branch}"))
    }

    /// The branch that work merges into when nothing else is said: what `<remote>`'s HEAD points to; else a local
    /// `main`; else a local `master`; else the branch checked out.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when HEAD is detached and there is none of these.
    pub fn default_branch(&self, remote: &str) -> Result<String> {
        let repo = self.open()?;
        let prefix = format!("refs/remotes/{remote}/");
        let head = repo.try_find_reference(format!("{prefix}HEAD").as_str()).ok().flatten();
        let named = head.and_then(|head| {
            let target = head.target().try_name()?.as_bstr().to_string();
            target.strip_prefix(&prefix).map(str::to_string)
        });
        if let Some(name) = named {
            return Ok(name);
        }
        for name in ["main", "master"] {
            if self.branch_sha(name)?.is_some() {
                return Ok(name.to_string());
            }
        }
        self.head_branch()?.ok_or_else(|| {
            Error::conflict("the default branch is unknown: HEAD is detached, and there is no branch main or master")
                .hint("git switch -c main")
                .hint(format!("git remote set-head {remote} --auto"))
        })
    }

    /// Where `remote` is fetched from, as the repository's own configuration has it.
    pub fn remote_url(&self, remote: &str) -> Option<String> {
        let repo = self.open().ok()?;
        let key = format!("remote.{remote}.url");
        repo.config_snapshot().string(key.as_str()).map(|url| url.to_string())
    }

    /// The names of the remotes, sorted.
    pub fn remotes(&self) -> Vec<String> {
        let Ok(repo) = self.open() else { return Vec::new() };
        repo.remote_names().iter().map(|name| name.to_string()).collect()
    }

    /// The process whose environment git runs in.
    pub(super) fn process(&self) -> &Process {
        &self.0.process
    }

    /// The right to make a worktree, one at a time.
    pub(super) async fn making(&self) -> MutexGuard<'_, ()> {
        self.0.making.lock().await
    }

    /// The main checkout.
    pub(super) fn checkout(&self) -> &Checkout {
        &self.0.checkout
    }

    /// A call of git in the main checkout.
    ///
    /// # Errors
    /// What git says when it will not work here at all, such as a directory that belongs to another user. Asked once,
    /// because naming the directories to git switches its own question off.
    pub(super) async fn git(&self) -> Result<Git> {
        self.git_in(self.checkout()).await
    }

    /// A call of git in any checkout of this repository.
    pub(super) async fn git_in(&self, checkout: &Checkout) -> Result<Git> {
        let agreed = async {
            let ask = Git::found_from(self.process(), self.root()).reading().args(["rev-parse", "--git-dir"]);
            ask.output(&format!("git will not work in {}", self.root().display())).await.map(drop)
        };
        self.0.agreed.get_or_try_init(|| agreed).await?;
        Ok(Git::within(self.process(), checkout))
    }

    /// Major and minor version of the git program.
    pub(super) async fn git_version(&self) -> Result<(u32, u32)> {
        let ask = || async {
            let text =
                Git::found_from(self.process(), self.root()).arg("version").text("cannot ask git its version").await?;
            let mut numbers = text.trim_start_matches("git version ").split('.').map(|part| part.trim().parse::<u32>());
            match (numbers.next(), numbers.next()) {
                (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
                _ => Err(Error::unavailable(format!("{:?} is not a version of git", text.trim()))),
            }
        };
        self.0.version.get_or_try_init(ask).await.copied()
    }

    /// The full id of the commit a full ref name points to.
    pub(super) fn ref_sha(&self, name: &str) -> Result<Option<String>> {
        let repo = self.open()?;
        let Ok(Some(mut reference)) = repo.try_find_reference(name) else { return Ok(None) };
        if reference.name().as_bstr() != name.as_bytes() {
            return Ok(None);
        }
        Ok(reference.peel_to_id().ok().map(|id| id.to_string()))
    }

    /// The repository as gix sees it. Opened afresh each time: it is cheap, and nothing can be stale.
    pub(super) fn open(&self) -> Result<gix::Repository> {
        open(&self.0.checkout.git_dir)
    }

    /// The id of the commit that `rev` names.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when it names none.
    pub(super) fn require_commit(&self, rev: &str) -> Result<String> {
        self.resolve(rev)?.ok_or_else(|| Error::not_found(format!("{rev:?} names no commit")).hint("git branch --all"))
    }
}

/// Opens a git directory for reading: only the repository's own configuration, nothing from the environment.
fn open(git_dir: &Path) -> Result<gix::Repository> {
    // full trust: gix only reads here, and whether git may act is asked of git itself
    let options = gix::open::Options::isolated().open_path_as_is(true).with(Trust::Full);
    gix::open_opts(git_dir, options).map_err(|source| {
        Error::conflict(format!("cannot open the repository at {}: {source}", git_dir.display())).hint("git fsck")
    })
}

fn require_known_format(repo: &gix::Repository) -> Result<()> {
    let config = repo.config_snapshot();
    let storage = config.string("extensions.refStorage").map(|name| name.to_string());
    match storage.as_deref() {
        None | Some("files") => Ok(()),
        Some(other) => {
            Err(Error::conflict(format!("the repository keeps its refs as {other:?}, which is not supported"))
                .hint("git refs migrate --ref-format=files"))
        }
    }
}

/// The main work tree seen from a linked one; `None` when the main repository is bare.
fn main_work_tree(common_dir: &Path) -> Option<PathBuf> {
    let main = open(common_dir).ok()?;
    main.workdir().map(Path::to_path_buf).or_else(|| beside(&main, common_dir))
}

/// The directory around `.git`, unless the repository says that it is bare.
fn beside(repo: &gix::Repository, common_dir: &Path) -> Option<PathBuf> {
    let is_bare = repo.config_snapshot().boolean("core.bare").unwrap_or(false);
    (!is_bare && common_dir.file_name()? == ".git").then(|| common_dir.parent().map(Path::to_path_buf))?
}

/// The root when all checkouts are linked: the outermost one around `start`, because lazy's worktrees lie inside
/// their project.
fn root_of_linked(start: &Path, common_dir: &Path) -> Option<Checkout> {
    start
        .ancestors()
        .filter(|path| path.join(".git").is_file())
        .filter_map(|path| Checkout::linked(path, common_dir))
        .last()
}

fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().io_context(|| format!("cannot find {}", path.display()))
}

fn not_a_repository(start: &Path) -> Error {
    Error::new(Kind::NotFound, format!("{} is not inside a git repository", start.display()))
        .hint("git init")
        .hint("or run the command from inside the project")
}

fn bare(common_dir: &Path) -> Error {
    Error::conflict(format!("{} is a bare repository: there is no checkout to work beside", common_dir.display()))
        .hint(format!("git -C {} worktree add <path> <branch>, and run the command there", common_dir.display()))
}
