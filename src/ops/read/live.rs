//! How far a working task is.

use crate::model::exchange::{Phase, StatusFile};
use crate::model::{Status, TurnKind};
use crate::ops::Ctx;
use crate::store::TaskRow;

/// What a working task is doing right now.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    /// `agent`, `agent:answering`, `harness:<phase>`, `not-alive`; absent when the task is not working.
    pub substate: Option<String>,
    /// The agent's own word.
    pub progress: Option<String>,
    /// The supervisor's checkpoint.
    pub supervisor: Option<StatusFile>,
    /// Whether its run lives.
    pub alive: bool,
}

/// Looks at a task's mailbox and run. A task that is not working costs nothing.
pub(super) async fn look(ctx: &Ctx, row: &TaskRow) -> Live {
    let warm = row.session.as_ref().is_some_and(|session| session.container_name.is_some());
    let run = row.task.task_ref().map(|task_ref| task_ref.run_name());
    let seems_alive = async || match ctx.runner(row) {
        Ok(runner) => runner.seems_alive(run.as_deref().unwrap_or_default()).await.unwrap_or(false),
        Err(_) => false,
    };
    if row.status() != Status::Working {
        return Live { alive: warm && seems_alive().await, ..Live::default() };
    }
    let mailbox = ctx.mailbox(row.id()).ok();
    let supervisor = mailbox.as_ref().and_then(|mailbox| mailbox.load_status().ok().flatten());
    let alive = ctx.is_launching(row.id())
        || mailbox.as_ref().is_some_and(|mailbox| mailbox.has_response())
        || seems_alive().await;
    let progress = mailbox.as_ref().and_then(|mailbox| mailbox.load_progress()).map(|file| file.message);
    Live { substate: Some(substate(row, supervisor.as_ref(), alive)), progress, supervisor, alive }
}

fn substate(row: &TaskRow, supervisor: Option<&StatusFile>, alive: bool) -> String {
    if !alive {
        return "not-alive".into();
    }
    let answering = row.task.in_flight_turn.as_ref().is_some_and(|turn| turn.turn_type == TurnKind::Ask);
    match supervisor.map(|status| status.phase) {
        Some(Phase::Work) if answering => "agent:answering".into(),
        Some(Phase::Work) => "agent".into(),
        Some(Phase::Retrying) => {
            let attempt = supervisor.and_then(|status| status.retry_count).unwrap_or(0);
            let class =
                supervisor.and_then(|status| status.retry_failure_class).map_or("unknown", |class| class.as_str());
            format!("harness:retrying attempt {attempt} ({class})")
        }
        Some(phase) => format!("harness:{}", phase.as_str()),
        None => "harness:launching".into(),
    }
}
