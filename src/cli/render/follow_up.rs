//! Questions that a command asks before it acts.

use super::sheet::Sheet;
use super::show;
use crate::cli::style::Style;
use crate::model::Role;
use crate::rpc::commands::ShowReport;

/// What is about to be started.
pub(crate) fn before_start(report: &ShowReport, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet
        .line(format!("Task {}", style.id(report.task.display_id())))
        .field("Goal", &report.task.goal)
        .maybe("Model", report.task.model.as_deref().map(|model| style.model(model)))
        .field("Agent", &report.task.agent_id)
        .field("Runner", format!("{} ({})", report.runner.kind, report.runner.posture))
        .section("Prompt")
        .line(report.task.prompt.trim_end());
    sheet.text()
}

/// What feedback is given on: the agent's last words, its commits.
pub(crate) fn before_feedback(report: &ShowReport, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet
        .line(format!("Task {}", style.id(report.task.display_id())))
        .field("Goal", &report.task.goal)
        .field("Status", style.of(report.task.status))
        .field("Turns", report.turns.len().to_string());
    for line in show::commit_lines(report, style).into_iter().rev().take(5).rev() {
        sheet.line(format!("  {line}"));
    }
    sheet.text()
}

/// The template of the editor for feedback: the agent's last words, as lines that do not count.
pub(crate) fn feedback_template(report: &ShowReport) -> String {
    let said = report.turns.iter().rev().find(|turn| turn.role == Role::Agent && !turn.content.trim().is_empty());
    let mut out = String::from("\n# Feedback for the agent. Lines that start with # do not count.\n");
    if let Some(turn) = said {
        out.push_str(&format!("#\n# The agent's last words (turn {}):\n#\n", turn.sequence));
        for line in turn.content.lines() {
            out.push_str(&format!("# {line}\n"));
        }
    }
    out
}
