//! `lazy demo`: the product at work on a throw-away repository, with a scripted model in place of a real one.
//!
//! Everything that happens is real: this program's own commands, its daemon, its proxy, a worktree, an agent process.
//! Only the model is played, by a server inside this process; so no account and no network are needed.
//!
//! Nothing outside the throw-away directory is read or written: it is the home, the daemon's and the mailbox's base.
//! Whatever happens, also Ctrl-C, the daemon is stopped and, without `--keep`, the directory removed.

mod stage;

use std::time::Duration;

use argh::{ArgsInfo, FromArgs};
use tokio::net::TcpListener;

use super::app::App;
use super::fields;
use super::table::Run;
use crate::base::{Error, Kind, Result, ResultExt};
use crate::demo::model::{self, Scenario};
use crate::model::RunnerKind;
use crate::proc;

use stage::{Show, Stage};

/// The task of the demo.
const CODE: &str = "hello";

/// see lazy work: a throw-away repository, a scripted model, and a task from create to accept
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(note = "Needs git and nothing else. --agent claude-code plays the same script to the real Claude Code.")]
pub(crate) struct Demo {
    /// leave the directory and tell where it is
    #[argh(switch)]
    keep: bool,
    /// demo (built in) or claude-code
    #[argh(option, arg_name = "agent", default = "\"demo\".into()", from_str_fn(agent))]
    agent: String,
    /// what the agent runs in: host
    #[argh(option, arg_name = "runner", default = "\"host\".into()", from_str_fn(fields::runner))]
    runner: String,
}

fn agent(text: &str) -> std::result::Result<String, String> {
    match text {
        "demo" | "claude-code" => Ok(text.to_string()),
        other => Err(format!("{other:?} cannot play the demo; choose demo or claude-code")),
    }
}

impl Run for Demo {
    async fn run(self, app: App) -> Result<u8> {
        let runner = RunnerKind::parse_alias(&self.runner)?;
        require_programs(&app, &self.agent)?;
        let listener =
            TcpListener::bind("127.0.0.1:0").await.io_context(|| "cannot listen on the loopback interface".into())?;
        let server = model::serve(listener, Scenario::built_in())?;
        let stage = Stage::build(&app, server.address())?;
        let ended = tokio::select! {
            ended = play(&stage, &self.agent, runner) => ended,
            signal = proc::shutdown_signal() => Err(Error::new(Kind::Canceled, format!("interrupted ({signal:?})"))),
        };
        let failed = ended.as_ref().is_err_and(|error| error.kind() != Kind::Canceled);
        if failed {
            stage.tell_logs();
        }
        stage.clean_up(self.keep).await?;
        server.stop(Duration::from_secs(1)).await;
        ended.map(|()| 0).map_err(|error| error.context("the demo did not finish"))
    }
}

fn require_programs(app: &App, agent: &str) -> Result<()> {
    let path = app.process.var_os("PATH").unwrap_or_default();
    if proc::which("git", path).is_none() {
        return Err(Error::unavailable("the demo needs git").hint("apt-get install git"));
    }
    if agent == "claude-code" && proc::which("claude", path).is_none() {
        return Err(Error::unavailable("Claude Code is not installed")
            .hint("npm install -g @anthropic-ai/claude-code")
            .hint("lazy demo"));
    }
    Ok(())
}

async fn play(stage: &Stage, agent: &str, runner: RunnerKind) -> Result<()> {
    stage.say("A git repository with a README, and lazy set up in it.")?;
    stage.make_repository().await?;
    stage.configure(agent, runner)?;
    stage.lazy(&["init", "--non-interactive"], Show::Brief).await?;

    stage.say("A task: what is to be achieved, and what the agent is told.")?;
    let prompt = "Read the README, then write a greeting that fits it into hello.txt and commit it.";
    stage.lazy(&["create", "--code", CODE, "--goal", "Greet the reader", "--prompt", prompt], Show::All).await?;

    stage.say("Started: the agent works in a worktree of its own, and its model traffic goes through lazy's proxy.")?;
    stage.lazy(&["start", CODE], Show::All).await?;
    stage.lazy(&["watch", CODE], Show::All).await?;
    stage.lazy(&["wait", CODE], Show::All).await?;

    stage.say("The turn is over and the task waits for a reviewer: you.")?;
    stage.lazy(&["blocked"], Show::All).await?;
    stage.lazy(&["show", CODE], Show::Brief).await?;
    stage.lazy(&["diff", CODE, "--full"], Show::All).await?;

    stage.say("Feedback sends it back to work, in the same conversation.")?;
    stage.lazy(&["unblock", CODE, "-m", "Good. Please add a line about listening to reviewers."], Show::Brief).await?;
    stage.lazy(&["watch", CODE], Show::All).await?;
    stage.lazy(&["wait", CODE], Show::All).await?;

    stage.say("A question changes nothing.")?;
    stage.lazy(&["ask", CODE, "-m", "What did you change, and why there?"], Show::All).await?;

    stage.say("Accepted: one squash commit on main; your own checkout's files were never in the agent's hands.")?;
    stage.lazy(&["diff", CODE, "--full"], Show::All).await?;
    stage.lazy(&["accept", CODE, "--yes", "--reason", "It greets, and it listens."], Show::All).await?;
    stage.summary().await
}
