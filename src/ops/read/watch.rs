//! `watch`: what a running turn says and does, as it happens.
//!
//! The cursor is `<command id>:<byte offset in the stream>:<phase>:<commits>`: everything an answer depends on, so that
//! the daemon keeps nothing for a watcher.

use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use crate::agent::{Agent, StreamEvent};
use crate::base::{Result, text};
use crate::exchange::Mailbox;
use crate::model::Status;
use crate::model::exchange::StatusFile;
use crate::ops::{Caller, Ctx, Narrator, Operation, lookup};
use crate::rpc::commands::{Watch, WatchEvent, WatchParams, WatchReport};
use crate::store::TaskRow;

/// Bytes of the stream in one answer.
const CHUNK: u64 = 256 * 1024;
const POLL: Duration = Duration::from_millis(100);
const LONGEST_WAIT_MS: u64 = 30_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    command: String,
    offset: u64,
    phase: String,
    commits: u32,
    progress: String,
}

impl Cursor {
    fn parse(text: &str) -> Cursor {
        serde_json::from_str::<(String, u64, String, u32, String)>(text)
            .map(|(command, offset, phase, commits, progress)| Cursor { command, offset, phase, commits, progress })
            .unwrap_or_default()
    }

    fn text(&self) -> String {
        serde_json::json!([self.command, self.offset, self.phase, self.commits, self.progress]).to_string()
    }
}

impl Operation for Watch {
    async fn run(ctx: &Ctx, caller: &Caller, params: WatchParams, _: &Narrator) -> Result<WatchReport> {
        let id = lookup::row(ctx, caller, &params.task)?.id();
        let mut cursor = params.cursor.as_deref().map(Cursor::parse);
        let deadline = tokio::time::Instant::now() + Duration::from_millis(params.wait_ms.min(LONGEST_WAIT_MS));
        loop {
            let row = lookup::by_id(ctx, id)?;
            let running = row.status() == Status::Working;
            let first = cursor.is_none();
            let mut at = cursor.take().unwrap_or_else(|| Cursor { commits: row.commit_count, ..Cursor::default() });
            let events = look(ctx, &row, &mut at)?;
            let over = tokio::time::Instant::now() >= deadline;
            if !events.is_empty() || !running || over || (first && params.wait_ms == 0) {
                return Ok(WatchReport { events, cursor: at.text(), status: row.status(), running });
            }
            cursor = Some(at);
            tokio::time::sleep(POLL).await;
        }
    }
}

fn look(ctx: &Ctx, row: &TaskRow, at: &mut Cursor) -> Result<Vec<WatchEvent>> {
    let mailbox = ctx.mailbox(row.id())?;
    let status = mailbox.load_status().ok().flatten();
    let mut events = Vec::new();
    if let Some(status) = &status {
        if status.command_id != at.command {
            at.command = status.command_id.clone();
            at.offset = 0;
            at.phase.clear();
        }
        events.extend(phase(status, at));
    }
    // Without a checkpoint of a supervisor the stream is that of the turn before.
    if let (Some(_), Ok(agent)) = (&status, Agent::parse(&row.task.agent_id)) {
        events.extend(stream(&mailbox, agent, at));
    }
    let progress = mailbox.load_progress().map(|file| file.message).unwrap_or_default();
    if progress != at.progress {
        at.progress.clone_from(&progress);
        if !progress.is_empty() {
            events.push(WatchEvent::Progress { message: progress });
        }
    }
    if row.commit_count > at.commits {
        let record = ctx.store().load_task(row.id())?;
        for commit in record.commits.iter().skip(usize::try_from(at.commits).unwrap_or(0)) {
            let message = commit.message.lines().next().unwrap_or_default().to_string();
            events.push(WatchEvent::Commit { sha: commit.sha.clone(), message });
        }
        at.commits = row.commit_count;
    }
    if row.status() != Status::Working && at.phase != row.status().as_str() {
        at.phase = row.status().as_str().into();
        events.push(WatchEvent::Status { status: row.status() });
    }
    Ok(events)
}

fn phase(status: &StatusFile, at: &mut Cursor) -> Option<WatchEvent> {
    let detail = status.retry_failure_reason.clone();
    let now = format!("{}{}", status.phase.as_str(), status.retry_count.map(|n| format!("#{n}")).unwrap_or_default());
    if now == at.phase {
        return None;
    }
    at.phase = now;
    Some(WatchEvent::Phase { phase: status.phase.as_str().into(), detail })
}

/// Complete lines of the agent's stream from the cursor on.
fn stream(mailbox: &Mailbox, agent: Agent, at: &mut Cursor) -> Vec<WatchEvent> {
    let Ok(Some(mut file)) = crate::base::files::open_foreign(&mailbox.stream_path()) else { return Vec::new() };
    let length = file.metadata().map(|meta| meta.len()).unwrap_or(0);
    if length < at.offset {
        at.offset = 0;
    }
    let mut bytes = Vec::new();
    if file.seek(SeekFrom::Start(at.offset)).is_err() || file.take(CHUNK).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        // A line longer than a chunk is passed over in pieces.
        if u64::try_from(bytes.len()).unwrap_or(0) == CHUNK {
            at.offset += CHUNK;
        }
        return Vec::new();
    };
    at.offset += u64::try_from(end + 1).unwrap_or(0);
    bytes[..end].split(|byte| *byte == b'\n').filter_map(|line| event(agent, line)).collect()
}

fn event(agent: Agent, line: &[u8]) -> Option<WatchEvent> {
    match agent.parse_line(line) {
        StreamEvent::Progress { text: Some(text) } => Some(WatchEvent::Text { text: text::escape_controls(&text) }),
        StreamEvent::ToolStart { name, summary, .. } => Some(WatchEvent::Tool {
            name: text::one_line(&name),
            summary: text::truncate_chars(&text::one_line(&summary), 200),
        }),
        _ => None,
    }
}
