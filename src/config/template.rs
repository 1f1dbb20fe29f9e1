//! The complete example, and the shorter file that `lazy init` writes.

use std::path::Path;

use super::edit;
use super::schema::Driver;
use crate::base::Result;

/// `lazy.toml.example`: every section and key. Lines that start with `#` and no space are defaults, those with `##`
/// examples of what is not set by default; the tests read it by that rule.
pub const EXAMPLE: &str = include_str!("../../lazy.toml.example");

/// What `lazy init` found out about a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initial<'a> {
    /// The resolved, absolute root of the task store.
    pub external_path: &'a Path,
    /// The git remote that counts.
    pub git_remote: &'a str,
    /// The forge.
    pub driver: Driver,
}

/// The text of a new project's `lazy.toml`.
///
/// # Errors
/// [`crate::base::Kind::Config`] only for a defect in the template.
pub fn initial_text(initial: &Initial<'_>) -> Result<String> {
    let name = Path::new(super::FILE_NAME);
    let store = initial.external_path.to_string_lossy();
    let mut text = edit::set_in_text(name, include_str!("template.toml"), "storage.external_path", store.as_ref())?;
    text = edit::set_in_text(name, &text, "remote.driver", initial.driver.as_str())?;
    if initial.git_remote != "origin" {
        text = edit::set_in_text(name, &text, "remote.git_remote", initial.git_remote)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Millis, Process};
    use crate::config::{Config, Loaded, known_keys, load_text};

    fn process() -> Process {
        Process::fake(["lazy"], &[("HOME", "/home/u")], Path::new("/p"), Millis(0))
    }

    fn loads(text: &str) -> Loaded {
        load_text(&process(), Path::new("lazy.toml.example"), text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The example with its defaults in force, and its examples too if asked.
    fn uncommented(marks: &[&str]) -> String {
        EXAMPLE.lines().fold(String::new(), |text, line| {
            let setting = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
            let bare = marks.iter().filter_map(|mark| line.strip_prefix(mark)).find(|rest| setting(rest));
            text + bare.unwrap_or(line) + "\n"
        })
    }

    #[test]
    fn the_example_as_it_stands_is_the_defaults() {
        let loaded = loads(EXAMPLE);
        assert_eq!(loaded.config, Config::default());
        assert_eq!((loaded.unknown, loaded.warnings), (vec![], vec![]));
    }

    #[test]
    fn every_default_in_the_example_is_the_default() {
        let loaded = loads(&uncommented(&["#"]));
        assert_eq!(loaded.config, Config::default());
        assert_eq!((loaded.unknown, loaded.warnings), (vec![], vec![]));
        assert!(loaded.present.contains("daemon.auto_resume_max_attempts"), "the rule uncommented nothing");
    }

    #[test]
    fn every_key_of_the_schema_is_in_the_example() {
        let loaded = loads(&uncommented(&["##", "#"]));
        assert_eq!(loaded.unknown, vec![]);
        let known = known_keys(&process());
        assert!(known.len() > 100, "the schema has {} keys", known.len());
        let written: Vec<&String> = known.iter().filter(|key| !key.contains("[]")).collect();
        for key in written {
            assert!(loaded.present.contains(key), "{key} is not in lazy.toml.example");
        }
        let of_entries = known.iter().filter_map(|key| key.split_once("[].")).map(|(_, key)| key);
        for key in of_entries {
            assert!(EXAMPLE.contains(&format!("\n##{key} = ")), "{key} of an array of tables is not in the example");
        }
        assert_eq!(loaded.config.mounts.len(), 2);
        assert_eq!(loaded.config.proxy.port, Some(8766));
    }

    #[test]
    fn a_new_projects_file_is_the_defaults_and_what_was_found() {
        let store = Path::new("/home/u/.lazy/a \"b\"\\c");
        let text = initial_text(&Initial { external_path: store, git_remote: "up", driver: Driver::Github });
        let text = text.expect("renders");
        let loaded = loads(&text);
        let mut expected = Config::default();
        expected.storage.external_path = store.to_str().expect("utf-8").into();
        expected.remote.driver = Driver::Github;
        expected.remote.git_remote = "up".into();
        assert_eq!(loaded.config, expected);
        assert_eq!((loaded.unknown, loaded.warnings), (vec![], vec![]));
        let plain = Initial { external_path: store, git_remote: "origin", driver: Driver::Local };
        assert!(!initial_text(&plain).expect("renders").contains("git_remote"));
    }
}
