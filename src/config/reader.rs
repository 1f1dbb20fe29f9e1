//! A cursor over one table of the file.
//!
//! Reading a key is what makes it known: when a table has been read, whatever nobody asked for is unknown. So the list
//! of known keys cannot drift from the code that reads them, and the same walk over an empty file yields the schema.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::schema::{
    Backend, Backoff, Chattiness, Driver, FallbackCredential, LfsCheck, MountKind, Network, PermissionMode,
    StorageBackend,
};
use super::source::Source;
use crate::base::{Error, Process, Result, text};
use crate::model::{Effort, RunnerKind};

/// A key of the file that nothing reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    /// Dotted, with `[2]` for the second entry of an array of tables.
    pub key: String,
    /// The known key that was probably meant, dotted.
    pub suggestion: Option<String>,
    /// 1-based line.
    pub line: usize,
}

/// What a whole walk over the file gathers.
pub(super) struct Reader<'s> {
    pub source: &'s Source,
    pub process: &'s Process,
    pub warnings: RefCell<Vec<String>>,
    pub unknown: RefCell<Vec<UnknownKey>>,
    /// Every key asked for, dotted, with `[]` for entries.
    pub known: RefCell<BTreeSet<String>>,
}

/// One table being read. Absent tables read as empty ones.
pub(super) struct Section<'r, 's> {
    reader: &'r Reader<'s>,
    table: Option<&'r DeTable<'s>>,
    /// Where the table itself stands, for what is missing in it.
    span: Range<usize>,
    /// `proxy.policy`, `mounts[2]`; empty for the file itself.
    path: String,
    /// The same with `[]` for the entry's number.
    generic: String,
    /// How messages call it: `[proxy.policy] `, `[[mounts]] entry 2: `.
    label: String,
    asked: BTreeSet<&'static str>,
}

/// An enumeration whose values have names in the file.
pub(super) trait Named: Copy + 'static {
    const VALUES: &'static [Self];
    fn name(self) -> &'static str;
}

macro_rules! named {
    ($($name:ident),*) => {
        $(impl Named for $name {
            const VALUES: &'static [Self] = $name::ALL;
            fn name(self) -> &'static str { self.as_str() }
        })*
    };
}
named!(
    Backend,
    Backoff,
    Chattiness,
    Driver,
    Effort,
    FallbackCredential,
    LfsCheck,
    MountKind,
    Network,
    PermissionMode,
    RunnerKind,
    StorageBackend
);

impl<'r, 's> Section<'r, 's> {
    /// The file as a whole.
    pub fn root(reader: &'r Reader<'s>, table: &'r DeTable<'s>) -> Self {
        Section {
            reader,
            table: Some(table),
            span: 0..0,
            path: String::new(),
            generic: String::new(),
            label: String::new(),
            asked: BTreeSet::new(),
        }
    }

    /// The process whose environment paths are judged by.
    pub fn process(&self) -> &'r Process {
        self.reader.process
    }

    /// Whether the file has this table.
    pub fn present(&self) -> bool {
        self.table.is_some()
    }

    /// Adds a warning.
    pub fn warn(&self, warning: String) {
        self.reader.warnings.borrow_mut().push(warning);
    }

    /// A table within this one.
    pub fn section(&mut self, key: &'static str) -> Result<Section<'r, 's>> {
        let (table, span) = match self.value(key) {
            None => (None, self.span.clone()),
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => (Some(table), value.span()),
                other => return Err(self.wrong_kind(key, value, other, "a table")),
            },
        };
        let path = join(&self.path, key);
        Ok(Section {
            reader: self.reader,
            table,
            span,
            label: format!("[{path}] "),
            generic: join(&self.generic, key),
            path,
            asked: BTreeSet::new(),
        })
    }

    /// The entries of an array of tables within this one.
    pub fn entries(&mut self, key: &'static str) -> Result<Vec<Section<'r, 's>>> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = |other: &DeValue<'_>| self.wrong_kind(key, value, other, "an array of tables ([[…]])");
        let DeValue::Array(array) = value.get_ref() else { return Err(wrong(value.get_ref())) };
        let name = join(&self.path, key);
        let mut entries = Vec::new();
        for (index, entry) in array.iter().enumerate() {
            let DeValue::Table(table) = entry.get_ref() else { return Err(wrong(value.get_ref())) };
            entries.push(Section {
                reader: self.reader,
                table: Some(table),
                span: entry.span(),
                path: format!("{name}[{}]", index + 1),
                generic: format!("{}[]", join(&self.generic, key)),
                label: format!("[[{name}]] entry {}: ", index + 1),
                asked: BTreeSet::new(),
            });
        }
        Ok(entries)
    }

    /// A text.
    pub fn text(&mut self, key: &'static str, into: &mut String) -> Result<()> {
        if let Some(text) = self.optional_text(key)? {
            *into = text;
        }
        Ok(())
    }

    /// A text that may be absent.
    pub fn optional_text(&mut self, key: &'static str) -> Result<Option<String>> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => match value.get_ref() {
                DeValue::String(text) => Ok(Some(text.to_string())),
                other => Err(self.wrong_kind(key, value, other, "a string")),
            },
        }
    }

    /// A text with something in it, when present.
    pub fn filled_text(&mut self, key: &'static str) -> Result<Option<String>> {
        let text = self.optional_text(key)?;
        if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
            return Err(self.fail(key, "must not be blank; delete the line to leave it unset"));
        }
        Ok(text)
    }

    /// A text that must be there, with something in it.
    pub fn required_text(&mut self, key: &'static str) -> Result<String> {
        self.filled_text(key)?.ok_or_else(|| self.fail(key, "is missing"))
    }

    /// True or false.
    pub fn flag(&mut self, key: &'static str, into: &mut bool) -> Result<()> {
        if let Some(value) = self.value(key) {
            match value.get_ref() {
                DeValue::Boolean(flag) => *into = *flag,
                other => return Err(self.wrong_kind(key, value, other, "true or false")),
            }
        }
        Ok(())
    }

    /// A whole number within `range`.
    pub fn integer<T>(&mut self, key: &'static str, range: std::ops::RangeInclusive<T>, into: &mut T) -> Result<()>
    where
        T: TryFrom<i64> + PartialOrd + Copy + Display,
    {
        if let Some(number) = self.optional_integer(key, range)? {
            *into = number;
        }
        Ok(())
    }

    /// A whole number within `range` that may be absent.
    pub fn optional_integer<T>(&mut self, key: &'static str, range: std::ops::RangeInclusive<T>) -> Result<Option<T>>
    where
        T: TryFrom<i64> + PartialOrd + Copy + Display,
    {
        let Some(value) = self.value(key) else { return Ok(None) };
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let DeValue::Integer(integer) = value.get_ref() else {
            return Err(self.wrong_kind(key, value, value.get_ref(), &wanted));
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok().and_then(|n| T::try_from(n).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong_kind(key, value, value.get_ref(), &wanted)),
        }
    }

    /// A number, whole or not.
    pub fn number(&mut self, key: &'static str, into: &mut f64) -> Result<()> {
        let Some(value) = self.value(key) else { return Ok(()) };
        let number = match value.get_ref() {
            DeValue::Integer(integer) => {
                // A threshold in seconds: numbers beyond 2^53 need not be exact.
                i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number as f64)
            }
            DeValue::Float(float) => float.as_str().parse().ok(),
            _ => None,
        };
        match number.filter(|number| number.is_finite() && *number >= 0.0) {
            Some(number) => *into = number,
            None => return Err(self.wrong_kind(key, value, value.get_ref(), "a finite number of at least 0")),
        }
        Ok(())
    }

    /// An array of texts, each with something in it.
    pub fn texts(&mut self, key: &'static str, into: &mut Vec<String>) -> Result<()> {
        let Some(value) = self.value(key) else { return Ok(()) };
        let wanted = "an array of strings that are not blank";
        let DeValue::Array(array) = value.get_ref() else {
            return Err(self.wrong_kind(key, value, value.get_ref(), wanted));
        };
        let mut texts = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::String(text) if !text.trim().is_empty() => texts.push(text.to_string()),
                other => return Err(self.wrong_kind(key, item, other, wanted)),
            }
        }
        *into = texts;
        Ok(())
    }

    /// One of an enumeration's names.
    pub fn choice<T: Named>(&mut self, key: &'static str, into: &mut T) -> Result<()> {
        if let Some(text) = self.optional_text(key)? {
            *into = self.pick(key, &text)?;
        }
        Ok(())
    }

    /// One of an enumeration's names; absent or empty is none.
    pub fn optional_choice<T: Named>(&mut self, key: &'static str, into: &mut Option<T>) -> Result<()> {
        match self.optional_text(key)? {
            Some(text) if !text.is_empty() => *into = Some(self.pick(key, &text)?),
            _ => {}
        }
        Ok(())
    }

    /// The raw value of a key, which is known from now on.
    pub fn value(&mut self, key: &'static str) -> Option<&'r Spanned<DeValue<'s>>> {
        self.asked.insert(key);
        self.reader.known.borrow_mut().insert(join(&self.generic, key));
        self.table?.get(key)
    }

    /// The entries of a free-form table, whose keys are all known.
    pub fn free(&self) -> impl Iterator<Item = (&'r str, &'r Spanned<DeValue<'s>>)> + use<'r, 's> {
        self.table.into_iter().flat_map(|table| table.iter().map(|(key, value)| (key.get_ref().as_ref(), value)))
    }

    /// A refusal of a key's value, or of its absence.
    pub fn fail(&self, key: &str, why: &str) -> Error {
        let span = self.table.and_then(|table| table.get(key)).map_or(self.span.clone(), Spanned::span);
        self.reader.source.error(&span, &format!("{}{key} {why}", self.label))
    }

    /// A refusal of a value whose type or range is wrong.
    pub fn wrong_kind(&self, key: &str, at: &Spanned<DeValue<'s>>, found: &DeValue<'_>, wanted: &str) -> Error {
        let why = format!("{}{key} must be {wanted}, not {}", self.label, describe(found));
        self.reader.source.error(&at.span(), &why)
    }

    /// Reports what nobody asked for.
    pub fn finish(self) {
        let Some(table) = self.table else { return };
        for (key, _) in table.iter().filter(|(key, _)| !self.asked.contains(key.get_ref().as_ref())) {
            let suggestion = text::nearest(key.get_ref(), self.asked.iter().copied());
            self.reader.unknown.borrow_mut().push(UnknownKey {
                key: join(&self.path, key.get_ref()),
                suggestion: suggestion.map(|name| join(&self.path, name)),
                line: self.reader.source.position(key.span().start).line,
            });
        }
    }

    fn pick<T: Named>(&self, key: &str, text: &str) -> Result<T> {
        T::VALUES.iter().copied().find(|value| value.name() == text).ok_or_else(|| {
            let names: Vec<&str> = T::VALUES.iter().map(|value| value.name()).collect();
            let nearest = match text::nearest(text, names.iter().copied()) {
                Some(name) => format!(" (did you mean {name:?}?)"),
                None => String::new(),
            };
            self.fail(key, &format!("must be one of {}, not {text:?}{nearest}", names.join(", ")))
        })
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

/// A value as a message calls it.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {:?}", text::truncate_chars(text, 60)),
        DeValue::Integer(number) => number.as_str().to_string(),
        DeValue::Float(number) => number.as_str().to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(at) => format!("the date {at}"),
        DeValue::Array(_) => "an array".into(),
        DeValue::Table(_) => "a table".into(),
    }
}
