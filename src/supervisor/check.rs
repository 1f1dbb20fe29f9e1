//! The check after a turn: the project's own shell command, run by the supervisor so that the agent cannot skip it.

use std::time::Duration;

use super::fault::Fault;
use super::turn::Turn;
use crate::proc::{Cmd, Keep, Output};

/// The command's time when the configuration names none.
const LIMIT: Duration = Duration::from_secs(300);
const OUTPUT: usize = 1 << 20;
const LINES: usize = 200;

/// Exit code of a check that could not be started.
const NOT_RUN: i32 = -1;
/// Exit code of a check whose time ran out.
const TIMED_OUT: i32 = -2;

/// Runs the check in the worktree: its exit code, and the last lines of what it printed.
pub(super) async fn run(turn: &mut Turn<'_>, command: &str, seconds: Option<u64>) -> Result<(i32, String), Fault> {
    let cmd = Cmd::new("sh").args(["-c", command]).env_of(turn.process).cwd(turn.worktree.path());
    let cmd = cmd.output_limit(OUTPUT).keep(Keep::Tail).timeout(seconds.map_or(LIMIT, Duration::from_secs));
    let mut stop = turn.stop.clone();
    let output = tokio::select! {
        output = cmd.output() => output,
        () = stop.requested() => return Err(Fault::ending()),
    };
    match output {
        // The signal that ends this process may have reached the check first.
        _ if stop.is_requested() => Err(Fault::ending()),
        Ok(output) => Ok((code(&output), text(&output))),
        Err(error) => Ok((NOT_RUN, error.full_message())),
    }
}

fn code(output: &Output) -> i32 {
    match (output.timed_out, output.code, output.signal) {
        (true, ..) => TIMED_OUT,
        (_, Some(code), _) => code,
        (_, None, signal) => 128 + signal.unwrap_or_default(),
    }
}

/// Both streams under their names, a silent one left out.
fn text(output: &Output) -> String {
    let mut text = String::new();
    for (name, part) in [("stdout", output.stdout_text()), ("stderr", output.stderr_text())] {
        if !part.trim().is_empty() {
            text.push_str(&format!("--- {name}\n{}\n", part.trim_end()));
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_both_streams_is_kept() {
        let many: String = (0..300).map(|n| format!("line {n}\n")).collect();
        let output = Output { stdout: b"out\n".to_vec(), stderr: many.into_bytes(), ..Output::default() };
        let text = text(&output);
        assert_eq!(text.lines().count(), LINES);
        assert!(text.ends_with("line 299"));
        let output = Output { stdout: b"out\n".to_vec(), stderr: b" \n".to_vec(), ..Output::default() };
        assert_eq!(super::text(&output), "--- stdout\nout");
    }

    #[test]
    fn the_code_says_how_it_ended() {
        assert_eq!(code(&Output { code: Some(3), ..Output::default() }), 3);
        assert_eq!(code(&Output { signal: Some(9), ..Output::default() }), 137);
        assert_eq!(code(&Output { timed_out: true, signal: Some(15), ..Output::default() }), -2);
    }
}
