//! The user's home: there, and the user's.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::proc::init::Owner;

/// The home when the user's own cannot be used.
const SPARE: &str = "/home/lazy";
/// Entries that are looked at before the rest is left as it is.
const ENTRIES: usize = 50_000;
/// The longest that may take.
const TIME: Duration = Duration::from_secs(10);

/// Sees that `home` below `root` exists and is `owner`'s, and so is what in it belonged to `was`; the home to use. One
/// that belongs to the system (`/`, `/usr/sbin`, `/nonexistent`) is not touched, and [`SPARE`] is used instead.
pub fn settle(root: &Path, home: &str, was: Owner, owner: Owner, mut warn: impl FnMut(&str)) -> String {
    let inner = home.strip_prefix('/').unwrap_or_default().trim_matches('/');
    let is_usable = !inner.is_empty()
        && match fs::metadata(root.join(inner)) {
            Ok(meta) => {
                let is_a_users = [owner.uid, was.uid].contains(&meta.uid()) || inner.starts_with("home/");
                meta.is_dir() && is_a_users
            }
            // At the top there are only the system's.
            Err(_) => inner.contains('/'),
        };
    let used = if is_usable { home } else { SPARE };
    let path = root.join(used.trim_matches('/'));
    let made = fs::create_dir_all(&path).and_then(|()| path.canonicalize());
    let done = made.and_then(|path| {
        let mounts = mount_points();
        if mounts.contains(&path) {
            // It came from outside, with the owner it has there.
            return Ok(Walk::Whole);
        }
        let walk = give(&path, was, owner, &mounts)?;
        let meta = fs::metadata(&path)?;
        if (meta.uid(), meta.gid()) != (owner.uid, owner.gid) {
            lchown(&path, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(walk)
    });
    match done {
        Ok(Walk::Whole) => {}
        Ok(Walk::Cut) => warn(&format!("{used} holds very much; not all of it belongs to {} now", owner.uid)),
        Err(error) => warn(&format!("{used} may not be the user's: {error}")),
    }
    used.to_string()
}

/// Hands what root of the container left below `directory` to `owner`, as far as that can be done: an agent may become
/// root, and the host's user could not remove what it wrote then. Best effort, at the end of the container.
pub fn reclaim(directory: &Path, owner: Owner) {
    visit(directory, 0, &mount_points(), ENTRIES, |path, _| {
        lchown(path, Some(owner.uid), Some(owner.gid)).ok();
        Ok(())
    })
    .ok();
}

/// Whether a walk came to its end.
#[derive(Debug, PartialEq, Eq)]
enum Walk {
    Whole,
    Cut,
}

/// Hands what is in `home` and belongs to `was` to `owner`: upper levels first, no symlink followed, no mount entered.
/// Nothing else runs in the container yet, so that no path can be exchanged meanwhile.
fn give(home: &Path, was: Owner, owner: Owner, mounts: &HashSet<PathBuf>) -> io::Result<Walk> {
    if was == owner {
        return Ok(Walk::Whole);
    }
    let gid_of = |gid: u32| if gid == was.gid { owner.gid } else { gid };
    visit(home, was.uid, mounts, ENTRIES, |path, gid| lchown(path, Some(owner.uid), Some(gid_of(gid))))
}

/// Calls `each` for all below `home` that belongs to `uid`, with its gid.
fn visit(
    home: &Path,
    uid: u32,
    mounts: &HashSet<PathBuf>,
    limit: usize,
    mut each: impl FnMut(&Path, u32) -> io::Result<()>,
) -> io::Result<Walk> {
    let device = fs::metadata(home)?.dev();
    let until = Instant::now() + TIME;
    let mut directories = VecDeque::from([home.to_path_buf()]);
    let mut seen = 0;
    while let Some(directory) = directories.pop_front() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > limit || Instant::now() > until {
                return Ok(Walk::Cut);
            }
            let path = entry.path();
            let Ok(meta) = entry.metadata() else { continue };
            if meta.dev() != device || mounts.contains(&path) {
                continue;
            }
            if meta.uid() == uid {
                each(&path, meta.gid())?;
            }
            if meta.is_dir() {
                directories.push_back(path);
            }
        }
    }
    Ok(Walk::Whole)
}

/// A mount may have the device of what it is mounted in.
fn mount_points() -> HashSet<PathBuf> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescaped)
        .collect()
}

/// Blanks and backslashes stand there as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me(path: &Path) -> Owner {
        let meta = fs::metadata(path).expect("there");
        Owner { uid: meta.uid(), gid: meta.gid() }
    }

    fn settled(root: &Path, home: &str, was: Owner) -> String {
        settle(root, home, was, me(root), |warning| panic!("{warning}"))
    }

    #[test]
    fn a_home_is_made_and_the_systems_are_let_be() {
        let root = tempfile::tempdir().expect("temp dir");
        let me = me(root.path());
        assert_eq!(settled(root.path(), "/home/node", me), "/home/node");
        assert_eq!(settled(root.path(), "/srv/a/b", me), "/srv/a/b");
        assert!(root.path().join("home/node").is_dir() && root.path().join("srv/a/b").is_dir());
        fs::write(root.path().join("home/file"), "").expect("writes");
        for bad in ["/nonexistent", "/", "", "relative/path", "/home/file"] {
            assert_eq!(settled(root.path(), bad, me), SPARE, "{bad:?}");
        }
        assert!(root.path().join("home/lazy").is_dir());
        assert!(!root.path().join("nonexistent").exists() && !root.path().join("relative").exists());
    }

    #[test]
    fn an_odd_root_costs_a_warning() {
        let root = tempfile::tempdir().expect("temp dir");
        let me = me(root.path());
        fs::write(root.path().join("home"), "a file").expect("writes");
        let mut said = Vec::new();
        let home = settle(root.path(), "/home/node", me, me, |warning| said.push(warning.to_string()));
        assert_eq!((home.as_str(), said.len()), ("/home/node", 1));
    }

    #[test]
    fn the_walk_enters_no_symlink_and_no_mount_and_ends() {
        let dir = tempfile::tempdir().expect("temp dir");
        let uid = me(dir.path()).uid;
        let home = dir.path().join("home");
        for directory in ["home/a/b", "home/mounted/c", "outside/d"] {
            fs::create_dir_all(dir.path().join(directory)).expect("creates");
        }
        fs::write(home.join("a/b/file"), "").expect("writes");
        std::os::unix::fs::symlink(dir.path().join("outside"), home.join("link")).expect("links");
        std::os::unix::fs::symlink("link", home.join("loop")).expect("links");
        let mounts = HashSet::from([home.join("mounted")]);
        let seen = |uid, limit| {
            let mut seen = Vec::new();
            let each = |path: &Path, _| {
                seen.push(path.strip_prefix(&home).expect("below").to_string_lossy().into_owned());
                Ok(())
            };
            let walk = visit(&home, uid, &mounts, limit, each).expect("walks");
            seen.sort();
            (walk, seen)
        };
        let all = ["a", "a/b", "a/b/file", "link", "loop"].map(String::from).to_vec();
        assert_eq!(seen(uid, 100), (Walk::Whole, all));
        assert_eq!(seen(uid.wrapping_add(1), 100), (Walk::Whole, Vec::new()), "another's is not touched");
        let (walk, some) = seen(uid, 3);
        assert_eq!(walk, Walk::Cut);
        assert!(some.len() <= 3 && !some.contains(&"a/b/file".into()), "{some:?}");
    }

    #[test]
    fn mount_points_are_read_as_they_are() {
        assert_eq!(unescaped(br"/a\040b\134c\0"), Path::new(r"/a b\c\0"));
        if cfg!(target_os = "linux") {
            assert!(mount_points().contains(Path::new("/")));
        }
    }
}
