//! Text that a person writes in their editor, kept until it has arrived.

use std::path::PathBuf;
use std::sync::Mutex;

use super::app::App;
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
    let written =
        std::fs::read_to_string(file.path()).io_context(|| format!("cannot read {}", file.path().display()))?;
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

/// Says where a text stands that was written and has not arrived.
pub(crate) fn not_delivered(app: &App) {
    if let Some(path) = kept().take() {
        app.process.err_line(format!("What you wrote stands in {}", path.display()));
    }
}

fn kept() -> std::sync::MutexGuard<'static, Option<PathBuf>> {
    KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn keep(app: &App, text: &str) {
    let Ok(project) = Project::find(&app.process, app.process.cwd()) else { return };
    let path = project.data_dir.join("recovery").join(format!("text-{}.md", app.process.now().0));
    if files::write_atomic(&path, text.as_bytes(), files::Mode::Private).is_ok() {
        *kept() = Some(path);
    }
}

fn without_comments(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.join("\n").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_template_do_not_count() {
        assert_eq!(without_comments("\n# a\nkeep # this\n\n#b\nand this\n"), "keep # this\n\nand this");
        assert_eq!(without_comments("# only\n#comments\n\n"), "");
    }
}
