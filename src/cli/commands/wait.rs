//! `lazy wait`.

use argh::{ArgsInfo, FromArgs};
use serde_json::json;

use super::create::Form;
use super::start;
use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{follow, render};
use crate::model::Status;
use crate::rpc::commands::{self as rpc, WaitReport};

/// Seconds of one wait at most.
const CAP: u64 = 600;

/// wait until a task stops working
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    note = "Ends with 0 when the task waits for a reviewer, with 1 for everything else and when 600 seconds are over.",
    example = "lazy wait fix-login && lazy diff fix-login"
)]
pub(crate) struct Wait {
    /// the tasks; the first to stop working ends the wait
    #[argh(positional)]
    tasks: Vec<String>,
    /// any working task
    #[argh(switch)]
    next: bool,
    /// print what happens meanwhile
    #[argh(switch)]
    follow: bool,
    /// seconds, at most 600
    #[argh(option, arg_name = "seconds")]
    timeout: Option<u64>,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Wait {
    async fn run(self, app: App) -> Result<u8> {
        let form = start::form(self.json, self.follow)?;
        require_a_choice(&self)?;
        let session = match Session::open(&app, form.talk()).await {
            Err(error) if form == Form::Json => return failed(&app, &error),
            other => other?,
        };
        if self.follow {
            return follow::print(&session, &self.tasks[0]).await;
        }
        if form == Form::Text {
            let what = if self.next { "the next task to stop".to_string() } else { self.tasks.join(", ") };
            app.process.err_line(format!("… waiting for {what}"));
        }
        let params = rpc::WaitParams { tasks: self.tasks, next: self.next, timeout: self.timeout };
        match (session.call_quietly::<rpc::Wait>(&params).await, form) {
            (Err(error), Form::Json) => failed(&app, &error),
            (Err(error), Form::Text) => Err(error),
            (Ok(report), Form::Json) => {
                app.print_json_pretty(&as_json(&report))?;
                Ok(exit_code(&report))
            }
            (Ok(report), Form::Text) => {
                app.print(render::wait::ended(&report, app.style))?;
                Ok(exit_code(&report))
            }
        }
    }
}

fn require_a_choice(wait: &Wait) -> Result<()> {
    match (wait.next, wait.tasks.len()) {
        (true, 1..) => Err(Error::usage("--next takes no tasks").hint("lazy wait --next")),
        (false, 0) => Err(Error::usage("wait for which task?").hint("lazy wait <task>").hint("lazy wait --next")),
        (_, count) if wait.follow && count != 1 => {
            Err(Error::usage("--follow takes exactly one task").hint("lazy wait <task> --follow"))
        }
        _ if wait.timeout.is_some_and(|seconds| seconds == 0 || seconds > CAP) => {
            Err(Error::usage("--timeout is between 1 and 600 seconds").hint("lazy wait <task> --timeout 600"))
        }
        _ => Ok(()),
    }
}

fn failed(app: &App, error: &Error) -> Result<u8> {
    app.print_json_pretty(&json!({ "error": error.full_message() }))?;
    Ok(error.kind().exit_code())
}

/// The fixed shape; a wait for any task when none works has only the first three.
fn as_json(report: &WaitReport) -> serde_json::Value {
    if report.task_id.is_none() && report.tasks.is_empty() {
        return json!({ "timed_out": report.timed_out, "tasks": [], "pending": [] });
    }
    json!({
        "timed_out": report.timed_out,
        "task_id": report.task_id,
        "display_id": report.display_id,
        "status": report.status,
        "head_sha": report.head_sha,
        "merge_state": report.merge_state.as_ref().map(|merge| json!({ "summary": merge.summary })),
        "tasks": report.tasks,
        "pending": report.pending,
    })
}

/// 0 when the winner waits for a reviewer, or when there was nothing to wait for.
fn exit_code(report: &WaitReport) -> u8 {
    match report.status {
        _ if report.timed_out => 1,
        None => 0,
        Some(status) => u8::from(!Status::waits_for_review(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_task_to_review_is_a_success() {
        let ended = |status: Option<Status>, timed_out: bool| {
            exit_code(&WaitReport { status, timed_out, ..WaitReport::default() })
        };
        assert_eq!(ended(Some(Status::Blocked), false), 0);
        assert_eq!(ended(Some(Status::Conflict), false), 0);
        assert_eq!(ended(Some(Status::Submitted), false), 0);
        assert_eq!(ended(Some(Status::Interrupted), false), 1);
        assert_eq!(ended(Some(Status::Complete), false), 1);
        assert_eq!(ended(Some(Status::Working), true), 1);
        assert_eq!(ended(None, false), 0, "--next with nothing working");
    }
}
