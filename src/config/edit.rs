//! Changes of one value in a `lazy.toml` that leave every comment and every other line as they are.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use super::source::Source;
use crate::base::{Error, Kind, Result, files};

/// Sets `dotted_key` to `value`; makes the file and the tables it lacks.
///
/// # Errors
/// [`Kind::Config`] when the file does not parse, or something that is not a table stands where a table must be;
/// [`Kind::Io`] when it cannot be read or written. The file is changed whole or not at all.
pub fn set_value(path: &Path, dotted_key: &str, value: impl Into<Value>) -> Result<()> {
    // The file behind a link is changed, not the link replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let text = match Source::read(&path)? {
        None => String::new(),
        Some(source) => {
            source.parse()?;
            source.text().to_string()
        }
    };
    let changed = set_in_text(&path, &text, dotted_key, value)?;
    if changed == text {
        return Ok(());
    }
    files::write_atomic(&path, changed.as_bytes(), files::Mode::Shared)
}

/// The text with `dotted_key` set to `value`; `path` is what messages call it.
pub(super) fn set_in_text(path: &Path, text: &str, dotted_key: &str, value: impl Into<Value>) -> Result<String> {
    let value = value.into();
    let mut document: DocumentMut = text.parse().map_err(|cause: toml_edit::TomlError| {
        Error::new(Kind::Config, format!("{} is not valid TOML", path.display())).caused_by(cause)
    })?;
    let (tables, key) = match dotted_key.rsplit_once('.') {
        Some((tables, key)) => (tables.split('.').collect(), key),
        None => (Vec::new(), dotted_key),
    };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for name in tables {
        let item = table.entry(name).or_insert_with(|| Item::Table(new_table()));
        table = item.as_table_like_mut().ok_or_else(|| in_the_way(path, name, dotted_key))?;
    }
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        Some(Item::None) | None => {
            table.insert(key, Item::Value(value));
        }
        Some(_) => return Err(in_the_way(path, key, dotted_key)),
    }
    Ok(document.to_string())
}

/// A table that shows only when it has keys of its own.
fn new_table() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

fn in_the_way(path: &Path, name: &str, dotted_key: &str) -> Error {
    let message = format!("{}: cannot set {dotted_key}: {name} is something else in this file", path.display());
    Error::new(Kind::Config, message).hint(format!("edit {} by hand", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn set(text: &str, key: &str, value: impl Into<Value>) -> String {
        set_in_text(Path::new("lazy.toml"), text, key, value).expect("sets")
    }

    #[test]
    fn comments_and_neighbours_stay() {
        let text =
            "# top\n[remote] # the forge\n# which\ndriver = \"local\"   # for now\noffline = false\n\n[git] # x\n";
        assert_eq!(set(text, "remote.driver", "github"), text.replace("\"local\"", "\"github\""));
    }

    #[test]
    fn missing_tables_and_keys_are_added() {
        assert_eq!(set("", "remote.driver", "github"), "[remote]\ndriver = \"github\"\n");
        let added = set("[a]\nb = 1 # one\n", "a.c", 2);
        assert_eq!(added, "[a]\nb = 1 # one\nc = 2\n");
        let nested = set("[models]\ndefault = \"m\"\n", "models.roles.agent.backend", "ollama");
        assert_eq!(nested, "[models]\ndefault = \"m\"\n\n[models.roles.agent]\nbackend = \"ollama\"\n");
    }

    #[test]
    fn other_spellings_of_a_table_are_followed() {
        assert_eq!(set("remote.driver = \"local\"\n", "remote.driver", "github"), "remote.driver = \"github\"\n");
        let inline = set("remote = { driver = \"local\", offline = true }\n", "remote.driver", "github");
        assert_eq!(inline, "remote = { driver = \"github\", offline = true }\n");
    }

    #[test]
    fn what_is_in_the_way_is_not_overwritten() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("lazy.toml");
        for text in ["runner = \"docker\"\n", "[[runner]]\n", "[runner.type]\n", "[runner\n"] {
            fs::write(&path, text).expect("writes");
            let error = set_value(&path, "runner.type", "podman").expect_err(text);
            assert_eq!(error.kind(), Kind::Config, "{error}");
            assert_eq!(fs::read_to_string(&path).expect("reads"), text);
        }
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (real, link) = (dir.path().join("real.toml"), dir.path().join("lazy.toml"));
        fs::write(&real, "").expect("writes");
        std::os::unix::fs::symlink(&real, &link).expect("links");
        set_value(&link, "server.port", 1234).expect("sets");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).expect("reads"), "[server]\nport = 1234\n");
    }
}
