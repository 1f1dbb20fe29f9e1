//! Where a project is: its main checkout, its data directory, its name, its store.
//!
//! Found without the git program, so that a shell prompt may ask. A linked worktree belongs to the project of its main
//! checkout, whose root is the project's.

use std::path::{Path, PathBuf};

use super::gitdir;
use super::load;
use super::schema::{Config, Data, StorageBackend};
use crate::base::{Error, Kind, Process, Result, json};

/// Names below `~/.lazy` that are lazy's own; a project of such a name keeps its store under `<name>-store`.
const RESERVED: &[&str] = &["bin", "daemon", "link", "logs", "protocol", "run", "scratch", "tmp", "passphrase.json"];

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The main checkout, symbolic links resolved.
    pub root: PathBuf,
    /// The project's own data: `<root>/.lazy`, or what `[data] path` says.
    pub data_dir: PathBuf,
    /// The last segment of the git remote's URL, else the root's own name.
    pub name: String,
}

impl Project {
    /// The project that `cwd` is in. A `lazy.toml` that does not load counts as the defaults here: whoever needs its
    /// values loads it and refuses.
    ///
    /// # Errors
    /// [`Kind::NotFound`] outside any git repository and in one that lazy was not set up for; [`Kind::Conflict`] for a
    /// worktree whose link to its repository is broken.
    pub fn find(process: &Process, cwd: &Path) -> Result<Project> {
        let root = gitdir::main_checkout(cwd)?;
        if !is_project(process, &root) {
            return Err(Error::not_found(format!("{} is not a lazy project yet", root.display()))
                .hint(format!("cd {} && lazy init", root.display())));
        }
        let config = load::load_for_daemon(process, &root).map(|loaded| loaded.config).unwrap_or_default();
        Ok(Project::in_repo_with(&root, &config))
    }

    /// The project of a main checkout, whether or not lazy was set up for it, as it is under default settings.
    pub fn in_repo(root: &Path) -> Project {
        Project::in_repo_with(root, &Config::default())
    }

    /// The project of a main checkout under these settings: `[data] path` and `[remote] git_remote` have a say.
    pub fn in_repo_with(root: &Path, config: &Config) -> Project {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        let (ours, older) = (root.join(&config.data.path), root.join(".workshop"));
        // A project set up before the directory had its present name keeps the old one.
        let keeps_older = config.data == Data::default() && !ours.is_dir() && older.is_dir();
        let name = project_name(&root, &config.remote.git_remote);
        Project { data_dir: if keeps_older { older } else { ours }, root, name }
    }

    /// The root of the file store: `[storage] external_path`, else `~/.lazy/<name>`. Nothing is created.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] for the Postgres backend, or when there is neither a home nor a path;
    /// [`Kind::Config`] when the path lies inside the repository.
    pub fn storage_root(&self, config: &Config, process: &Process) -> Result<PathBuf> {
        match config.storage.backend {
            StorageBackend::External => {}
            StorageBackend::Postgres => {
                return Err(Error::unavailable(
                    "the storage backend postgres is not available in this version of lazy",
                )
                .hint("set [storage] backend = \"external\" in lazy.toml"));
            }
        }
        if config.storage.external_path.is_empty() {
            return self.default_storage_root(process);
        }
        let path = self.root.join(&config.storage.external_path);
        require_outside(&self.root, &path)?;
        Ok(path)
    }

    /// `~/.lazy/<name>`.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when `HOME` is not set.
    pub fn default_storage_root(&self, process: &Process) -> Result<PathBuf> {
        let home = process.home().map_err(|_| {
            Error::unavailable("there is no place for the task store: HOME is not set to an absolute path")
                .hint("set external_path under [storage] in lazy.toml to an absolute directory outside the repository")
        })?;
        let name = match RESERVED.contains(&self.name.as_str()) {
            true => format!("{}-store", self.name),
            false => self.name.clone(),
        };
        Ok(home.join(".lazy").join(name))
    }
}

/// Which project a store belongs to, `<store>/project.json`; the daemon keeps the same file.
#[derive(serde::Serialize, serde::Deserialize)]
struct StoreOwner {
    project_root: PathBuf,
}

/// The living project other than the one at `root` that a store belongs to.
pub fn other_owner(store: &Path, root: &Path) -> Option<PathBuf> {
    let owner = json::load::<StoreOwner>(&store.join("project.json")).ok()??;
    (owner.project_root != root && owner.project_root.exists()).then_some(owner.project_root)
}

/// Writes down that a store belongs to the project at `root`.
///
/// # Errors
/// [`Kind::Io`].
pub fn own_store(store: &Path, root: &Path) -> Result<()> {
    json::save(&store.join("project.json"), &StoreOwner { project_root: root.to_path_buf() })
}

/// `store`, or the first of `store-2`, `store-3`, … that no other project has.
pub fn free_store(store: &Path, root: &Path) -> PathBuf {
    let mut path = store.to_path_buf();
    let mut number = 2;
    while other_owner(&path, root).is_some() {
        let mut name = store.as_os_str().to_os_string();
        name.push(format!("-{number}"));
        path = PathBuf::from(name);
        number += 1;
    }
    path
}

/// Refuses a store inside the repository: its files would end up in commits and in every worktree's view.
///
/// # Errors
/// [`Kind::Config`] with a remedy.
pub fn require_outside(root: &Path, store: &Path) -> Result<()> {
    let clash = super::mounts::spellings(store)
        .iter()
        .any(|store| super::mounts::spellings(root).iter().any(|root| store.starts_with(root)));
    if !clash {
        return Ok(());
    }
    Err(Error::new(
        Kind::Config,
        format!("the task store may not lie inside the repository: {} is below {}", store.display(), root.display()),
    )
    .hint("set external_path under [storage] in lazy.toml to a directory outside, such as \"~/.lazy/my-project\"")
    .hint("delete external_path to use the default below ~/.lazy"))
}

/// Whether lazy was set up in a main checkout: it has `lazy.toml`, `.lazy/` or `.workshop/`.
fn is_project(process: &Process, root: &Path) -> bool {
    // `~/.lazy` is lazy's own directory for all projects: in a home that is a git repository it proves nothing.
    let home = process.home().ok().and_then(|home| home.canonicalize().ok());
    root.join(super::FILE_NAME).symlink_metadata().is_ok()
        || (home.as_deref() != Some(root) && [".lazy", ".workshop"].iter().any(|name| root.join(name).is_dir()))
}

fn project_name(root: &Path, remote: &str) -> String {
    let from_url = gitdir::remotes(root)
        .into_iter()
        .find(|found| found.name == remote)
        .and_then(|found| found.url.as_deref().and_then(last_segment));
    from_url
        .or_else(|| root.file_name().and_then(|name| safe_name(&name.to_string_lossy())))
        .unwrap_or_else(|| "project".to_string())
}

/// The last part of a remote's URL, without `.git`.
fn last_segment(url: &str) -> Option<String> {
    let url = url.trim().trim_end_matches(['/', '\\']);
    let last = url.rsplit(['/', '\\', ':']).next()?;
    safe_name(last.strip_suffix(".git").unwrap_or(last))
}

/// The name, if it can name one directory.
fn safe_name(name: &str) -> Option<String> {
    let odd = |c: char| c.is_control() || matches!(c, '/' | '\\');
    (!name.is_empty() && name != "." && name != ".." && !name.contains(odd)).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use std::fs;

    fn process(home: &Path, cwd: &Path) -> Process {
        Process::fake(["lazy"], &[("HOME", home.to_str().expect("utf-8"))], cwd, Millis(0))
    }

    /// A directory with a repository at `app`, made by hand.
    fn repo() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().canonicalize().expect("exists").join("app");
        fs::create_dir_all(root.join(".git")).expect("git dir");
        fs::create_dir_all(root.join("src")).expect("src");
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").expect("HEAD");
        (dir, root)
    }

    #[test]
    fn names_come_from_the_url() {
        for (url, name) in [
            ("git@github.com:team/app.git", Some("app")),
            ("https://host/team/app/", Some("app")),
            ("ssh://git@host:22/team/my.app.git", Some("my.app")),
            ("/srv/git/app.git", Some("app")),
            ("host:app", Some("app")),
            ("../app.git", Some("app")),
            ("https://host/..", None),
            (".git", None),
            ("", None),
        ] {
            assert_eq!(last_segment(url).as_deref(), name, "{url}");
        }
    }

    #[test]
    fn a_project_is_found_from_below() {
        let (dir, root) = repo();
        let process = process(dir.path(), &root);
        let error = Project::find(&process, &root.join("src")).expect_err("not set up");
        assert_eq!(error.kind(), Kind::NotFound);
        assert!(error.hints()[0].ends_with("lazy init"), "{:?}", error.hints());
        fs::create_dir(root.join(".lazy")).expect(".lazy");
        let project = Project::find(&process, &root.join("src")).expect("found");
        assert_eq!(project, Project { root: root.clone(), data_dir: root.join(".lazy"), name: "app".into() });
        let outside = Project::find(&process, dir.path()).expect_err("no repository");
        assert!(outside.message().contains("not inside a git repository"), "{outside}");
    }

    #[test]
    fn settings_choose_name_and_data_directory() {
        let (dir, root) = repo();
        fs::write(root.join("lazy.toml"), "[data]\npath = \"state\"\n[remote]\ngit_remote = \"up\"\n").expect("file");
        fs::write(root.join(".git/config"), "[remote \"up\"]\n\turl = https://host/team/other.git\n").expect("file");
        let project = Project::find(&process(dir.path(), &root), &root).expect("found");
        assert_eq!((project.name.as_str(), &project.data_dir), ("other", &root.join("state")));
        fs::write(root.join("lazy.toml"), "not toml").expect("file");
        assert_eq!(Project::find(&process(dir.path(), &root), &root).expect("found all the same").name, "app");
    }

    #[test]
    fn the_older_directory_is_used_where_it_is() {
        let (dir, root) = repo();
        fs::create_dir(root.join(".workshop")).expect(".workshop");
        let project = Project::find(&process(dir.path(), &root), &root).expect("found");
        assert_eq!(project.data_dir, root.join(".workshop"));
        fs::create_dir(root.join(".lazy")).expect(".lazy");
        assert_eq!(Project::find(&process(dir.path(), &root), &root).expect("found").data_dir, root.join(".lazy"));
    }

    #[test]
    fn a_home_under_git_is_no_project_for_having_lazys_directory() {
        let (_dir, root) = repo();
        fs::create_dir(root.join(".lazy")).expect(".lazy");
        assert!(Project::find(&process(&root, &root), &root).is_err());
        fs::write(root.join("lazy.toml"), "").expect("file");
        assert!(Project::find(&process(&root, &root), &root).is_ok());
    }

    #[test]
    fn the_store_is_outside_the_repository() {
        let (dir, root) = repo();
        let process = process(dir.path(), &root);
        let project = Project::in_repo(&root);
        let mut config = Config::default();
        assert_eq!(project.storage_root(&config, &process).expect("default"), dir.path().join(".lazy/app"));
        config.storage.external_path = "/var/tasks".into();
        assert_eq!(project.storage_root(&config, &process).expect("given"), Path::new("/var/tasks"));
        config.storage.external_path = "../tasks".into();
        assert!(project.storage_root(&config, &process).is_ok());
        for inside in ["tasks", ".", root.join("x").to_str().expect("utf-8"), "../app/x"] {
            config.storage.external_path = inside.into();
            let error = project.storage_root(&config, &process).expect_err(inside);
            assert_eq!(error.kind(), Kind::Config);
            assert!(!error.hints().is_empty());
        }
        config.storage.backend = StorageBackend::Postgres;
        assert_eq!(project.storage_root(&config, &process).expect_err("postgres").kind(), Kind::Unavailable);
        let homeless = Process::fake(["lazy"], &[], &root, Millis(0));
        let error = project.storage_root(&Config::default(), &homeless).expect_err("no home");
        assert!(error.hints()[0].contains("external_path"), "{:?}", error.hints());
    }

    #[test]
    fn reserved_names_do_not_collide_with_lazys_own() {
        let dir = tempfile::tempdir().expect("temp dir");
        let process = process(dir.path(), dir.path());
        let project = Project { root: "/r".into(), data_dir: "/r/.lazy".into(), name: "daemon".into() };
        let root = project.default_storage_root(&process).expect("has a home");
        assert_eq!(root, dir.path().join(".lazy/daemon-store"));
    }
}
