//! Following a turn as it happens.

use tokio::time::Instant;

use super::render;
use super::session::Session;
use crate::base::Result;
use crate::model::Status;
use crate::rpc::commands::{Watch, WatchEvent, WatchParams};

/// The most the daemon waits for something new.
const WAIT_MS: u64 = 25_000;

/// Calls `on_event` for everything that happens until the running turn ends; returns where the task stands then.
pub(crate) async fn events(
    session: &Session,
    task: &str,
    mut on_event: impl FnMut(&WatchEvent) -> Result<()>,
) -> Result<Status> {
    let mut params = WatchParams { task: task.to_string(), cursor: None, wait_ms: 0 };
    loop {
        let report = session.call_quietly::<Watch>(&params).await?;
        report.events.iter().try_for_each(&mut on_event)?;
        let over = !report.running && !matches!(report.status, Status::Working | Status::Queued);
        if over && report.events.is_empty() {
            return Ok(report.status);
        }
        params.cursor = Some(report.cursor);
        // a finished turn has nothing to wait for: one more question fetches the rest
        params.wait_ms = if over { 0 } else { WAIT_MS };
    }
}

/// Prints a turn as it happens, `[MM:SS] [task] …`, and returns the exit code: 0 when it ended with an answer.
pub(crate) async fn print(session: &Session, task: &str) -> Result<u8> {
    let begun = Instant::now();
    let app = &session.app;
    let status =
        events(session, task, |event| app.print(render::watch::followed(event, begun.elapsed(), task, app.style)))
            .await?;
    app.print(format!("Task {} is now {}", app.style.id(task), app.style.of(status)))?;
    Ok(exit_code(status))
}

/// 0 when a turn ended with something to review.
pub(crate) fn exit_code(status: Status) -> u8 {
    u8::from(!(status.waits_for_review() || status == Status::Complete))
}
