//! What a search found.

use super::short;
use crate::base::text::{one_line, pad_columns, truncate_chars};
use crate::cli::style::Style;
use crate::rpc::commands::{SearchHit, SearchReport};

/// The matches as a table, or under their tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One line each.
    Table,
    /// Under the task.
    Grouped,
}

/// The matches.
pub(crate) fn matches(report: &SearchReport, shape: Shape, style: Style) -> String {
    if report.matches.is_empty() {
        let hint = report.hint.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default();
        return format!("No matches found.{hint}\n");
    }
    let noun = if report.total == 1 { "match" } else { "matches" };
    let mut out = format!("Found {} {noun}:\n\n", style.bold(report.total.to_string()));
    match shape {
        Shape::Table => {
            out.push_str(&format!(
                "{} {} {}\n",
                style.bold(pad_columns("TASK", 20)),
                style.bold(pad_columns("TYPE", 9)),
                style.bold("MATCH")
            ));
            for hit in &report.matches {
                out.push_str(&format!(
                    "{} {} {}\n",
                    style.id(pad_columns(&name(hit), 20)),
                    pad_columns(&kind(hit), 9),
                    truncate_chars(&one_line(&hit.content), 60)
                ));
            }
        }
        Shape::Grouped => {
            let mut last = None;
            for hit in &report.matches {
                if last != Some(hit.task_id) {
                    if last.is_some() {
                        out.push('\n');
                    }
                    out.push_str(&format!("{} {}\n", style.id(name(hit)), hit.task_goal));
                    last = Some(hit.task_id);
                }
                out.push_str(&format!(
                    "  {} {}\n",
                    pad_columns(&kind(hit), 9),
                    truncate_chars(&one_line(&hit.content), 60)
                ));
            }
        }
    }
    let shown = u32::try_from(report.matches.len()).unwrap_or(u32::MAX);
    if shown < report.total {
        out.push_str(&format!("\n{}\n", style.dim(format!("{shown} of {} shown (--limit, --offset)", report.total))));
    }
    out
}

fn name(hit: &SearchHit) -> String {
    hit.task_code.clone().unwrap_or_else(|| hit.task_id.short())
}

fn kind(hit: &SearchHit) -> String {
    match (hit.turn_seq, &hit.sha) {
        (Some(sequence), _) if hit.kind == "turn" => format!("turn #{sequence}"),
        (_, Some(sha)) if hit.kind == "commit" => short(sha).to_string(),
        _ => hit.kind.clone(),
    }
}
