//! A task as one JSON value: the keys are fixed, times are RFC 3339.

use serde_json::{Map, Value, json};

use crate::base::Millis;
use crate::model::{RaisedItem, Session, Turn};
use crate::rpc::commands::ShowReport;

/// `lazy show --json`.
pub(crate) fn task(report: &ShowReport) -> Value {
    let task = &report.task;
    let mut value = json!({
        "id": task.id,
        "code": task.code,
        "goal": task.goal,
        "status": task.status,
        "type": task.task_type,
        "model": task.model,
        "agent_id": task.agent_id,
        "prompt": task.prompt,
        "created_at": task.created_at.iso(),
        "completed_at": time(task.completed_at),
        "close_reason": task.close_reason,
        "parent_task_id": task.target.parent(),
        "branched_from_sha": task.branched_from_sha,
        "metadata": task.metadata,
        "priority": task.priority,
        "tags": task.tags,
        "session": report.session.as_ref().map(|session| self::session(session, report)),
        "turns": report.turns.iter().map(turn).collect::<Vec<_>>(),
        "commits": report.commits.iter().map(|commit| json!({
            "sha": commit.sha,
            "message": commit.message,
            "status": commit.status,
            "timestamp": commit.timestamp.iso(),
        })).collect::<Vec<_>>(),
        "comments": report.comments.iter().map(|comment| json!({
            "content": comment.content,
            "created_at": comment.created_at.iso(),
            "actor": comment.actor,
            "actor_email": comment.actor_email,
            "actor_name": comment.actor_name,
        })).collect::<Vec<_>>(),
        "journal": report.journal.iter().map(|entry| json!({
            "content": entry.content,
            "created_at": entry.created_at.iso(),
            "actor": entry.actor,
            "actor_email": entry.actor_email,
            "actor_name": entry.actor_name,
        })).collect::<Vec<_>>(),
        "raised_items": report.raised_items.iter().map(raised).collect::<Vec<_>>(),
        "turn_report": Value::Null,
        "file_decisions": [],
        "artifacts": [],
        "children": report.children.iter().map(|child| json!({
            "id": child.id,
            "code": child.code,
            "goal": child.goal,
            "status": child.status,
        })).collect::<Vec<_>>(),
        "final": task.status.is_terminal(),
    });
    if let Some(fields) = value.as_object_mut() {
        optional(fields, report);
    }
    value
}

fn optional(fields: &mut Map<String, Value>, report: &ShowReport) {
    if let Some(note) = &report.supervisor {
        fields.insert(
            "retry_status".into(),
            json!({
                "phase": note.phase,
                "command": note.command,
                "phase_started_at": note.phase_started_at,
                "count": note.retry_count,
                "reason": note.retry_reason,
                "next_delay_ms": note.retry_next_delay_ms,
                "errors": note.errors,
            }),
        );
    }
    if let Some(substate) = &report.substate {
        fields.insert("liveness".into(), json!({ "substate": substate, "progress": report.progress }));
    }
    if let Some(merge) = &report.merge_state {
        fields.insert("merge_state".into(), json!(merge));
    }
}

fn session(session: &Session, report: &ShowReport) -> Value {
    let status = match (session.outcome, session.ended_at) {
        (Some(outcome), _) => outcome.as_str(),
        (None, Some(_)) => "ended",
        (None, None) => "open",
    };
    json!({
        "id": session.id,
        "agent_id": session.agent_id,
        "status": status,
        "git_branch": session.git_branch,
        "git_start_sha": session.git_start_sha,
        "started_at": session.started_at.iso(),
        "ended_at": time(session.ended_at),
        "last_interaction_at": time(session.last_interaction_at),
        "container_name": session.container_name,
        "runner_type": session.runner_type,
        "total_duration_ms": session.total_duration_ms,
        "total_usage": session.total_usage,
        "consecutive_interruptions": session.consecutive_interruptions,
        "auto_resumed": session.auto_resumed,
        "agent_session_id": session.agent_session_id,
        "worktree": report.worktree,
    })
}

fn turn(turn: &Turn) -> Value {
    let mut value = json!({
        "sequence": turn.sequence,
        "role": turn.role,
        "actor": turn.actor,
        "actor_email": turn.actor_email,
        "actor_name": turn.actor_name,
        "content": turn.content,
        "prompt": turn.prompt,
        "timestamp": turn.timestamp.iso(),
        "usage": turn.usage,
        "agent": turn.agent,
        "model": turn.model,
        "model_id": turn.model_id,
        "effort": turn.effort,
        "mcp_tools": turn.mcp_tools,
        "auto_triggered": turn.auto_triggered,
        "turn_type": turn.kind,
    });
    if let (Some(fields), Some(code)) = (value.as_object_mut(), turn.check_exit_code) {
        fields.insert("check_exit_code".into(), json!(code));
        fields.insert("check_output".into(), json!(turn.check_output));
    }
    if let (Some(fields), false) = (value.as_object_mut(), turn.merge_conflicts.is_empty()) {
        fields.insert("merge_conflicts".into(), json!(turn.merge_conflicts));
    }
    value
}

fn raised(item: &RaisedItem) -> Value {
    json!({
        "id": item.id,
        "blocking": item.blocking,
        "content": item.content,
        "title": item.title,
        "explanation": item.explanation,
        "proposed_code": item.proposed_code,
        "proposed_prompt": item.proposed_prompt,
        "options": item.options,
        "created_at": item.created_at.iso(),
        "session_id": item.session_id,
        "turn_sequence": item.turn_sequence,
        "status": item.status,
        "resolved_at": time(item.resolved_at),
        "resolved_by": item.resolved_by,
        "resolved_by_email": item.resolved_by_email,
        "resolved_by_name": item.resolved_by_name,
        "resolution": item.resolution,
        "comments": [],
        "pending_comment": item.pending_comment,
        "comment_delivered_at": time(item.comment_delivered_at),
        "delivered_turn": item.delivered_turn,
        "promoted_task_id": item.promoted_task_id,
    })
}

fn time(at: Option<Millis>) -> Option<String> {
    at.map(Millis::iso)
}
