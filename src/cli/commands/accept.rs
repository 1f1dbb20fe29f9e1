//! `lazy accept`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use super::decisions::{self, Words};
use crate::base::{Error, Result, text};
use crate::cli::app::App;
use crate::cli::input::{self, Answer, Enter};
use crate::cli::render;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::model::RaisedItem;
use crate::rpc::commands::{self as rpc, RaisedAction, RaisedDecision};

/// merge a task's work into its target and end it
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    note = "Every open raised item that stops an accept must be decided, by flag or when asked; --yes does not skip that.",
    example = "lazy accept fix-login --reason \"Small and well tested\""
)]
pub(crate) struct Accept {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// why; LGTM when absent
    #[argh(option, arg_name = "text")]
    reason: Option<String>,
    /// a guarded file whose change may pass
    #[argh(option, arg_name = "path")]
    approve_file: Vec<String>,
    /// answer a raised item: ID=TEXT
    #[argh(option, arg_name = "id=text")]
    respond_raised: Vec<String>,
    /// make a raised item a child task: ID or ID=NOTE
    #[argh(option, arg_name = "id")]
    promote_raised_subtask: Vec<String>,
    /// make a raised item a task beside this one: ID or ID=NOTE
    #[argh(option, arg_name = "id")]
    promote_raised_peer: Vec<String>,
    /// turn a raised item down: ID=REASON
    #[argh(option, arg_name = "id=reason")]
    dismiss_raised: Vec<String>,
    /// say that a raised item was seen: ID or ID=NOTE
    #[argh(option, arg_name = "id")]
    acknowledge_raised: Vec<String>,
    /// do not ask
    #[argh(switch, short = 'y')]
    yes: bool,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Accept {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let mut raised = decisions::read(&Words {
            respond: &self.respond_raised,
            promote_subtask: &self.promote_raised_subtask,
            promote_peer: &self.promote_raised_peer,
            dismiss: &self.dismiss_raised,
            acknowledge: &self.acknowledge_raised,
        })?;
        let session = Session::open_checked(&app, form.talk()).await?;
        let person = app.process.stdin_is_terminal() && form == Form::Text;
        let mut reason = self.reason;
        if person {
            let report = session.call_quietly::<rpc::Show>(&rpc::TaskParams { task: self.task.clone() }).await?;
            for item in report.raised_items.iter().filter(|item| item.gates_accept()) {
                if !raised.iter().any(|decision| item.id.starts_with(&decision.id)) {
                    raised.push(decide(&app, item)?);
                }
            }
            if !self.yes && reason.is_none() {
                reason = Some(input::ask_line(&app, "Reason", "LGTM")?);
            }
        } else if reason.is_none() {
            reason = input::given(&app, None).await?;
        }
        let params = rpc::AcceptParams { task: self.task, reason, approved_files: self.approve_file, raised };
        let report = session.call::<rpc::Accept>(&params).await?;
        match form {
            Form::Json => app.print_json(&report)?,
            Form::Text => {
                app.warn_all(&report.warnings);
                app.print(render::moved::accepted(&report, app.style))?;
            }
        }
        Ok(0)
    }
}

/// Walks a person through one item.
fn decide(app: &App, item: &RaisedItem) -> Result<RaisedDecision> {
    app.process.err_line(format!("\nRaised: {}", text::one_line(item.headline())));
    for line in item.content.lines() {
        app.process.err_line(format!("  {}", text::escape_controls(line)));
    }
    for option in &item.options {
        app.process.err_line(format!("  - {}", text::one_line(option)));
    }
    let choice = input::ask_line(app, "respond, dismiss, acknowledge, subtask or peer", "acknowledge")?;
    let action = match choice.as_str() {
        "respond" | "r" => RaisedAction::Respond,
        "dismiss" | "d" => RaisedAction::Dismiss,
        "acknowledge" | "ack" | "a" => RaisedAction::Acknowledge,
        "subtask" | "s" => RaisedAction::PromoteSubtask,
        "peer" | "p" => RaisedAction::PromotePeer,
        other => {
            return Err(Error::invalid(format!("{other:?} is no decision on a raised item")).hint("lazy raised list"));
        }
    };
    let needs_words = matches!(action, RaisedAction::Respond | RaisedAction::Dismiss);
    let words = if needs_words { input::ask_line(app, "In words", "")? } else { String::new() };
    if needs_words && words.is_empty() {
        return Err(Error::invalid("a response and a dismissal need words").hint("lazy raised list"));
    }
    if input::confirm(app, "Is that your decision?", Enter::Yes)? == Answer::No {
        return Err(Error::new(crate::base::Kind::Canceled, "nothing was accepted"));
    }
    Ok(RaisedDecision { id: item.id.clone(), action, response: (!words.is_empty()).then_some(words) })
}
