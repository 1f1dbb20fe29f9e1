//! What happens in a turn, a line or a block for each thing.

use std::time::Duration;

use super::short;
use crate::base::text::{escape_controls, one_line, truncate_chars};
use crate::cli::style::Style;
use crate::rpc::commands::WatchEvent;

/// For a person who looks on: texts in full, tools with `▶`.
pub(crate) fn live(event: &WatchEvent, style: Style) -> String {
    match event {
        WatchEvent::Phase { phase, detail } => {
            let detail = detail.as_deref().map(|detail| format!(" ({})", one_line(detail))).unwrap_or_default();
            format!("{}\n", style.dim(format!("Supervisor: {phase}{detail}")))
        }
        WatchEvent::Text { text } => format!("{}\n", escape_controls(text.trim_end())),
        WatchEvent::Tool { name, summary } => {
            format!("{} {} {}\n", style.id("▶"), style.bold(one_line(name)), truncate_chars(&one_line(summary), 120))
        }
        WatchEvent::Progress { message } => format!("{} {}\n", style.success("●"), one_line(message)),
        WatchEvent::Commit { sha, message } => {
            format!("{} {} {}\n", style.success("Commit"), style.sha(short(sha)), one_line(message))
        }
        WatchEvent::Status { status } => format!("{} {}\n", style.bold("Status:"), style.of(*status)),
    }
}

/// For a log: `[MM:SS] [task] what`, one line each.
pub(crate) fn followed(event: &WatchEvent, since: Duration, task: &str, style: Style) -> String {
    let seconds = since.as_secs();
    let what = match event {
        WatchEvent::Phase { phase, detail: Some(detail) } => format!("{phase}: {}", one_line(detail)),
        WatchEvent::Phase { phase, detail: None } => phase.clone(),
        WatchEvent::Text { text } => truncate_chars(&one_line(text), 160),
        WatchEvent::Tool { name, summary } => {
            format!("▶ {} {}", one_line(name), truncate_chars(&one_line(summary), 120))
        }
        WatchEvent::Progress { message } => one_line(message),
        WatchEvent::Commit { sha, message } => format!("New commit: {} {}", style.sha(short(sha)), one_line(message)),
        WatchEvent::Status { status } => format!("status: {}", style.of(*status)),
    };
    let clock = style.dim(format!("[{:02}:{:02}]", seconds / 60, seconds % 60));
    format!("{clock} [{}] {what}\n", style.id(task))
}
