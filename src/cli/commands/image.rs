//! `lazy system build`, `lazy system export-dockerfile`.

use argh::{ArgsInfo, FromArgs};
use serde_json::json;

use super::create::Form;
use crate::base::text::plural;
use crate::base::time::duration_text;
use crate::base::{Error, Kind, Result};
use crate::cli::app::App;
use crate::cli::progress::{Narration, Talk};
use crate::cli::session;
use crate::cli::table::Run;
use crate::config;
use crate::proc;
use crate::rpc::Progress;
use crate::setup::images::{self, Existing, Images, Layers};

/// build the image that this project's containers start from
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Build {
    /// fetch everything anew
    #[argh(switch)]
    no_cache: bool,
    /// print what was built as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Build {
    async fn run(self, app: App) -> Result<u8> {
        let images = Images::open(&app.process, &session::project(&app).await?)?;
        let layers = if self.no_cache { Layers::Fresh } else { Layers::Reuse };
        let talk = Form::from_switch(self.json).talk();
        let report = narrated(&app, talk, async |say| images.build(layers, say).await).await?;
        if self.json {
            app.print_json(&report)?;
            return Ok(0);
        }
        let took = duration_text(std::time::Duration::from_millis(report.duration_ms));
        app.print(format!("Built {} for {} in {took}.", app.style.id(&report.image), report.engine))?;
        app.print(format!("Dockerfile: {}", report.dockerfile))?;
        Ok(0)
    }
}

/// write the built-in Dockerfile into the project, to be changed
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct ExportDockerfile {
    /// replace a file that is in the way
    #[argh(switch)]
    force: bool,
    /// the file; `Dockerfile.lazy` at the project's root when absent
    #[argh(option, arg_name = "file")]
    output: Option<String>,
    /// print it instead
    #[argh(switch)]
    stdout: bool,
}

impl Run for ExportDockerfile {
    async fn run(self, app: App) -> Result<u8> {
        if self.stdout && (self.force || self.output.is_some()) {
            return Err(Error::usage("--stdout goes with neither --output nor --force: no file is written")
                .hint("lazy system export-dockerfile --stdout"));
        }
        let project = session::project(&app).await?;
        let config = config::load_for_daemon(&app.process, &project.root)?.config;
        if self.stdout {
            app.print(images::dockerfile(&project, &config))?;
            return Ok(0);
        }
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let exported = images::export(&app.process, &project, &config, self.output.as_deref(), existing)?;
        app.print(format!("Wrote {}", exported.path.display()))?;
        app.process.err_line(format!("It counts once lazy.toml has: {}", app.style.id(&exported.setting)));
        Ok(0)
    }
}

/// Runs long work, tells its steps as they come, and ends it on Ctrl-C.
///
/// # Errors
/// Those of the work; [`Kind::Canceled`] after a signal.
pub(super) async fn narrated<T>(
    app: &App,
    talk: Talk,
    work: impl AsyncFnOnce(&mut (dyn FnMut(&str) + Send)) -> Result<T>,
) -> Result<T> {
    let mut narration = Narration::new(app, talk);
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel::<String>();
    let mut say = move |line: &str| drop(sender.send(line.to_string()));
    let signal = proc::shutdown_signal();
    let done = {
        let working = work(&mut say);
        tokio::pin!(working, signal);
        let begun = std::time::Instant::now();
        let mut beat = tokio::time::interval(std::time::Duration::from_secs(1));
        loop {
            tokio::select! {
                biased;
                Some(line) = lines.recv() => narration.hear(phase(&line)),
                done = &mut working => break done,
                _ = &mut signal => break Err(Error::new(Kind::Canceled, "interrupted")),
                _ = beat.tick() => {
                    let elapsed = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                    narration.hear(Progress::Heartbeat(elapsed, None));
                }
            }
        }
    };
    while let Ok(line) = lines.try_recv() {
        narration.hear(phase(&line));
    }
    match &done {
        Ok(_) => narration.finish(),
        Err(_) => narration.fail(),
    }
    done
}

fn phase(line: &str) -> Progress {
    Progress::Event(json!({ "kind": "phase", "label": line, "state": "start" }))
}

/// `3 containers`.
pub(super) fn containers(names: &[String]) -> String {
    plural(names.len(), "container")
}
