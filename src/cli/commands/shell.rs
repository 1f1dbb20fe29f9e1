//! `lazy shell`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::proc::{self, Cmd};
use crate::rpc::commands as c;

/// open a shell where a task works: in its container, or in its worktree on this machine
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Shell {
    /// the task: code, id, or a prefix of it
    #[argh(positional)]
    task: String,
    /// on this machine, also when the task runs in a container
    #[argh(switch)]
    host: bool,
    /// in the container, or not at all
    #[argh(switch)]
    container: bool,
}

impl Run for Shell {
    async fn run(self, app: App) -> Result<u8> {
        if self.host && self.container {
            return Err(Error::usage("--host and --container exclude each other"));
        }
        let session = Session::open(&app, Form::Text.talk()).await?;
        let terminal = app.process.stdin_is_terminal() && app.process.stdout_is_terminal();
        let params = c::ShellParams { task: self.task.clone(), host: self.host, terminal };
        let report = session.call::<c::Shell>(&params).await?;
        let cmd = match report.container {
            Some(shell) => {
                app.process.err_line(format!("{} in container {}", report.worktree, shell.name));
                Cmd::new(shell.program).args(shell.args).env_of(&app.process)
            }
            None if self.container => {
                return Err(Error::conflict(format!("task {} does not run in a container", self.task))
                    .hint(format!("lazy shell {} --host", self.task)));
            }
            None => {
                app.process.err_line(format!("{} on this machine", report.worktree));
                let shell = app.process.var("SHELL").filter(|shell| !shell.is_empty()).unwrap_or("/bin/sh");
                Cmd::new(shell).env_of(&app.process).cwd(report.worktree.as_ref())
            }
        };
        let exit = proc::foreground(cmd).await?;
        let code = exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1);
        Ok(u8::try_from(code).unwrap_or(1))
    }
}
