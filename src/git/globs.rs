//! The globs of the configuration: `*` and `?` stay within a name, `**` crosses directories, `{a,b}` and `[abc]` as
//! usual, a leading `/` is the root, and a pattern that names a directory means all below it.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::base::{Error, Result};

/// Where a pattern without a `/` matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bare {
    /// A name in any directory, as in a `.gitignore`: for what is to be kept safe.
    AnyDirectory,
    /// A name in the root: for what is to be copied.
    RootOnly,
}

/// The patterns as one matcher for paths from the root of the repository.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] for a pattern that is not a glob; a rule that cannot be read must not be skipped.
pub(super) fn compile(patterns: &[String], bare: Bare) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let trimmed = pattern.trim().trim_start_matches("./").trim_end_matches('/');
        let body = trimmed.trim_start_matches('/');
        if body.is_empty() {
            continue;
        }
        let rooted = trimmed.contains('/') || bare == Bare::RootOnly;
        let body = if rooted { body.to_string() } else { format!("**/{body}") };
        for form in [body.clone(), format!("{body}/**")] {
            let glob = GlobBuilder::new(&form).literal_separator(true).build().map_err(|source| {
                Error::invalid(format!("{pattern:?} is not a pattern for files: {}", source.kind()))
            })?;
            set.add(glob);
        }
    }
    set.build().map_err(|source| Error::invalid(format!("the patterns for files do not fit together: {source}")))
}

/// A pathspec of git for at least everything in the root that `pattern` matches: what comes before its first special
/// character, and a star, which in a pathspec crosses directories. `None` for a blank pattern.
pub(super) fn pathspec(pattern: &str) -> Option<String> {
    let body = pattern.trim().trim_start_matches("./").trim_matches('/');
    let plain = body.find(['*', '?', '[', ']', '{', '}', '!', '\\']).map_or(body, |at| &body[..at]);
    (!body.is_empty()).then(|| format!(":(top){plain}*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, bare: Bare, path: &str) -> bool {
        compile(&[pattern.to_string()], bare).expect("a glob").is_match(path)
    }

    #[test]
    fn patterns_read_as_documented() {
        use Bare::{AnyDirectory, RootOnly};
        for (pattern, bare, path, expected) in [
            ("README.md", AnyDirectory, "README.md", true),
            ("README.md", AnyDirectory, "docs/README.md", true),
            ("README.md", RootOnly, "docs/README.md", false),
            ("/README.md", AnyDirectory, "docs/README.md", false),
            ("/README.md", AnyDirectory, "README.md", true),
            ("test/**/*.ts", AnyDirectory, "test/a.ts", true),
            ("test/**/*.ts", AnyDirectory, "test/a/b/c.ts", true),
            ("test/**/*.ts", AnyDirectory, "src/test/a.ts", false),
            ("*.spec.*", AnyDirectory, "src/deep/x.spec.ts", true),
            ("docs/*.md", AnyDirectory, "docs/a/b.md", false),
            ("docs/", AnyDirectory, "docs/a/b.md", true),
            ("config/secrets", RootOnly, "config/secrets/a/key", true),
            ("config/secrets", RootOnly, "config/secrets2", false),
            (".env{,.local}", RootOnly, ".env.local", true),
            ("a b/ü*.txt", RootOnly, "a b/über.txt", true),
        ] {
            assert_eq!(matches(pattern, bare, path), expected, "{pattern} on {path} ({bare:?})");
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_read_is_an_error() {
        assert!(compile(&["a[".to_string()], Bare::RootOnly).is_err());
        assert!(!compile(&["".to_string(), " ".to_string()], Bare::RootOnly).expect("nothing").is_match("x"));
    }
}
