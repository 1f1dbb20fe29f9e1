//! `lazy search`.

use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};

use super::create::Form;
use crate::base::Result;
use crate::cli::app::App;
use crate::cli::render;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::rpc::commands::{self as rpc, SearchHit, SearchReport};

use render::search::Shape;

/// find text in tasks, their turns and their notes
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(note = "Plain text is a regular expression without regard to case; words such as AND, status:blocked or #tag \
               make it a query.")]
pub(crate) struct Search {
    /// what to look for
    #[argh(positional)]
    query: String,
    /// more words of it
    #[argh(positional)]
    more: Vec<String>,
    /// approximate matching
    #[argh(switch, short = 'f')]
    fuzzy: bool,
    /// matches under their tasks
    #[argh(switch, short = 'g')]
    group: bool,
    /// in goals and codes
    #[argh(switch)]
    tasks: bool,
    /// in prompts
    #[argh(switch)]
    prompts: bool,
    /// in turns
    #[argh(switch)]
    turns: bool,
    /// in commits
    #[argh(switch)]
    commits: bool,
    /// in comments
    #[argh(switch)]
    notes: bool,
    /// in raised items
    #[argh(switch)]
    raised: bool,
    /// in journals
    #[argh(switch)]
    journal: bool,
    /// matches at most; 0 is all
    #[argh(option, arg_name = "number", default = "0")]
    limit: u32,
    /// matches to leave out first
    #[argh(option, arg_name = "number", default = "0")]
    offset: u32,
    /// print the matches as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Search {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let types = [
            (self.tasks, "task"),
            (self.prompts, "prompt"),
            (self.turns, "turn"),
            (self.commits, "commit"),
            (self.notes, "comment"),
            (self.raised, "raised"),
            (self.journal, "journal"),
        ];
        let params = rpc::SearchParams {
            query: [vec![self.query], self.more].concat().join(" "),
            fuzzy: self.fuzzy,
            types: types.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| (*name).to_string()).collect(),
            offset: self.offset,
            limit: self.limit,
        };
        let session = Session::open(&app, form.talk()).await?;
        let report = session.call_quietly::<rpc::Search>(&params).await?;
        match form {
            Form::Json => app.print_json(&as_json(&report))?,
            Form::Text => {
                let shape = if self.group { Shape::Grouped } else { Shape::Table };
                app.print(render::search::matches(&report, shape, app.style))?;
            }
        }
        Ok(0)
    }
}

/// `{query, matches: [{task_id, task_code, match_type, line, content, context}], hint?}`.
fn as_json(report: &SearchReport) -> Value {
    let hit = |hit: &SearchHit| {
        json!({
            "task_id": hit.task_id,
            "task_code": hit.task_code,
            "match_type": hit.kind,
            "line": hit.line,
            "content": hit.content,
            "context": { "index": hit.index, "turn_seq": hit.turn_seq, "sha": hit.sha },
        })
    };
    let mut value = json!({
        "query": report.query,
        "total": report.total,
        "matches": report.matches.iter().map(hit).collect::<Vec<_>>(),
    });
    if let (Some(fields), Some(text)) = (value.as_object_mut(), &report.hint) {
        fields.insert("hint".into(), json!(text));
    }
    value
}
