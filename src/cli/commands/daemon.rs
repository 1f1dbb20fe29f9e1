//! `lazy daemon start|stop|restart|status`, `lazy server`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::base::{Error, Result, ResultExt};
use crate::cli::app::App;
use crate::cli::background::{self, Found};
use crate::cli::progress::Talk;
use crate::cli::render::{self, daemon::Build};
use crate::cli::session;
use crate::cli::table::Run;
use crate::config::project::Project;
use crate::proc;
use crate::rpc::StateDir;
use crate::rpc::commands::{self as rpc, ListParams, ListView};

/// How long a daemon that accepted to end may take.
const ACCEPTED: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
/// How long the process of one that has ended may take to be gone.
const EXITED: Duration = Duration::from_secs(5);
/// How long one that did not answer may take after a signal.
const SIGNALLED: Duration = Duration::from_secs(5);

/// start the project's daemon in the background; running already is as good
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Start {
    /// the project's directory instead of the one around here
    #[argh(option, arg_name = "path")]
    project: Option<String>,
    /// in the background (the default)
    #[argh(switch)]
    background: bool,
    /// stay in the foreground and log to standard error
    #[argh(switch)]
    foreground: bool,
}

impl Run for Start {
    async fn run(self, app: App) -> Result<u8> {
        if self.foreground {
            // the applet takes `daemon start --foreground` before the command line is read
            let both = if self.background { " and --background exclude each other" } else { " was not understood" };
            return Err(Error::usage(format!("--foreground{both}")).hint("lazy daemon start --foreground"));
        }
        let state = startable(&app, self.project.as_deref()).await?;
        if let Found::Running(_, status) = background::look(&app, &state).await? {
            app.print(format!("The daemon is already running (pid {}).", status.pid))?;
            return Ok(0);
        }
        let (_, status) = background::ensure(&app, &state, Talk::Narrate).await?;
        app.print(format!("The daemon runs (pid {}): {}", status.pid, render::daemon::url(&status)))?;
        Ok(0)
    }
}

/// end the project's daemon; running agents are stopped and can be resumed
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Stop {
    /// the project's directory instead of the one around here
    #[argh(option, arg_name = "path")]
    project: Option<String>,
    /// do not ask
    #[argh(switch, short = 'y')]
    yes: bool,
}

impl Run for Stop {
    async fn run(self, app: App) -> Result<u8> {
        let state = state_dir(&app, self.project.as_deref()).await?;
        if !state.is_daemon_running() {
            app.print("The daemon is not running.")?;
            return Ok(0);
        }
        if !agrees(&app, &state, self.yes, "Stop the daemon?").await? {
            return Ok(0);
        }
        stop(&app, &state).await?;
        app.print("The daemon has stopped.")?;
        Ok(0)
    }
}

/// end the project's daemon and start it again with this program
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Restart {
    /// the project's directory instead of the one around here
    #[argh(option, arg_name = "path")]
    project: Option<String>,
    /// do not ask
    #[argh(switch, short = 'y')]
    yes: bool,
}

impl Run for Restart {
    async fn run(self, app: App) -> Result<u8> {
        let state = state_dir(&app, self.project.as_deref()).await?;
        if state.is_daemon_running() {
            if !agrees(&app, &state, self.yes, "Restart the daemon?").await? {
                return Ok(0);
            }
            stop(&app, &state).await?;
        } else {
            startable(&app, self.project.as_deref()).await?;
        }
        let (_, status) = background::ensure(&app, &state, Talk::Narrate).await?;
        app.print(format!("The daemon runs again (pid {}): {}", status.pid, render::daemon::url(&status)))?;
        Ok(0)
    }
}

/// whether the project's daemon runs, and how it is reached
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Status {
    /// the project's directory instead of the one around here
    #[argh(option, arg_name = "path")]
    project: Option<String>,
    /// print it as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Status {
    async fn run(self, app: App) -> Result<u8> {
        let state = state_dir(&app, self.project.as_deref()).await?;
        let startup_error = background::startup_error(&state);
        match background::look(&app, &state).await? {
            Found::Running(_, status) if self.json => app.print_json_pretty(&status)?,
            Found::Running(_, status) => {
                let build = if background::is_stale(&app, &status) { Build::Other } else { Build::Same };
                app.print(render::daemon::status(&status, build, app.style))?;
            }
            Found::Silent if self.json => {
                app.print_json_pretty(&json!({ "status": "unresponsive", "pid": state.pid() }))?
            }
            Found::Silent => app.print(render::daemon::silent(state.pid(), app.style))?,
            Found::Absent if self.json => {
                app.print_json_pretty(&json!({ "status": "stopped", "startupError": startup_error }))?;
            }
            Found::Absent => app.print(render::daemon::absent(startup_error.as_deref(), app.style))?,
        }
        Ok(0)
    }
}

/// The state directory of the project around here, or of the one named: also of one whose directory is gone.
pub(crate) async fn state_dir(app: &App, project: Option<&str>) -> Result<StateDir> {
    let root: PathBuf = match project {
        Some(path) => {
            let path = app.process.cwd().join(path);
            path.canonicalize().unwrap_or(path)
        }
        None => session::project(app).await?.root,
    };
    StateDir::for_project(&app.process, &root)
}

/// The same for a project whose daemon may be started: one that is there. For anything else nothing is made.
async fn startable(app: &App, project: Option<&str>) -> Result<StateDir> {
    let state = state_dir(app, project).await?;
    if project.is_some() {
        let root = state.project_root();
        let found = Project::find(&app.process, root)?.root;
        if found != root {
            return Err(Error::invalid(format!("{} is not the root of a project", root.display()))
                .hint(format!("lazy daemon start --project '{}'", found.display())));
        }
    }
    Ok(state)
}

/// Names the tasks that work, and asks on a terminal.
pub(super) async fn agrees(app: &App, state: &StateDir, yes: bool, question: &str) -> Result<bool> {
    use crate::cli::input::{Answer, Enter, confirm};
    let working = match background::look(app, state).await {
        Ok(Found::Running(client, _)) => {
            let params = ListParams { view: ListView::Active, ..ListParams::default() };
            let report = client.call::<rpc::List>(&params, |_| {}).await.unwrap_or_default();
            report.tasks.into_iter().filter(|task| task.status == crate::model::Status::Working).collect()
        }
        _ => Vec::new(),
    };
    for task in &working {
        app.process.err_line(format!("{} is working; it can be resumed afterwards", render::list::display_id(task)));
    }
    if yes || working.is_empty() || !app.process.stdin_is_terminal() {
        return Ok(true);
    }
    Ok(confirm(app, question, Enter::Yes)? == Answer::Yes)
}

/// Ends a daemon: asks it, then TERM, then KILL, each only while it holds its lock. Returns when the process is gone.
///
/// # Errors
/// [`crate::base::Kind::Timeout`] when it is still there after all of them.
pub(crate) async fn stop(app: &App, state: &StateDir) -> Result<()> {
    let holder = Holder::of(state);
    if let Ok(Found::Running(client, _)) = background::look(app, state).await {
        app.process.err_line("… asking the daemon to stop");
        if client.shutdown().await.is_ok() && holder.gone_within(app, state, ACCEPTED).await {
            return Ok(());
        }
    }
    for (signal, name, limit) in [(Signal::TERM, "SIGTERM", ACCEPTED), (Signal::KILL, "SIGKILL", SIGNALLED)] {
        if holder.gone_within(app, state, Duration::ZERO).await {
            return Ok(());
        }
        // The lock is held and its holder wrote this pid: it cannot be somebody else's.
        let Some(target) = holder.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) else { break };
        app.process.err_line(format!("… it does not answer; sending {name}"));
        kill_process(target, signal)
            .map_err(std::io::Error::from)
            .io_context(|| format!("cannot signal process {target:?}"))?;
        if holder.gone_within(app, state, limit).await {
            return Ok(());
        }
    }
    Err(Error::new(crate::base::Kind::Timeout, "the daemon does not stop")
        .hint(format!("ls -l {}", lock(state).display())))
}

/// The process that held a daemon's lock when it was looked at.
#[derive(Debug, Clone, Copy)]
struct Holder {
    pid: Option<u32>,
    started: Option<u64>,
}

impl Holder {
    fn of(state: &StateDir) -> Holder {
        let pid = state.pid();
        Holder { pid, started: pid.and_then(proc::start_time) }
    }

    /// Whether its process has ended. Not known without a pid.
    fn has_exited(self) -> bool {
        self.pid.is_some_and(|pid| !proc::same_process(pid, self.started))
    }

    /// Waits until this daemon holds the lock no more: it let go of it, or its process has ended and another command
    /// has started the next one. Then until its process is gone too, which is a moment later.
    async fn gone_within(self, app: &App, state: &StateDir, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while state.is_daemon_running() && !self.has_exited() {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(POLL).await;
        }
        let deadline = Instant::now() + EXITED;
        while self.pid.is_some() && !self.has_exited() {
            if Instant::now() >= deadline {
                // No failure: it holds nothing any more, and the next one may start.
                let pid = self.pid.unwrap_or_default();
                app.warn_all(&[format!("the daemon has let go of everything, but its process {pid} is still there")]);
                break;
            }
            sleep(POLL).await;
        }
        true
    }
}

fn lock(state: &StateDir) -> PathBuf {
    Path::new(state.path()).join("daemon.lock")
}
