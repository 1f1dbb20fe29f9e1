//! The prompts: one catalogue of files in `assets/prompts/`, and the rules that compose them.
//!
//! A placeholder is `{{name}}`, lower-case letters, digits and `_`. Rendering is strict: a placeholder without a value
//! and a value without a placeholder are errors. Values are inserted as they are and never looked at again, so a
//! person's text may hold braces.
//!
//! Invariant: the section "Git and transport discipline" is the same, letter by letter, in both system instructions.

mod catalogue;
mod compose;

pub use catalogue::{ALL, Prompt};
pub use compose::{Body, SystemPrompt, TurnPrompt, Variant, redelivery, system_prompt, turn_prompt};

use crate::base::{Error, Kind, Result, text};

/// The catalogue's entry of a name.
///
/// # Errors
/// [`Kind::NotFound`] with the nearest name.
pub fn find(name: &str) -> Result<&'static Prompt> {
    ALL.iter().find(|prompt| prompt.name == name).ok_or_else(|| {
        let error = Error::new(Kind::NotFound, format!("there is no prompt named {name:?}"));
        match text::nearest(name, ALL.iter().map(|prompt| prompt.name)) {
            Some(near) => error.hint(format!("lazy view lazy-prompt-{near}")),
            None => error.hint("lazy system prompts"),
        }
    })
}

/// The prompt's text with its placeholders filled; no line end at the end.
///
/// # Errors
/// [`Kind::NotFound`] for an unknown prompt, [`Kind::Internal`] for a placeholder without a value or a value without a
/// placeholder.
pub fn render(name: &str, values: &[(&str, &str)]) -> Result<String> {
    let prompt = find(name)?;
    let defect = |what: String| Error::internal(format!("prompt {name}: {what}"));
    let mut used = Vec::new();
    let mut out = String::with_capacity(prompt.text.len() + values.iter().map(|(_, value)| value.len()).sum::<usize>());
    for piece in pieces(prompt.text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Placeholder(wanted) => {
                let (_, value) = values
                    .iter()
                    .find(|(key, _)| *key == wanted)
                    .ok_or_else(|| defect(format!("no value for {{{{{wanted}}}}}")))?;
                used.push(wanted);
                out.push_str(value);
            }
        }
    }
    if let Some((key, _)) = values.iter().find(|(key, _)| !used.contains(key)) {
        return Err(defect(format!("it has no {{{{{key}}}}}")));
    }
    out.truncate(out.trim_end().len());
    Ok(out)
}

enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// Cuts a template at its placeholders. Braces that do not enclose a name are text.
fn pieces(mut template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut from = 0;
    while let Some(at) = template[from..].find("{{").map(|at| at + from) {
        let name = template[at + 2..].split("}}").next().unwrap_or_default();
        let closed = template[at + 2 + name.len()..].starts_with("}}");
        let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if closed && named {
            pieces.push(Piece::Text(&template[..at]));
            pieces.push(Piece::Placeholder(name));
            template = &template[at + 2 + name.len() + 2..];
            from = 0;
        } else {
            from = at + 2;
        }
    }
    pieces.push(Piece::Text(template));
    pieces
}

#[cfg(test)]
mod tests;
