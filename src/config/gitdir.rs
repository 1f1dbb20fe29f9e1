//! The few facts of a git repository that are read without git: its main checkout and its remotes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::base::{Error, Result};

/// A remote of `.git/config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// Its first URL.
    pub url: Option<String>,
}

/// The main checkout of the repository that `from` is in: the nearest directory with a `.git`, or, when that is a
/// linked worktree, the checkout it was linked from. In a bare repository all checkouts are linked; there it is the
/// outermost one around `from`. Symbolic links are resolved.
///
/// # Errors
/// [`crate::base::Kind::NotFound`] outside any repository; [`crate::base::Kind::Conflict`] for a worktree whose link is
/// broken.
pub fn main_checkout(from: &Path) -> Result<PathBuf> {
    let from = from.canonicalize().unwrap_or_else(|_| from.to_path_buf());
    for directory in from.ancestors() {
        let entry = directory.join(".git");
        if entry.is_dir() && entry.join("HEAD").symlink_metadata().is_ok() {
            return Ok(directory.to_path_buf());
        }
        if entry.is_file() {
            return linked(directory, &entry);
        }
    }
    Err(Error::not_found(format!("{} is not inside a git repository", from.display()))
        .hint("cd to your repository, or make one: git init && git commit --allow-empty -m start"))
}

/// The remotes of a checkout in the order of its `.git/config`; none when that cannot be read.
pub fn remotes(checkout: &Path) -> Vec<Remote> {
    let Some(directory) = common_dir(checkout) else { return Vec::new() };
    fs::read(directory.join("config")).map(|bytes| parse_remotes(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
}

/// The directory that all worktrees of a checkout's repository share.
fn common_dir(checkout: &Path) -> Option<PathBuf> {
    let entry = checkout.join(".git");
    let own = if entry.is_dir() { entry } else { git_file(checkout, &entry)? };
    Some(common_of(&own).unwrap_or(own))
}

/// What a `.git` file points at.
fn git_file(directory: &Path, entry: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(entry).ok()?;
    let target = text.strip_prefix("gitdir:")?.trim_end_matches(['\n', '\r']).trim_start();
    (!target.is_empty()).then(|| directory.join(target))
}

/// What the `commondir` of a worktree's git directory points at.
fn common_of(own: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(own.join("commondir")).ok()?;
    let common = own.join(text.trim_end_matches(['\n', '\r']));
    Some(common.canonicalize().unwrap_or(common))
}

fn linked(directory: &Path, entry: &Path) -> Result<PathBuf> {
    let Some(own) = git_file(directory, entry).filter(|own| own.is_dir()) else {
        return Err(Error::conflict(format!("{} points to a git directory that is not there", entry.display()))
            .hint("if the repository was moved: run `git worktree repair` in its main checkout"));
    };
    // No `commondir`: a submodule, or a checkout whose git directory was put elsewhere. It is a main checkout itself.
    let Some(common) = common_of(&own) else { return Ok(directory.to_path_buf()) };
    let config = fs::read(common.join("config")).unwrap_or_default();
    let config = String::from_utf8_lossy(&config);
    // A worktree of a submodule: the submodule's git directory names its checkout.
    if let Some(checkout) = core_value(&config, "worktree").map(|path| common.join(path)) {
        return Ok(checkout.canonicalize().unwrap_or(checkout));
    }
    let is_bare = core_value(&config, "bare").as_deref() == Some("true");
    match common.parent() {
        Some(checkout) if !is_bare && common.file_name().is_some_and(|name| name == ".git") => {
            Ok(checkout.to_path_buf())
        }
        _ => Ok(outermost_linked(directory, &common)),
    }
}

/// Where all checkouts are linked, the outermost one around `directory` is the main one: lazy's own worktrees lie
/// inside their project.
fn outermost_linked(directory: &Path, common: &Path) -> PathBuf {
    let is_of_it = |path: &&Path| {
        let entry = path.join(".git");
        entry.is_file() && git_file(path, &entry).and_then(|own| common_of(&own)).as_deref() == Some(common)
    };
    directory.ancestors().filter(is_of_it).last().unwrap_or(directory).to_path_buf()
}

fn core_value(config: &str, key: &str) -> Option<String> {
    entries(config)
        .into_iter()
        .filter(|entry| entry.section == "core" && entry.subsection.is_none() && entry.key == key)
        .map(|entry| entry.value)
        .next_back()
}

fn parse_remotes(config: &str) -> Vec<Remote> {
    let mut remotes: Vec<Remote> = Vec::new();
    for entry in entries(config).into_iter().filter(|entry| entry.section == "remote") {
        let Some(name) = entry.subsection else { continue };
        let url = (entry.key == "url").then_some(entry.value);
        match remotes.iter_mut().find(|remote| remote.name == name) {
            Some(remote) if remote.url.is_none() => remote.url = url,
            Some(_) => {}
            None => remotes.push(Remote { name, url }),
        }
    }
    remotes
}

struct Entry {
    section: String,
    subsection: Option<String>,
    key: String,
    value: String,
}

/// The key lines of a git configuration, section and key names in lower case. Lines it does not understand are passed
/// over: git itself will complain of them.
fn entries(config: &str) -> Vec<Entry> {
    let mut section: Option<(String, Option<String>)> = None;
    let mut found = Vec::new();
    let joined = config.replace("\r\n", "\n").replace("\\\n", "");
    for line in joined.lines().map(str::trim) {
        let rest = match line.strip_prefix('[') {
            None => line,
            Some(header) => {
                let (parsed, rest) = section_header(header);
                section = parsed;
                rest.trim()
            }
        };
        let (Some((name, sub)), false) = (&section, rest.is_empty() || rest.starts_with(['#', ';'])) else { continue };
        let (key, value) = rest.split_once('=').unwrap_or((rest, "true"));
        found.push(Entry {
            section: name.clone(),
            subsection: sub.clone(),
            key: key.trim().to_ascii_lowercase(),
            value: unquote(value),
        });
    }
    found
}

/// `section]…` or `section "sub"]…`: the names, and what follows the bracket.
fn section_header(header: &str) -> (Option<(String, Option<String>)>, &str) {
    let end_of_name = header.find([' ', '\t', ']', '"']).unwrap_or(header.len());
    let name = header[..end_of_name].to_ascii_lowercase();
    let rest = header[end_of_name..].trim_start();
    let Some(quoted) = rest.strip_prefix('"') else {
        let after = rest.split_once(']').map_or("", |(_, after)| after);
        return (Some((name, None)), after);
    };
    let mut sub = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => sub.extend(chars.next().map(|(_, c)| c)),
            '"' => {
                let after = quoted[at + 1..].split_once(']').map_or("", |(_, after)| after);
                return (Some((name, Some(sub))), after);
            }
            other => sub.push(other),
        }
    }
    (None, "")
}

/// A value without its quotes, escapes and trailing comment.
fn unquote(value: &str) -> String {
    let (mut out, mut kept, mut quoted) = (String::new(), 0, false);
    let mut chars = value.trim_start().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => out.extend(chars.next().map(|c| match c {
                'n' => '\n',
                't' => '\t',
                other => other,
            })),
            '#' | ';' if !quoted => break,
            other => out.push(other),
        }
        if quoted || !c.is_whitespace() {
            kept = out.len();
        }
    }
    out.truncate(kept);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;
    use std::process::Command;

    fn git(cwd: &Path, args: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"])
            .args(args)
            .current_dir(cwd)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().canonicalize().expect("exists");
        (dir, path)
    }

    #[test]
    fn worktrees_lead_to_the_main_checkout() {
        let (_dir, base) = place();
        let root = base.join("ma in ü");
        fs::create_dir(&root).expect("directory");
        git(&root, &["init", "-q"]);
        git(&root, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&root, &["worktree", "add", "-q", "../else where", "-b", "side"]);
        fs::create_dir_all(base.join("else where/a/b")).expect("directory");
        assert_eq!(main_checkout(&root).expect("itself"), root);
        assert_eq!(main_checkout(&base.join("else where/a/b")).expect("followed"), root);
        git(&root, &["remote", "add", "origin", "git@host:team/thing.git"]);
        git(&root, &["remote", "add", "up.stream", "/srv/x;y.git"]);
        let remotes = remotes(&base.join("else where"));
        assert_eq!(remotes[0], Remote { name: "origin".into(), url: Some("git@host:team/thing.git".into()) });
        assert_eq!(remotes[1], Remote { name: "up.stream".into(), url: Some("/srv/x;y.git".into()) });
    }

    #[test]
    fn the_outermost_worktree_of_a_bare_repository_counts() {
        let (_dir, base) = place();
        git(&base, &["init", "-q", "seed"]);
        git(&base.join("seed"), &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&base, &["clone", "-q", "--bare", "seed", "bare.git"]);
        git(&base.join("bare.git"), &["worktree", "add", "-q", "../work", "-b", "side"]);
        git(&base.join("work"), &["worktree", "add", "-q", ".lazy/worktrees/t", "-b", "task"]);
        assert_eq!(main_checkout(&base.join("work")).expect("itself"), base.join("work"));
        assert_eq!(main_checkout(&base.join("work/.lazy/worktrees/t")).expect("its project"), base.join("work"));
    }

    #[test]
    fn a_submodule_is_a_checkout_of_its_own() {
        let (_dir, base) = place();
        for name in ["sub", "top"] {
            git(&base, &["init", "-q", name]);
            git(&base.join(name), &["commit", "-q", "--allow-empty", "-m", "one"]);
        }
        git(&base.join("top"), &["submodule", "--quiet", "add", "../sub", "part"]);
        let part = base.join("top/part");
        assert_eq!(main_checkout(&part).expect("itself"), part);
        git(&part, &["worktree", "add", "-q", "../../part-side", "-b", "side"]);
        assert_eq!(main_checkout(&base.join("part-side")).expect("followed"), part);
    }

    #[test]
    fn broken_links_and_strays_are_told_apart() {
        let (_dir, base) = place();
        fs::create_dir_all(base.join("w/.git/empty")).expect("directory");
        assert_eq!(main_checkout(&base.join("w")).expect_err("a stray .git").kind(), Kind::NotFound);
        fs::remove_dir_all(base.join("w/.git")).expect("removed");
        fs::write(base.join("w/.git"), "gitdir: /nowhere/at/all\n").expect("file");
        let error = main_checkout(&base.join("w")).expect_err("broken");
        assert!(error.hints()[0].contains("git worktree repair"), "{error}");
    }

    #[test]
    fn configurations_are_read_as_git_writes_them() {
        let text = "[core]\n\tbare = false # no\n[Remote \"a\\\"b\"] URL = \"https://x/y#z\"  ; note\n\tfetch = +x\n\
                    [remote \"c\"]\n\turl = one \\\ntwo\n\turl = second\n[remote \"broken\n\turl = lost\n";
        assert_eq!(core_value(text, "bare").as_deref(), Some("false"));
        assert_eq!(
            parse_remotes(text),
            [
                Remote { name: "a\"b".into(), url: Some("https://x/y#z".into()) },
                Remote { name: "c".into(), url: Some("one two".into()) },
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[ -~\\n\\t\u{e4}\u{1f600}]{0,200}") {
            parse_remotes(&text);
            parse_remotes(&format!("[remote \"{text}"));
            parse_remotes(&format!("[remote \"a\"]\nurl = {text}"));
        }
    }
}
