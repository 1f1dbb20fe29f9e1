//! `lazy policy check|replay`: what the rules say to a tool call. Needs no daemon.

use std::path::PathBuf;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use crate::base::Result;
use crate::cli::app::App;
use crate::cli::table::Run;
use crate::cli::{fields, render, session};
use crate::config;
use crate::setup;

/// whether the proxy would let a tool call pass, and why not; exit code 1 says that it would be denied
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    example = "lazy policy check --tool Read --input '{{\"file_path\":\"~/.ssh/id_rsa\"}}'",
    example = "lazy policy check --tool WebFetch --input - < input.json"
)]
pub(crate) struct Check {
    /// the tool's name
    #[argh(option, arg_name = "name")]
    tool: String,
    /// its input, a JSON object; - reads standard input
    #[argh(option, arg_name = "json", default = "\"{}\".into()")]
    input: String,
    /// the directory the agent works in; this one, unless given
    #[argh(option, arg_name = "path")]
    worktree: Option<PathBuf>,
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Check {
    async fn run(self, app: App) -> Result<u8> {
        let project = session::project(&app).await?;
        let loaded = config::load(&app.process, &project.root, app.process.cwd())?;
        let input = if self.input == "-" { app.process.read_stdin()? } else { self.input };
        let worktree = app.process.cwd().join(self.worktree.unwrap_or_default());
        let check = setup::policy_check(&app.process, &loaded.config.proxy.policy, &self.tool, &input, worktree)?;
        if self.json {
            app.print_json(&check)?;
        } else {
            app.print(render::policy::check(&check, app.style))?;
        }
        Ok(u8::from(check.enforced && !check.allowed))
    }
}

/// what today's rules would have denied of the tool calls in the audit trail
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(example = "lazy policy replay --last 2h")]
pub(crate) struct Replay {
    /// only calls of this long ago or less: 90s, 30m, 2h, 7d
    #[argh(option, arg_name = "time", from_str_fn(fields::duration))]
    last: Option<Duration>,
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Replay {
    async fn run(self, app: App) -> Result<u8> {
        let project = session::project(&app).await?;
        let loaded = config::load(&app.process, &project.root, app.process.cwd())?;
        let policy = &loaded.config.proxy.policy;
        let replay = setup::policy_replay(&app.process, &project, policy, self.last)?;
        if self.json {
            app.print_json(&replay)?;
            return Ok(0);
        }
        app.print(render::policy::replay(&replay, app.style))?;
        if !policy.enforce {
            app.warn_all(&["[proxy.policy] enforce = false: nothing is denied now".into()]);
        }
        Ok(0)
    }
}
