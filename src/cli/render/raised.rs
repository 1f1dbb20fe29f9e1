//! Raised items.

use super::{display_id, short};
use crate::base::Millis;
use crate::base::text::{one_line, pad_columns, truncate_chars};
use crate::cli::style::Style;
use crate::model::{RaisedItem, RaisedStatus};
use crate::rpc::commands::{ListRaisedReport, RaisedLine, RaisedReport};

/// The items below a line with the two open counts.
pub(crate) fn table(report: &ListRaisedReport, now: Millis, style: Style) -> String {
    let mut out = format!(
        "Open items: {} to decide before an accept, {} for information.\n",
        style.bold(report.open_blocking.to_string()),
        style.bold(report.open_non_blocking.to_string())
    );
    if report.items.is_empty() {
        out.push_str("No raised items to show.\n");
        return out;
    }
    let columns = [("ID", 9), ("GATE", 8), ("AGE", 5), ("TASK", 22), ("STATUS", 16)];
    let head: Vec<String> = columns.iter().map(|(name, width)| pad_columns(name, *width)).collect();
    out.push_str(&format!("\n{} {}\n", style.bold(head.join(" ")), style.bold("ITEM")));
    for line in &report.items {
        out.push_str(&row(line, now, style));
    }
    out
}

fn row(line: &RaisedLine, now: Millis, style: Style) -> String {
    let item = &line.item;
    let gate = if item.blocking { "blocking" } else { "fyi" };
    let gate = pad_columns(gate, 8);
    let gate = if item.gates_accept() { style.warning(gate) } else { gate };
    format!(
        "{} {gate} {} {} {} {}\n",
        style.id(pad_columns(short(&item.id), 9)),
        style.dim(pad_columns(&age(item, now), 5)),
        style.id(pad_columns(&display_id(&line.task), 22)),
        pad_columns(item.status.as_str(), 16),
        headline(item)
    )
}

fn headline(item: &RaisedItem) -> String {
    let mut text = truncate_chars(&one_line(item.headline()), 60);
    if matches!(item.status, RaisedStatus::PromotedPeer | RaisedStatus::PromotedSubtask)
        && let Some(code) = &item.promoted_task_code
    {
        text.push_str(&format!(" → {code}"));
    }
    text
}

fn age(item: &RaisedItem, now: Millis) -> String {
    let seconds = now.since(item.created_at).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A decided or flagged item.
pub(crate) fn decided(report: &RaisedReport, style: Style) -> String {
    let item = &report.item;
    let id = style.id(short(&item.id));
    let task = style.id(display_id(&report.task));
    let mut out = match item.status {
        RaisedStatus::Open if item.blocking => {
            format!("Item {id} of task {task} stops an accept until it is decided.\n")
        }
        RaisedStatus::Open => format!("Item {id} of task {task} is for information and stops nothing.\n"),
        status => format!("Item {id} of task {task} is {}.\n", status.as_str()),
    };
    if let Some(promoted) = &report.promoted {
        let name = display_id(promoted);
        out.push_str(&format!(
            "It is now task {} in the backlog: {}\n",
            style.id(&name),
            style.id(format!("lazy start {name}"))
        ));
    }
    if item.pending_comment.is_some() {
        out.push_str("The agent hears of it with its next prompt.\n");
    }
    out
}
