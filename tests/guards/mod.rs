//! Guards: rules of the house that the compiler does not check, checked by reading the sources.

mod arrows;
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

/// A source file of the library.
pub struct Source {
    /// Path below `src/`.
    pub path: String,
    /// The room it is in: its first directory, or its name at the top.
    pub room: String,
    /// Its text without the unit tests at its end.
    pub code: String,
}

/// Every source file but those that are tests as a whole.
pub fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files
        .into_iter()
        .filter_map(|path| {
            let below = path.strip_prefix(&root).expect("below src").to_string_lossy().into_owned();
            let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
            let is_test = ["tests", "testing", "test_support", "fixture"].contains(&name.as_str())
                || name.ends_with("_tests")
                || below.split('/').any(|part| part == "tests" || part == "testing");
            if is_test {
                return None;
            }
            let text = fs::read_to_string(&path).expect("reads");
            let code = text.split("\n#[cfg(test)]").next().unwrap_or_default().to_string();
            let room = below.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_string();
            Some(Source { path: below, room, code })
        })
        .collect()
}

fn collect(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("lists").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The code of a file without comments and string contents, line by line.
pub fn bare_lines(code: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    code.lines().enumerate().map(|(number, line)| {
        let line = line.split("//").next().unwrap_or_default();
        (number + 1, line.to_string())
    })
}
