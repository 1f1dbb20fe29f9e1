//! The lines lazy keeps in a project's `.gitignore`.

/// Lines that must be there.
pub const ENTRIES: [&str; 4] = [".env", ".lazy-task-sandbox/", ".lazy-lock", ".lazy/"];

/// Lines that earlier versions wrote and `.lazy/` now covers; removed only when a line is exactly this.
const SUPERSEDED: [&str; 12] = [
    ".lazy/worktrees/",
    ".lazy/bin/",
    ".lazy/logs/",
    ".lazy/recovery/",
    ".lazy/tasks/*/*.tmp.*",
    ".lazy/tasks/*/*.backup.*",
    ".lazy/tasks/*/protocol/",
    ".lazy/storage.lock",
    ".lazy/.reconcile-lock",
    ".lazy/tmp",
    ".lazy/approve-passphrase",
    ".workshop/",
];

/// What reconciling a `.gitignore` comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// The whole new file.
    pub bytes: Vec<u8>,
    /// Lines added.
    pub added: Vec<&'static str>,
    /// Lines removed.
    pub removed: Vec<&'static str>,
}

/// The lines of [`ENTRIES`] that a `.gitignore` lacks.
pub fn missing(bytes: &[u8]) -> Vec<&'static str> {
    ENTRIES.into_iter().filter(|entry| !lines(bytes).any(|line| line == entry.as_bytes())).collect()
}

/// Adds what is missing and removes what is superseded. Every other byte stays; doing it twice is doing it once.
///
/// What is added goes to the end, but before a negation of it: a person who wrote `!.env` still has the last word.
pub fn reconcile(bytes: &[u8]) -> Reconciled {
    let added = missing(bytes);
    let removed: Vec<&'static str> =
        SUPERSEDED.into_iter().filter(|old| lines(bytes).any(|line| line == old.as_bytes())).collect();
    if added.is_empty() && removed.is_empty() {
        return Reconciled { bytes: bytes.to_vec(), added, removed };
    }
    let end: &[u8] = if bytes.windows(2).any(|pair| pair == b"\r\n") { b"\r\n" } else { b"\n" };
    let mut kept: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !removed.iter().any(|old| content(line) == old.as_bytes()))
        .map(<[u8]>::to_vec)
        .collect();
    if let Some(last) = kept.last_mut()
        && !last.ends_with(b"\n")
        && !added.is_empty()
    {
        last.extend_from_slice(end);
    }
    let negates = |line: &Vec<u8>| {
        content(line).strip_prefix(b"!").is_some_and(|pattern| {
            let pattern = pattern.strip_prefix(b"/").unwrap_or(pattern);
            added.iter().any(|entry| pattern.starts_with(entry.trim_end_matches('/').as_bytes()))
        })
    };
    let at = kept.iter().position(negates).unwrap_or(kept.len());
    let mut block = Vec::new();
    if !added.is_empty() && at > 0 && !content(&kept[at - 1]).is_empty() {
        block.push(end.to_vec());
    }
    if !added.is_empty() {
        block.push([b"# lazy", end].concat());
    }
    block.extend(added.iter().map(|entry| [entry.as_bytes(), end].concat()));
    kept.splice(at..at, block);
    Reconciled { bytes: kept.concat(), added, removed }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').map(content)
}

/// A line without its end.
fn content(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(before: &str) -> String {
        String::from_utf8(reconcile(before.as_bytes()).bytes).expect("text in, text out")
    }

    #[test]
    fn what_is_missing_is_added_at_the_end() {
        let block = "# lazy\n.env\n.lazy-task-sandbox/\n.lazy-lock\n.lazy/\n";
        assert_eq!(text(""), block);
        assert_eq!(text("target/"), format!("target/\n\n{block}"));
        assert_eq!(text("a\n.env\n"), "a\n.env\n\n# lazy\n.lazy-task-sandbox/\n.lazy-lock\n.lazy/\n");
    }

    #[test]
    fn what_is_superseded_goes_by_exact_line_only() {
        let before = ".lazy/logs/\n#.lazy/tmp\n !.lazy/tmp\n.lazy/logs/x\n.lazy/\n.workshop/\n.env\n.lazy-lock\n\
                      .lazy-task-sandbox/\n";
        let after = reconcile(before.as_bytes());
        assert_eq!(after.removed, [".lazy/logs/", ".workshop/"]);
        assert!(after.added.is_empty());
        let expected = "#.lazy/tmp\n !.lazy/tmp\n.lazy/logs/x\n.lazy/\n.env\n.lazy-lock\n.lazy-task-sandbox/\n";
        assert_eq!(after.bytes, expected.as_bytes());
    }

    #[test]
    fn a_negation_keeps_the_last_word() {
        let after = text("a\n!.env\n!/.lazy/keep\n");
        assert!(after.starts_with("a\n\n# lazy\n.env\n") && after.ends_with("!.env\n!/.lazy/keep\n"), "{after}");
    }

    #[test]
    fn the_line_end_of_the_file_is_kept() {
        assert!(text("a\r\nb\r\n").ends_with(".lazy-lock\r\n.lazy/\r\n"));
        assert_eq!(missing(b".env\r\n.lazy/\r\n.lazy-lock\r\n.lazy-task-sandbox/"), Vec::<&str>::new());
    }

    proptest! {
        #[test]
        fn twice_is_once_and_no_other_line_is_lost(
            lines in proptest::collection::vec(
                prop_oneof![
                    "[a-z!/.#\\*]{0,8}",
                    proptest::sample::select(SUPERSEDED.to_vec()).prop_map(String::from),
                    proptest::sample::select(ENTRIES.to_vec()).prop_map(String::from),
                ],
                0..12,
            ),
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let before = [lines.join("\n").into_bytes(), bytes].concat();
            let once = reconcile(&before);
            let twice = reconcile(&once.bytes);
            prop_assert_eq!(&twice.bytes, &once.bytes);
            prop_assert!(twice.added.is_empty() && twice.removed.is_empty());
            prop_assert!(missing(&once.bytes).is_empty());
            for line in super::lines(&before).filter(|line| !once.removed.iter().any(|old| old.as_bytes() == *line)) {
                prop_assert!(super::lines(&once.bytes).any(|kept| kept == line));
            }
        }
    }
}
