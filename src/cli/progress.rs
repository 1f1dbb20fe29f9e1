//! What a long command tells while it works, on standard error.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::app::App;
use super::style::Style;
use crate::base::text::for_terminal;
use crate::base::time::duration_text;
use crate::rpc::Progress;

/// In a pipe, a phase that lasts says so this often.
const REMINDER: Duration = Duration::from_secs(30);

/// Whether a command narrates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    /// Phases as they come.
    Narrate,
    /// Nothing: the answer is for a program.
    Silent,
}

/// The narration of one call.
#[derive(Debug)]
pub(crate) struct Narration {
    app: App,
    form: Form,
    label: Option<String>,
    reminded: Duration,
}

#[derive(Debug)]
enum Form {
    Silent,
    Lines,
    Spinner(ProgressBar),
}

impl Narration {
    /// Begins to listen.
    pub fn new(app: &App, talk: Talk) -> Narration {
        let form = match talk {
            Talk::Silent => Form::Silent,
            Talk::Narrate if app.process.stderr_is_terminal() && app.process.var("TERM") != Some("dumb") => {
                Form::Spinner(spinner())
            }
            Talk::Narrate => Form::Lines,
        };
        Narration { app: app.clone(), form, label: None, reminded: Duration::ZERO }
    }

    /// Hears one thing.
    pub fn hear(&mut self, progress: Progress) {
        match progress {
            Progress::Event(event) => self.event(&event),
            Progress::Heartbeat(elapsed, phase) => self.heartbeat(Duration::from_millis(elapsed), phase),
        }
    }

    /// Ends well: whatever stood on the line is gone before the summary prints.
    pub fn finish(mut self) {
        self.close_phase();
    }

    /// Ends in a refusal: the phase that stood is marked as the one that failed.
    pub fn fail(mut self) {
        let mark = Style::for_stderr(&self.app.process).error("✗");
        self.close_phase_as(&mark);
    }

    fn event(&mut self, event: &Value) {
        let word = |key: &str| event.get(key).and_then(Value::as_str);
        let said = word("label").or_else(|| word("text")).or_else(|| word("message")).unwrap_or_default().to_string();
        if said.is_empty() {
            return;
        }
        match (word("kind"), word("state")) {
            (Some("phase"), Some("start") | None) => self.open_phase(said),
            (Some("phase"), Some(_)) => self.close_phase(),
            _ => self.note(&said),
        }
    }

    fn open_phase(&mut self, label: String) {
        if self.label.as_deref() == Some(label.as_str()) {
            return;
        }
        self.close_phase();
        match &self.form {
            Form::Silent => {}
            Form::Lines => self.app.process.err_line(format!("… {label}")),
            Form::Spinner(bar) => bar.set_message(for_terminal(&label).into_owned()),
        }
        self.label = Some(label);
    }

    fn close_phase(&mut self) {
        let mark = Style::for_stderr(&self.app.process).success("✓");
        self.close_phase_as(&mark);
    }

    fn close_phase_as(&mut self, mark: &str) {
        let Some(label) = self.label.take() else { return };
        if let Form::Spinner(bar) = &self.form {
            bar.set_message("");
            bar.suspend(|| self.app.process.err_line(format!("{mark} {label}")));
        }
    }

    fn note(&mut self, said: &str) {
        match &self.form {
            Form::Silent => {}
            Form::Lines => self.app.process.err_line(format!("… {said}")),
            Form::Spinner(bar) => bar.suspend(|| self.app.process.err_line(format!("  {said}"))),
        }
    }

    fn heartbeat(&mut self, elapsed: Duration, phase: Option<String>) {
        if let (Form::Spinner(_), Some(phase), None) = (&self.form, &phase, &self.label) {
            self.open_phase(phase.clone());
        }
        if matches!(self.form, Form::Lines) && elapsed >= self.reminded + REMINDER {
            self.reminded = elapsed;
            let doing = self.label.clone().or(phase).unwrap_or_else(|| "working".into());
            self.app.process.err_line(format!("… still {doing} ({})", duration_text(elapsed)));
        }
    }
}

impl Drop for Narration {
    fn drop(&mut self) {
        if let Form::Spinner(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::base::{Millis, Process};

    fn told(talk: Talk, events: Vec<Progress>) -> String {
        let process = Process::fake(["lazy"], &[], Path::new("/"), Millis(0));
        let app = App::new(&process);
        let mut narration = Narration::new(&app, talk);
        for event in events {
            narration.hear(event);
        }
        narration.finish();
        let (out, err) = process.captured();
        assert_eq!(out, "", "talk never goes to standard output");
        err
    }

    fn events() -> Vec<Progress> {
        vec![
            Progress::Event(json!({"kind": "phase", "label": "fetching", "state": "start"})),
            Progress::Heartbeat(5_000, Some("fetching".into())),
            Progress::Heartbeat(31_000, None),
            Progress::Event(json!({"kind": "phase", "label": "fetching", "state": "done"})),
            Progress::Event(json!({"kind": "note", "text": "the remote is slow"})),
            Progress::Event(json!({"kind": "phase", "label": "merging", "state": "start"})),
            Progress::Event(json!({"unknown": true})),
        ]
    }

    #[test]
    fn a_pipe_gets_a_line_for_each_phase() {
        assert_eq!(
            told(Talk::Narrate, events()),
            "… fetching\n… still fetching (31s)\n… the remote is slow\n… merging\n"
        );
    }

    #[test]
    fn programs_hear_nothing() {
        assert_eq!(told(Talk::Silent, events()), "");
    }
}
