//! What init did, and what doctor found.

use super::sheet::Sheet;
use crate::base::text::plural;
use crate::cli::style::Style;
use crate::setup::{DoctorReport, InitReport, Level, Outcome, SetUp};

/// `lazy init`.
pub(crate) fn init(report: &InitReport, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet.line(match report.status {
        SetUp::Initialized => format!("Initialized lazy in {}", report.root.display()),
        SetUp::AlreadyInitialized => format!("{} is already initialized", report.root.display()),
    });
    sheet.maybe("Tasks", report.storage.as_ref().map(|path| path.display().to_string()));
    for note in &report.notes {
        let mark = match note.level {
            Level::Done => style.success("✓"),
            Level::Warning => style.warning("!"),
        };
        sheet.line(format!("{mark} {}", note.text));
        for hint in &note.hints {
            sheet.line(format!("    {} {}", style.dim("try:"), style.id(hint)));
        }
    }
    if !report.next.is_empty() {
        sheet.section("Next:");
        for command in &report.next {
            sheet.line(format!("  {}", style.id(command)));
        }
    }
    sheet.text()
}

/// A line for each check, and a verdict.
pub(crate) fn doctor(report: &DoctorReport, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    for check in &report.checks {
        let mark = match check.outcome {
            Outcome::Ok => style.success("✓"),
            Outcome::Warn => style.warning("!"),
            Outcome::Fail => style.error("✗"),
        };
        sheet.line(format!("{mark} {}", check.label));
        for line in check.detail.lines() {
            sheet.line(format!("    {line}"));
        }
        if let Some(hint) = &check.hint {
            sheet.line(format!("    {} {}", style.dim("try:"), style.id(hint)));
        }
    }
    sheet.line("");
    match report.failures() {
        0 => sheet.line(style.success("All good.")),
        count => sheet.line(style.error(format!("{} found.", plural(count, "issue")))),
    };
    sheet.text()
}
