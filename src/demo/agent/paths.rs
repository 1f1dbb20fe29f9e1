//! Where the file tools may go: inside the worktree, links included.

use std::io;
use std::path::{Component, Path, PathBuf};

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing; nothing below `.git`.
    Write,
}

/// The real place of a path the model named, relative to the worktree or absolute inside it.
///
/// # Errors
/// A sentence for the model: the path leaves the worktree by itself or through a link, or must not be written.
pub fn resolve(worktree: &Path, named: &str, access: Access) -> Result<PathBuf, String> {
    let outside =
        || format!("{named} is outside the worktree {}; only paths inside it can be used", worktree.display());
    if named.is_empty() || named.contains('\0') {
        return Err("the path is empty or holds a NUL byte".to_string());
    }
    let root = worktree.canonicalize().map_err(|error| format!("cannot read the worktree: {error}"))?;
    let relative = match Path::new(named).strip_prefix(worktree).or_else(|_| Path::new(named).strip_prefix(&root)) {
        Ok(below) => below.to_path_buf(),
        Err(_) if Path::new(named).is_absolute() => return Err(outside()),
        Err(_) => PathBuf::from(named),
    };
    let mut place = root.clone();
    let mut existing = true;
    for part in relative.components() {
        match part {
            Component::CurDir => continue,
            Component::ParentDir => {
                place.pop();
            }
            Component::Normal(name) => place.push(name),
            Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
        if existing {
            match place.canonicalize() {
                Ok(real) => place = real,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // A link to nothing is not a missing file: writing would follow it.
                    if place.symlink_metadata().is_ok() {
                        return Err(format!("{named} goes through a link that leads nowhere"));
                    }
                    existing = false;
                }
                Err(error) => return Err(format!("cannot use {named}: {error}")),
            }
        } else if part == Component::ParentDir {
            return Err(format!("{named} steps back out of a directory that does not exist"));
        }
        if !place.starts_with(&root) {
            return Err(outside());
        }
    }
    let below = place.strip_prefix(&root).unwrap_or(&place);
    if access == Access::Write && below.components().any(|part| part.as_os_str() == ".git") {
        return Err(format!("{named} belongs to git; it is not written by hand"));
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_stay_inside() {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().join("work tree");
        fs::create_dir_all(root.join("src")).expect("a directory");
        fs::write(root.join("src/a.rs"), "").expect("a file");
        fs::write(dir.path().join("secret"), "").expect("a file outside");
        symlink(dir.path(), root.join("up")).expect("a link outside");
        symlink(dir.path().join("not-yet"), root.join("dangling")).expect("a link to nothing");
        symlink("src", root.join("inner")).expect("a link inside");
        let real = root.canonicalize().expect("real");
        let absolute = root.join("src/a.rs");
        for good in ["src/a.rs", "./src/../src/a.rs", "inner/a.rs", absolute.to_str().expect("text")] {
            assert_eq!(resolve(&root, good, Access::Write), Ok(real.join("src/a.rs")), "{good}");
        }
        assert_eq!(resolve(&root, "new/deep/b.rs", Access::Write), Ok(real.join("new/deep/b.rs")));
        for bad in [
            "",
            "..",
            "../secret",
            "/etc/passwd",
            "up/secret",
            "up",
            "dangling",
            "dangling/x",
            "src/../../secret",
            "new/../../x",
            "a\0b",
        ] {
            assert!(resolve(&root, bad, Access::Read).is_err(), "{bad}");
        }
        assert!(resolve(&root, ".git", Access::Read).is_ok());
        for git in [".git", ".git/config", "sub/.git/hooks/x"] {
            assert!(resolve(&root, git, Access::Write).is_err(), "{git}");
        }
        assert!(resolve(&root, ".gitignore", Access::Write).is_ok());
    }

    proptest! {
        #[test]
        fn no_path_leads_out(parts in prop::collection::vec(prop_oneof!["\\.\\.", "\\.", "a", "b", "", "/"], 0..8)) {
            let dir = tempfile::tempdir().expect("temp dir");
            fs::create_dir_all(dir.path().join("a/b")).expect("a directory");
            let real = dir.path().canonicalize().expect("real");
            if let Ok(place) = resolve(dir.path(), &parts.join("/"), Access::Read) {
                prop_assert!(place.starts_with(&real));
            }
        }
    }
}
