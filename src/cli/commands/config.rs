//! `lazy config show|get|path|check`: what lazy.toml means here. Needs no daemon.

use argh::{ArgsInfo, FromArgs};
use serde_json::Value;

use crate::base::{Error, Result, text};
use crate::cli::app::App;
use crate::cli::session;
use crate::cli::table::Run;
use crate::config::{self, FILE_NAME, Loaded};

/// the effective configuration, defaults filled in
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Show {
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Show {
    async fn run(self, app: App) -> Result<u8> {
        let value = effective(&load(&app).await?)?;
        if self.json {
            app.print_json_pretty(&value)?;
            return Ok(0);
        }
        let mut lines = Vec::new();
        flatten("", &value, &mut lines);
        for (key, value) in lines {
            app.print(format!("{} = {value}", app.style.id(key)))?;
        }
        Ok(0)
    }
}

/// one value of the effective configuration
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(example = "lazy config get models.default")]
pub(crate) struct Lookup {
    /// its name, with dots: models.default
    #[argh(positional)]
    key: String,
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Lookup {
    async fn run(self, app: App) -> Result<u8> {
        let root = effective(&load(&app).await?)?;
        let found = self.key.split('.').try_fold(&root, |value, name| value.get(name));
        let Some(value) = found else {
            let mut known = Vec::new();
            flatten("", &root, &mut known);
            let error = Error::not_found(format!("there is no configuration value {:?}", self.key));
            return Err(match text::nearest(&self.key, known.iter().map(|(key, _)| key.as_str())) {
                Some(near) => error.hint(format!("lazy config get {near}")),
                None => error.hint("lazy config show"),
            });
        };
        match value {
            Value::String(text) if !self.json => app.print(text)?,
            value => app.print_json(value)?,
        }
        Ok(0)
    }
}

/// the file that is read, or the place where one would be
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Path {}

impl Run for Path {
    async fn run(self, app: App) -> Result<u8> {
        let project = session::project(&app).await?;
        let loaded = config::load(&app.process, &project.root, app.process.cwd())?;
        match loaded.path {
            Some(path) => app.print(path.display().to_string())?,
            None => {
                app.print(project.root.join(FILE_NAME).display().to_string())?;
                app.process.err_line("That file does not exist; everything is default.");
            }
        }
        Ok(0)
    }
}

/// whether lazy.toml loads, and what in it is not understood
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Check {}

impl Run for Check {
    async fn run(self, app: App) -> Result<u8> {
        let loaded = load(&app).await?;
        app.warn_all(&loaded.warnings);
        for unknown in &loaded.unknown {
            let meant = unknown.suggestion.as_deref().map(|key| format!("; did you mean {key}?")).unwrap_or_default();
            app.warn_all(&[format!("line {}: nothing reads {}{meant}", unknown.line, unknown.key)]);
        }
        match &loaded.path {
            Some(path) if loaded.unknown.is_empty() => app.print(format!("{} is good.", path.display()))?,
            Some(path) => app.print(format!(
                "{} loads; {} not understood.",
                path.display(),
                text::plural(loaded.unknown.len(), "key")
            ))?,
            None => app.print("There is no lazy.toml; everything is default.")?,
        }
        Ok(0)
    }
}

async fn load(app: &App) -> Result<Loaded> {
    let project = session::project(app).await?;
    config::load(&app.process, &project.root, app.process.cwd())
}

fn effective(loaded: &Loaded) -> Result<Value> {
    serde_json::to_value(&loaded.config)
        .map_err(|source| Error::internal("cannot show the configuration").caused_by(source))
}

/// `a.b = value` for every leaf, in the order of the schema.
fn flatten(prefix: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&key, value, out);
            }
        }
        leaf => out.push((prefix.to_string(), leaf.to_string())),
    }
}
