//! Text that a person wrote (in their editor, on standard input, behind a flag), kept until it has arrived.
//!
//! What was typed in the editor or came through a pipe exists nowhere else: it is kept before the daemon is asked. What
//! stands on the command line is kept when the daemon was lost before it answered.

use std::path::PathBuf;
use std::sync::Mutex;

use super::app::App;
use serde_json::{Value, json};

use crate::base::{Error, Kind, Result, ResultExt, files};
use crate::config::project::Project;
use crate::proc;

/// Where the last text was kept; gone once the daemon has it.
static KEPT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Opens `$VISUAL`, else `$EDITOR`, else `vi` on a Markdown file that starts as `template`. `None` when nothing is left
/// of it once lines that start with `#` are dropped (a template without such lines drops none).
///
/// The text is kept in `<data directory>/recovery/` until [`delivered`] is called.
///
/// # Errors
/// [`Kind::Canceled`] when the editor ends with a failure; [`Kind::Unavailable`] when there is no editor.
pub(crate) async fn write(app: &App, what: &str, template: &str) -> Result<Option<String>> {
    let editor = app.process.var("VISUAL").or_else(|| app.process.var("EDITOR")).unwrap_or("vi").to_string();
    let file = tempfile::Builder::new()
        .prefix("lazy-")
        .suffix(".md")
        .tempfile()
        .io_context(|| "cannot make a temporary file for the editor".into())?;
    std::fs::write(file.path(), template).io_context(|| format!("cannot write {}", file.path().display()))?;
    // through the shell, because people set EDITOR="code --wait"
    let command = proc::Cmd::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file.path());
    let exit = proc::foreground(command).await?;
    match exit.code {
        Some(0) => {}
        Some(127) => {
            return Err(Error::unavailable(format!("the editor {editor:?} is not there")).hint("export EDITOR=nano"));
        }
        _ => {
            return Err(Error::new(
                Kind::Canceled,
                format!("the editor was left with a failure; {what} was not taken"),
            ));
        }
    }
    let written = String::from_utf8(files::read_written(file.path())?.unwrap_or_default())
        .map_err(|_| Error::invalid(format!("what the editor wrote for {what} is not UTF-8 text")))?;
    let text = if template.contains("# ") { without_comments(&written) } else { written.trim().to_string() };
    if text.is_empty() {
        return Ok(None);
    }
    keep(app, &text);
    Ok(Some(text))
}

/// The text that [`write()`] kept has arrived: its copy goes.
pub(crate) fn delivered(app: &App) {
    if let Some(path) = kept().take()
        && files::remove_file(&path).is_err()
    {
        app.process.err_line(format!("The text also stands in {}", path.display()));
    }
}

/// The error, with a line that says where the text stands that was written and has not arrived.
pub(crate) fn not_delivered(error: Error) -> Error {
    let Some(path) = kept().take() else { return error };
    let line = Value::from(format!("What you wrote stands in {}", path.display()));
    let mut details = error.details().cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    match details["lines"].as_array_mut() {
        Some(lines) => lines.push(line),
        None => details["lines"] = json!([line]),
    }
    error.with_details(details)
}

/// Keeps a text that came through a pipe, as [`write()`] does.
pub(crate) fn keep(app: &App, text: &str) {
    let Ok(project) = Project::find(&app.process, app.process.cwd()) else { return };
    let name = format!("text-{}-{}.md", app.process.now().0, std::process::id());
    let path = project.data_dir.join("recovery").join(name);
    if files::write_atomic(&path, text.as_bytes(), files::Mode::Private).is_ok() {
        *kept() = Some(path);
    }
}

/// Keeps the texts among the parameters of a command that the daemon may not have got, unless they are kept already.
pub(crate) fn keep_params(app: &App, params: &Value, error: &Error) {
    // What these kinds of refusal are about is the text or the task: the command is there to be given again.
    let cut_off = matches!(error.kind(), Kind::Lost | Kind::Unavailable | Kind::Timeout | Kind::Io | Kind::Internal);
    if !cut_off || kept().is_some() {
        return;
    }
    let mut texts = Vec::new();
    collect(params, &mut texts);
    if !texts.is_empty() {
        keep(app, &texts.join("\n\n"));
    }
}

/// The texts that people write, in the order of their fields.
fn collect<'a>(params: &'a Value, found: &mut Vec<&'a str>) {
    const WRITTEN: [&str; 5] = ["goal", "prompt", "message", "reason", "response"];
    match params {
        Value::Object(fields) => {
            let texts = WRITTEN.iter().filter_map(|name| fields.get(*name)?.as_str());
            found.extend(texts.filter(|text| !text.trim().is_empty()));
            fields.values().for_each(|value| collect(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

fn kept() -> std::sync::MutexGuard<'static, Option<PathBuf>> {
    KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn without_comments(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.join("\n").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_is_found_among_parameters() {
        let params = json!({ "task": "x", "message": "the feedback", "model": "m", "reason": " ",
            "raised": [{ "id": "1", "response": "yes" }], "goal": null });
        let mut found = Vec::new();
        collect(&params, &mut found);
        assert_eq!(found, ["the feedback", "yes"]);
    }

    #[test]
    fn lines_of_the_template_do_not_count() {
        assert_eq!(without_comments("\n# a\nkeep # this\n\n#b\nand this\n"), "keep # this\n\nand this");
        assert_eq!(without_comments("# only\n#comments\n\n"), "");
    }
}
