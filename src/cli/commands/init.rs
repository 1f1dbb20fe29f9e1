//! `lazy init`.

use argh::{ArgsInfo, FromArgs};

use crate::base::Result;
use crate::cli::app::App;
use crate::cli::render;
use crate::cli::table::Run;
use crate::setup::{self, InitOptions, Interactivity, Step};

/// set a git repository up for lazy
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Init {
    /// where the tasks are kept; `~/.lazy/<project>` when absent
    #[argh(option, arg_name = "path")]
    external_path: Option<String>,
    /// ask nothing; defaults everywhere
    #[argh(switch)]
    non_interactive: bool,
    /// do not look for a credential and the agent
    #[argh(switch)]
    skip_auth_check: bool,
    /// do not look at the forge behind the remote
    #[argh(switch)]
    skip_remote_check: bool,
    /// do not look for shell completion
    #[argh(switch)]
    skip_completion_check: bool,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Init {
    async fn run(self, app: App) -> Result<u8> {
        let interactive = if self.non_interactive { Interactivity::Defaults } else { Interactivity::Ask };
        let options = InitOptions {
            external_path: self.external_path,
            interactive,
            auth_check: step(self.skip_auth_check),
            remote_check: step(self.skip_remote_check),
            completion_check: step(self.skip_completion_check),
        };
        let report = setup::init(&app.process, options).await?;
        if self.json {
            app.print_json(&report)?;
        } else {
            app.print(render::setup::init(&report, app.style))?;
        }
        Ok(0)
    }
}

fn step(skip: bool) -> Step {
    if skip { Step::Skip } else { Step::Run }
}
