//! Refusals.

use crate::base::Error;
use crate::base::text::escape_controls;
use crate::cli::style::Style;

/// `Error: message`, the lines that explain it, then `try:` lines.
pub(crate) fn text(error: &Error, style: Style) -> String {
    let mut out = format!("{} {}\n", style.error("Error:"), escape_controls(&error.full_message()));
    let lines: Vec<String> = error
        .details()
        .and_then(|details| details.get("lines"))
        .and_then(|lines| serde_json::from_value(lines.clone()).ok())
        .unwrap_or_default();
    for line in lines {
        out.push_str(&format!("  {line}\n"));
    }
    for hint in error.hints() {
        out.push_str(&format!("  {} {}\n", style.dim("try:"), style.id(escape_controls(hint))));
    }
    out
}
