//! What `lazy init` did, as values a face renders.

use std::path::PathBuf;

use serde::Serialize;

/// Whether there was anything to set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SetUp {
    /// The project is new to lazy.
    Initialized,
    /// It was set up before; only `.gitignore` was looked after.
    AlreadyInitialized,
}

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It is as it should be, or was done.
    Done,
    /// It wants attention.
    Warning,
}

/// One thing that was done or found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// How much it matters.
    pub level: Level,
    /// One sentence.
    pub text: String,
    /// Commands that help.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

/// What `lazy init` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InitReport {
    /// Whether there was anything to set up.
    pub status: SetUp,
    /// The main checkout.
    pub root: PathBuf,
    /// The project's name.
    pub name: String,
    /// The project's own directory.
    pub data_dir: PathBuf,
    /// The configuration file.
    pub config: PathBuf,
    /// The task store; `None` when the configuration names none that this version can open.
    pub storage: Option<PathBuf>,
    /// The git remote that counts.
    pub git_remote: String,
    /// In order.
    pub notes: Vec<Note>,
    /// What to do next: commands.
    pub next: Vec<String>,
}

impl InitReport {
    /// The report as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let head = match self.status {
            SetUp::Initialized => format!("Initialized lazy in {}", self.root.display()),
            SetUp::AlreadyInitialized => format!("{} is already initialized", self.root.display()),
        };
        let storage = self.storage.as_ref().map(|path| format!("  tasks are stored in {}", path.display()));
        let mut lines: Vec<String> = [head].into_iter().chain(storage).collect();
        for note in &self.notes {
            let mark = match note.level {
                Level::Done => "✓",
                Level::Warning => "!",
            };
            lines.push(format!("{mark} {}", note.text));
            lines.extend(note.hints.iter().map(|hint| format!("    {hint}")));
        }
        if !self.next.is_empty() {
            lines.push(String::new());
            lines.push("Next:".into());
            lines.extend(self.next.iter().map(|command| format!("  {command}")));
        }
        lines
    }

    pub(super) fn done(&mut self, text: impl Into<String>) {
        self.notes.push(Note { level: Level::Done, text: text.into(), hints: Vec::new() });
    }

    pub(super) fn warn(&mut self, text: impl Into<String>, hints: Vec<String>) {
        self.notes.push(Note { level: Level::Warning, text: text.into(), hints });
    }
}
