//! A task's worktree and what may be done next; the project as the daemon sees it.

use super::sheet::Sheet;
use super::{display_id, short};
use crate::base::text::plural;
use crate::cli::style::Style;
use crate::rpc::commands::{SystemStatusReport, TaskStatusReport};

/// At most this many uncommitted files are named.
const FILES: usize = 10;

/// `lazy status <task>`.
pub(crate) fn task(report: &TaskStatusReport, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    let status = match &report.substate {
        Some(substate) => format!("{}({substate})", report.task.status),
        None => style.of(report.task.status),
    };
    sheet
        .line(format!("Task {} Status", style.id(display_id(&report.task))))
        .field("Goal", &report.task.goal)
        .field("Status", status)
        .maybe(
            "Parent",
            report.parent.as_ref().map(|parent| format!("{} – {}", style.id(display_id(parent)), parent.goal)),
        );
    if let Some(why) = &report.orphaned {
        sheet.line(super::show::orphan_note(why, &display_id(&report.task), style));
    }
    sheet.section("Session:");
    if report.branch.is_none() {
        sheet.line("  not started");
    }
    sheet
        .maybe("Branch", report.branch.as_deref())
        .maybe("Target", report.target_branch.as_deref())
        .maybe("Worktree", report.worktree.as_deref())
        .maybe("Baseline", report.baseline.as_deref().map(|sha| style.sha(short(sha))))
        .maybe("HEAD", report.head.as_deref().map(|sha| style.sha(short(sha))));
    if report.worktree.is_some() && !report.worktree_exists {
        sheet.line(format!("  {}", style.warning("The worktree is not there; the branch still has the commits.")));
    }
    if report.branch.is_some() {
        sheet.field("Commits", report.commits.len().to_string());
        for commit in &report.commits {
            sheet.line(format!("    {} {}", style.sha(short(&commit.sha)), commit.message));
        }
    }
    if let Some(merge) = report.merge_state.as_ref().filter(|merge| merge.merge_in_progress) {
        sheet.field("Merge", style.warning(format!("unresolved: {}", merge.summary)));
    }
    if report.worktree_exists {
        if report.uncommitted.is_empty() {
            sheet.field("Uncommitted", "NO");
        } else {
            sheet.field("Uncommitted", style.warning(format!("YES ({})", plural(report.uncommitted.len(), "file"))));
            for line in report.uncommitted.iter().take(FILES) {
                sheet.line(format!("    {line}"));
            }
            if report.uncommitted.len() > FILES {
                sheet.line(format!("    … and {} more", report.uncommitted.len() - FILES));
            }
        }
    }
    sheet.field("Agent", &report.agent);
    if report.branch.is_some() {
        sheet
            .maybe("Agent session", report.agent_session_id.as_deref())
            .field("Can resume", if report.agent_session_id.is_some() { "YES" } else { "NO" })
            .maybe("Last interrupt", report.last_interrupt.as_deref());
    }
    if !report.actions.is_empty() {
        sheet.section("Actions:");
        for action in &report.actions {
            sheet.line(format!("  {}", style.id(action)));
        }
    }
    sheet.text()
}

/// `lazy system status`.
pub(crate) fn system(report: &SystemStatusReport, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet
        .field("Version", &report.version)
        .field("Project", &report.project)
        .field("Mode", if report.offline { style.warning("OFFLINE") } else { style.success("ONLINE") })
        .field("Driver", &report.driver)
        .field("Remote", &report.remote)
        .field("Storage", &report.storage)
        .field("Credential", report.credential.as_deref().unwrap_or("none"))
        .field("Runner", report.runner.as_str())
        .field("Agent", format!("{} (effort {})", report.agent, report.effort));
    let counts: Vec<String> = report
        .counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    sheet.field("Tasks", if counts.is_empty() { "none".to_string() } else { counts.join(", ") });
    for note in &report.notes {
        sheet.field("Note", note);
    }
    for record in &report.damaged {
        sheet.field("Damaged", style.error(record));
    }
    sheet.text()
}
