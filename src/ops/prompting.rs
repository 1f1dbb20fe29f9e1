//! What the agent is told, composed from the catalogue of prompts.

use super::Ctx;
use crate::agent::prompts::{self, Body, SystemPrompt, TurnPrompt};
use crate::base::Result;
use crate::model::{Comment, Delivery, Role, RunnerKind};
use crate::store::TaskRecord;

pub(super) use crate::agent::prompts::Variant;

/// What is appended to the agent's own system prompt.
pub(super) fn system(ctx: &Ctx, variant: Variant, runner: RunnerKind) -> Result<String> {
    let config = ctx.config();
    let level = config.chattiness.agent.or(config.chattiness.default);
    let features: Vec<String> = config.features.iter().filter(|(_, on)| **on).map(|(name, _)| name.clone()).collect();
    prompts::system_prompt(SystemPrompt {
        variant,
        runner,
        chattiness: level.map(|level| level.as_str()),
        features: &features,
        docs_url: config.docs.url.as_deref(),
    })
}

/// The first prompt.
pub(super) fn first(record: &TaskRecord) -> Result<String> {
    compose(record, &record.comments, Body::Prompt(&record.task.prompt))
}

/// A reviewer's feedback, with decisions on raised items before it.
pub(super) fn feedback(record: &TaskRecord, feedback: &str, decisions: &[String]) -> Result<String> {
    compose(record, unread(record), Body::Feedback(&joined(decisions, feedback)))
}

/// Going on after an interruption: feedback that may be unread comes again; with a fresh conversation the task's own
/// prompt does.
pub(super) fn resumed(record: &TaskRecord, decisions: &[String]) -> Result<String> {
    let pending: Vec<String> = record
        .turns
        .iter()
        .filter(|turn| turn.role == Role::Human && turn.feedback_delivery == Some(Delivery::Pending))
        .map(|turn| turn.content.clone())
        .collect();
    let fresh = record.session.as_ref().is_none_or(|session| session.agent_session_id.is_none());
    let comments = unread(record);
    if !pending.is_empty() {
        return compose(record, comments, Body::Redelivery(&pending));
    }
    if fresh {
        let text = format!("{}\n\n{}", record.task.prompt, prompts::render("resume-context", &[])?);
        return compose(record, &record.comments, Body::Message(&joined(decisions, &text)));
    }
    match decisions {
        [] => compose(record, comments, Body::Resume),
        _ => compose(record, comments, Body::Message(&joined(decisions, &prompts::render("resume-context", &[])?))),
    }
}

/// The whole of what was sent, as it is kept with the turn.
pub(super) fn as_sent(system: &str, content: &str) -> String {
    format!("{system}\n\n---\n\n{content}")
}

fn compose(record: &TaskRecord, comments: &[Comment], body: Body<'_>) -> Result<String> {
    prompts::turn_prompt(TurnPrompt { goal: &record.task.goal, task_type: record.task.task_type, comments, body })
}

/// Comments the agent was not given yet. They are kept oldest first.
fn unread(record: &TaskRecord) -> &[Comment] {
    let through = record.session.as_ref().and_then(|session| session.notes_delivered_through);
    let start = through.map_or(0, |through| record.comments.partition_point(|comment| comment.created_at <= through));
    &record.comments[start..]
}

fn joined(decisions: &[String], text: &str) -> String {
    decisions.iter().map(String::as_str).chain([text]).collect::<Vec<_>>().join("\n\n")
}
