//! `lazy diff`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::{Error, Result, text};
use crate::cli::app::App;
use crate::cli::fields::{self, Lines};
use crate::cli::session::Session;
use crate::cli::style::Style;
use crate::cli::table::Run;
use crate::rpc::commands as rpc;

/// what a task changed
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Diff {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// only these files
    #[argh(positional)]
    files: Vec<String>,
    /// the patch instead of the summary
    #[argh(switch)]
    full: bool,
    /// only what this agent turn changed: its number, or latest
    #[argh(option, arg_name = "turn")]
    turn: Option<String>,
    /// only these lines: N..M, N.. or ..M
    #[argh(option, arg_name = "range", from_str_fn(fields::lines))]
    lines: Option<Lines>,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Diff {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        if let Some(turn) = self.turn.as_deref().filter(|turn| *turn != "latest" && turn.parse::<u32>().is_err()) {
            return Err(Error::usage(format!("--turn takes a number or latest, not {turn:?}")).hint("lazy diff --help"));
        }
        let session = Session::open(&app, form.talk()).await?;
        let params = rpc::DiffParams { task: self.task, full: self.full, files: self.files, turn: self.turn };
        let report = session.call_quietly::<rpc::Diff>(&params).await?;
        if form == Form::Json {
            app.print_json(&report)?;
            return Ok(0);
        }
        let shown = self.lines.map_or_else(|| report.output.clone(), |lines| lines.of(&report.output));
        if report.output.trim().is_empty() {
            app.process.err_line(format!("No changes in {}.", report.diff_range));
        }
        if app.process.stdout_is_terminal() {
            app.print(colored(&shown, app.style))?;
        } else {
            // A patch that is kept or applied has every byte of the files.
            let end = if shown.is_empty() || shown.ends_with('\n') { "" } else { "\n" };
            app.process.write_out(format!("{shown}{end}").as_bytes())?;
        }
        for comment in &report.new_comments {
            app.process.err_line(format!("not yet seen by the agent: {}", text::one_line(&comment.content)));
        }
        Ok(0)
    }
}

/// Added lines green, removed ones red, hunks cyan, file heads bold.
fn colored(patch: &str, style: Style) -> String {
    patch
        .split_inclusive('\n')
        .map(|line| {
            let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
            let painted = match body.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => style.bold(body),
                [b'+', ..] => style.added(body),
                [b'-', ..] => style.removed(body),
                [b'@', b'@', ..] => style.hunk(body),
                _ if body.starts_with("diff --git ") || body.starts_with("index ") => style.bold(body),
                _ => return line.to_string(),
            };
            format!("{painted}{end}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_keep_every_byte_of_the_text() {
        let patch = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n same";
        let plain = text::for_terminal(&colored(patch, Style::Ansi)).into_owned();
        assert!(plain.contains("\x1b[32m+new\x1b[0m\n") && plain.contains("\x1b[31m-old\x1b[0m\n"));
        let mut bare = plain;
        for code in ["\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[0m"] {
            bare = bare.replace(code, "");
        }
        assert_eq!(bare, patch);
    }
}
