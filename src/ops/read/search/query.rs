//! The query language: `status:blocked AND (#urgent OR goal:login) NOT created:<2026-01-01`.
//!
//! `AND` binds tighter than `OR`, words side by side are joined by AND, operators are upper case. Fields: `status:`,
//! `goal:`, `code:`, `tag:`, `in:` (with a kind), `has:` (with a kind), `created:>`, `created:<`, `updated:>`,
//! `updated:<`. `#word` is the label or the literal text.

use super::{KINDS, Matcher, pattern, pieces, tag};
use crate::base::{Error, Millis, Result};
use crate::store::TaskRecord;
use regex::Regex;

/// A parsed query.
#[derive(Debug)]
pub(super) enum Query {
    And(Vec<Query>),
    Or(Vec<Query>),
    Not(Box<Query>),
    Term(Term),
}

#[derive(Debug)]
pub(super) enum Term {
    Text(Regex),
    Status(String),
    Goal(String),
    Code(String),
    Tag(String),
    TagOrText(String, Regex),
    Has(&'static str),
    Created(Order, Millis),
    Updated(Order, Millis),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Before,
    After,
}

const FIELDS: [&str; 8] = ["status", "goal", "code", "tag", "in", "has", "created", "updated"];

impl Query {
    /// Whether a text asks for the query language.
    pub fn looks_like_one(text: &str) -> bool {
        tokens(text).iter().any(|token| {
            matches!(token.as_str(), "AND" | "OR" | "NOT")
                || token.trim_start_matches('(').starts_with('#')
                || field(token.trim_start_matches('(')).is_some()
        })
    }

    /// Reads a query.
    pub fn parse(text: &str) -> Result<Query> {
        let tokens = tokens(text);
        let mut parser = Parser { tokens: &tokens, at: 0 };
        let query = parser.or()?;
        match parser.peek() {
            None => Ok(query),
            Some(token) => Err(Error::invalid(format!("the query does not parse at {token:?}"))),
        }
    }

    /// Whether a task is selected.
    pub fn matches(&self, record: &TaskRecord) -> bool {
        match self {
            Query::And(parts) => parts.iter().all(|part| part.matches(record)),
            Query::Or(parts) => parts.iter().any(|part| part.matches(record)),
            Query::Not(part) => !part.matches(record),
            Query::Term(term) => term.matches(record),
        }
    }

    /// The labels it names.
    pub fn tags(&self) -> Vec<String> {
        match self {
            Query::And(parts) | Query::Or(parts) => parts.iter().flat_map(Query::tags).collect(),
            Query::Not(_) => Vec::new(),
            Query::Term(Term::Tag(tag) | Term::TagOrText(tag, _)) => vec![tag.clone()],
            Query::Term(_) => Vec::new(),
        }
    }

    /// What to show of a selected task: the words of the query, or the task itself when it has none.
    pub fn highlight(&self) -> Result<Matcher> {
        let mut words = Vec::new();
        self.words(&mut words);
        if words.is_empty() {
            return Ok(Matcher::Whole);
        }
        Ok(Matcher::Pattern(Box::new(pattern(&words.join("|"))?)))
    }

    fn words(&self, out: &mut Vec<String>) {
        match self {
            Query::And(parts) | Query::Or(parts) => parts.iter().for_each(|part| part.words(out)),
            Query::Not(_) => {}
            Query::Term(Term::Text(text)) => out.push(format!("(?:{})", text.as_str())),
            Query::Term(Term::Goal(goal)) => out.push(regex::escape(goal)),
            Query::Term(_) => {}
        }
    }
}

impl Term {
    fn matches(&self, record: &TaskRecord) -> bool {
        let task = &record.task;
        match self {
            Term::Text(text) => pieces(record).iter().any(|piece| text.is_match(piece.text)),
            Term::Status(status) => task.status.as_str() == status,
            Term::Goal(goal) => task.goal.to_lowercase().contains(goal),
            Term::Code(code) => task.code.as_ref().is_some_and(|own| own.as_str().contains(code.as_str())),
            Term::Tag(tag) => task.tags.contains(tag),
            Term::TagOrText(tag, text) => {
                task.tags.contains(tag) || pieces(record).iter().any(|piece| text.is_match(piece.text))
            }
            Term::Has(kind) => pieces(record).iter().any(|piece| piece.kind == *kind && !piece.text.trim().is_empty()),
            Term::Created(order, at) => order.holds(task.created_at, *at),
            Term::Updated(order, at) => {
                let last =
                    record.session.as_ref().and_then(|session| session.last_interaction_at).unwrap_or(task.created_at);
                order.holds(last, *at)
            }
        }
    }
}

impl Order {
    fn holds(self, value: Millis, limit: Millis) -> bool {
        match self {
            Order::Before => value < limit,
            Order::After => value > limit,
        }
    }
}

struct Parser<'a> {
    tokens: &'a [String],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn or(&mut self) -> Result<Query> {
        let mut parts = vec![self.and()?];
        while self.peek() == Some("OR") {
            self.at += 1;
            parts.push(self.and()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Query::Or(parts) })
    }

    fn and(&mut self) -> Result<Query> {
        let mut parts = vec![self.not()?];
        while let Some(token) = self.peek() {
            match token {
                "OR" | ")" => break,
                "AND" => self.at += 1,
                _ => {}
            }
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Query::And(parts) })
    }

    fn not(&mut self) -> Result<Query> {
        // Counted instead of nested: a query of a million NOTs must not exhaust the stack.
        let mut negated = false;
        while self.peek() == Some("NOT") {
            negated = !negated;
            self.at += 1;
        }
        let query = self.primary()?;
        Ok(if negated { Query::Not(Box::new(query)) } else { query })
    }

    fn primary(&mut self) -> Result<Query> {
        let Some(token) = self.peek().map(str::to_string) else {
            return Err(Error::invalid("the query ends where a word is expected"));
        };
        self.at += 1;
        match token.as_str() {
            "(" => {
                if self.tokens[..self.at].iter().filter(|token| *token == "(").count() > 100 {
                    return Err(Error::invalid("the query is nested too deeply"));
                }
                let inner = self.or()?;
                if self.peek() != Some(")") {
                    return Err(Error::invalid("a parenthesis is not closed in the query"));
                }
                self.at += 1;
                Ok(inner)
            }
            ")" | "AND" | "OR" => Err(Error::invalid(format!("the query does not parse at {token:?}"))),
            word => Ok(Query::Term(term(word)?)),
        }
    }
}

fn field(token: &str) -> Option<(&str, &str)> {
    let (name, value) = token.split_once(':')?;
    (FIELDS.contains(&name) && !value.is_empty()).then_some((name, value))
}

fn term(token: &str) -> Result<Term> {
    if let Some(label) = token.strip_prefix('#') {
        return Ok(Term::TagOrText(tag(label)?, pattern(&regex::escape(token))?));
    }
    let Some((name, value)) = field(token) else { return Ok(Term::Text(pattern(token)?)) };
    Ok(match name {
        "status" => Term::Status(value.to_lowercase()),
        "goal" => Term::Goal(value.to_lowercase()),
        "code" => Term::Code(value.to_lowercase()),
        "tag" => Term::Tag(tag(value)?),
        "created" => {
            let (order, at) = date(value)?;
            Term::Created(order, at)
        }
        "updated" => {
            let (order, at) = date(value)?;
            Term::Updated(order, at)
        }
        _ => {
            let kind =
                KINDS.into_iter().find(|kind| value.to_lowercase().trim_end_matches('s') == kind.trim_end_matches('s'));
            Term::Has(kind.ok_or_else(|| {
                Error::invalid(format!("{name}:{value} names nothing; choose of {}", KINDS.join(", ")))
            })?)
        }
    })
}

fn date(value: &str) -> Result<(Order, Millis)> {
    let wrong = || Error::invalid(format!("{value:?} is not a date comparison; write created:>2026-01-31"));
    let (order, text) = match value.split_at_checked(1) {
        Some((">", text)) => (Order::After, text),
        Some(("<", text)) => (Order::Before, text),
        _ => return Err(wrong()),
    };
    let at = Millis::parse(text).or_else(|| Millis::parse(&format!("{text} 00:00:00"))).ok_or_else(wrong)?;
    Ok((order, at))
}

/// Words, quoted phrases and parentheses.
fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if quoted => word.push(c),
            '(' if word.is_empty() => out.push("(".into()),
            ')' if !word.contains('(') => {
                if !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                out.push(")".into());
            }
            c if c.is_whitespace() => {
                if !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fall_over(text in "\\PC{0,60}") {
            Query::looks_like_one(&text);
            Query::parse(&text).ok();
        }
    }

    #[test]
    fn plain_words_are_not_a_query() {
        assert!(!Query::looks_like_one("fix the login"));
        assert!(!Query::looks_like_one("http://x and y"));
        for text in ["a AND b", "status:blocked", "#urgent", "(status:blocked OR x)"] {
            assert!(Query::looks_like_one(text), "{text}");
        }
    }

    #[test]
    fn a_wrong_query_says_where() {
        for text in ["(a OR b", "a AND", "OR a", "created:soon AND x", "has:wings", "NOT"] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }
}
