//! What rules look at in the input of a tool call.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A text.
    Text(String),
    /// Something that is no text where one belongs: no rule can tell what a tool makes of it.
    Other,
}

impl Argument {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Argument::Text(text) => Some(text),
            Argument::Other => None,
        }
    }
}

/// The arguments that rules look at. A key that stands twice counts as its last, as in every client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// `path`, `file_path` and `notebook_path`, as far as they are there: a tool reads one of them, and which one is its
    /// own affair.
    pub paths: Vec<Argument>,
    /// `command`.
    pub command: Option<Argument>,
    /// `url`.
    pub url: Option<Argument>,
    /// `glob` of a search.
    pub glob: Option<Argument>,
    /// `pattern` of a search.
    pub pattern: Option<Argument>,
}

/// The keys of paths.
const PATHS: [&str; 3] = ["path", "file_path", "notebook_path"];

/// An input that is no JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoInput;

impl Arguments {
    /// Reads an input. Nothing and `null` are an empty one.
    ///
    /// # Errors
    /// [`NoInput`] when it is no JSON object: a tool that repairs it may see more in it than a rule does.
    pub fn read(json: &[u8]) -> Result<Arguments, NoInput> {
        let json = json.trim_ascii();
        if json.is_empty() || json == b"null" {
            return Ok(Arguments::default());
        }
        serde_json::from_slice::<Wire>(json).map(|wire| wire.0).map_err(|_| NoInput)
    }

    /// Arguments with one path.
    pub fn path(path: &str) -> Arguments {
        Arguments { paths: vec![Argument::Text(path.to_string())], ..Arguments::default() }
    }
}

struct Wire(Arguments);

impl<'de> Deserialize<'de> for Wire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Wire;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Wire, A::Error> {
        let mut paths: [Option<Argument>; 3] = [None, None, None];
        let mut found = Arguments::default();
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            let slot = match key.as_ref() {
                "command" => &mut found.command,
                "url" => &mut found.url,
                "glob" => &mut found.glob,
                "pattern" => &mut found.pattern,
                key => match PATHS.iter().position(|path| *path == key) {
                    Some(at) => &mut paths[at],
                    None => {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                },
            };
            let raw = map.next_value::<&RawValue>()?;
            *slot = match raw.get() {
                "null" => None,
                raw if raw.starts_with('"') => Some(serde_json::from_str(raw).map_or(Argument::Other, Argument::Text)),
                _ => Some(Argument::Other),
            };
        }
        found.paths = paths.into_iter().flatten().collect();
        Ok(Wire(found))
    }
}

struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
        Borrowed::deserialize(deserializer).map(|key| Key(key.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Argument {
        Argument::Text(text.into())
    }

    #[test]
    fn the_last_of_a_key_counts_and_escapes_are_read() {
        let read =
            Arguments::read(br#" {"file_path":"/ok","file\u005fpath":"/\u0065vil","path":"p","content":"\ud800"} "#);
        assert_eq!(read.expect("an object").paths, [text("p"), text("/evil")]);
        let read = Arguments::read(br#"{"command":["rm"],"url":null,"path":"\ud800"}"#).expect("an object");
        assert_eq!(read.command, Some(Argument::Other));
        assert_eq!((read.url, read.paths), (None, vec![Argument::Other]));
    }

    #[test]
    fn nothing_is_empty_and_the_rest_is_damaged() {
        for empty in ["", "  ", "null", "{}"] {
            assert_eq!(Arguments::read(empty.as_bytes()), Ok(Arguments::default()), "{empty:?}");
        }
        for damaged in ["{", "[]", "\"{}\"", "{\"path\":\"x\"", "{\"path\":\"x\"} y", "7", "{\"a\":NaN}"] {
            assert_eq!(Arguments::read(damaged.as_bytes()), Err(NoInput), "{damaged}");
        }
    }
}
