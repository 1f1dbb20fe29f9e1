//! The text of a configuration file, and refusals that point into it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::base::{Error, Kind, Result, files, text};

/// A configuration file that was read.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    text: String,
}

/// A place in the text: 1-based line, 1-based column in characters, and the line itself.
pub(super) struct Position {
    pub line: usize,
    pub column: usize,
    pub text: String,
}

impl Source {
    /// Reads a file; `None` when there is none.
    ///
    /// # Errors
    /// [`Kind::Io`] when it cannot be read, [`Kind::Config`] when it is not UTF-8 text, no regular file or larger than
    /// 1 MiB.
    pub fn read(path: &Path) -> Result<Option<Source>> {
        let read = files::read_written(path).map_err(|error| match error.kind() {
            // It is the configuration that is wrong: every command says so in the same way.
            Kind::Invalid => error.hints().iter().fold(Error::new(Kind::Config, error.message()), |e, h| e.hint(h)),
            _ => error,
        });
        match read? {
            Some(bytes) => Source::from_bytes(path, bytes).map(Some),
            None => Ok(None),
        }
    }

    /// The same from bytes in hand.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Source> {
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Source { path: path.to_path_buf(), text }),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                // Up to `at` the lossy text is the same bytes, so the offset still points to the right place.
                Err(Source { path: path.to_path_buf(), text }.error(&(at..at), "this byte is not UTF-8 text"))
            }
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses it, keeping where each value stands.
    ///
    /// # Errors
    /// [`Kind::Config`] with file, line, column, the line, the cause and what to do.
    pub fn parse(&self) -> Result<DeTable<'_>> {
        DeTable::parse(&self.text).map(toml::Spanned::into_inner).map_err(|cause| self.syntax_error(&cause))
    }

    /// A refusal of what stands at `span`, with the hints every refusal of this file carries.
    pub fn error(&self, span: &Range<usize>, cause: &str) -> Error {
        let at = self.position(span.start);
        let (line, column) = (at.line, at.column);
        let gutter = line.to_string();
        let message = format!(
            "{}:{line}:{column}: {cause}\n  {gutter} | {}\n  {} | {}^",
            self.path.display(),
            at.text,
            " ".repeat(gutter.len()),
            caret_indent(&at),
        );
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        Error::new(Kind::Config, message)
            .hint(format!("see what changed: git diff {name}"))
            .hint("a complete file with every key: lazy.toml.example")
            .with_details(serde_json::json!({
                "file": self.path.display().to_string(), "line": line, "column": column, "source": at.text, "cause": cause,
            }))
    }

    /// Where an offset is.
    pub fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &self.text[..offset];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |at| offset + at);
        Position {
            line: before.matches('\n').count() + 1,
            column: self.text[start..offset].chars().count() + 1,
            text: text::truncate_chars(&text::escape_controls(self.text[start..end].trim_end()), 160),
        }
    }

    fn syntax_error(&self, cause: &toml::de::Error) -> Error {
        let span = cause.span().unwrap_or(0..0);
        if !cause.message().contains("duplicate key") {
            return self.error(&span, &format!("not valid TOML: {}", text::one_line(cause.message())));
        }
        let line = self.position(span.start).text;
        let what = match line.trim_start().starts_with('[') {
            true => {
                "this table is already in the file; a table may stand only once (`lazy init` wrote most of them): \
                 move these keys into the one that is there and delete this header"
            }
            false => "this key is already set in the same table; keep one of the two lines",
        };
        self.error(&span, &format!("not valid TOML: duplicate key: {what}"))
    }
}

/// White space that puts the caret below the column, with tabs kept so that it lines up.
fn caret_indent(at: &Position) -> String {
    at.text.chars().take(at.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::from_bytes(Path::new("/p/lazy.toml"), text.as_bytes().to_vec()).expect("is text")
    }

    fn refusal(text: &str) -> String {
        source(text).parse().expect_err("does not parse").to_string()
    }

    #[test]
    fn a_syntax_error_shows_the_place() {
        let message = refusal("[models]\ndefault = \n");
        assert!(message.starts_with("/p/lazy.toml:2:"), "{message}");
        assert!(message.contains("  2 | default ="), "{message}");
        let error = source("x = = 1").parse().expect_err("does not parse");
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.hints().iter().any(|hint| hint.contains("git diff lazy.toml")));
        assert!(error.hints().iter().any(|hint| hint.contains("lazy.toml.example")));
        assert_eq!(error.details().expect("has details")["line"], 1);
    }

    #[test]
    fn a_second_table_is_explained() {
        let message = refusal("[runner]\ntype = \"docker\"\n\n[runner]\ntype = \"podman\"\n");
        assert!(message.starts_with("/p/lazy.toml:4:"), "{message}");
        assert!(message.contains("a table may stand only once"), "{message}");
        let message = refusal("[server]\nport = 1\nport = 2\n");
        assert!(message.contains("lazy.toml:3:") && message.contains("already set in the same table"), "{message}");
    }

    #[test]
    fn columns_count_characters() {
        let found = source("é = \"ü\" x\n");
        let at = found.position(found.text().find('x').expect("is there"));
        assert_eq!((at.line, at.column), (1, 9));
        let message = refusal("\"é\" = \"ü\" x\n");
        assert!(message.contains("lazy.toml:1:11") || message.contains("lazy.toml:1:10"), "{message}");
    }

    #[test]
    fn bytes_that_are_not_text_are_placed_too() {
        let error =
            Source::from_bytes(Path::new("lazy.toml"), b"a = 1\nb = \"\xff\"\n".to_vec()).expect_err("not text");
        assert!(error.to_string().starts_with("lazy.toml:2:6: this byte is not UTF-8"), "{error}");
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("lazy.toml");
        std::fs::write(&path, vec![b' '; 1 + (1 << 20)]).expect("writes");
        let error = Source::read(&path).expect_err("too large");
        assert!(error.kind() == Kind::Config && error.to_string().contains("larger than 1 MiB"), "{error}");
    }
}
