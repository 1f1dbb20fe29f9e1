//! `lazy daemon list`, `lazy daemon kill-stray`: all daemons of this machine's user.

use std::path::Path;

use argh::{ArgsInfo, FromArgs};
use serde_json::json;

use super::daemon;
use crate::base::{Result, ResultExt, files, lock::FileLock};
use crate::cli::app::App;
use crate::cli::input::{self, Answer, Enter};
use crate::cli::render::{self, daemon::Row};
use crate::cli::table::Run;
use crate::rpc::{StateDir, client};

/// every daemon on this machine, and the projects they serve
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct List {
    /// print them as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for List {
    async fn run(self, app: App) -> Result<u8> {
        let all = scan(&app).await?;
        let dead = all.iter().filter(|row| row.pid.is_none() && !row.root_exists).count();
        let live: Vec<Row> = all.into_iter().filter(|row| row.pid.is_some()).collect();
        if self.json {
            let rows: Vec<_> = live
                .iter()
                .map(|row| {
                    json!({
                        "pid": row.pid,
                        "port": row.port,
                        "version": row.status.as_ref().map(|status| &status.version),
                        "uptime": row.status.as_ref().map(|status| status.uptime),
                        "project": row.root,
                        "stray": !row.root_exists,
                    })
                })
                .collect();
            app.print_json(&rows)?;
        } else {
            app.print(render::daemon::list(&live, dead, app.style))?;
        }
        Ok(0)
    }
}

/// end daemons whose project's directory is gone
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct KillStray {
    /// do not ask
    #[argh(switch, short = 'y')]
    yes: bool,
    /// also remove the state directories of projects that are gone
    #[argh(switch)]
    prune_dirs: bool,
}

impl Run for KillStray {
    async fn run(self, app: App) -> Result<u8> {
        let gone: Vec<Row> = scan(&app).await?.into_iter().filter(|row| !row.root_exists).collect();
        let stray = gone.iter().filter(|row| row.pid.is_some()).count();
        if stray == 0 && (!self.prune_dirs || gone.is_empty()) {
            app.print("No stray daemons.")?;
            return Ok(0);
        }
        for row in gone.iter().filter(|row| row.pid.is_some() || self.prune_dirs) {
            let what = row.pid.map_or_else(|| "state directory".into(), |pid| format!("daemon {pid}"));
            app.process.err_line(format!("{what} of {}", row.root));
        }
        if !self.yes {
            input::require_person(&app, "ending them", "lazy daemon kill-stray --yes")?;
            if input::confirm(&app, "End these?", Enter::No)? == Answer::No {
                return Ok(0);
            }
        }
        let mut pruned = 0;
        for row in &gone {
            let state = StateDir::for_project(&app.process, Path::new(&row.root))?;
            if row.pid.is_some() {
                daemon::stop(&app, &state).await?;
            }
            // the slug of a root that was written down wrongly leads elsewhere: then nothing is removed
            if self.prune_dirs && state.root_path().is_file() && !FileLock::is_held(&state.lock_path()) {
                files::remove_tree(state.path())?;
                pruned += 1;
            }
        }
        app.print(format!("Ended {stray}, removed {pruned} state directories."))?;
        Ok(0)
    }
}

/// One row for each state directory that says which project it serves.
async fn scan(app: &App) -> Result<Vec<Row>> {
    let base = StateDir::base(&app.process)?;
    let mut rows = Vec::new();
    let entries = match std::fs::read_dir(&base) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(rows),
        other => other.io_context(|| format!("cannot list {}", base.display()))?,
    };
    for entry in entries {
        let path = entry.io_context(|| format!("cannot list {}", base.display()))?.path();
        let Some(root) = files::read_line_optional(&path.join("root")) else { continue };
        let state = StateDir::for_project(&app.process, Path::new(&root))?;
        if state.path() != path {
            continue;
        }
        let (mut pid, mut status) = (None, None);
        if state.is_daemon_running() {
            pid = state.pid();
            if let Some(port) = state.port() {
                status =
                    client::probe(&format!("127.0.0.1:{port}")).await.ok().filter(|found| found.project_root == root);
            }
        }
        let root_exists = Path::new(&root).is_dir();
        rows.push(Row { pid, port: state.port().filter(|_| pid.is_some()), status, root, root_exists });
    }
    rows.sort_by(|a, b| a.root.cmp(&b.root));
    Ok(rows)
}
