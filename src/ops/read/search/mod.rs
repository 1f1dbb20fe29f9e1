//! `search`: text in tasks, their prompts, turns, commits, comments, journals and raised items.
//!
//! Plain text is a case-insensitive regular expression (one that does not parse is taken literally). A boolean operator,
//! a `field:value` term or a bare `#tag` switches to the query language of [`query`].

mod query;

use regex::{Regex, RegexBuilder};

use crate::base::{Error, Result, text};
use crate::model::tags;
use crate::ops::{Caller, Ctx, Narrator, Operation};
use crate::rpc::commands::{Search, SearchHit, SearchParams, SearchReport};
use crate::store::TaskRecord;
use query::Query;

/// What can be searched, by its name in `types`.
pub(super) const KINDS: [&str; 7] = ["task", "prompt", "turn", "commit", "comment", "journal", "raised"];

/// Characters shown on each side of a match.
const CONTEXT: usize = 40;

/// How a piece of text is matched.
pub(super) enum Matcher {
    Pattern(Box<Regex>),
    Fuzzy(String),
    /// Every piece: the task as a whole was selected.
    Whole,
}

/// A piece of a task's text.
pub(super) struct Piece<'a> {
    pub kind: &'static str,
    pub text: &'a str,
    pub index: Option<u32>,
    pub turn: Option<u32>,
    pub sha: Option<&'a str>,
}

impl Operation for Search {
    async fn run(ctx: &Ctx, _: &Caller, params: SearchParams, _: &Narrator) -> Result<SearchReport> {
        let query = text::escape_controls(params.query.trim());
        if query.is_empty() {
            return Err(Error::invalid("there is nothing to search for").hint("lazy search 'words'"));
        }
        for kind in &params.types {
            if !KINDS.contains(&kind.as_str()) {
                return Err(Error::invalid(format!("{kind:?} cannot be searched; choose of {}", KINDS.join(", "))));
            }
        }
        let parsed = if params.fuzzy || !Query::looks_like_one(&query) { None } else { Some(Query::parse(&query)?) };
        let matcher = match &parsed {
            _ if params.fuzzy => Matcher::Fuzzy(query.to_lowercase()),
            Some(parsed) => parsed.highlight()?,
            None => Matcher::Pattern(Box::new(pattern(&query)?)),
        };
        let store = ctx.store().clone();
        let types = params.types.clone();
        let hits = ctx.heavy().run(move || {
            let mut hits = Vec::new();
            for row in store.rows() {
                // A damaged record is reported by `lazy doctor`; it does not stop a search.
                let Ok(record) = store.load_task(row.id()) else { continue };
                if parsed.as_ref().is_none_or(|query| query.matches(&record)) {
                    collect(&record, &matcher, &types, &mut hits);
                }
            }
            Ok((hits, parsed))
        });
        let (hits, parsed) = hits.await?;
        let total = u32::try_from(hits.len()).unwrap_or(u32::MAX);
        let skip = usize::try_from(params.offset).unwrap_or(usize::MAX);
        let take = if params.limit == 0 { usize::MAX } else { usize::try_from(params.limit).unwrap_or(usize::MAX) };
        let hint = if total == 0 { parsed.and_then(|query| unknown_tags(ctx, &query)) } else { None };
        Ok(SearchReport { query, total, matches: hits.into_iter().skip(skip).take(take).collect(), hint })
    }
}

/// A case-insensitive pattern; text that is not one is taken literally.
pub(super) fn pattern(text: &str) -> Result<Regex> {
    let build =
        |text: &str| RegexBuilder::new(text).case_insensitive(true).multi_line(true).size_limit(1 << 20).build();
    build(text)
        .or_else(|_| build(&regex::escape(text)))
        .map_err(|source| Error::invalid("the search pattern is too large").caused_by(source))
}

/// Every piece of a task's text.
pub(super) fn pieces(record: &TaskRecord) -> Vec<Piece<'_>> {
    let plain = |kind, text| Piece { kind, text, index: None, turn: None, sha: None };
    let mut out = vec![plain("task", record.task.goal.as_str())];
    out.extend(record.task.code.as_ref().map(|code| plain("task", code.as_str())));
    out.extend(record.task.close_reason.as_deref().map(|reason| plain("task", reason)));
    out.push(plain("prompt", &record.task.prompt));
    let numbered = |kind, text, index| Piece { index: Some(index), ..plain(kind, text) };
    out.extend(
        (0..)
            .zip(&record.turns)
            .map(|(i, turn)| Piece { turn: Some(turn.sequence), ..numbered("turn", &turn.content, i) }),
    );
    out.extend(
        (0..).zip(&record.commits).map(|(i, c)| Piece { sha: Some(&c.sha), ..numbered("commit", &c.message, i) }),
    );
    out.extend((0..).zip(&record.comments).map(|(i, c)| numbered("comment", &c.content, i)));
    out.extend((0..).zip(&record.journal).map(|(i, entry)| numbered("journal", &entry.content, i)));
    for (i, item) in (0..).zip(&record.raised) {
        out.extend(item.title.as_deref().map(|title| numbered("raised", title, i)));
        out.push(numbered("raised", &item.content, i));
    }
    out
}

fn collect(record: &TaskRecord, matcher: &Matcher, types: &[String], hits: &mut Vec<SearchHit>) {
    for piece in pieces(record) {
        if !types.is_empty() && !types.iter().any(|kind| kind == piece.kind) {
            continue;
        }
        let Some(start) = find(matcher, &piece) else { continue };
        hits.push(SearchHit {
            task_id: record.task.id,
            task_code: record.task.code.as_ref().map(ToString::to_string),
            task_goal: record.task.goal.clone(),
            kind: piece.kind.into(),
            content: around(piece.text, start),
            line: u32::try_from(piece.text[..start].matches('\n').count() + 1).unwrap_or(u32::MAX),
            index: piece.index,
            turn_seq: piece.turn,
            sha: piece.sha.map(str::to_string),
        });
    }
}

/// Where a piece matches: a byte offset on a character boundary.
fn find(matcher: &Matcher, piece: &Piece<'_>) -> Option<usize> {
    match matcher {
        Matcher::Pattern(pattern) => pattern.find(piece.text).map(|found| found.start()),
        Matcher::Whole => (piece.kind == "task").then_some(0),
        Matcher::Fuzzy(wanted) => {
            let words = piece.text.split_whitespace();
            let near = |word: &str| {
                let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
                wanted.split_whitespace().any(|w| word.contains(w) || strsim::normalized_levenshtein(&word, w) >= 0.7)
            };
            words.filter(|word| near(word)).map(|word| word.as_ptr() as usize - piece.text.as_ptr() as usize).next()
        }
    }
}

/// The text around an offset on one line, `…` where it was cut.
fn around(text: &str, start: usize) -> String {
    let before = text[..start].char_indices().rev().take(CONTEXT).last().map_or(start, |(at, _)| at);
    let after = text[start..].char_indices().nth(CONTEXT * 2).map_or(text.len(), |(at, _)| start + at);
    let cut = |shown: bool| if shown { "…" } else { "" };
    format!("{}{}{}", cut(before > 0), text::one_line(&text[before..after]), cut(after < text.len()))
}

/// Labels in the query that no task has.
fn unknown_tags(ctx: &Ctx, query: &Query) -> Option<String> {
    let rows = ctx.store().rows();
    let unknown: Vec<String> =
        query.tags().into_iter().filter(|tag| !rows.iter().any(|row| row.task.tags.contains(tag))).collect();
    let known = rows.iter().flat_map(|row| row.task.tags.iter().map(String::as_str));
    let first = unknown.first()?;
    let near = text::nearest(first, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Some(format!("no task has the label {}{near}", unknown.join(", ")))
}

/// A label as the query names it.
pub(super) fn tag(text: &str) -> Result<String> {
    tags::normalize(text)
}
