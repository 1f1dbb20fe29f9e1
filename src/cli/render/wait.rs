//! How a wait ended.

use super::short;
use crate::cli::style::Style;
use crate::rpc::commands::WaitReport;

/// The winner, its newest commit, and who still works.
pub(crate) fn ended(report: &WaitReport, style: Style) -> String {
    let mut out = String::new();
    if report.timed_out {
        out.push_str("The time ran out; the tasks go on.\n");
    } else if let (Some(id), Some(status)) = (&report.display_id, report.status) {
        out.push_str(&format!("Task {} is now {}\n", style.id(id), style.of(status)));
        if let Some(merge) = report.merge_state.as_ref().filter(|merge| merge.merge_in_progress) {
            out.push_str(&format!("{} {}\n", style.warning("Unresolved merge:"), merge.summary));
        }
        if let Some(sha) = &report.head_sha {
            out.push_str(&format!("head_sha: {}\n", style.sha(short(sha))));
        }
    } else {
        out.push_str("No task is working.\n");
    }
    if !report.pending.is_empty() {
        let pending: Vec<String> =
            report.pending.iter().map(|line| format!("{} ({})", style.id(&line.display_id), line.status)).collect();
        out.push_str(&format!("Still pending: {}\n", pending.join(", ")));
    }
    out
}
