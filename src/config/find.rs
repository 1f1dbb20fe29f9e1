//! Which file is the configuration.

use std::path::{Path, PathBuf};

use crate::base::{Error, Kind, Process, Result};

/// The file's usual name.
pub const FILE_NAME: &str = "lazy.toml";
/// The environment variable that names another.
pub const VARIABLE: &str = "LAZY_CONFIG";

/// What the search came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The file, if there is one.
    pub path: Option<PathBuf>,
    /// The one at the project root, when the search found another that is nearer.
    pub shadowed: Option<PathBuf>,
}

/// Looks for the file: what `LAZY_CONFIG` says absolutely; else its name, or `lazy.toml`, in the nearest directory from
/// `search_from` up to the project root.
///
/// A search that starts in a linked worktree elsewhere goes up to that worktree's top, then to the project root.
///
/// # Errors
/// [`Kind::Config`] when `LAZY_CONFIG` is set and no such file exists.
pub(super) fn find(process: &Process, project_root: &Path, search_from: &Path) -> Result<Found> {
    let asked = process.var(VARIABLE);
    let name = asked.unwrap_or(FILE_NAME);
    if Path::new(name).is_absolute() {
        let path = PathBuf::from(name);
        return match is_there(&path) {
            true => Ok(Found { path: Some(path), shadowed: None }),
            false => Err(missing(name, "no such file exists")),
        };
    }
    let at_root = project_root.join(name);
    for directory in search_path(project_root, search_from) {
        let path = directory.join(name);
        if is_there(&path) {
            let nearer = !same_path(&directory, project_root);
            return Ok(Found { path: Some(path), shadowed: nearer.then_some(at_root) });
        }
    }
    match asked {
        None => Ok(Found { path: None, shadowed: None }),
        Some(name) => {
            let range = format!("no such file from {} up to {}", search_from.display(), project_root.display());
            Err(missing(name, &range))
        }
    }
}

/// The directories searched, nearest first, the project root last.
fn search_path(project_root: &Path, search_from: &Path) -> Vec<PathBuf> {
    let mut path = Vec::new();
    for directory in search_from.ancestors() {
        if same_path(directory, project_root) {
            break;
        }
        path.push(directory.to_path_buf());
        // The top of a worktree that lies outside the project: above it is somebody else's.
        if is_there(&directory.join(".git")) && !is_within(directory, project_root) {
            break;
        }
    }
    if !path.last().is_some_and(|last| is_within(last, project_root) || is_there(&last.join(".git"))) {
        // The walk met neither the project nor a worktree of it: nothing on the way is the project's.
        path.clear();
    }
    path.push(project_root.to_path_buf());
    path
}

/// Whether anything stands there: also a dangling link or a directory, which then fail to be read with a message of
/// their own instead of passing for an absent file.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_within(path: &Path, root: &Path) -> bool {
    path.ancestors().any(|ancestor| same_path(ancestor, root))
}

fn same_path(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn missing(name: &str, why: &str) -> Error {
    Error::new(Kind::Config, format!("{VARIABLE} is set to {name:?}, but {why}"))
        .hint(format!("unset {VARIABLE}"))
        .hint(format!("or let it name a file that exists: {VARIABLE}={FILE_NAME} lazy …"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use std::fs;

    struct Tree(tempfile::TempDir);

    impl Tree {
        /// A project with a worktree inside it and one elsewhere.
        fn new() -> Tree {
            let dir = tempfile::tempdir().expect("temp dir");
            for path in ["p/.git", "p/src/deep", "p/.lazy/worktrees/t/src", "elsewhere/w/src"] {
                fs::create_dir_all(dir.path().join(path)).expect("directory");
            }
            for path in ["p/.lazy/worktrees/t/.git", "elsewhere/w/.git"] {
                fs::write(dir.path().join(path), "gitdir: x").expect("git file");
            }
            Tree(dir)
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str) {
            fs::write(self.path(path), "").expect("file");
        }

        fn find(&self, env: &[(&str, &str)], from: &str) -> Result<Found> {
            let process = Process::fake(["lazy"], env, &self.path(from), Millis(0));
            find(&process, &self.path("p"), &self.path(from))
        }
    }

    #[test]
    fn no_file_is_no_error() {
        assert_eq!(Tree::new().find(&[], "p/src").expect("searches"), Found { path: None, shadowed: None });
    }

    #[test]
    fn the_nearest_file_wins_and_shadows_the_root() {
        let tree = Tree::new();
        tree.write("p/lazy.toml");
        let found = tree.find(&[], "p/src/deep").expect("searches");
        assert_eq!(found, Found { path: Some(tree.path("p/lazy.toml")), shadowed: None });
        tree.write("p/src/lazy.toml");
        let found = tree.find(&[], "p/src/deep").expect("searches");
        assert_eq!(found.path, Some(tree.path("p/src/lazy.toml")));
        assert_eq!(found.shadowed, Some(tree.path("p/lazy.toml")));
        tree.write("p/.lazy/worktrees/t/lazy.toml");
        let found = tree.find(&[], "p/.lazy/worktrees/t/src").expect("searches");
        assert_eq!(found.path, Some(tree.path("p/.lazy/worktrees/t/lazy.toml")));
    }

    #[test]
    fn a_worktree_elsewhere_falls_back_to_the_root() {
        let tree = Tree::new();
        tree.write("p/lazy.toml");
        tree.write("elsewhere/lazy.toml");
        assert_eq!(tree.find(&[], "elsewhere/w/src").expect("searches").path, Some(tree.path("p/lazy.toml")));
        tree.write("elsewhere/w/lazy.toml");
        assert_eq!(tree.find(&[], "elsewhere/w/src").expect("searches").path, Some(tree.path("elsewhere/w/lazy.toml")));
    }

    #[test]
    fn the_variable_names_a_file_that_must_exist() {
        let tree = Tree::new();
        tree.write("p/lazy.toml");
        let error = tree.find(&[(VARIABLE, "lazy.ci.toml")], "p/src").expect_err("missing");
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().contains("lazy.ci.toml") && error.message().contains("up to"), "{error}");
        assert!(error.hints().iter().any(|hint| hint == "unset LAZY_CONFIG"));
        tree.write("p/lazy.ci.toml");
        let found = tree.find(&[(VARIABLE, "lazy.ci.toml")], "p/src").expect("searches");
        assert_eq!(found.path, Some(tree.path("p/lazy.ci.toml")));
        let absolute = tree.path("elsewhere/lazy.toml");
        let absolute = absolute.to_str().expect("utf-8");
        assert!(tree.find(&[(VARIABLE, absolute)], "p").expect_err("missing").message().contains("no such file"));
        tree.write("elsewhere/lazy.toml");
        let found = tree.find(&[(VARIABLE, absolute)], "p").expect("searches");
        assert_eq!(found, Found { path: Some(PathBuf::from(absolute)), shadowed: None });
    }

    #[test]
    fn a_link_to_nothing_counts_as_a_file() {
        let tree = Tree::new();
        std::os::unix::fs::symlink("/nowhere/at/all", tree.path("p/lazy.toml")).expect("link");
        assert!(tree.find(&[], "p").expect("searches").path.is_some());
    }
}
