//! The tools: names, what they are for, what they take.
//!
//! One list for the server that advertises them and the daemon that runs them. Whether a tool reads or writes is decided
//! here and nowhere else.

use serde_json::{Value, json};

use super::Toolset;
use crate::model::exchange::TurnTag;
use crate::rpc::commands::{INTERNAL_GIT, MERGE_MESSAGE_LIMIT};

/// Whether a tool can change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It cannot, and it starts no agent.
    Read,
    /// It can.
    Write,
}

/// A tool.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it is for, told to the model.
    pub description: &'static str,
    /// Whether it can change anything.
    pub access: Access,
    /// What it takes: a JSON Schema that [`super::schema`] enforces in full.
    pub schema: Value,
}

/// Every tool, in the order in which they are advertised.
pub fn all() -> Vec<Tool> {
    let tool = |name, access, description, schema| Tool { name, description, access, schema };
    use Access::{Read, Write};
    vec![
        tool(
            "lazy_search",
            Read,
            "Search all tasks: goals, prompts, turns, commits, comments, journals, raised items. Plain text is a \
             case-insensitive regular expression; `status:blocked`, `#tag`, `in:commits`, AND, OR, NOT and parentheses \
             make a query. Search before you start: the answer may be in an earlier task.",
            object(
                &["query"],
                json!({
                    "query": text("What to look for", 1),
                    "fuzzy": { "type": "boolean", "description": "Approximate matching" },
                    "filter": { "type": "string", "description": "Only this kind", "enum": ["tasks", "prompts", "turns", "commits", "comments", "journal", "raised"] },
                    "offset": { "type": "integer", "description": "Matches to leave out first" },
                    "limit": { "type": "integer", "description": "Matches at most, 20 by default" },
                }),
            ),
        ),
        tool(
            "lazy_show",
            Read,
            "Everything about one task: status, prompt, latest turn, raised items, and on request pages of its turns, \
             commits, comments, journal, children and history.",
            object(
                &["task_id"],
                json!({
                    "task_id": text("A task's id, a prefix of it, or its code", 1),
                    "sections": { "type": "array", "description": "Which lists to include", "items": { "type": "string", "enum": ["turns", "commits", "comments", "journal", "children", "status-history", "tag-history"] } },
                    "offset": { "type": "integer", "description": "Entries to leave out first in each list" },
                    "limit": { "type": "integer", "description": "Entries at most in each list, 20 by default" },
                }),
            ),
        ),
        tool(
            "lazy_list",
            Read,
            "Tasks, a row each: all that are not finished, or all.",
            object(
                &[],
                json!({
                    "all": { "type": "boolean", "description": "Finished ones too" },
                    "task_id": text("Only this task and its descendants", 1),
                    "levels": { "type": "integer", "description": "Depth, at least 1" },
                }),
            ),
        ),
        tool(
            "lazy_status",
            Read,
            "Your own task: where it stands, its worktree, what is uncommitted, its last commits.",
            object(&[], json!({})),
        ),
        tool(
            "lazy_diff",
            Read,
            "What a task changed against its target: a summary, or the whole patch.",
            object(
                &["task_id"],
                json!({
                    "task_id": text("A task's id, a prefix of it, or its code", 1),
                    "full": { "type": "boolean", "description": "The patch instead of the summary" },
                    "files": { "type": "array", "description": "Only these files", "items": { "type": "string" } },
                    "offset": { "type": "integer", "description": "Lines to leave out first" },
                    "max_lines": { "type": "integer", "description": "Lines at most" },
                }),
            ),
        ),
        tool(
            "lazy_wait",
            Read,
            "Wait until a task stops working; of several, the first. At most 600 seconds a call.",
            object(
                &["task_id"],
                json!({
                    "task_id": { "type": ["string", "array"], "description": "One task or several", "items": { "type": "string" } },
                    "timeout": { "type": "number", "description": "Seconds, at most 600" },
                }),
            ),
        ),
        tool(
            "lazy_commit",
            Write,
            "Commit your work. This is the only way to commit: `git commit` is not for you. Stages everything, or only \
             the files you name; concludes a merge whose conflicts you resolved.",
            object(
                &["message"],
                json!({
                    "message": text("The commit message", 1),
                    "files": { "type": "array", "description": "Only these files", "items": { "type": "string" } },
                }),
            ),
        ),
        tool(
            "lazy_raise",
            Write,
            "Record what a person must see: a question about your task (blocking) or something you noticed beside it \
             (not blocking). It starts nothing and interrupts nobody; it is read at review.",
            object(
                &["blocking"],
                json!({
                    "blocking": { "type": "boolean", "description": "Whether the work must not be accepted before this is decided" },
                    "content": { "type": "string", "description": "The question or observation" },
                    "title": { "type": "string", "description": "A short name", "maxLength": 200 },
                    "explanation": { "type": "string", "description": "Why it matters" },
                    "proposed_code": { "type": "string", "description": "A code for the task it could become" },
                    "proposed_prompt": { "type": "string", "description": "A prompt for the task it could become" },
                    "options": { "type": "array", "description": "Answers to choose from", "items": { "type": "string" } },
                }),
            ),
        ),
        tool(
            "lazy_journal",
            Write,
            "Write in a task's journal: why something was done, for people who read the task later. No prompt ever \
             contains it.",
            object(
                &["message"],
                json!({ "message": text("The entry", 1), "task_id": text("Another task than your own", 1) }),
            ),
        ),
        tool(
            "lazy_comment",
            Write,
            "Leave a note for the agent of a child task; it comes with that agent's next prompt and starts nothing.",
            object(&["task_id", "message"], json!({ "task_id": text("The task", 1), "message": text("The note", 1) })),
        ),
        tool(
            "lazy_update_progress",
            Write,
            "Say in one line what you are doing, for people who watch. 120 characters; only the latest is kept.",
            object(&["message"], json!({ "message": text("The line", 1) })),
        ),
        tool(
            "lazy_create",
            Write,
            "Create a task below your own, in the backlog. It does not start by itself.",
            object(
                &["goal"],
                json!({
                    "goal": text("One line", 1),
                    "prompt": { "type": "string", "description": "What its agent is told" },
                    "code": { "type": "string", "description": "A handle", "pattern": "^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$", "minLength": 2, "maxLength": 63 },
                    "model": { "type": "string", "description": "The model" },
                    "type": { "type": "string", "description": "The kind of work", "enum": ["task", "fix", "spike", "refactor", "test", "audit", "migrate", "document", "tidy", "rework", "feature", "release"] },
                    "agent": { "type": "string", "description": "The agent" },
                    "effort": effort(),
                    "parent": { "type": "string", "description": "Your own task; leave it out" },
                }),
            ),
        ),
        tool(
            "lazy_start",
            Write,
            "Start a task that you created.",
            object(
                &["task_id"],
                json!({
                    "task_id": text("The task", 1),
                    "model": { "type": "string", "description": "The model" },
                    "agent": { "type": "string", "description": "The agent" },
                    "effort": effort(),
                    "force_local": { "type": "boolean", "description": "Branch from the local parent when the remote cannot be reached" },
                }),
            ),
        ),
    ]
}

/// A tool of lazy's own supervisor: served, but in no list, suggested to nobody, and unknown to the server that agents
/// talk to.
pub fn internal(name: &str) -> Option<Tool> {
    let commit = json!({ "type": "string", "description": "A full commit id", "pattern": "^[0-9a-f]{40}$" });
    let phases = TurnTag::ALL.map(TurnTag::as_str);
    let message = json!({ "type": "string", "description": "The merge's message", "minLength": 1, "maxLength": MERGE_MESSAGE_LIMIT });
    (name == INTERNAL_GIT).then(|| Tool {
        name: INTERNAL_GIT,
        description: "Moves refs where the shared git directory is read-only.",
        access: Access::Write,
        schema: object(
            &["operation"],
            json!({
                "operation": { "type": "string", "description": "What to do", "enum": ["merge", "merge_abort", "merge_commit", "reset_hard_head", "tag"] },
                "target": commit,
                "message": message,
                "phase": { "type": "string", "description": "Which commit of the turn", "enum": phases },
                "sha": commit,
            }),
        ),
    })
}

/// The tools of a toolset.
pub fn of(toolset: Toolset) -> Vec<Tool> {
    all().into_iter().filter(|tool| toolset == Toolset::Full || tool.access == Access::Read).collect()
}

/// The tool of a name.
pub fn find(name: &str) -> Option<Tool> {
    all().into_iter().find(|tool| tool.name == name)
}

fn object(required: &[&str], properties: Value) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn text(description: &str, least: u32) -> Value {
    json!({ "type": "string", "description": description, "minLength": least })
}

fn effort() -> Value {
    json!({ "type": "string", "description": "How hard the model thinks", "enum": ["low", "medium", "high", "xhigh", "max"] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_enforced_in_full() {
        for tool in all() {
            super::super::schema::check_schema(&tool.schema).unwrap_or_else(|why| panic!("{}: {why}", tool.name));
            assert!(tool.name.starts_with("lazy_") && !tool.description.contains("  "), "{}", tool.name);
        }
    }

    #[test]
    fn the_supervisors_own_tool_is_in_no_list() {
        let tool = internal(INTERNAL_GIT).expect("served");
        super::super::schema::check_schema(&tool.schema).expect("enforced in full");
        assert!(all().iter().all(|tool| tool.name != INTERNAL_GIT));
        assert!(find(INTERNAL_GIT).is_none() && internal("lazy_commit").is_none());
    }

    #[test]
    fn a_question_gets_no_tool_that_writes() {
        let names: Vec<&str> = of(Toolset::Read).iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["lazy_search", "lazy_show", "lazy_list", "lazy_status", "lazy_diff", "lazy_wait"]);
    }
}
