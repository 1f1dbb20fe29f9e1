//! `lazy stats audit|tokens`: what the audit trail tells. Needs no daemon.

use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::table::Run;
use crate::cli::{fields, render, session};
use crate::setup::stats::{self, By, Filter, Only};

/// Rows that are shown when nobody says how many.
const ROWS: usize = 20;
/// Rows of each breakdown.
const TOP: usize = 10;

/// the requests that passed the proxy, newest last, or one of them in full; exit code 1 says that --verify found a fault
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    example = "lazy stats audit --task fix --last 2h",
    example = "lazy stats audit --errors --limit 50",
    example = "lazy stats audit 3f9a1c2b",
    example = "lazy stats audit --verify"
)]
pub(crate) struct Audit {
    /// a record: its id or the beginning of it
    #[argh(positional)]
    record: Option<String>,
    /// only requests of this long ago or less: 90s, 30m, 2h, 7d
    #[argh(option, arg_name = "time", from_str_fn(fields::duration))]
    last: Option<Duration>,
    /// the same as --last
    #[argh(option, arg_name = "time", from_str_fn(fields::duration))]
    since: Option<Duration>,
    /// only requests of this task
    #[argh(option, arg_name = "task")]
    task: Option<String>,
    /// only requests of this role: agent or builder
    #[argh(option, arg_name = "role")]
    role: Option<String>,
    /// only requests for models with this in their name
    #[argh(option, arg_name = "model")]
    model: Option<String>,
    /// only requests whose responses had a denied tool call
    #[argh(switch)]
    denied: bool,
    /// only requests that went to a fallback
    #[argh(switch)]
    reroutes: bool,
    /// only requests that failed
    #[argh(switch)]
    errors: bool,
    /// show at most so many, the newest; 20 unless given
    #[argh(option, arg_name = "number", default = "ROWS")]
    limit: usize,
    /// check that the trail is what was written: nothing changed, missing or cut
    #[argh(switch)]
    verify: bool,
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Audit {
    async fn run(self, app: App) -> Result<u8> {
        let project = session::project(&app).await?;
        if self.verify {
            let verdict = stats::verify_audit(&project)?;
            if self.json {
                app.print_json(&verdict)?;
            } else {
                app.print(render::stats::verdict(&verdict, app.style))?;
            }
            return Ok(u8::from(!verdict.is_intact()));
        }
        if let Some(id) = &self.record {
            let record = stats::audit_record(&app.process, &project, id)?;
            if self.json {
                app.print_json_pretty(&record)?;
            } else {
                app.print(render::stats::record(&record, app.style))?;
            }
            return Ok(0);
        }
        let only = [(self.denied, Only::Denied), (self.reroutes, Only::Rerouted), (self.errors, Only::Failed)];
        let filter = Filter {
            last: one_of(self.last, self.since)?,
            task: self.task,
            role: self.role,
            model: self.model,
            only: only.into_iter().filter_map(|(asked, only)| asked.then_some(only)).collect(),
        };
        let rows = stats::audit_rows(&app.process, &project, &filter, self.limit)?;
        if self.json {
            app.print_json(&rows)?;
        } else {
            app.print(render::stats::rows(&rows, app.style))?;
        }
        Ok(0)
    }
}

/// the tokens that passed the proxy, added up by role, task, model or day
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(example = "lazy stats tokens --last 24h", example = "lazy stats tokens --by task --top 20")]
pub(crate) struct Tokens {
    /// role, task, model or day; without it the first three
    #[argh(option, arg_name = "what", from_str_fn(fields::by))]
    by: Option<By>,
    /// only requests of this long ago or less: 90s, 30m, 2h, 7d
    #[argh(option, arg_name = "time", from_str_fn(fields::duration))]
    last: Option<Duration>,
    /// the same as --last
    #[argh(option, arg_name = "time", from_str_fn(fields::duration))]
    since: Option<Duration>,
    /// only requests of this task
    #[argh(option, arg_name = "task")]
    task: Option<String>,
    /// only requests of this role: agent or builder
    #[argh(option, arg_name = "role")]
    role: Option<String>,
    /// show at most so many of each kind, those with the most tokens; 10 unless given
    #[argh(option, arg_name = "number", default = "TOP")]
    top: usize,
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Tokens {
    async fn run(self, app: App) -> Result<u8> {
        let project = session::project(&app).await?;
        let last = one_of(self.last, self.since)?;
        let filter = Filter { last, task: self.task, role: self.role, ..Filter::default() };
        let by = self.by.map_or(vec![By::Role, By::Task, By::Model], |by| vec![by]);
        let report = stats::token_report(&app.process, &project, &filter, &by)?;
        if self.json {
            app.print_json(&report)?;
        } else {
            app.print(render::stats::tokens(&report, self.top, app.style))?;
        }
        Ok(0)
    }
}

fn one_of(last: Option<Duration>, since: Option<Duration>) -> Result<Option<Duration>> {
    match (last, since) {
        (Some(_), Some(_)) => Err(Error::usage("--last and --since are the same; give one of them")),
        (last, since) => Ok(last.or(since)),
    }
}
