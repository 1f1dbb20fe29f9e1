//! Everything about a task.

use std::time::Duration;

use super::sheet::Sheet;
use super::{display_id, short, turns};
use crate::base::text::{count_text, one_line};
use crate::base::time::duration_text;
use crate::cli::style::Style;
use crate::model::notes::TagAction;
use crate::model::{Actor, Session, Status};
use crate::rpc::commands::{ShowReport, SupervisorNote};

pub(crate) use turns::{Depth, Form};

/// `lazy show`: sections only where there is something to tell.
pub(crate) fn task(report: &ShowReport, form: Form, depth: Depth, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    if report.task.status == Status::Working
        && let Some(line) = working_line(report)
    {
        sheet.line(style.dim(line)).line("");
    }
    head(&mut sheet, report, style);
    match &report.session {
        Some(session) => {
            self::session(&mut sheet, session, report, depth, style);
            turns::section(&mut sheet, &report.turns, form, depth, style);
            commits(&mut sheet, report, style);
        }
        None => {
            sheet.section("Session: (not started)");
            sheet.line(format!("  {}", style.id(format!("lazy start {}", report.task.display_id()))));
        }
    }
    children(&mut sheet, report, style);
    notes(&mut sheet, report, style);
    history(&mut sheet, report, style);
    sheet.section("--- Prompt ---");
    sheet.line(match report.task.prompt.trim_end() {
        "" => "(no prompt yet)",
        prompt => prompt,
    });
    sheet.text()
}

/// `sha8 [status] message`, oldest first.
pub(crate) fn commit_lines(report: &ShowReport, style: Style) -> Vec<String> {
    report
        .commits
        .iter()
        .map(|commit| {
            let message = commit.message.lines().next().unwrap_or_default();
            format!("{} [{}] {message}", style.sha(short(&commit.sha)), commit.status.as_str())
        })
        .collect()
}

fn working_line(report: &ShowReport) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    if let Some(note) = &report.supervisor {
        parts.push(format!("Supervisor: {} ({})", note.phase.as_str(), note.command));
    } else if let Some(substate) = &report.substate {
        parts.push(format!("Supervisor: {substate}"));
    }
    if let Some(progress) = &report.progress {
        parts.push(one_line(progress));
    }
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn head(sheet: &mut Sheet, report: &ShowReport, style: Style) {
    let task = &report.task;
    let status = match (&report.substate, task.status) {
        (Some(substate), Status::Working) => format!("working({substate})"),
        (_, status) => style.of(status),
    };
    sheet
        .line(style.bold(format!("Task {}", task.display_id())))
        .field("ID", task.id.to_string())
        .maybe("Code", task.code.as_ref().map(|code| style.id(code.as_str())))
        .field("Goal", &task.goal)
        .field("Status", status);
    if let Some(merge) = report.merge_state.as_ref().filter(|merge| merge.merge_in_progress) {
        sheet.field("Worktree", style.warning(format!("unresolved merge — {}", merge.summary)));
    }
    sheet
        .maybe("Model", task.model.as_deref().map(|model| style.model(model)))
        .field("Agent", &task.agent_id)
        .field("Type", task.task_type.as_str())
        .field("Priority", task.priority.as_str())
        .field("Tags", task.tags.iter().map(|tag| style.id(format!("#{tag}"))).collect::<Vec<_>>().join(" "))
        .field("Runner", format!("{} ({})", report.runner.kind, report.runner.posture))
        .field("Created", task.created_at.minute())
        .maybe("Done", task.completed_at.map(|at| at.minute()))
        .maybe("Close Reason", task.close_reason.as_deref())
        .maybe("Merged as", task.meta(crate::model::task::META_MERGE_SHA).map(|sha| style.sha(short(sha))));
    if let Some(parent) = &report.parent {
        sheet.field("Parent Task", format!("{} – {}", style.id(display_id(parent)), parent.goal));
        sheet.maybe("Branched from", task.branched_from_sha.as_deref().map(|sha| style.sha(short(sha))));
    } else if let Some(parent) = task.target.parent() {
        sheet.field("Parent Task", style.id(parent.short()));
    } else {
        sheet.maybe("Target", task.target.branch().map(|branch| format!("branch {branch}")));
    }
    if let Some(why) = &report.orphaned {
        sheet.line(orphan_note(why, &task.display_id(), style));
    }
}

/// What a task without a living parent needs.
pub(crate) fn orphan_note(why: &str, name: &str, style: Style) -> String {
    let told = style.warning(format!("It has nowhere to merge into ({why}); give it a place:"));
    format!("  {told} {}", style.id(format!("lazy edit {name} --parent <task or branch>")))
}

fn session(sheet: &mut Sheet, session: &Session, report: &ShowReport, depth: Depth, style: Style) {
    sheet.section(format!("Session ({})", session.agent_id));
    let status = match (session.outcome, session.ended_at) {
        (Some(outcome), _) => style.status(outcome.as_str()),
        (None, Some(_)) => style.status("ended"),
        (None, None) => "open".into(),
    };
    sheet
        .field("Status", status)
        .field("Branch", &session.git_branch)
        .maybe("Worktree", report.worktree.as_deref())
        .field("Started", session.started_at.minute())
        .maybe("Last Active", session.last_interaction_at.map(|at| at.minute()));
    if let Ok(ms @ 1..) = u64::try_from(session.total_duration_ms) {
        sheet.field("Duration", duration_text(Duration::from_millis(ms)));
    }
    if let Some(usage) = session.total_usage.filter(|usage| !usage.is_zero()) {
        sheet.field(
            "Token Usage",
            format!(
                "{} ({} in, {} out)",
                count_text(usage.input_total() + usage.output_tokens),
                count_text(usage.input_total()),
                count_text(usage.output_tokens)
            ),
        );
        if usage.cache_creation_tokens + usage.cache_read_tokens > 0 {
            sheet.field(
                "Cache Tokens",
                format!(
                    "{} written, {} read",
                    count_text(usage.cache_creation_tokens),
                    count_text(usage.cache_read_tokens)
                ),
            );
        }
    }
    sheet.field("Start SHA", style.sha(short(&session.git_start_sha)));
    interrupt(sheet, session, depth);
    if let Some(note) = &report.supervisor {
        retries(sheet, note);
    }
}

fn interrupt(sheet: &mut Sheet, session: &Session, depth: Depth) {
    let Some(reason) = &session.interrupt_reason else { return };
    sheet.line("  Last Interrupt:").field("  Reason", reason);
    sheet
        .maybe("  Exit Code", session.interrupt_exit_code.map(|code| code.to_string()))
        .maybe("  Time", session.interrupt_at.map(|at| at.minute()));
    if session.consecutive_interruptions > 0 {
        sheet.field("  In a row", session.consecutive_interruptions.to_string());
    }
    if session.auto_resumed {
        sheet.field("  Auto-resumed", "yes");
    }
    if session.user_stopped {
        sheet.field("  User-stopped", "yes; it waits for a person to resume it");
    }
    if depth == Depth::Full {
        sheet.maybe("  Log", session.interrupt_logs.as_deref());
    }
}

fn retries(sheet: &mut Sheet, note: &SupervisorNote) {
    let Some(count) = note.retry_count.filter(|count| *count > 0) else { return };
    let mut text = format!("attempt {count}");
    if let Some(reason) = &note.retry_reason {
        text.push_str(&format!(", {reason}"));
    }
    if let Some(ms) = note.retry_next_delay_ms {
        text.push_str(&format!(", next in {}", duration_text(Duration::from_millis(ms))));
    }
    sheet.field("Retry State", text);
    for error in &note.errors {
        sheet.line(format!("    {}× {}", error.count, one_line(&error.message)));
    }
}

fn commits(sheet: &mut Sheet, report: &ShowReport, style: Style) {
    if report.commits.is_empty() {
        return;
    }
    sheet.section(format!("Commits: {}", report.commits.len()));
    for line in commit_lines(report, style) {
        sheet.line(format!("  {line}"));
    }
}

fn children(sheet: &mut Sheet, report: &ShowReport, style: Style) {
    if report.children.is_empty() {
        return;
    }
    sheet.section(format!("Child Tasks: {}", report.children.len()));
    for child in &report.children {
        sheet.line(format!("  {} [{}] {}", style.id(display_id(child)), style.of(child.status), child.goal));
    }
}

fn notes(sheet: &mut Sheet, report: &ShowReport, style: Style) {
    if !report.comments.is_empty() {
        sheet.section(format!("--- Comments ({}) ---", report.comments.len()));
        for comment in &report.comments {
            let who = author(comment.actor_name.as_deref(), comment.actor);
            block(sheet, &format!("{} {who}", style.dim(comment.created_at.minute())), &comment.content);
        }
    }
    if !report.journal.is_empty() {
        sheet.section(format!("--- Journal ({}) ---", report.journal.len()));
        for entry in &report.journal {
            let who = author(entry.actor_name.as_deref(), entry.actor);
            block(sheet, &format!("{} {who}", style.dim(entry.created_at.minute())), &entry.content);
        }
    }
    if report.raised_items.is_empty() {
        return;
    }
    let open = report.raised_items.iter().filter(|item| item.gates_accept()).count();
    sheet.section(format!("--- Raised items ({}, {open} to decide before accept) ---", report.raised_items.len()));
    for item in &report.raised_items {
        let gate = if item.blocking { "[gates accept]" } else { "[fyi]" };
        sheet.line(format!(
            "  [{}] {} [{}] {gate} {}",
            style.dim(item.created_at.minute()),
            style.id(short(&item.id)),
            item.status.as_str(),
            one_line(item.headline())
        ));
        if let Some(answer) = &item.resolution {
            sheet.line(format!("      → {}", one_line(answer)));
        }
        if item.gates_accept() {
            let command = format!("lazy raised respond {} {} -m \"…\"", report.task.display_id(), short(&item.id));
            sheet.line(format!("      {}", style.id(command)));
        }
    }
}

fn history(sheet: &mut Sheet, report: &ShowReport, style: Style) {
    if !report.status_history.is_empty() {
        sheet.section("--- Status History ---");
        let mut before: Option<Status> = None;
        for row in &report.status_history {
            let from = before.map(|status| format!("{status} → ")).unwrap_or_default();
            let who = author(row.actor_name.as_deref(), row.actor);
            sheet.line(format!("  {} {from}{} by {who}", style.dim(row.timestamp.minute()), style.of(row.status)));
            before = Some(row.status);
        }
    }
    if report.tag_history.is_empty() {
        return;
    }
    sheet.section("--- Tag History ---");
    for row in &report.tag_history {
        let sign = if row.action == TagAction::Tag { '+' } else { '-' };
        let who = author(row.actor_name.as_deref(), row.actor);
        sheet.line(format!("  {} {sign}{} by {who}", style.dim(row.timestamp.minute()), row.tag));
    }
}

fn block(sheet: &mut Sheet, head: &str, body: &str) {
    sheet.line(format!("  {head}"));
    for line in body.lines() {
        sheet.line(format!("    {line}"));
    }
}

fn author(name: Option<&str>, actor: Option<Actor>) -> String {
    name.map_or_else(|| actor.map_or("-", Actor::as_str).to_string(), str::to_string)
}
