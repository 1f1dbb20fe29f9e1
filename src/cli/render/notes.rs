//! Comments, journal entries, tags.

use super::display_id;
use super::sheet::Sheet;
use crate::cli::style::Style;
use crate::rpc::commands::{CommentReport, JournalListReport, JournalReport, TagReport};

/// A comment kept.
pub(crate) fn commented(report: &CommentReport, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet
        .line(format!("Commented on task {}", style.id(display_id(&report.task))))
        .field("Comment ID", &report.comment.id)
        .field("Created", report.comment.created_at.minute())
        .line("")
        .line("The agent gets it with its next prompt.");
    sheet.text()
}

/// An entry kept.
pub(crate) fn journaled(report: &JournalReport, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet
        .line(format!("Wrote in the journal of task {}", style.id(display_id(&report.task))))
        .field("Entry ID", &report.entry.id)
        .field("Created", report.entry.created_at.minute());
    sheet.text()
}

/// The journal, oldest first.
pub(crate) fn journal(report: &JournalListReport, style: Style) -> String {
    let id = style.id(display_id(&report.task));
    if report.entries.is_empty() {
        return format!("The journal of task {id} is empty.\n");
    }
    let mut out = String::new();
    for entry in &report.entries {
        let who = entry.actor_name.as_deref().or(entry.actor.map(|actor| actor.as_str())).unwrap_or("-");
        out.push_str(&format!("{} {who}\n", style.dim(entry.created_at.minute())));
        for line in entry.content.lines() {
            out.push_str(&format!("  {line}\n"));
        }
    }
    out
}

/// Labels after a change.
pub(crate) fn tagged(report: &TagReport, done: &str, style: Style) -> String {
    let all = if report.tags.is_empty() {
        "none".to_string()
    } else {
        report.tags.iter().map(|tag| style.id(format!("#{tag}"))).collect::<Vec<_>>().join(" ")
    };
    format!("{done} task {}; tags now: {all}\n", style.id(&report.display_id))
}
