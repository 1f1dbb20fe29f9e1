//! The forms of a path that a rule looks at: as written, put straight, with links followed, and seen from the worktree.
//!
//! A tool that gets `src/../../.ssh/id_rsa`, `~/.ssh/id_rsa` or `notes` (a link to a key) opens the same file, so each form
//! is judged. Links are followed inside the worktree only: outside of it the path may mean another file system, that of
//! the agent's container. A link may be changed between the verdict and the call; the sandbox is what stands behind.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

/// As many links as the system follows.
const LINKS: usize = 40;
/// The most parts of a path that are looked up.
const PARTS: usize = 4096;

/// Where a caller is. What is not known is `None`: then paths are judged by their text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The absolute directory it works in: relative paths start there.
    pub worktree: Option<PathBuf>,
    /// What `~` stands for: the home of this machine's user. In a container it may be another; the patterns of secrets do
    /// not depend on it.
    pub home: Option<PathBuf>,
}

/// Every form of one path, without repeats; the first is the path as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forms {
    all: Vec<String>,
    normal: String,
}

impl Forms {
    /// The forms of `written`.
    pub fn of(written: &str, place: &Place) -> Forms {
        let joined = place.join(written.trim());
        let normal = straighten(&joined);
        let roots = place.roots();
        // Some tools put a path straight before they open it, and some let the system walk it: both may be meant.
        let resolved = follow(&normal, &roots);
        let walked = follow(&joined, &roots);
        let mut all = vec![written.to_string(), normal.clone()];
        all.extend(resolved.clone());
        all.extend(walked.clone());
        for form in [Some(&normal), resolved.as_ref(), walked.as_ref()].into_iter().flatten() {
            let seen = roots.iter().filter_map(|root| Path::new(form).strip_prefix(root).ok());
            all.extend(seen.map(|path| path.to_string_lossy().into_owned()).take(1));
        }
        let mut unique: Vec<String> = Vec::with_capacity(all.len());
        for form in all {
            if !unique.contains(&form) {
                unique.push(form);
            }
        }
        Forms { all: unique, normal: walked.or(resolved).unwrap_or(normal) }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(String::as_str)
    }

    /// The path put straight, with the links followed that could be.
    pub fn normal(&self) -> &str {
        &self.normal
    }
}

impl Place {
    /// A path with `~` and a relative beginning made explicit, as far as that is known.
    pub fn join(&self, path: &str) -> String {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let behind_tilde = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        match (behind_tilde, &self.home, &self.worktree) {
            (Some(rest), Some(home), _) => text(home) + rest,
            (None, _, Some(worktree)) if !path.starts_with('/') => format!("{}/{path}", text(worktree)),
            _ => path.to_string(),
        }
    }

    /// The worktree under its names: as given, and without links on the way to it.
    fn roots(&self) -> Vec<PathBuf> {
        let Some(given) = &self.worktree else { return Vec::new() };
        let real = given.canonicalize().ok().filter(|real| real != given);
        [given.clone()].into_iter().chain(real).collect()
    }
}

/// The path without `.`, `..` and doubled slashes, by its text alone.
pub fn straighten(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".into(),
        (false, false) => joined,
    }
}

/// The absolute path with the links in it followed that stand below one of `roots`; `None` when there is nothing to
/// follow or no end to it.
fn follow(path: &str, roots: &[PathBuf]) -> Option<String> {
    if roots.is_empty() || !path.starts_with('/') {
        return None;
    }
    let mut rest: VecDeque<String> = path.split('/').map(str::to_string).collect();
    let mut at = PathBuf::from("/");
    let (mut links, mut parts) = (0, 0);
    while let Some(part) = rest.pop_front() {
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                at.pop();
                continue;
            }
            part => at.push(part),
        }
        parts += 1;
        if parts > PARTS {
            return None;
        }
        let below = roots.iter().any(|root| at != *root && at.starts_with(root));
        let Some(target) = below.then(|| std::fs::read_link(&at).ok()).flatten() else { continue };
        links += 1;
        if links > LINKS {
            return None;
        }
        at.pop();
        for component in target.components().rev() {
            match component {
                Component::RootDir | Component::Prefix(_) => at = PathBuf::from("/"),
                Component::CurDir => {}
                Component::ParentDir => rest.push_front("..".into()),
                Component::Normal(name) => rest.push_front(name.to_string_lossy().into_owned()),
            }
        }
    }
    Some(at.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn place() -> Place {
        Place { worktree: Some("/w/t".into()), home: Some("/home/u".into()) }
    }

    #[test]
    fn paths_are_put_straight() {
        for (written, normal) in [
            ("~/.ssh/id_rsa", "/home/u/.ssh/id_rsa"),
            ("~", "/home/u"),
            ("~user/x", "/w/t/~user/x"),
            ("a/./b//c/", "/w/t/a/b/c"),
            ("../../../../etc/passwd", "/etc/passwd"),
            ("/a/../../b", "/b"),
            (" /etc/shadow\n", "/etc/shadow"),
            ("", "/w/t"),
        ] {
            assert_eq!(Forms::of(written, &place()).normal(), normal, "{written}");
        }
        assert_eq!(Forms::of("a/../../b", &Place::default()).normal(), "../b");
        assert_eq!(Forms::of("~/x", &Place::default()).normal(), "~/x");
        let forms = Forms::of("/w/t/a/../b", &place());
        assert_eq!(forms.iter().collect::<Vec<_>>(), ["/w/t/a/../b", "/w/t/b", "b"]);
    }

    #[test]
    fn links_below_the_worktree_are_followed() {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().canonicalize().expect("there");
        let worktree = root.join("w");
        std::fs::create_dir_all(worktree.join("sub")).expect("makes");
        symlink("/root/.ssh", worktree.join("keys")).expect("links");
        symlink("../keys", worktree.join("sub/up")).expect("links");
        symlink("loop", worktree.join("loop")).expect("links");
        symlink(&worktree, root.join("alias")).expect("links");
        let place = Place { worktree: Some(worktree.clone()), home: None };
        let normal = |written: &str| Forms::of(written, &place).normal().to_string();
        assert_eq!(normal("keys/id_rsa"), "/root/.ssh/id_rsa");
        assert_eq!(normal("sub/up/id_rsa"), "/root/.ssh/id_rsa");
        // Through the link, and not past it.
        assert_eq!(normal("keys/../x"), "/root/x");
        assert!(normal("loop/x").ends_with("/loop/x"));
        assert!(normal("missing/x").ends_with("/w/missing/x"));
        let aliased = Place { worktree: Some(root.join("alias")), home: None };
        assert_eq!(Forms::of("keys/id_rsa", &aliased).normal(), "/root/.ssh/id_rsa");
        let real = worktree.join("keys/id_rsa");
        assert_eq!(Forms::of(real.to_str().expect("utf-8"), &aliased).normal(), "/root/.ssh/id_rsa");
    }

    proptest! {
        #[test]
        fn straight_paths_stay_as_they_are(path in "[a./~]{0,12}") {
            let once = straighten(&path);
            prop_assert_eq!(straighten(&once), once.clone());
            prop_assert!(!once.starts_with('/') || !once.split('/').any(|part| part == ".."), "{}", once);
            Forms::of(&path, &place());
        }
    }
}
