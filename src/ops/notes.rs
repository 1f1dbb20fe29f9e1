//! Notes: comments, journal, labels. None of them starts a turn.

use super::{Caller, Ctx, Narrator, Operation, lookup};
use crate::base::{Error, Result, text};
use crate::model::{Comment, JournalEntry, tags};
use crate::rpc::commands::{
    AddComment, AddJournal, CommentReport, JournalListReport, JournalReport, NoteParams, ReadJournal, SetTag,
    TagParams, TagReport, TaskParams,
};
use crate::store::{Change, Edit};

impl Operation for AddComment {
    async fn run(ctx: &Ctx, caller: &Caller, params: NoteParams, _: &Narrator) -> Result<CommentReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_child(&row, "comment on")?;
        let comment = Comment {
            id: uuid::Uuid::new_v4().to_string(),
            task_id: row.id(),
            content: require_text(&params.message, "the comment")?,
            created_at: ctx.process().now(),
            actor: Some(caller.by.actor),
            source: Some("local".into()),
            actor_email: caller.by.actor_email.clone(),
            actor_name: caller.by.actor_name.clone(),
        };
        ctx.store().apply(vec![Edit::new(row.id(), Change::Comment(Box::new(comment.clone())))])?;
        Ok(CommentReport { task: lookup::brief(&row), comment })
    }
}

impl Operation for AddJournal {
    async fn run(ctx: &Ctx, caller: &Caller, params: NoteParams, _: &Narrator) -> Result<JournalReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        let entry = JournalEntry {
            id: uuid::Uuid::new_v4().to_string(),
            task_id: row.id(),
            content: require_text(&params.message, "the journal entry")?,
            created_at: ctx.process().now(),
            actor: Some(caller.by.actor),
            actor_email: caller.by.actor_email.clone(),
            actor_name: caller.by.actor_name.clone(),
        };
        ctx.store().apply(vec![Edit::new(row.id(), Change::Journal(Box::new(entry.clone())))])?;
        Ok(JournalReport { task: lookup::brief(&row), entry })
    }
}

impl Operation for ReadJournal {
    async fn run(ctx: &Ctx, caller: &Caller, params: TaskParams, _: &Narrator) -> Result<JournalListReport> {
        let record = lookup::record(ctx, caller, &params.task).await?;
        Ok(JournalListReport { task: lookup::brief_now(ctx, record.task.id)?, entries: record.journal })
    }
}

impl Operation for SetTag {
    async fn run(ctx: &Ctx, caller: &Caller, params: TagParams, _: &Narrator) -> Result<TagReport> {
        let row = lookup::row(ctx, caller, &params.task)?;
        caller.require_child(&row, "label")?;
        let tag = tags::normalize(&params.tag)?;
        let by = caller.by.clone();
        let change = match params.present {
            true => Change::Tagged { tag: tag.clone(), by },
            false => Change::Untagged { tag: tag.clone(), by },
        };
        ctx.store().apply(vec![Edit::new(row.id(), change)])?;
        let row = lookup::by_id(ctx, row.id())?;
        Ok(TagReport { task_id: row.id(), display_id: row.task.display_id(), tag, tags: row.task.tags.clone() })
    }
}

/// Text that is not blank, made safe to store.
pub(super) fn require_text(text: &str, what: &str) -> Result<String> {
    let text = text::escape_controls(text.trim());
    if text.is_empty() { Err(Error::invalid(format!("{what} is empty"))) } else { Ok(text) }
}
