//! Checks of `lazy.toml`.

use super::Check;
use crate::base::Result;
use crate::config::schema::FEATURES;
use crate::config::{FILE_NAME, Loaded};

/// The label that scripts look for.
const PARSES: &str = "lazy.toml parses";

pub(super) fn checks(loaded: &Result<Loaded>) -> Vec<Check> {
    match loaded {
        Err(error) => vec![
            Check::error(PARSES, error),
            Check::warn("Configuration", "everything that depends on lazy.toml was left out below"),
        ],
        Ok(loaded) => of_file(loaded),
    }
}

fn of_file(loaded: &Loaded) -> Vec<Check> {
    let Some(path) = &loaded.path else {
        return vec![Check::ok(PARSES, "there is none, so every setting has its default")];
    };
    let mut checks = vec![Check::ok(PARSES, path.display().to_string())];
    checks.extend(loaded.warnings.iter().map(|warning| Check::warn("Deprecated setting", warning.clone())));
    for unknown in &loaded.unknown {
        let detail = format!("line {}: lazy does not know {}", unknown.line, unknown.key);
        checks.push(match &unknown.suggestion {
            Some(known) => Check::warn("Unknown setting", format!("{detail}; did you mean {known}?")).hint(format!(
                "${{EDITOR:-vi}} +{} {}",
                unknown.line,
                path.display()
            )),
            None => Check::warn("Unknown setting", detail)
                .hint(format!("every key is in lazy.toml.example; delete the line from {FILE_NAME}")),
        });
    }
    for name in loaded.config.features.keys().filter(|name| *name != "all" && !FEATURES.contains(&name.as_str())) {
        let known = FEATURES.join(", ");
        checks.push(Check::warn("Feature flags", format!("[features] {name} is no feature; there are: {known}, all")));
    }
    let protection = &loaded.config.protection;
    let inert = loaded.present.iter().any(|key| key.starts_with("protection.") && key != "protection.enabled");
    if inert && !protection.enabled {
        checks.push(
            Check::warn("Protection", "[protection] has settings, but enabled is not true, so none of them counts")
                .hint(format!("set enabled = true under [protection] in {FILE_NAME}")),
        );
    }
    checks
}
