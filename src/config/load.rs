//! Loading: find the file, parse it, retire old keys, read it into a [`Config`].

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::find;
use super::read;
use super::reader::{Reader, Section, UnknownKey};
use super::retired;
use super::schema::Config;
use super::source::Source;
use crate::base::{Error, Kind, Process, Result, files};

/// A configuration and where it came from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// What it says, defaults filled in.
    pub config: Config,
    /// The file; `None` when there is none and all is default.
    pub path: Option<PathBuf>,
    /// Sentences to show once per process.
    pub warnings: Vec<String>,
    /// Keys that nothing reads, for `lazy doctor`.
    pub unknown: Vec<UnknownKey>,
    /// Tables and keys that the file writes, dotted, retired ones under their new name. Entries of arrays are not
    /// listed, only the array.
    pub present: BTreeSet<String>,
}

/// Loads the configuration that a command started in `search_from` sees.
///
/// # Errors
/// [`Kind::Config`] when `LAZY_CONFIG` names no file, or the file does not parse or holds an illegal value: never are
/// defaults put in the place of what the file says. [`Kind::Io`] when it cannot be read.
pub fn load(process: &Process, project_root: &Path, search_from: &Path) -> Result<Loaded> {
    let found = find::find(process, project_root, search_from)?;
    let Some(path) = found.path else { return Ok(Loaded::default()) };
    let Some(source) = Source::read(&path)? else {
        let message = format!("{} is a link to a file that does not exist", path.display());
        return Err(Error::new(Kind::Config, message).hint(format!("ls -l {}", path.display())));
    };
    let mut loaded = parse(process, &source)?;
    loaded.path = Some(path.clone());
    if let Some(root) = found.shadowed
        && files::read_written(&root).ok().flatten().as_deref() != Some(source.text().as_bytes())
    {
        let how = if root.exists() { "differs" } else { "does not exist" };
        let warning =
            format!("the configuration in force is {}; the project root's {} {how}", path.display(), root.display());
        loaded.warnings.insert(0, warning);
    }
    Ok(loaded)
}

/// Loads the configuration of a project as its daemon sees it: from the root, wherever the daemon was started.
///
/// # Errors
/// As [`load`].
pub fn load_for_daemon(process: &Process, project_root: &Path) -> Result<Loaded> {
    load(process, project_root, project_root)
}

/// Reads a configuration from text in hand; `name` is what messages call it.
///
/// # Errors
/// As [`load`].
pub fn load_text(process: &Process, name: &Path, text: &str) -> Result<Loaded> {
    parse(process, &Source::from_bytes(name, text.as_bytes().to_vec())?)
}

/// Every key of the schema, dotted, with `[]` for the entries of an array of tables.
pub fn known_keys(process: &Process) -> BTreeSet<String> {
    // One entry in each array of tables, so that their keys are asked for too.
    const ONE_OF_EACH: &str = "[[mounts]]\nsource='a'\ntarget='/a'\n[[proxy.fallback]]\nupstream='http://a'\n\
                               [[automation.maintain]]\ntitle='a'\npattern='a'\n";
    let Ok(source) = Source::from_bytes(Path::new("schema"), ONE_OF_EACH.into()) else { return BTreeSet::new() };
    let Ok(table) = source.parse() else { return BTreeSet::new() };
    let reader = Reader::new(&source, process);
    let mut file = Section::root(&reader, &table);
    match read::config(&mut file) {
        Ok(_) => reader.known.into_inner(),
        Err(_) => BTreeSet::new(),
    }
}

fn parse(process: &Process, source: &Source) -> Result<Loaded> {
    let mut table = source.parse()?;
    let retired = retired::apply(source, &mut table)?;
    let reader = Reader::new(source, process);
    reader.warnings.borrow_mut().extend(retired);
    let mut file = Section::root(&reader, &table);
    let config = read::config(&mut file)?;
    file.finish();
    let mut present = BTreeSet::new();
    collect_present(&table, "", &mut present);
    let mut unknown = reader.unknown.into_inner();
    unknown.sort_by_key(|key| key.line);
    Ok(Loaded { config, path: None, warnings: reader.warnings.into_inner(), unknown, present })
}

impl<'s> Reader<'s> {
    fn new(source: &'s Source, process: &'s Process) -> Self {
        Reader { source, process, warnings: RefCell::default(), unknown: RefCell::default(), known: RefCell::default() }
    }
}

fn collect_present(table: &DeTable<'_>, path: &str, present: &mut BTreeSet<String>) {
    for (key, value) in table.iter() {
        let key = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        if let DeValue::Table(inner) = value.get_ref() {
            collect_present(inner, &key, present);
        }
        present.insert(key);
    }
}

#[cfg(test)]
mod tests;
