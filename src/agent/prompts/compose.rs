//! How the pieces make the two prompts of a turn.

use super::render;
use crate::base::{Error, Result};
use crate::model::{Comment, RunnerKind, TaskType};

/// Which system prompt a turn needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The first turn of a task, or of a new conversation.
    First,
    /// A later turn.
    Resume,
    /// A question. The rules of it (`ask-system-prompt`) are put before this by whoever makes the turn read-only: the
    /// supervisor.
    Ask,
}

/// What the system prompt is made of.
#[derive(Debug, Clone, Copy)]
pub struct SystemPrompt<'a> {
    /// Which one.
    pub variant: Variant,
    /// Where the agent runs.
    pub runner: RunnerKind,
    /// `terse`, `normal` or `chatty`; absent gives no guidance.
    pub chattiness: Option<&'a str>,
    /// Names of the project's features that are on.
    pub features: &'a [String],
    /// Base of links into lazy's documentation; absent when they are off.
    pub docs_url: Option<&'a str>,
}

/// What a turn's prompt is made of.
#[derive(Debug, Clone, Copy)]
pub struct TurnPrompt<'a> {
    /// The task's goal.
    pub goal: &'a str,
    /// The task's type: some have a way of working.
    pub task_type: TaskType,
    /// Comments the agent has not read, oldest first.
    pub comments: &'a [Comment],
    /// The message itself.
    pub body: Body<'a>,
}

/// The message of a turn.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// The task's own prompt: the first turn.
    Prompt(&'a str),
    /// The reviewer's feedback.
    Feedback(&'a str),
    /// Feedback whose turn was cut short, oldest first; see [`redelivery`].
    Redelivery(&'a [String]),
    /// Go on after an interruption.
    Resume,
    /// Any other text, as it is.
    Message(&'a str),
}

/// The text appended to the agent's own system prompt: guidance on length first, where it is noticed most, then the
/// instructions, the tools, the place, and what the project has switched on.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] for an unknown chattiness.
pub fn system_prompt(parts: SystemPrompt<'_>) -> Result<String> {
    let mut sections = Vec::new();
    if let Some(level) = parts.chattiness.filter(|level| !level.trim().is_empty()) {
        let name = match level.trim() {
            "terse" => "chattiness-terse",
            "normal" => "chattiness-normal",
            "chatty" => "chattiness-chatty",
            other => {
                return Err(Error::invalid(format!("{other:?} is not a chattiness; choose terse, normal or chatty")));
            }
        };
        sections.push(render(name, &[])?);
    }
    match parts.variant {
        Variant::First => sections.push(render("system-instructions", &[])?),
        Variant::Resume => sections.push(render("system-instructions-resume", &[])?),
        Variant::Ask => {}
    }
    sections.push(render("tool-instructions", &[])?);
    sections.push(render(
        match parts.runner {
            RunnerKind::Docker | RunnerKind::Podman => "docker-agent-instructions",
            RunnerKind::Host => "host-process-agent-instructions",
        },
        &[],
    )?);
    if !parts.features.is_empty() {
        let mut names = parts.features.to_vec();
        names.sort();
        let list: Vec<String> = names.iter().map(|name| format!("- `{name}`")).collect();
        sections.push(render("features", &[("features", &list.join("\n"))])?);
    }
    if let Some(url) = parts.docs_url.filter(|url| !url.is_empty()) {
        sections.push(render("documentation", &[("docs_url", url)])?);
    }
    Ok(sections.join("\n\n"))
}

/// The prompt of a turn: the goal, unread comments, the way of working, and the message last.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] when the message is blank.
pub fn turn_prompt(parts: TurnPrompt<'_>) -> Result<String> {
    let opening = match parts.body {
        Body::Prompt(_) => "goal-context-start",
        _ => "goal-context-continue",
    };
    let mut sections = vec![render(opening, &[("goal", parts.goal.trim())])?];
    if !parts.comments.is_empty() {
        let list: Vec<String> = parts.comments.iter().map(comment_line).collect();
        sections.push(render("comments", &[("comments", &list.join("\n"))])?);
    }
    let methodology = match parts.task_type {
        TaskType::Fix => Some("fix-methodology"),
        TaskType::Refactor => Some("refactor-methodology"),
        TaskType::Document => Some("document-methodology"),
        _ => None,
    };
    if let (Some(name), Body::Prompt(_)) = (methodology, parts.body) {
        sections.push(render(name, &[])?);
    }
    sections.push(match parts.body {
        Body::Prompt(text) | Body::Message(text) => require_text(text)?.to_string(),
        Body::Feedback(text) => render("feedback", &[("feedback", require_text(text)?)])?,
        Body::Redelivery(feedback) => redelivery(feedback)?,
        Body::Resume => render("resume-context", &[])?,
    });
    Ok(sections.join("\n\n"))
}

/// Feedback that may be unread because its turn was cut short, oldest first.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] when there is none.
pub fn redelivery(feedback: &[String]) -> Result<String> {
    let texts: Vec<&str> = feedback.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    if texts.is_empty() {
        return Err(Error::invalid("there is no feedback to deliver again"));
    }
    let older = (texts.len() - 1).to_string();
    render("feedback-redelivery", &[("feedback", &texts.join("\n\n---\n\n")), ("older_count", &older)])
}

fn require_text(text: &str) -> Result<&str> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::invalid("the agent would be sent an empty message").hint("lazy edit <task> --prompt <text>"));
    }
    Ok(text)
}

/// `- 2026-12-01 09:30, human: text`, further lines indented below it.
fn comment_line(comment: &Comment) -> String {
    let who = comment.actor_name.as_deref().or(comment.actor.map(|actor| actor.as_str())).unwrap_or("someone");
    format!("- {}, {who}: {}", comment.created_at.minute(), comment.content.trim().replace('\n', "\n  "))
}
