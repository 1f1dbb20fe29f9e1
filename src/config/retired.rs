//! Keys of earlier versions: one row each, and what becomes of them.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::Source;
use crate::base::{Error, Result};

/// One key that is no more what it was.
struct Row {
    /// Dotted.
    key: &'static str,
    /// For which values.
    when: When,
    /// What happens.
    then: Then,
}

/// The values a row is about.
enum When {
    /// Any.
    Any,
    /// Any string.
    Text,
    /// `true`.
    True,
    /// One of these strings.
    Words(&'static [&'static str]),
}

/// What happens to a retired key.
enum Then {
    /// Its value moves to another key, unless that is set too; with a warning, or in silence.
    Move { to: &'static str, warning: Option<&'static str> },
    /// It has no effect any more, and a warning says so.
    Ignore { warning: &'static str },
    /// The file is not accepted.
    Refuse { because: &'static str, remedy: &'static str },
}

/// Every retired key. Of several rows for a key the first that fits the value counts.
const ROWS: &[Row] = &[
    Row {
        key: "remote_github",
        when: When::Any,
        then: Then::Refuse {
            because: "the section [remote_github] is not read any more",
            remedy: "move its keys under [remote], each with the prefix github_ (auto_push becomes github_auto_push)",
        },
    },
    Row {
        key: "storage.backend",
        when: When::Words(&["in-repo", "orphan-branch"]),
        then: Then::Refuse {
            because: "this storage backend was removed: tasks are not kept inside the repository any more",
            remedy: "set backend = \"external\" and external_path to a directory outside the repository, and copy the \
                     old store there",
        },
    },
    Row {
        key: "runner",
        when: When::Text,
        then: Then::Move {
            to: "runner.type",
            warning: Some("runner = \"…\" at the top is an old spelling; write [runner] and type = \"…\" instead"),
        },
    },
    Row {
        key: "agent.graceful_exit_timeout_ms",
        when: When::Any,
        then: Then::Move { to: "agent.wind_down_timeout_ms", warning: None },
    },
    Row {
        key: "protection.passphrase_file",
        when: When::Any,
        then: Then::Ignore {
            warning: "[protection] passphrase_file is obsolete and ignored; enrol the passphrase once with \
                      `lazy system passphrase set`, and see `lazy doctor`",
        },
    },
    Row {
        key: "proxy.enabled",
        when: When::True,
        then: Then::Ignore {
            warning: "[proxy] enabled = true says what is always so: the proxy cannot be switched off; delete the line",
        },
    },
    Row {
        key: "proxy.enabled",
        when: When::Any,
        then: Then::Refuse {
            because: "[proxy] enabled was removed: the proxy is always on",
            remedy: "delete the line; to send a role elsewhere set endpoint under [models.roles.<role>], which chooses \
                     where the proxy forwards",
        },
    },
];

/// Applies the table: afterwards `table` holds no retired key. Returns the warnings.
///
/// # Errors
/// [`crate::base::Kind::Config`] for a key that is refused.
pub(super) fn apply<'s>(source: &'s Source, table: &mut DeTable<'s>) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    for row in ROWS {
        let Some(value) = find(table, row.key).filter(|value| row.when.fits(value.get_ref())) else { continue };
        let line = source.position(value.span().start).line;
        match row.then {
            Then::Refuse { because, remedy } => return Err(refusal(source, value, because, remedy)),
            Then::Ignore { warning } => {
                take(table, row.key);
                warnings.push(format!("line {line}: {warning}"));
            }
            Then::Move { to, warning } => {
                if let Some(value) = take(table, row.key) {
                    put(table, to, value);
                }
                warnings.extend(warning.map(|warning| format!("line {line}: {warning}")));
            }
        }
    }
    Ok(warnings)
}

impl When {
    fn fits(&self, value: &DeValue<'_>) -> bool {
        match self {
            When::Any => true,
            When::Text => value.is_str(),
            When::True => value.as_bool() == Some(true),
            When::Words(words) => value.as_str().is_some_and(|text| words.contains(&text)),
        }
    }
}

fn refusal(source: &Source, value: &Spanned<DeValue<'_>>, because: &str, remedy: &str) -> Error {
    source.error(&value.span(), &format!("{because}; {remedy}"))
}

fn find<'t, 's>(table: &'t DeTable<'s>, key: &str) -> Option<&'t Spanned<DeValue<'s>>> {
    match key.split_once('.') {
        None => table.get(key),
        Some((first, rest)) => find(table.get(first)?.get_ref().as_table()?, rest),
    }
}

fn take<'s>(table: &mut DeTable<'s>, key: &str) -> Option<Spanned<DeValue<'s>>> {
    match key.split_once('.') {
        None => table.remove(key),
        Some((first, rest)) => match table.get_mut(first)?.get_mut() {
            DeValue::Table(inner) => take(inner, rest),
            _ => None,
        },
    }
}

/// Puts a value where a dotted key says, unless one is there: the newer spelling wins.
fn put<'s>(table: &mut DeTable<'s>, key: &'static str, value: Spanned<DeValue<'s>>) {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let span = value.span();
    match rest {
        None if table.contains_key(first) => {}
        None => {
            table.insert(Spanned::new(span, Cow::Borrowed(first)), value);
        }
        Some(rest) => {
            if !table.contains_key(first) {
                let empty = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
                table.insert(Spanned::new(span, Cow::Borrowed(first)), empty);
            }
            if let Some(DeValue::Table(inner)) = table.get_mut(first).map(Spanned::get_mut) {
                put(inner, rest, value);
            }
        }
    }
}
