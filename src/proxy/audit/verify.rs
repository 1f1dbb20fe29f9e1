//! Whether the trail is what was written: no line changed, none missing, none cut.

use std::path::Path;

use serde::Serialize;

use super::chain::{self, Head, Place};
use super::older;
use crate::base::{Result, files};

/// What is wrong at a place of the trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// The line is not the one that was written.
    Changed,
    /// Lines that were written are not there.
    Missing,
    /// The line is not whole.
    Cut,
    /// The line was not written by the proxy, or not there.
    Inserted,
    /// Nothing says where the trail ends: `proxy-audit.head` is gone.
    Unanchored,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What it is.
    pub fault: Fault,
    /// The file's name.
    pub file: String,
    /// The line, from 1: the one at fault, or the one in front of which others are missing (behind the last line, the
    /// one that would follow).
    pub line: usize,
    /// The numbers of the records concerned, first and last; absent where the line tells none.
    pub records: Option<(u64, u64)>,
    /// The record's id, where the line tells it.
    pub id: Option<String>,
}

/// The outcome of a look at the whole trail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Lines that are in the chain.
    pub records: usize,
    /// The number of the first of them.
    pub first: Option<u64>,
    /// The number of the last of them.
    pub last: Option<u64>,
    /// Lines of older versions, in front of the chain: nothing can be said of them.
    pub unchained: usize,
    /// Whether the last line was being written when its writer was killed, or is being written now.
    pub torn: bool,
    /// What is wrong, in the order of the lines.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_intact(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Looks at the trail at `path` and its older segment.
///
/// # Errors
/// [`crate::base::Kind::Io`] when a file is there and cannot be read.
pub fn verify(path: &Path) -> Result<Verdict> {
    // The head first: a line that is appended meanwhile is then behind it and not missing. A rotation in between makes
    // a gap, which is gone at the next look.
    let mut verdict = Verdict::default();
    for _ in 0..3 {
        let head = Head::load(path);
        let segments = [older(path), path.to_path_buf()].map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files::read_optional(&path).map(|bytes| (name, bytes.unwrap_or_default()))
        });
        let [older, live] = segments;
        verdict = judge(&[older?, live?], head.as_ref());
        if verdict.is_intact() || Head::load(path).map(|head| head.begins) == head.map(|head| head.begins) {
            break;
        }
    }
    Ok(verdict)
}

/// A line of a segment.
struct Line<'a> {
    file: &'a str,
    number: usize,
    bytes: &'a [u8],
    place: Option<Place>,
    /// Whether its end is there.
    ended: bool,
}

impl Line<'_> {
    fn link(&self) -> Option<(u64, &str)> {
        self.place.as_ref().and_then(Place::link)
    }

    fn finding(&self, fault: Fault, records: Option<(u64, u64)>) -> Finding {
        let id = self.place.as_ref().map(|place| place.id.clone()).filter(|_| fault != Fault::Missing);
        Finding { fault, file: self.file.to_string(), line: self.number, records, id }
    }
}

fn judge(segments: &[(String, Vec<u8>)], head: Option<&Head>) -> Verdict {
    let mut lines: Vec<Line<'_>> = segments.iter().flat_map(|(file, bytes)| lines(file, bytes)).collect();
    let mut verdict = Verdict::default();
    // What a kill left: never counted by the head, which is written later.
    if let Some(last) = lines.pop_if(|line| !line.ended && line.place.is_none()) {
        let before = lines.iter().rev().find_map(Line::link).map_or(0, |(n, _)| n);
        match head {
            Some(head) if head.n > before => verdict.findings.push(last.finding(Fault::Cut, Some((head.n, head.n)))),
            _ => verdict.torn = true,
        }
    }
    let start = lines.iter().position(|line| line.link().is_some()).unwrap_or(lines.len());
    verdict.unchained = start;
    let chained = &lines[start..];
    verdict.records = chained.iter().filter(|line| line.link().is_some()).count();
    verdict.first = chained.first().and_then(Line::link).map(|(n, _)| n);
    verdict.last = chained.iter().rev().find_map(Line::link).map(|(n, _)| n);
    let mut findings = order(chained, head);
    findings.extend(contents(&lines, start, head));
    findings.extend(ending(segments, chained, head, verdict.findings.first()));
    verdict.findings.splice(0..0, findings);
    let place = |finding: &Finding| (segments.iter().position(|(file, _)| *file == finding.file), finding.line);
    verdict.findings.sort_by_key(place);
    verdict
}

fn lines<'a>(file: &'a str, bytes: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
    let ended = |line: &[u8]| line.ends_with(b"\n");
    bytes.split_inclusive(|byte| *byte == b'\n').enumerate().filter_map(move |(at, line)| {
        let bytes = line.strip_suffix(b"\n").unwrap_or(line);
        let found = Line { file, number: at + 1, bytes, place: Place::of(bytes), ended: ended(line) };
        (!bytes.is_empty()).then_some(found)
    })
}

/// Numbers: gaps, repetitions, and lines that have none.
fn order(chained: &[Line<'_>], head: Option<&Head>) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Without a head nobody knows where the kept chain begins.
    let first = chained.iter().find_map(Line::link).map_or(1, |(n, _)| n);
    let mut before = head.map_or(first, |head| head.begins).saturating_sub(1);
    // Lines without a number since the last one that has it.
    let mut unread: Vec<&Line<'_>> = Vec::new();
    for line in chained {
        let Some((n, _)) = line.link() else {
            unread.push(line);
            continue;
        };
        let room = n.saturating_sub(before + 1);
        let damaged = usize::try_from(room).unwrap_or(usize::MAX).min(unread.len());
        for (number, line) in (before + 1..).zip(&unread[..damaged]) {
            findings.push(line.finding(broken(line), Some((number, number))));
        }
        findings.extend(unread[damaged..].iter().map(|line| line.finding(Fault::Inserted, None)));
        unread.clear();
        let next = before + 1 + damaged as u64;
        match n {
            n if n <= before => findings.push(line.finding(Fault::Inserted, Some((n, n)))),
            n if n > next => findings.push(line.finding(Fault::Missing, Some((next, n - 1)))),
            _ => {}
        }
        before = before.max(n);
    }
    for (number, line) in (before + 1..).zip(&unread) {
        findings.push(line.finding(broken(line), Some((number, number))));
    }
    findings
}

/// What a line without a number is: half a record, or something else in its place.
fn broken(line: &Line<'_>) -> Fault {
    if line.place.is_none() && line.bytes.starts_with(b"{") { Fault::Cut } else { Fault::Changed }
}

/// Hashes: a line is vouched for by the next one, if that is itself what was written.
fn contents(lines: &[Line<'_>], start: usize, head: Option<&Head>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut vouched: Option<(u64, &str)> = head.map(|head| (head.n, head.last.as_str()));
    for (at, line) in lines.iter().enumerate().skip(start.saturating_sub(1)).rev() {
        let Some((n, prev)) = line.link() else {
            // The last line of an older version is vouched for by the first of the chain.
            if at + 1 == start && vouched.is_some_and(|(n, hash)| n == 0 && hash != chain::hash(line.bytes)) {
                findings.push(line.finding(Fault::Changed, None));
            }
            continue;
        };
        match vouched {
            Some((number, hash)) if number == n && hash != chain::hash(line.bytes) => {
                findings.push(line.finding(Fault::Changed, Some((n, n))));
                // What it says of the one before it may be changed as well.
                vouched = None;
            }
            // Behind the head or behind a gap nobody vouches for it.
            _ => vouched = Some((n.saturating_sub(1), prev)),
        }
    }
    findings
}

/// The end of the trail against its head.
fn ending(
    segments: &[(String, Vec<u8>)],
    chained: &[Line<'_>],
    head: Option<&Head>,
    cut: Option<&Finding>,
) -> Option<Finding> {
    let (file, bytes) = segments.last()?;
    let line = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    let finding = |fault, records| Finding { fault, file: file.clone(), line, records, id: None };
    let linked = chained.iter().rev().position(|line| line.link().is_some());
    let Some(head) = head else {
        return linked.map(|_| finding(Fault::Unanchored, None));
    };
    let unread = linked.unwrap_or(chained.len()) as u64;
    let last = chained.iter().rev().find_map(Line::link).map_or(head.begins.saturating_sub(1), |(n, _)| n);
    let there = last + unread + u64::from(cut.is_some());
    (head.n > there).then(|| finding(Fault::Missing, Some((there + 1, head.n))))
}

#[cfg(test)]
mod tests {
    use super::super::writer::Trail;
    use super::super::{Record, SEGMENT};
    use super::*;

    type Found = (Fault, usize, Option<(u64, u64)>);

    struct Bench {
        _dir: tempfile::TempDir,
        path: std::path::PathBuf,
    }

    fn trail(count: u64) -> Bench {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("logs/proxy-audit.jsonl");
        let mut trail = Trail::new(path.clone());
        for seq in 1..=count {
            trail.append(&mut [record(seq)]).expect("writes");
        }
        Bench { _dir: dir, path }
    }

    fn record(seq: u64) -> Record {
        Record { id: format!("id-{seq}"), seq, path: "/v1/messages".into(), ..Record::default() }
    }

    impl Bench {
        fn edit(&self, change: impl FnOnce(&mut Vec<String>)) {
            let text = std::fs::read_to_string(&self.path).expect("reads");
            let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
            change(&mut lines);
            std::fs::write(&self.path, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
                .expect("writes");
        }

        fn found(&self) -> Vec<Found> {
            let verdict = verify(&self.path).expect("reads");
            verdict.findings.iter().map(|finding| (finding.fault, finding.line, finding.records)).collect()
        }
    }

    #[test]
    fn an_untouched_trail_is_intact_also_across_a_restart() {
        let bench = trail(5);
        Trail::new(bench.path.clone()).append(&mut [record(6), record(7)]).expect("writes");
        let verdict = verify(&bench.path).expect("reads");
        assert!(verdict.is_intact() && !verdict.torn, "{verdict:?}");
        assert_eq!((verdict.records, verdict.first, verdict.last), (7, Some(1), Some(7)));
        assert!(verify(Path::new("/nowhere/proxy-audit.jsonl")).expect("nothing").is_intact());
    }

    #[test]
    fn a_changed_line_is_named() {
        for line in [1, 3, 5] {
            let bench = trail(5);
            bench.edit(|lines| lines[line - 1] = lines[line - 1].replace("/v1/messages", "/v1/massages"));
            let n = line as u64;
            assert_eq!(bench.found(), [(Fault::Changed, line, Some((n, n)))]);
        }
        let bench = trail(5);
        bench.edit(|lines| lines[2] = "{}".into());
        assert_eq!(bench.found(), [(Fault::Cut, 3, Some((3, 3)))]);
        let bench = trail(5);
        bench.edit(|lines| lines[4] = "gone".into());
        assert_eq!(bench.found(), [(Fault::Changed, 5, Some((5, 5)))]);
        // A line that is blessed anew with its number, but not in the next one's hash.
        let bench = trail(5);
        bench.edit(|lines| lines[2] = lines[2].replace("\"prev\":\"", "\"prev\":\"00"));
        assert_eq!(bench.found(), [(Fault::Changed, 3, Some((3, 3)))]);
    }

    #[test]
    fn missing_lines_are_counted_where_they_were() {
        let bench = trail(6);
        bench.edit(|lines| drop(lines.drain(2..4)));
        assert_eq!(bench.found(), [(Fault::Missing, 3, Some((3, 4)))]);
        let bench = trail(6);
        bench.edit(|lines| drop(lines.remove(0)));
        assert_eq!(bench.found(), [(Fault::Missing, 1, Some((1, 1)))]);
        let bench = trail(6);
        bench.edit(|lines| lines.truncate(4));
        assert_eq!(bench.found(), [(Fault::Missing, 5, Some((5, 6)))]);
        let bench = trail(6);
        bench.edit(Vec::clear);
        assert_eq!(bench.found(), [(Fault::Missing, 1, Some((1, 6)))]);
        // What follows does not heal the gap.
        let bench = trail(6);
        bench.edit(|lines| lines.truncate(4));
        Trail::new(bench.path.clone()).append(&mut [record(7)]).expect("writes");
        assert_eq!(bench.found(), [(Fault::Missing, 5, Some((5, 6)))]);
        let bench = trail(6);
        std::fs::remove_file(chain::beside(&bench.path, "head")).expect("removes");
        assert_eq!(bench.found(), [(Fault::Unanchored, 7, None)]);
    }

    #[test]
    fn a_line_that_was_put_in_or_moved_is_named() {
        let bench = trail(5);
        bench.edit(|lines| lines.insert(2, lines[1].clone()));
        assert_eq!(bench.found(), [(Fault::Inserted, 3, Some((2, 2)))]);
        let bench = trail(5);
        bench.edit(|lines| lines.insert(2, r#"{"id":"mine"}"#.into()));
        assert_eq!(bench.found(), [(Fault::Inserted, 3, None)]);
    }

    #[test]
    fn a_torn_end_is_no_tampering_and_a_cut_one_is() {
        use std::io::Write as _;
        let bench = trail(3);
        let mut file = std::fs::OpenOptions::new().append(true).open(&bench.path).expect("opens");
        file.write_all(b"{\"id\":\"id-4\",\"seq\"").expect("tears");
        let verdict = verify(&bench.path).expect("reads");
        assert!(verdict.is_intact() && verdict.torn, "{verdict:?}");
        Trail::new(bench.path.clone()).append(&mut [record(4)]).expect("writes");
        let verdict = verify(&bench.path).expect("reads");
        assert!(verdict.is_intact() && !verdict.torn, "{verdict:?}");
        assert_eq!(verdict.records, 4);
        let torn = std::fs::read(chain::beside(&bench.path, "torn")).expect("kept");
        assert_eq!(torn, b"{\"id\":\"id-4\",\"seq\"");
        // The same bytes missing from a line that the head has counted.
        let text = std::fs::read(&bench.path).expect("reads");
        std::fs::write(&bench.path, &text[..text.len() - 20]).expect("cuts");
        assert_eq!(bench.found(), [(Fault::Cut, 4, Some((4, 4)))]);
        // Without its end alone it is whole.
        std::fs::write(&bench.path, &text[..text.len() - 1]).expect("cuts");
        assert!(verify(&bench.path).expect("reads").is_intact());
        Trail::new(bench.path.clone()).append(&mut [record(5)]).expect("writes");
        let verdict = verify(&bench.path).expect("reads");
        assert!(verdict.is_intact() && verdict.records == 5, "{verdict:?}");
    }

    #[test]
    fn the_chain_goes_on_across_rotations() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("proxy-audit.jsonl");
        let mut trail = Trail::new(path.clone());
        let big = |seq| Record { path: "x".repeat(1 << 19), ..record(seq) };
        for seq in 1..=30 {
            trail.append(&mut [big(seq)]).expect("writes");
        }
        let verdict = verify(&path).expect("reads");
        assert!(verdict.is_intact(), "{verdict:?}");
        assert!(verdict.first > Some(1) && verdict.last == Some(30), "{verdict:?}");
        Trail::new(path.clone()).append(&mut [big(31)]).expect("writes");
        assert!(verify(&path).expect("reads").is_intact());
        let lost = older(&path);
        assert!(std::fs::metadata(&lost).expect("there").len() <= SEGMENT);
        std::fs::remove_file(lost).expect("removes");
        let findings = verify(&path).expect("reads").findings;
        assert_eq!((findings.len(), findings[0].fault, findings[0].line), (1, Fault::Missing, 1));
    }

    #[test]
    fn lines_of_older_versions_stand_in_front_of_the_chain() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("proxy-audit.jsonl");
        std::fs::write(&path, "{\"id\":\"a\"}\ntorn\n{\"id\":\"b\"}\n").expect("writes");
        Trail::new(path.clone()).append(&mut [record(1), record(2)]).expect("writes");
        let verdict = verify(&path).expect("reads");
        assert!(verdict.is_intact(), "{verdict:?}");
        assert_eq!((verdict.unchained, verdict.records), (3, 2));
        let text = std::fs::read_to_string(&path).expect("reads").replace("\"b\"", "\"c\"");
        std::fs::write(&path, text).expect("writes");
        let findings = verify(&path).expect("reads").findings;
        assert_eq!((findings.len(), findings[0].fault, findings[0].line), (1, Fault::Changed, 3));
    }
}
