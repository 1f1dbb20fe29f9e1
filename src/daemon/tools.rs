//! The MCP tools: thin faces on the operations.
//!
//! A tool turns its arguments into the parameters of one operation and the report into what a model reads. It decides
//! nothing: who may do what is the operation's to refuse.

use std::pin::Pin;

use serde_json::{Map, Value, json};

use super::body;
use crate::base::{Error, Result, text};
use crate::mcp::{catalogue, schema};
use crate::model::{Status, TaskId, TaskType};
use crate::ops::{Caller, Ctx, Narrator, Operation};
use crate::rpc::commands as c;
use crate::rpc::commands::{ListView, TaskParams};

/// Entries of a list in one answer.
const PAGE: u64 = 20;

/// Work under way: it runs to its end whoever listens.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;

/// What runs the tools. The route has proved who calls, that the tool exists, and that the arguments fit its schema.
pub(super) trait Tools: Send + Sync + 'static {
    /// Runs one tool; the value becomes the reply's `result`. Nothing happens until the work is polled.
    fn call(&self, caller: Caller, tool: &str, arguments: Map<String, Value>, narrator: Narrator) -> Work;
}

/// The tools on the operations of a project.
pub(super) struct ProjectTools(pub Ctx);

impl Tools for ProjectTools {
    fn call(&self, caller: Caller, tool: &str, arguments: Map<String, Value>, narrator: Narrator) -> Work {
        let (ctx, tool) = (self.0.clone(), tool.to_string());
        Box::pin(async move { call(&ctx, &caller, &tool, arguments, &narrator).await })
    }
}

/// The schema of a tool.
///
/// # Errors
/// [`crate::base::Kind::NotFound`] with the nearest name.
pub(super) fn require_schema(tool: &str) -> Result<Value> {
    if let Some(found) = catalogue::find(tool).or_else(|| catalogue::internal(tool)) {
        return Ok(found.schema);
    }
    let known = catalogue::all();
    let near = text::nearest(tool, known.iter().map(|tool| tool.name));
    let shown = text::truncate_chars(&text::one_line(tool), 80);
    Err(Error::not_found(match near {
        Some(near) => format!("Unknown tool: {shown}; did you mean {near}?"),
        None => format!("Unknown tool: {shown}"),
    }))
}

/// Refuses arguments that the tool's schema does not allow; nothing has been done then.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] with the envelope as it should be.
pub(super) fn require_valid(tool: &str, schema: &Value, arguments: &Map<String, Value>) -> Result<()> {
    schema::validate(schema, arguments).map_err(|error| {
        Error::invalid(format!("Invalid arguments for {tool}: {error}. The body is {}", body::example(schema)))
    })
}

async fn call(
    ctx: &Ctx,
    caller: &Caller,
    tool: &str,
    arguments: Map<String, Value>,
    narrator: &Narrator,
) -> Result<Value> {
    let args = Args(arguments);
    let run = Run { ctx, caller, narrator };
    match tool {
        "lazy_search" => run.search(&args).await,
        "lazy_show" => run.show(&args).await,
        "lazy_list" => run.list(&args).await,
        "lazy_status" => run.status().await,
        "lazy_diff" => run.diff(&args).await,
        "lazy_wait" => run.wait(&args).await,
        "lazy_commit" => run.commit(&args).await,
        "lazy_raise" => run.raise(&args).await,
        "lazy_journal" => run.journal(&args).await,
        "lazy_comment" => run.comment(&args).await,
        "lazy_update_progress" => run.progress(&args).await,
        "lazy_create" => run.create(&args).await,
        "lazy_start" => run.start(&args).await,
        c::INTERNAL_GIT => run.internal_git(args).await,
        other => Err(Error::internal(format!("the tool {other} has no operation"))),
    }
}

/// Arguments that fit the schema.
struct Args(Map<String, Value>);

impl Args {
    fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).and_then(Value::as_str).map(text::escape_controls)
    }

    fn required(&self, key: &str) -> String {
        self.text(key).unwrap_or_default()
    }

    fn flag(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    fn number(&self, key: &str) -> Option<u64> {
        let value = self.0.get(key)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range first")]
        value.as_u64().or_else(|| value.as_f64().map(|number| number.clamp(0.0, 1e9) as u64))
    }

    fn small(&self, key: &str) -> Option<u32> {
        self.number(key).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    fn texts(&self, key: &str) -> Vec<String> {
        self.0
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(text::escape_controls)
            .collect()
    }

    /// The page of a list that `offset` and `limit` ask for.
    fn page<T>(&self, list: Vec<T>) -> Vec<T> {
        let at = |key, default| usize::try_from(self.number(key).unwrap_or(default)).unwrap_or(usize::MAX);
        list.into_iter().skip(at("offset", 0)).take(at("limit", PAGE)).collect()
    }
}

struct Run<'a> {
    ctx: &'a Ctx,
    caller: &'a Caller,
    narrator: &'a Narrator,
}

impl Run<'_> {
    async fn op<O: Operation>(&self, params: O::Params) -> Result<O::Report> {
        O::run(self.ctx, self.caller, params, self.narrator).await
    }

    fn own(&self) -> String {
        self.caller.own_task().map(|id| id.to_string()).unwrap_or_default()
    }

    async fn search(&self, args: &Args) -> Result<Value> {
        let filter = args.text("filter").map(|kind| kind.trim_end_matches('s').to_string());
        let params = c::SearchParams {
            query: args.required("query"),
            fuzzy: args.flag("fuzzy"),
            types: filter.into_iter().collect(),
            offset: args.small("offset").unwrap_or(0),
            limit: args.small("limit").unwrap_or(20),
        };
        let fuzzy = params.fuzzy;
        let report = self.op::<c::Search>(params).await?;
        let results: Vec<Value> = report
            .matches
            .iter()
            .map(|hit| {
                compact(json!({
                    "type": hit.kind, "taskId": hit.task_id.short(), "taskCode": hit.task_code, "taskGoal": hit.task_goal,
                    "content": hit.content, "index": hit.index, "turnSequence": hit.turn_seq,
                }))
            })
            .collect();
        Ok(compact(json!({
            "query": report.query, "fuzzy": fuzzy, "count": results.len(), "total": report.total, "hint": report.hint,
            "results": results,
        })))
    }

    async fn show(&self, args: &Args) -> Result<Value> {
        let report = self.op::<c::Show>(TaskParams { task: args.required("task_id") }).await?;
        let sections = args.texts("sections");
        let wants = |name: &str| sections.iter().any(|section| section == name);
        let task = &report.task;
        let latest = (!wants("turns")).then(|| report.turns.last().map(turn)).flatten();
        let mut out = compact(json!({
            "id": task.id, "code": task.code, "goal": task.goal, "status": task.status, "substate": report.substate,
            "agent": task.agent_id, "model": task.model, "tags": task.tags, "created_at": task.created_at.iso(),
            "parent_task_id": task.target.parent(), "prompt": task.prompt, "turn_count": report.turns.len(),
            "commit_count": report.commits.len(), "comment_count": report.comments.len(),
            "journal_count": report.journal.len(), "raised_item_count": report.raised_items.len(),
            "children_count": report.children.len(), "merge_state": report.merge_state,
            "session": report.session.as_ref().map(|session| json!({
                "outcome": session.outcome, "git_branch": session.git_branch, "started_at": session.started_at.iso(),
            })),
            "latest_turn": latest, "raised_items": report.raised_items,
        }));
        if wants("turns") {
            out["turns"] = args.page(report.turns.iter().map(turn).collect()).into();
        }
        if wants("commits") {
            let commits = report.commits.iter().map(
                |commit| json!({ "sha": commit.sha.get(..7), "message": commit.message, "status": commit.status }),
            );
            out["commits"] = args.page(commits.collect()).into();
        }
        if wants("comments") {
            let comments = report.comments.iter().map(|comment| {
                json!({ "content": comment.content, "created_at": comment.created_at.iso(), "actor": comment.actor })
            });
            out["comments"] = args.page(comments.collect()).into();
        }
        if wants("journal") {
            let journal = report.journal.iter().map(
                |entry| json!({ "content": entry.content, "created_at": entry.created_at.iso(), "actor": entry.actor }),
            );
            out["journal"] = args.page(journal.collect()).into();
        }
        if wants("children") {
            out["children"] = args.page(report.children.iter().map(|child| json!(child)).collect()).into();
        }
        if wants("status-history") {
            let history = report.status_history.iter().scan(None::<Status>, |from, row| {
                let value =
                    json!({ "from": from, "to": row.status, "actor": row.actor, "timestamp": row.timestamp.iso() });
                *from = Some(row.status);
                Some(value)
            });
            out["status_history"] = args.page(history.collect()).into();
        }
        if wants("tag-history") {
            let history = report.tag_history.iter().map(|event| {
                json!({ "tag": event.tag, "action": event.action, "actor": event.actor, "timestamp": event.timestamp.iso() })
            });
            out["tag_history"] = args.page(history.collect()).into();
        }
        Ok(out)
    }

    async fn list(&self, args: &Args) -> Result<Value> {
        let params = c::ListParams {
            view: if args.flag("all") { ListView::All } else { ListView::Open },
            task: args.text("task_id"),
            tag: None,
            levels: args.small("levels"),
        };
        let report = self.op::<c::List>(params).await?;
        let tasks: Vec<Value> = report
            .tasks
            .iter()
            .map(|line| {
                json!({
                    "id": line.id, "code": line.code, "goal": line.goal, "status": line.status, "substate": line.substate,
                    "stopped": line.stopped, "agent": line.agent, "model": line.model,
                    "parent_task_id": line.parent_task_id,
                })
            })
            .collect();
        let hidden = (report.hidden > 0).then_some(report.hidden);
        Ok(compact(json!({ "count": tasks.len(), "hidden_count": hidden, "tasks": tasks })))
    }

    async fn status(&self) -> Result<Value> {
        let Some(own) = self.caller.own_task() else {
            return Err(Error::invalid("lazy_status tells about the caller's own task, and this session has none"));
        };
        let report = self.op::<c::TaskStatus>(TaskParams { task: own.to_string() }).await?;
        if !report.worktree_exists {
            return Err(Error::conflict(format!(
                "the worktree of task {own} is gone ({}); report this and do not try again",
                report.worktree.unwrap_or_default()
            )));
        }
        let recent: Vec<String> = report
            .commits
            .iter()
            .rev()
            .take(5)
            .map(|commit| format!("{} {}", commit.sha.get(..7).unwrap_or_default(), commit.message))
            .collect();
        Ok(json!({
            "task": report.task,
            "session": { "commit_count": report.commits.len(), "git_branch": report.branch },
            "worktree": compact(json!({
                "path": report.worktree, "branch": report.branch, "changed_files": report.uncommitted.len(),
                "uncommitted_changes": report.uncommitted.join("\n"), "recent_commits": recent,
                "merge_state": report.merge_state,
            })),
        }))
    }

    async fn diff(&self, args: &Args) -> Result<Value> {
        let params = c::DiffParams {
            task: args.required("task_id"),
            full: args.flag("full"),
            files: args.texts("files"),
            turn: None,
        };
        let full = params.full;
        let report = self.op::<c::Diff>(params).await?;
        let lines: Vec<&str> = report.output.lines().collect();
        let at = |key| args.number(key).and_then(|number| usize::try_from(number).ok());
        let (offset, most) = (at("offset").unwrap_or(0), at("max_lines").filter(|most| *most > 0));
        let shown: Vec<&str> = lines.iter().skip(offset).take(most.unwrap_or(usize::MAX)).copied().collect();
        let mut out = json!({ "task_id": report.task_id, "diff_range": report.diff_range, "full": full, "diff": shown.join("\n") });
        if offset > 0 || most.is_some() {
            out["total_lines"] = lines.len().into();
            out["truncated"] = (offset + shown.len() < lines.len()).into();
            out["offset"] = offset.into();
        }
        Ok(out)
    }

    async fn wait(&self, args: &Args) -> Result<Value> {
        let mut tasks = args.texts("task_id");
        tasks.extend(args.text("task_id"));
        let report = self.op::<c::Wait>(c::WaitParams { tasks, next: false, timeout: args.number("timeout") }).await?;
        Ok(compact(json!(report)))
    }

    async fn commit(&self, args: &Args) -> Result<Value> {
        let params =
            c::CommitParams { task: self.own(), message: args.required("message"), files: args.texts("files") };
        Ok(compact(json!(self.op::<c::CommitWork>(params).await?)))
    }

    async fn internal_git(&self, args: Args) -> Result<Value> {
        let order = serde_json::from_value(Value::Object(args.0))
            .map_err(|source| Error::invalid(format!("the arguments of {} are wrong: {source}", c::INTERNAL_GIT)))?;
        Ok(json!(self.op::<c::InternalGit>(c::InternalGitParams { task: self.own(), order }).await?))
    }

    async fn raise(&self, args: &Args) -> Result<Value> {
        let params = c::RaiseParams {
            task: self.own(),
            blocking: args.flag("blocking"),
            content: args.text("content"),
            title: args.text("title"),
            explanation: args.text("explanation"),
            proposed_code: args.text("proposed_code"),
            proposed_prompt: args.text("proposed_prompt"),
            options: args.texts("options"),
        };
        Ok(json!(self.op::<c::Raise>(params).await?.item))
    }

    async fn journal(&self, args: &Args) -> Result<Value> {
        let task = args.text("task_id").unwrap_or_else(|| self.own());
        let report = self.op::<c::AddJournal>(c::NoteParams { task, message: args.required("message") }).await?;
        Ok(json!(report.entry))
    }

    async fn comment(&self, args: &Args) -> Result<Value> {
        let params = c::NoteParams { task: args.required("task_id"), message: args.required("message") };
        Ok(json!(self.op::<c::AddComment>(params).await?.comment))
    }

    async fn progress(&self, args: &Args) -> Result<Value> {
        let params = c::ProgressParams { task: self.own(), message: args.required("message") };
        Ok(json!(self.op::<c::UpdateProgress>(params).await?))
    }

    async fn create(&self, args: &Args) -> Result<Value> {
        let params = c::CreateParams {
            goal: args.required("goal"),
            prompt: args.text("prompt"),
            code: args.text("code"),
            parent: args.text("parent"),
            model: args.text("model"),
            task_type: args.text("type").as_deref().map(TaskType::parse).transpose()?,
            agent: args.text("agent"),
            effort: args.text("effort").as_deref().map(crate::model::Effort::parse).transpose()?,
            ..c::CreateParams::default()
        };
        let report = self.op::<c::Create>(params).await?;
        let parent: Option<TaskId> = report.parent.as_ref().map(|parent| parent.id);
        Ok(json!({
            "id": report.task.id.short(), "full_id": report.task.id, "goal": report.task.goal, "status": report.task.status,
            "code": report.task.code, "model": report.model, "runner": report.runner, "parent_task_id": parent,
        }))
    }

    async fn start(&self, args: &Args) -> Result<Value> {
        let params = c::StartParams {
            task: args.required("task_id"),
            model: args.text("model"),
            agent: args.text("agent"),
            effort: args.text("effort").as_deref().map(crate::model::Effort::parse).transpose()?,
            runner: None,
            force_local: args.flag("force_local"),
        };
        Ok(compact(json!(self.op::<c::Start>(params).await?)))
    }
}

fn turn(turn: &crate::model::Turn) -> Value {
    compact(json!({
        "sequence": turn.sequence, "role": turn.role, "actor": turn.actor, "content": turn.content,
        "timestamp": turn.timestamp.iso(), "agent": turn.agent, "model": turn.model, "effort": turn.effort,
        "turn_type": turn.kind, "check_exit_code": turn.check_exit_code, "check_output": turn.check_output,
    }))
}

/// An object without its null fields.
fn compact(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !value.is_null());
    }
    value
}
