//! Tasks that were made, changed, launched or ended.

use super::display_id;
use super::sheet::Sheet;
use crate::cli::style::Style;
use crate::model::TaskType;
use crate::rpc::commands::{
    AcceptReport, AskReport, CreateReport, EditReport, LaunchReport, StatusReport, SyncReport, TaskBrief,
};

/// A new task.
pub(crate) fn created(report: &CreateReport, style: Style) -> String {
    let id = display_id(&report.task);
    let mut sheet = Sheet::new(style);
    sheet
        .line(format!("Created task {}", style.id(&id)))
        .field("Goal", &report.task.goal)
        .field("Status", style.of(report.task.status))
        .field("ID", report.task.id.to_string())
        .maybe("Code", report.task.code.as_deref().map(|code| style.id(code)))
        .maybe("Parent", report.parent.as_ref().map(|parent| named(parent, style)));
    if report.parent.is_none() {
        sheet.maybe("Target", report.target_branch.as_deref().map(|branch| format!("branch {branch}")));
    }
    if report.task_type != TaskType::Task {
        sheet.field("Type", report.task_type.as_str());
    }
    sheet.field("Agent", format!("{} ({})", report.agent, report.agent_source));
    sheet.field(
        "Prompt",
        match report.prompt_chars {
            0 => "none yet".to_string(),
            count => format!("v1 ({count} chars)"),
        },
    );
    sheet
        .maybe("Model", report.model.as_deref().map(|model| style.model(model)))
        .maybe("Effort", report.effort.map(|effort| effort.as_str()))
        .maybe("Runner", report.runner.map(|runner| runner.as_str()))
        .field("Tags", report.tags.iter().map(|tag| style.id(tag)).collect::<Vec<_>>().join(" "))
        .line("");
    if report.prompt_chars == 0 {
        sheet.line(format!("Give it a prompt: {}", style.id(format!("lazy edit {id} --prompt \"…\""))));
    } else {
        sheet.line(format!("Start it: {}", style.id(format!("lazy start {id}"))));
    }
    sheet.text()
}

/// A changed task.
pub(crate) fn edited(report: &EditReport, style: Style) -> String {
    let id = style.id(display_id(&report.task));
    if report.changes.is_empty() {
        return format!("Nothing differs; task {id} is as it was.\n");
    }
    let mut sheet = Sheet::new(style);
    sheet.line(format!("Changed task {id}"));
    for change in &report.changes {
        sheet.line(format!("  {change}"));
    }
    sheet.text()
}

/// What a launch did, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launched {
    /// From the backlog.
    Started,
    /// With feedback.
    Unblocked,
    /// With nothing new.
    Resumed,
}

/// A launched turn, or a place in the queue.
pub(crate) fn launched(report: &LaunchReport, how: Launched, style: Style) -> String {
    let name = display_id(&report.task);
    let id = style.id(&name);
    let mut sheet = Sheet::new(style);
    if let Some((running, limit)) = report.queued {
        sheet.line(format!("Task {id} is queued ({running}/{limit} running)"));
    } else {
        sheet.line(match how {
            Launched::Started => format!("Started task {id}"),
            Launched::Unblocked => format!("Task {id} unblocked (turn {})", report.turn),
            Launched::Resumed => format!("Resumed task {id} (turn {})", report.turn),
        });
    }
    sheet
        .field("Goal", &report.task.goal)
        .maybe("Branch", report.branch.as_deref())
        .maybe("Worktree", report.worktree.as_deref())
        .maybe("Runner", report.runner.map(|runner| runner.as_str()))
        .maybe("Parent", report.parent.as_ref().map(|parent| named(parent, style)));
    if report.parent.is_none() {
        sheet.maybe("Target", report.target_branch.as_deref());
    }
    sheet
        .line("")
        .line(format!("Watch it: {}", style.id(format!("lazy watch {name}"))))
        .line(format!("Wait for it: {}", style.id(format!("lazy wait {name}"))));
    sheet.text()
}

/// A task that was stopped, rejected, closed or reopened. `verb` is the past tense.
pub(crate) fn status_changed(report: &StatusReport, verb: &str, next: &[(&str, String)], style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet
        .line(format!("{verb} task {}", style.id(display_id(&report.task))))
        .field("Goal", &report.task.goal)
        .field("Status", format!("{} (was {})", style.of(report.task.status), report.previous))
        .maybe("Reason", report.reason.as_deref())
        .maybe("Branch", report.branch.as_deref().map(|branch| format!("{branch} (kept)")));
    if let (Some(target), false) = (&report.reparented_to, report.reparented.is_empty()) {
        let moved: Vec<String> = report.reparented.iter().map(display_id).collect();
        sheet.field("Children", format!("{} now merge into {target}", moved.join(", ")));
    }
    if !next.is_empty() {
        sheet.line("");
    }
    for (label, command) in next {
        sheet.line(format!("{label}: {}", style.id(command)));
    }
    sheet.text()
}

/// A merge.
pub(crate) fn accepted(report: &AcceptReport, style: Style) -> String {
    let id = style.id(display_id(&report.task));
    let mut sheet = Sheet::new(style);
    sheet.line(match (report.already, &report.merge_sha) {
        (true, _) => format!("Task {id} had already been accepted"),
        (false, Some(_)) => format!("Task {id} {}", style.success("accepted and merged")),
        (false, None) => {
            format!("Task {id} {}; it had changed nothing, so nothing was merged", style.success("accepted"))
        }
    });
    sheet
        .field("Goal", &report.task.goal)
        .maybe("Commit", report.merge_sha.as_deref().map(|sha| style.sha(sha)))
        .field("Target", &report.target_branch)
        .field("Changes", &report.diff_stat);
    if !report.reparented.is_empty() {
        let moved: Vec<String> = report.reparented.iter().map(display_id).collect();
        sheet.field("Children", format!("{} now merge into {}", moved.join(", "), report.target_branch));
    }
    sheet.text()
}

/// An answer: the words alone.
pub(crate) fn answered(report: &AskReport) -> String {
    format!("{}\n", crate::base::text::escape_controls(report.answer.trim_end()))
}

/// A merge of the upstream into a task's branch.
pub(crate) fn synced(report: &SyncReport, style: Style) -> String {
    let id = style.id(display_id(&report.task));
    match report.outcome.as_str() {
        "up_to_date" => format!("Task {id} is up to date with {}.\n", report.upstream),
        "merged" => format!("Merged {} into task {id}.\n", report.upstream),
        "sync_launched" => format!("Task {id} conflicts with {}; its agent is merging it.\n", report.upstream),
        other => format!("Task {id}: {other} ({})\n", report.upstream),
    }
}

/// `id – goal`.
fn named(task: &TaskBrief, style: Style) -> String {
    format!("{} – {}", style.id(display_id(task)), task.goal)
}
