//! `lazy daemon logs`.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use super::daemon;
use crate::base::{Error, Result, ResultExt};
use crate::cli::app::App;
use crate::cli::table::Run;

/// How often a followed log is looked at.
const POLL: Duration = Duration::from_millis(500);
/// At most this much of the log's end is searched for the lines wanted.
const TAIL: u64 = 4 << 20;

/// the daemon's log
#[derive(Debug, FromArgs, ArgsInfo)]
pub(crate) struct Logs {
    /// only lines with this text in them, such as a task's code
    #[argh(positional)]
    filter: Option<String>,
    /// how many lines
    #[argh(option, short = 'n', arg_name = "number", default = "50")]
    lines: usize,
    /// go on with what is written from now on
    #[argh(switch, short = 'f')]
    follow: bool,
    /// end after the last line (the default)
    #[argh(switch)]
    no_follow: bool,
    /// the project's directory instead of the one around here
    #[argh(option, arg_name = "path")]
    project: Option<String>,
}

impl Run for Logs {
    async fn run(self, app: App) -> Result<u8> {
        if self.follow && self.no_follow {
            return Err(Error::usage("--follow and --no-follow exclude each other").hint("lazy daemon logs -f"));
        }
        let state = daemon::state_dir(&app, self.project.as_deref()).await?;
        let path = state.log_path();
        let mut log = Log::default();
        let text = log.read(&path)?;
        if text.is_empty() && !self.follow {
            app.process.err_line(format!("There is nothing in {}", path.display()));
        }
        let matching: Vec<&str> = text.lines().filter(|line| wanted(line, self.filter.as_deref())).collect();
        for line in &matching[matching.len().saturating_sub(self.lines)..] {
            app.process.out_line(line)?;
        }
        if !self.follow {
            return Ok(0);
        }
        loop {
            tokio::time::sleep(POLL).await;
            for line in log.read(&path)?.lines().filter(|line| wanted(line, self.filter.as_deref())) {
                app.process.out_line(line)?;
            }
        }
    }
}

fn wanted(line: &str, filter: Option<&str>) -> bool {
    filter.is_none_or(|filter| line.contains(filter))
}

/// A log that grows, is cut or replaced while it is read. Whole lines only.
#[derive(Debug, Default)]
struct Log {
    at: Option<u64>,
    rest: Vec<u8>,
}

impl Log {
    fn read(&mut self, path: &Path) -> Result<String> {
        let doing = || format!("cannot read {}", path.display());
        let mut file = match std::fs::File::open(path) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
            other => other.io_context(doing)?,
        };
        let length = file.metadata().io_context(doing)?.len();
        let from = match self.at {
            None => length.saturating_sub(TAIL),
            // shorter than what was read: it was cut or replaced
            Some(at) if at > length => 0,
            Some(at) => at,
        };
        file.seek(SeekFrom::Start(from)).io_context(doing)?;
        let mut bytes = std::mem::take(&mut self.rest);
        let read = file.take(TAIL).read_to_end(&mut bytes).io_context(doing)?;
        self.at = Some(from + u64::try_from(read).unwrap_or_default());
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.rest = bytes.split_off(end);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_in_whole_lines_also_when_it_is_cut() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("daemon.log");
        let mut log = Log::default();
        assert_eq!(log.read(&path).expect("missing is empty"), "");
        std::fs::write(&path, "one\ntw").expect("writes");
        assert_eq!(log.read(&path).expect("reads"), "one\n");
        std::fs::write(&path, "one\ntwo\n").expect("writes");
        assert_eq!(log.read(&path).expect("reads"), "two\n");
        std::fs::write(&path, "new\n").expect("writes");
        assert_eq!(log.read(&path).expect("reads"), "new\n");
    }
}
