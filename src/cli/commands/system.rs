//! `lazy system status`, `lazy system prompts`.

use argh::{ArgsInfo, FromArgs};
use serde_json::json;

use super::create::Form;
use crate::agent::prompts;
use crate::base::Result;
use crate::base::text::pad_columns;
use crate::cli::app::App;
use crate::cli::render;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::rpc::commands as rpc;

/// the project as its daemon sees it
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct State {
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for State {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let session = Session::open(&app, form.talk()).await?;
        let report = session.call_quietly::<rpc::SystemStatus>(&rpc::Empty {}).await?;
        match form {
            Form::Json => app.print_json(&report)?,
            Form::Text => app.print(render::status::system(&report, app.style))?,
        }
        Ok(0)
    }
}

/// the built-in prompts; read one with `lazy show lazy-prompt-<name>`
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Prompts {
    /// print names and purposes as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Prompts {
    async fn run(self, app: App) -> Result<u8> {
        if self.json {
            let rows: Vec<_> = prompts::ALL
                .iter()
                .map(|prompt| json!({ "code": format!("lazy-prompt-{}", prompt.name), "purpose": prompt.purpose }))
                .collect();
            app.print_json(&rows)?;
            return Ok(0);
        }
        let width =
            prompts::ALL.iter().map(|prompt| prompt.name.len()).max().unwrap_or_default() + "lazy-prompt-".len();
        for prompt in prompts::ALL {
            let name = pad_columns(&format!("lazy-prompt-{}", prompt.name), width);
            app.print(format!("{}  {}", app.style.id(name), prompt.purpose))?;
        }
        app.process.err_line("Read one: lazy show lazy-prompt-<name>");
        Ok(0)
    }
}

/// A built-in prompt's text with its placeholders.
pub(crate) fn prompt(name: &str) -> Option<&'static str> {
    prompts::ALL.iter().find(|prompt| prompt.name == name).map(|prompt| prompt.text)
}

/// The names of the built-in prompts.
pub(crate) fn prompt_names() -> impl Iterator<Item = &'static str> {
    prompts::ALL.iter().map(|prompt| prompt.name)
}
