//! The turns of a session: a line each, grouped, or in full.

use super::sheet::Sheet;
use crate::base::text::{count_text, one_line, plural, truncate_chars};
use crate::cli::style::Style;
use crate::model::{Actor, Role, Turn, TurnKind};

/// Whether turns stand in one list or in groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One list.
    Flat,
    /// A request and what it led to.
    Chunks,
}

/// Whether turns are cut to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// A line each.
    Brief,
    /// Whole texts.
    Full,
}

/// The section of the turns; nothing when there are none.
pub(crate) fn section(sheet: &mut Sheet, turns: &[Turn], form: Form, depth: Depth, style: Style) {
    if turns.is_empty() {
        return;
    }
    let human = turns.iter().filter(|turn| is_human(turn)).count();
    let auto = turns.iter().filter(|turn| turn.auto_triggered).count();
    sheet.section(format!("Turns: {} total ({human} human, {auto} auto)", turns.len()));
    match form {
        Form::Flat => turns.iter().for_each(|turn| one(sheet, turn, depth, style)),
        Form::Chunks => {
            for (at, chunk) in chunks(turns).enumerate() {
                let first = &chunk[0];
                sheet.line(style.dim(format!(
                    "  ━ Chunk {} #{} [{}] ({} turns)",
                    at + 1,
                    first.sequence,
                    role(first),
                    chunk.len()
                )));
                chunk.iter().for_each(|turn| one(sheet, turn, depth, style));
            }
        }
    }
}

/// A request that a person made opens a group.
fn chunks(turns: &[Turn]) -> impl Iterator<Item = &[Turn]> {
    turns.chunk_by(|_, next| !is_human(next))
}

fn is_human(turn: &Turn) -> bool {
    turn.role == Role::Human && !turn.auto_triggered && matches!(turn.actor, None | Some(Actor::Human | Actor::Builder))
}

fn role(turn: &Turn) -> &'static str {
    match (turn.role, turn.actor) {
        (Role::Agent, _) if turn.agent_had_no_effect => "crash",
        (Role::Agent, _) => "agent",
        (Role::Human, Some(actor)) => actor.as_str(),
        (Role::Human, None) => "human",
    }
}

fn kind(turn: &Turn) -> &'static str {
    match turn.kind {
        TurnKind::Work | TurnKind::Unknown => "",
        TurnKind::Ask => "<ask>",
        TurnKind::Nudge => "<nudge>",
        TurnKind::Sync => "<sync>",
        TurnKind::PreAccept => "<pre-accept>",
    }
}

fn one(sheet: &mut Sheet, turn: &Turn, depth: Depth, style: Style) {
    let facts = facts(turn, style);
    let label = style.role(turn.role, &format!("[{}]{}", role(turn), kind(turn)));
    match depth {
        Depth::Brief => {
            let mut parts = vec![format!("  #{} {label}", turn.sequence)];
            parts.extend(facts);
            let content = truncate_chars(&one_line(&turn.content), 80);
            let content = if content.is_empty() { content } else { format!(": {content}") };
            sheet.line(format!("{}{content}", parts.join(" | ")));
        }
        Depth::Full => {
            sheet.line(format!("\n  --- Turn #{} {label} ---", turn.sequence));
            if !facts.is_empty() {
                sheet.line(format!("  {}", style.dim(facts.join(" | "))));
            }
            sheet.line(turn.prompt.as_deref().unwrap_or(&turn.content).trim_end());
            if let Some(output) = turn.check_output.as_deref().filter(|output| !output.trim().is_empty()) {
                sheet.line(format!("  {}", style.bold("Check output:"))).line(output.trim_end());
            }
        }
    }
}

fn facts(turn: &Turn, style: Style) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(usage) = turn.usage.filter(|usage| !usage.is_zero()) {
        facts.push(format!("{} in, {} out", count_text(usage.input_total()), count_text(usage.output_tokens)));
    }
    let who: Vec<&str> =
        [turn.agent.as_deref(), turn.model.as_deref(), turn.effort.as_deref()].into_iter().flatten().collect();
    if turn.role == Role::Agent && !who.is_empty() {
        facts.push(who.join("/"));
    }
    match turn.check_exit_code {
        Some(0) => facts.push(format!("check: {}", style.success("OK"))),
        Some(code) => facts.push(format!("check: {} (exit {code})", style.error("FAILED"))),
        None => {}
    }
    if turn.auto_triggered {
        facts.push("auto".into());
    }
    if let Some(violations) = turn.violations.as_ref().filter(|violations| !violations.is_empty()) {
        let files: Vec<&str> = violations.iter().map(|violation| violation.file.as_str()).collect();
        let count = plural(files.len(), "protected file");
        facts.push(style.warning(format!("{count} changed: {}", files.join(", "))));
    }
    if let Some(first) = turn.merge_conflicts.first() {
        let files: Vec<&str> = turn.merge_conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
        let source = Some(first.merge_source.as_str()).filter(|source| !source.is_empty()).unwrap_or("the upstream");
        facts.push(style.warning(format!("{source} conflicts in {}", files.join(", "))));
    }
    facts
}
