//! The handoff file: what an agent writes down when its tools are gone.
//!
//! One JSON object a line, `{"kind":"journal"|"raised"|"followup","content":…,"blocking":…}`. The file belongs to the
//! agent, so nothing about it is believed: it is read without following links, at most 8 MiB; bad lines are skipped.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::base::{Result, files, text};
use crate::model::exchange::HandoffEntry;

const ENTRIES: usize = 50;
const CHARS: usize = 20_000;
const BYTES: u64 = 8 << 20;

fn path(sandbox: &Path) -> PathBuf {
    sandbox.join("turn-handoff.jsonl")
}

/// Removes what an earlier turn left, whatever it is.
pub(super) fn clear(sandbox: &Path) -> Result<()> {
    let path = path(sandbox);
    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        files::remove_tree(&path)
    } else {
        files::remove_file(&path)
    }
}

/// What the agent left; empty when there is nothing readable.
pub(super) fn collect(sandbox: &Path) -> Vec<HandoffEntry> {
    // NONBLOCK: a named pipe in its place must not hang the turn.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let Ok(file) = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path(sandbox)) else {
        return Vec::new();
    };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Vec::new();
    }
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes).ok();
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Vec<HandoffEntry> {
    let entry = |line: &[u8]| {
        let mut entry: HandoffEntry = serde_json::from_slice(line).ok()?;
        match entry.kind.as_str() {
            "journal" => entry.blocking = None,
            "raised" => entry.blocking = Some(entry.blocking.unwrap_or(false)),
            "followup" => (entry.kind, entry.blocking) = ("raised".into(), Some(false)),
            _ => return None,
        }
        if entry.content.trim().is_empty() {
            return None;
        }
        if entry.content.chars().nth(CHARS).is_some() {
            entry.content = text::truncate_chars(&entry.content, CHARS);
        }
        Some(entry)
    };
    bytes.split(|byte| *byte == b'\n').filter_map(entry).take(ENTRIES).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn journal(content: &str) -> HandoffEntry {
        HandoffEntry { kind: "journal".into(), content: content.into(), blocking: None }
    }

    #[test]
    fn good_lines_count_and_bad_ones_are_skipped() {
        let text = "{\"kind\":\"journal\",\"content\":\"a\"}\nnonsense\n{\"kind\":\"followup\",\"content\":\"b\"}\n\
                    {\"kind\":\"raised\",\"content\":\"c\",\"blocking\":true}\n{\"kind\":\"secret\",\"content\":\"d\"}\n\
                    {\"kind\":\"journal\",\"content\":\" \"}\n{\"kind\":\"journal\",\"cont";
        let raised = |content: &str, blocking| HandoffEntry {
            kind: "raised".into(),
            content: content.into(),
            blocking: Some(blocking),
        };
        assert_eq!(parse(text.as_bytes()), [journal("a"), raised("b", false), raised("c", true)]);
    }

    #[test]
    fn it_is_bounded_in_entries_and_length() {
        let long = "é".repeat(CHARS + 5);
        let text = format!("{}\n", serde_json::to_string(&journal(&long)).expect("json")).repeat(ENTRIES + 5);
        let entries = parse(text.as_bytes());
        assert_eq!(entries.len(), ENTRIES);
        assert_eq!(entries[0].content.chars().count(), CHARS);
    }

    #[test]
    fn links_pipes_and_directories_are_nothing() {
        let dir = tempfile::tempdir().expect("temp dir");
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "{\"kind\":\"journal\",\"content\":\"stolen\"}\n").expect("writes");
        std::os::unix::fs::symlink(&secret, path(dir.path())).expect("links");
        assert_eq!(collect(dir.path()), []);
        clear(dir.path()).expect("clears the link");
        assert!(secret.exists());
        rustix::fs::mknodat(rustix::fs::CWD, path(dir.path()), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("fifo");
        assert_eq!(collect(dir.path()), []);
        clear(dir.path()).expect("clears the pipe");
        std::fs::create_dir(path(dir.path())).expect("dir");
        assert_eq!(collect(dir.path()), []);
        clear(dir.path()).expect("clears the directory");
        clear(dir.path()).expect("nothing there is as good");
        std::fs::write(path(dir.path()), "{\"kind\":\"journal\",\"content\":\"kept\"}").expect("writes");
        assert_eq!(collect(dir.path()), [journal("kept")]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(parse(&bytes).len() <= ENTRIES);
        }
    }
}
