//! Host paths that no container may ever see, and the placeholders of `[[mounts]]`.
//!
//! The daemon's state directory holds the tokens by which callers are told apart; the scratch directory is where the
//! builder hands things to its person. A container that could read either could be somebody else. Absolute sources are
//! judged when the file is loaded; the launch path judges every source again once it is resolved.

use std::path::{Component, Path, PathBuf};

use crate::base::{Error, Kind, Process, Result};

/// Where daemons keep their state: `LAZY_DAEMON_BASE_DIR`, else `~/.lazy/daemon`.
pub fn daemon_base(process: &Process) -> Result<PathBuf> {
    base(process, "LAZY_DAEMON_BASE_DIR", ".lazy/daemon")
}

/// Where the builder keeps its scratch files: `LAZY_SCRATCH_BASE_DIR`, else `~/.lazy/scratch`.
pub fn scratch_base(process: &Process) -> Result<PathBuf> {
    base(process, "LAZY_SCRATCH_BASE_DIR", ".lazy/scratch")
}

/// Refuses a resolved bind source that would show a container what it must not see.
///
/// # Errors
/// [`Kind::Forbidden`] naming the entry (1-based), the path and the reason.
pub fn require_mountable(process: &Process, entry: usize, source: &Path) -> Result<()> {
    match refused(process, source) {
        None => Ok(()),
        Some(reason) => {
            Err(Error::new(Kind::Forbidden, format!("[[mounts]] entry {entry}: source {} {reason}", source.display()))
                .hint("choose a narrower directory in lazy.toml"))
        }
    }
}

/// Why a bind source is refused, if it is: the predicate of a sentence about it.
pub(super) fn refused(process: &Process, source: &Path) -> Option<String> {
    let bases = [
        (daemon_base(process), "the daemon's state directory", "it holds the tokens that tell tasks and people apart"),
        (scratch_base(process), "the builder's scratch directory", "agents must not read it"),
    ];
    let sources = spellings(source);
    bases.into_iter().find_map(|(base, what, why)| {
        let base = base.ok()?;
        let clash = spellings(&base)
            .iter()
            .any(|base| sources.iter().any(|source| source.starts_with(base) || base.starts_with(source)));
        clash.then(|| format!("may not be mounted: it overlaps {what} {}, and {why}", base.display()))
    })
}

/// A placeholder in `text` that does not exist, braces included.
pub(super) fn unknown_placeholder(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(start, _)| {
        let rest = &text[start..];
        let end = rest.find('}').map_or(rest.len(), |at| at + 1);
        (!matches!(&rest[..end], "{worktree}" | "{repo}")).then_some(&rest[..end])
    })
}

fn base(process: &Process, variable: &str, below_home: &str) -> Result<PathBuf> {
    match process.var(variable) {
        Some(path) => Ok(process.cwd().join(path)),
        None => Ok(process.home()?.join(below_home)),
    }
}

/// A path without `.` and `..`, and as its symbolic links resolve, as far as it exists.
pub(super) fn spellings(path: &Path) -> Vec<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    let resolved = plain.ancestors().find_map(|ancestor| {
        let real = ancestor.canonicalize().ok()?;
        Some(real.join(plain.strip_prefix(ancestor).ok()?))
    });
    resolved.into_iter().filter(|real| *real != plain).chain([plain.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;

    fn process(env: &[(&str, &str)]) -> Process {
        Process::fake(["lazy"], env, Path::new("/"), Millis(0))
    }

    #[test]
    fn what_overlaps_the_state_of_the_daemon_is_refused() {
        let process = process(&[("HOME", "/home/u")]);
        for bad in ["/home/u/.lazy/daemon", "/home/u/.lazy/daemon/x", "/home/u/.lazy", "/home/u", "/", "/a/../home/u"] {
            let error = require_mountable(&process, 2, Path::new(bad)).expect_err(bad);
            assert_eq!(error.kind(), Kind::Forbidden);
            assert!(error.message().contains("entry 2"), "{error}");
        }
        assert!(refused(&process, Path::new("/home/u/.lazy/scratch/a")).expect("refused").contains("scratch"));
        for good in ["/home/u/.lazy/daemonic", "/home/u/.cache", "/home/user"] {
            assert_eq!(refused(&process, Path::new(good)), None, "{good}");
        }
    }

    #[test]
    fn moved_directories_and_links_count() {
        let dir = tempfile::tempdir().expect("temp dir");
        let state = dir.path().join("state");
        std::fs::create_dir(&state).expect("state");
        std::os::unix::fs::symlink(&state, dir.path().join("link")).expect("link");
        let process = process(&[("LAZY_DAEMON_BASE_DIR", state.to_str().expect("utf-8"))]);
        assert!(refused(&process, &dir.path().join("link/sub")).is_some());
        assert!(refused(&process, &dir.path().join("other")).is_none());
    }

    #[test]
    fn placeholders_are_two() {
        assert_eq!(unknown_placeholder("{worktree}/a/{repo}"), None);
        assert_eq!(unknown_placeholder("{work}/a"), Some("{work}"));
        assert_eq!(unknown_placeholder("/a/{oops"), Some("{oops"));
    }
}
