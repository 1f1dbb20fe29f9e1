//! What every command is handed.

use crate::base::{Process, Result};

use super::style::Style;

/// The process and how its answer may look. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App {
    /// The process.
    pub process: Process,
    /// Colours of the answer.
    pub style: Style,
}

impl App {
    /// For this process.
    pub fn new(process: &Process) -> App {
        App { process: process.clone(), style: Style::for_stdout(process) }
    }

    /// Prints lines of the answer.
    pub fn print(&self, text: impl AsRef<str>) -> Result<()> {
        let text = text.as_ref();
        if text.is_empty() || text.ends_with('\n') { self.process.out(text) } else { self.process.out_line(text) }
    }

    /// Prints the answer as one line of JSON.
    pub fn print_json(&self, value: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string(value)
            .map_err(|source| crate::base::Error::internal("cannot encode the answer").caused_by(source))?;
        self.process.write_out(format!("{text}\n").as_bytes())
    }

    /// Prints the answer as JSON on several lines.
    pub fn print_json_pretty(&self, value: &impl serde::Serialize) -> Result<()> {
        self.process.write_out(&crate::base::json::pretty(value)?)
    }

    /// Prints each warning on standard error.
    pub fn warn_all(&self, warnings: &[String]) {
        let style = Style::for_stderr(&self.process);
        for warning in warnings {
            self.process.err_line(format!("{} {warning}", style.warning("Warning:")));
        }
    }
}
