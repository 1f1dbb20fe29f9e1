//! Labelled lines under a heading.

use crate::cli::style::Style;

/// Columns that a label with its colon takes.
const LABEL: usize = 16;

/// Text that grows by labelled lines and sections.
#[derive(Debug)]
pub(crate) struct Sheet {
    style: Style,
    out: String,
}

impl Sheet {
    /// An empty one.
    pub fn new(style: Style) -> Sheet {
        Sheet { style, out: String::new() }
    }

    /// A line as it is.
    pub fn line(&mut self, text: impl AsRef<str>) -> &mut Sheet {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
        self
    }

    /// `  Label:      value`; a value of several lines keeps its column; an empty one is left out.
    pub fn field(&mut self, label: &str, value: impl AsRef<str>) -> &mut Sheet {
        let value = value.as_ref();
        if value.is_empty() {
            return self;
        }
        let name = format!("{label}:");
        let gap = " ".repeat(LABEL.saturating_sub(name.chars().count()).max(1));
        let column = format!("\n{}", " ".repeat(LABEL + 2));
        let body = value.trim_end().replace('\n', &column);
        self.line(format!("  {}{gap}{body}", self.style.bold(name)))
    }

    /// A field that may be absent.
    pub fn maybe(&mut self, label: &str, value: Option<impl AsRef<str>>) -> &mut Sheet {
        match value {
            Some(value) => self.field(label, value),
            None => self,
        }
    }

    /// An empty line and a heading.
    pub fn section(&mut self, title: impl AsRef<str>) -> &mut Sheet {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        let title = self.style.bold(title);
        self.line(title)
    }

    /// The text.
    pub fn text(self) -> String {
        self.out
    }
}
