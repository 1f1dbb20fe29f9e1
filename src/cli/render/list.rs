//! Tasks as a tree or as a flat table.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use crate::base::text::{pad_columns, plural};
use crate::base::time::duration_text;
use crate::cli::style::Style;
use crate::model::Status;
use crate::rpc::commands::{ListReport, TaskLine};

/// Name and width of each column; the last one has none.
const TREE: [(&str, usize); 9] = [
    ("CODE", 20),
    ("STATUS", 12),
    ("MODEL", 8),
    ("TYPE", 10),
    ("TURNS", 8),
    ("LAST ACTIVE", 18),
    ("DURATION", 10),
    ("AGENT", 12),
    ("GOAL", 30),
];
const FLAT: [(&str, usize); 8] = [
    ("CODE", 20),
    ("STATUS", 12),
    ("MODEL", 8),
    ("AGENT", 12),
    ("TYPE", 10),
    ("PARENT", 18),
    ("CREATED", 18),
    ("GOAL", 30),
];

/// How a list looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Children under their parents.
    Tree,
    /// One line each, with the parent and the whole goal.
    Flat,
}

/// The list, with what is hidden counted below it. Empty when there are no rows.
///
/// `width` is how many columns there are, where there is a limit: columns that matter least are left out until the
/// rest fits. A pipe has no limit and gets every column.
pub(crate) fn table(report: &ListReport, layout: Layout, style: Style, width: Option<usize>) -> String {
    if report.tasks.is_empty() {
        return String::new();
    }
    let mut out = match layout {
        Layout::Tree => tree(&report.tasks, style, &fitting(&TREE, width)),
        Layout::Flat => flat(&report.tasks, style, &fitting(&FLAT, width)),
    };
    if report.hidden > 0 {
        let hidden = plural(usize::try_from(report.hidden).unwrap_or(usize::MAX), "task");
        out.push_str(&format!("\n{}\n", style.dim(format!("{hidden} below these levels not shown (--levels)"))));
    }
    out
}

/// What people call a task.
pub(crate) fn display_id(task: &TaskLine) -> String {
    task.code.clone().unwrap_or_else(|| task.id.short())
}

/// A line for a choice between tasks: short id, status, date, goal.
pub(crate) fn candidate(task: &TaskLine) -> String {
    format!(
        "{}  {}  {}  {}",
        task.id.short(),
        pad_columns(task.status.as_str(), 12),
        task.created_at.minute(),
        task.goal
    )
}

/// The status as a list shows it, decorated.
pub(crate) fn status_text(task: &TaskLine) -> String {
    let mut text = match (&task.outcome, task.status, &task.substate, task.queue) {
        (Some(outcome), ..) => outcome.clone(),
        (None, Status::Working, Some(substate), _) => format!("working({substate})"),
        (None, Status::Queued, _, Some((place, length))) => format!("queued #{place} of {length}"),
        (None, status, ..) => status.as_str().to_string(),
    };
    if task.crashed {
        text.push_str(" [CRASHED]");
    }
    if task.stopped {
        text.push_str(" [STOPPED]");
    }
    text
}

fn tree(tasks: &[TaskLine], style: Style, shown: &[&str]) -> String {
    let mut out = head(&TREE, shown, style);
    let mut open: Vec<bool> = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        let depth = usize::try_from(task.depth).unwrap_or_default();
        open.truncate(depth);
        open.resize(depth, false);
        let mut indent = String::new();
        if depth > 0 {
            for more in &open[1.min(depth)..depth] {
                indent.push_str(if *more { "│  " } else { "   " });
            }
            indent.push_str(if has_later_sibling(tasks, at) { "├─ " } else { "└─ " });
        }
        open.push(has_later_sibling(tasks, at));
        let code = display_id(task);
        let mut first = Cells::new();
        if indent.width() + code.width() > TREE[0].1 {
            out.push_str(&format!("{}{}\n", style.dim(&indent), style.id(&code)));
            first.pad(TREE[0].1);
        } else {
            let painted = format!("{}{}", style.dim(&indent), style.id(&code));
            first.cell(&painted, indent.width() + code.width(), TREE[0].1);
        }
        let status = status_text(task);
        let goal = goal_cell(task, &short_goal(&task.goal));
        if shown.contains(&TREE[1].0) {
            first.painted(&status, TREE[1].1, |text| style.status(text));
        }
        if shown.contains(&TREE[2].0) {
            first.painted(&model(task), TREE[2].1, |text| style.model(text));
        }
        if shown.contains(&TREE[3].0) {
            first.painted(kind(task), TREE[3].1, str::to_string);
        }
        if shown.contains(&TREE[4].0) {
            first.painted(&number(task.turns), TREE[4].1, str::to_string);
        }
        if shown.contains(&TREE[5].0) {
            first.painted(&task.last_active_at.minute(), TREE[5].1, |text| style.dim(text));
        }
        if shown.contains(&TREE[6].0) {
            first.painted(&duration(task), TREE[6].1, |text| style.dim(text));
        }
        if shown.contains(&TREE[7].0) {
            first.painted(&task.agent, TREE[7].1, str::to_string);
        }
        first.painted(&goal, 0, str::to_string);
        out.push_str(&first.line());
    }
    out
}

fn flat(tasks: &[TaskLine], style: Style, shown: &[&str]) -> String {
    let mut out = head(&FLAT, shown, style);
    for task in tasks {
        let mut cells = Cells::new();
        cells.painted(&display_id(task), FLAT[0].1, |text| style.id(text));
        if shown.contains(&FLAT[1].0) {
            cells.painted(&status_text(task), FLAT[1].1, |text| style.status(text));
        }
        if shown.contains(&FLAT[2].0) {
            cells.painted(&model(task), FLAT[2].1, |text| style.model(text));
        }
        if shown.contains(&FLAT[3].0) {
            cells.painted(&task.agent, FLAT[3].1, str::to_string);
        }
        if shown.contains(&FLAT[4].0) {
            cells.painted(kind(task), FLAT[4].1, str::to_string);
        }
        if shown.contains(&FLAT[5].0) {
            cells.painted(task.parent.as_deref().unwrap_or("-"), FLAT[5].1, |text| style.id(text));
        }
        if shown.contains(&FLAT[6].0) {
            cells.painted(&task.created_at.minute(), FLAT[6].1, |text| style.dim(text));
        }
        cells.painted(&goal_cell(task, &task.goal), 0, str::to_string);
        out.push_str(&cells.line());
    }
    out
}

/// The columns that fit, in their order: those that matter least go first.
fn fitting(columns: &[(&'static str, usize)], width: Option<usize>) -> Vec<&'static str> {
    const LEAST_FIRST: [&str; 7] = ["MODEL", "TYPE", "DURATION", "AGENT", "CREATED", "LAST ACTIVE", "TURNS"];
    let mut shown: Vec<&'static str> = columns.iter().map(|(name, _)| *name).collect();
    let needed = |shown: &[&str]| -> usize {
        columns.iter().filter(|(name, _)| shown.contains(name)).map(|(_, width)| width + 1).sum::<usize>() - 1
    };
    for least in LEAST_FIRST {
        if width.is_none_or(|width| needed(&shown) <= width) {
            break;
        }
        shown.retain(|name| *name != least);
    }
    shown
}

fn head(columns: &[(&str, usize)], shown: &[&str], style: Style) -> String {
    let columns: Vec<&(&str, usize)> = columns.iter().filter(|(name, _)| shown.contains(name)).collect();
    let names: Vec<String> = columns.iter().map(|(name, width)| pad_columns(name, *width)).collect();
    let rule = columns.iter().map(|(_, width)| width + 1).sum::<usize>() - 1;
    format!("{}\n{}\n", style.bold(names.join(" ").trim_end()), style.dim("─".repeat(rule)))
}

fn has_later_sibling(tasks: &[TaskLine], at: usize) -> bool {
    let depth = tasks[at].depth;
    tasks[at + 1..].iter().take_while(|task| task.depth >= depth).any(|task| task.depth == depth)
}

/// Cells one space apart; a cell that is too long pushes the rest to the right.
struct Cells(String);

impl Cells {
    fn new() -> Cells {
        Cells(String::new())
    }

    fn painted(&mut self, text: &str, width: usize, paint: impl Fn(&str) -> String) {
        self.cell(&paint(text), text.width(), width);
    }

    fn cell(&mut self, painted: &str, own: usize, width: usize) {
        self.0.push_str(painted);
        self.0.push_str(&" ".repeat(width.saturating_sub(own) + 1));
    }

    fn pad(&mut self, width: usize) {
        self.0.push_str(&" ".repeat(width + 1));
    }

    fn line(self) -> String {
        format!("{}\n", self.0.trim_end())
    }
}

/// A long goal keeps 28 characters.
fn short_goal(goal: &str) -> String {
    if goal.chars().count() <= 30 {
        return goal.to_string();
    }
    format!("{}..", goal.chars().take(28).collect::<String>())
}

fn goal_cell(task: &TaskLine, goal: &str) -> String {
    let mut cell = goal.to_string();
    for tag in &task.tags {
        cell.push_str(&format!(" #{tag}"));
    }
    if let Some(why) = &task.orphaned {
        cell.push_str(&format!(" [{why}]"));
    }
    if task.open_blocking > 0 {
        cell.push_str(&format!(" [{} to decide]", task.open_blocking));
    }
    if task.hidden_descendants > 0 {
        cell.push_str(&format!(" (+{} hidden)", task.hidden_descendants));
    }
    cell
}

/// The model without its family's prefix, which every row would repeat.
fn model(task: &TaskLine) -> String {
    task.model.as_deref().map_or_else(|| "-".into(), |name| name.strip_prefix("claude-").unwrap_or(name).to_string())
}

fn kind(task: &TaskLine) -> &'static str {
    task.task_type.as_str()
}

fn number(count: u32) -> String {
    if count == 0 { "-".into() } else { count.to_string() }
}

fn duration(task: &TaskLine) -> String {
    match u64::try_from(task.duration_ms) {
        Ok(0) | Err(_) => "-".into(),
        Ok(ms) => duration_text(Duration::from_millis(ms)),
    }
}
