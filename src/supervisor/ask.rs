//! A question: nothing is rolled back, merged, checked or handed off, and the agent can only read.

use super::fault::Fault;
use super::launch::{Launcher, Limits, Request};
use super::perform::{Persistence, millis, perform};
use super::turn::Turn;
use crate::agent::{TurnMode, prompts};
use crate::model::exchange::{Completed, Phase, Work};

/// The one answer.
pub(super) async fn run(turn: &mut Turn<'_>, work: &Work) -> Result<Vec<Completed>, Fault> {
    turn.reporter.phase(Phase::Work);
    let launcher = Launcher::prepare(turn, TurnMode::ReadOnly)?;
    let rules = prompts::render("ask-system-prompt", &[])?;
    let system_prompt = match turn.head.system_prompt.as_str() {
        "" => rules,
        usual => format!("{rules}\n\n---\n\n{usual}"),
    };
    let request = Request {
        prompt: work.prompt.clone(),
        system_prompt,
        session_id: turn.head.agent_session_id.clone(),
        mode: TurnMode::ReadOnly,
        limits: Limits::of(turn, launcher.agent),
    };
    let done = perform(turn, &launcher, request, Persistence::Ladder).await?;
    turn.reporter.phase(Phase::WritingResponse);
    Ok(vec![Completed {
        result: done.result.text,
        session_id: done.result.session_id,
        model_id: done.result.model_id,
        usage: done.usage,
        mcp_tools: done.mcp_tools,
        agent_duration_ms: Some(millis(done.ran)),
        ..turn.completed()
    }])
}
