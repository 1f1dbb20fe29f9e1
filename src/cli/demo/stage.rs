//! The throw-away directory of a demo, and commands run in it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::base::{Error, Kind, Result, ResultExt, files, text};
use crate::cli::app::App;
use crate::config::{FILE_NAME, edit};
use crate::model::RunnerKind;
use crate::proc::{self, Cmd};

/// A step that takes longer has failed.
const STEP_LIMIT: Duration = Duration::from_secs(120);
/// The proxy's audit log, below the project.
const AUDIT: &str = ".lazy/logs/proxy-audit.jsonl";
/// Lines that a brief step shows.
const BRIEF: usize = 14;
/// Variables that would lead out of the directory.
const FOREIGN: &[&str] = &[
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CONFIG_DIR",
    "GIT_CONFIG_GLOBAL",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_WORK_TREE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "LAZY_ACTOR",
    "LAZY_CHECKPOINT",
    "LAZY_CONFIG",
    "XDG_CONFIG_HOME",
];

/// How much of a step's output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// As it comes, whole.
    All,
    /// Its first lines.
    Brief,
}

/// The directory, and the model that listens for it.
#[derive(Debug)]
pub(crate) struct Stage {
    app: App,
    directory: PathBuf,
    project: PathBuf,
    executable: PathBuf,
    model: SocketAddr,
}

impl Stage {
    /// Makes the directory. Its name has a space, as real ones have.
    pub fn build(app: &App, model: SocketAddr) -> Result<Stage> {
        let made = tempfile::Builder::new()
            .prefix("lazy-demo-")
            .tempdir()
            .io_context(|| "cannot make a temporary directory".into())?;
        // Removed by `clean_up`, once the daemon has let go of it.
        let directory = made.keep();
        let directory = directory.canonicalize().unwrap_or(directory);
        let project = directory.join("my project");
        for path in [&project, &directory.join("home")] {
            files::create_dir(path)?;
        }
        let executable = app.process.executable()?;
        Ok(Stage { app: app.clone(), directory, project, executable, model })
    }

    /// Tells what comes.
    pub fn say(&self, what: &str) -> Result<()> {
        self.app.print(format!("\n{}", self.app.style.bold(format!("== {what}"))))
    }

    /// A repository with one commit on `main`.
    pub async fn make_repository(&self) -> Result<()> {
        let readme = "# Hello\n\nA small project that is polite to everyone who opens it.\n";
        files::write_atomic(&self.project.join("README.md"), readme.as_bytes(), files::Mode::Shared)?;
        for words in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["config", "user.name", "Demo Reviewer"],
            &["config", "user.email", "reviewer@example.com"],
            &["config", "commit.gpgsign", "false"],
            &["add", "README.md"],
            &["commit", "--quiet", "-m", "Start the project"],
        ] {
            self.git(words).await?;
        }
        Ok(())
    }

    /// A `lazy.toml` that sends model traffic to the scripted model.
    pub fn configure(&self, agent: &str, runner: RunnerKind) -> Result<()> {
        let path = self.project.join(FILE_NAME);
        for (key, value) in [
            ("agent.agent_id", agent.to_string()),
            ("runner.type", runner.to_string()),
            ("runner.permission_mode", "bypass".to_string()),
            ("proxy.upstream", format!("http://{}", self.model)),
        ] {
            edit::set_value(&path, key, value)?;
        }
        Ok(())
    }

    /// Runs one of this program's own commands and shows it.
    ///
    /// # Errors
    /// [`Kind::Internal`] with what the command said, when it ends with anything but 0.
    pub async fn lazy(&self, words: &[&str], show: Show) -> Result<()> {
        let typed = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
        self.app.print(format!("\n{}", self.app.style.id(format!("$ lazy {typed}"))))?;
        let mut running = proc::spawn_piped(self.command(&self.executable).args(words))?;
        let (stdout, stderr) = (running.take_stdout(), running.take_stderr());
        let shown = async {
            let answer = self.show_lines(stdout, show);
            let talk = collect(stderr);
            let (answer, talk) = tokio::join!(answer, talk);
            answer?;
            Ok::<_, Error>((talk, running.wait().await?))
        };
        let (talk, exit) = tokio::time::timeout(STEP_LIMIT, shown).await.map_err(|_| {
            Error::new(Kind::Timeout, format!("lazy {typed} did not end within {} s", STEP_LIMIT.as_secs()))
        })??;
        if exit.code == Some(0) {
            return Ok(());
        }
        let said = talk.lines().filter(|line| !line.starts_with('…')).collect::<Vec<_>>().join(" ");
        let ended = exit.code.map_or_else(|| "was killed".into(), |code| format!("ended with {code}"));
        Err(Error::internal(format!("lazy {} {ended}: {}", words[0], text::one_line(&said))))
    }

    async fn show_lines(&self, stream: Option<impl tokio::io::AsyncRead + Unpin>, show: Show) -> Result<()> {
        let Some(stream) = stream else { return Ok(()) };
        let mut lines = proc::lines::Lines::new(stream);
        let mut count = 0;
        while let Some(line) = lines.next().await.io_context(|| "cannot read a command's output".into())? {
            let proc::lines::Line::Whole(bytes) = line else { continue };
            count += 1;
            if show == Show::All || count <= BRIEF {
                self.app.process.out_line(format!("  {}", String::from_utf8_lossy(&bytes)).trim_end())?;
            }
        }
        if show == Show::Brief && count > BRIEF {
            self.app.print(self.app.style.dim(format!("  … {} more lines", count - BRIEF)))?;
        }
        Ok(())
    }

    /// What there is now, and where to look.
    pub async fn summary(&self) -> Result<()> {
        let log = self.git(&["log", "--oneline", "--stat", "-1", "main"]).await?;
        if !log.contains("hello.txt") {
            return Err(Error::internal(format!("the commit on main has no hello.txt: {}", text::one_line(&log))));
        }
        self.say("Done. The commit on main:")?;
        for line in log.lines() {
            self.app.print(format!("  {line}"))?;
        }
        self.say("Every request to the model, as the proxy's audit log has it:")?;
        let path = self.project.join(AUDIT);
        let audit = std::fs::read_to_string(&path).io_context(|| format!("cannot read {}", path.display()))?;
        let rows: Vec<String> = audit.lines().filter_map(audit_row).collect();
        if rows.is_empty() {
            return Err(Error::internal("the audit log has no request with a role and a task"));
        }
        for row in &rows {
            self.app.print(format!("  {row}"))?;
        }
        Ok(())
    }

    /// After a failure: the end of the daemon's log, on standard error.
    pub fn tell_logs(&self) {
        let base = self.directory.join("daemon");
        let logs =
            std::fs::read_dir(&base).into_iter().flatten().flatten().map(|entry| entry.path().join("daemon.log"));
        for path in logs {
            let Ok(log) = std::fs::read_to_string(&path) else { continue };
            let lines: Vec<&str> = log.lines().collect();
            self.app.process.err_line(format!("The end of {}:", path.display()));
            for line in &lines[lines.len().saturating_sub(20)..] {
                self.app.process.err_line(format!("  {line}"));
            }
        }
    }

    /// Stops the daemon, then removes the directory or says where it is.
    pub async fn clean_up(&self, keep: bool) -> Result<()> {
        let stop = self.command(&self.executable).args(["daemon", "stop", "--yes"]).timeout(STEP_LIMIT).output().await;
        if let Some(said) = stop.as_ref().ok().filter(|output| !output.success()).map(proc::Output::stderr_text) {
            self.app.process.err_line(format!("The demo's daemon: {}", text::one_line(&said)));
        }
        if keep {
            self.say("Kept, to look around in:")?;
            let home = self.directory.join("home");
            for path in [&self.project, &self.project.join(AUDIT), &home] {
                self.app.print(format!("  {}", path.display()))?;
            }
            return self
                .app
                .print("The model is gone with this command; the commits, the records and the logs are there.");
        }
        files::remove_tree(&self.directory)?;
        self.app.print("\nEverything was in a temporary directory, which is gone. Keep it next time: lazy demo --keep")
    }

    async fn git(&self, words: &[&str]) -> Result<String> {
        let output = self.command(Path::new("git")).args(words).timeout(STEP_LIMIT).output().await?;
        if output.success() {
            return Ok(output.stdout_text());
        }
        Err(Error::internal(format!("git {} failed: {}", words[0], text::one_line(&output.stderr_text()))))
    }

    fn command(&self, program: &Path) -> Cmd {
        let command = Cmd::new(program)
            .cwd(&self.project)
            .env("HOME", self.directory.join("home"))
            .env("LAZY_DAEMON_BASE_DIR", self.directory.join("daemon"))
            .env("LAZY_PROTOCOL_BASE", self.directory.join("protocol"))
            .env("ANTHROPIC_API_KEY", "sk-ant-demo-no-real-credential")
            .env("NO_PROXY", "127.0.0.1,localhost")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        FOREIGN.iter().fold(command, |command, name| command.env_remove(name))
    }
}

async fn collect(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let Some(stream) = stream else { return String::new() };
    let mut lines = proc::lines::Lines::new(stream);
    while let Ok(Some(_)) = lines.next().await {}
    String::from_utf8_lossy(lines.tail()).into_owned()
}

/// `role task model status tokens` of one record; nothing for one without role and task.
fn audit_row(line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).ok()?;
    let word = |key: &str| record.get(key).and_then(Value::as_str);
    let (role, task) = (word("role")?, word("taskId")?);
    let status = record.get("status").and_then(Value::as_u64).map_or_else(|| "-".into(), |status| status.to_string());
    Some(format!(
        "{:<8} {:<16} {:<20} {} {}",
        role,
        task,
        word("model").unwrap_or("-"),
        status,
        word("path").unwrap_or_default()
    ))
}

/// A word as one would type it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_as_they_can_be_typed() {
        assert_eq!(shell_word("--goal"), "--goal");
        assert_eq!(shell_word("it's me"), r"'it'\''s me'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn only_requests_of_a_task_are_told() {
        let line = r#"{"role":"agent","taskId":"hello","model":"m","status":200,"path":"/v1/messages"}"#;
        assert_eq!(audit_row(line).as_deref(), Some("agent    hello            m                    200 /v1/messages"));
        assert_eq!(audit_row(r#"{"role":"agent"}"#), None);
        assert_eq!(audit_row("torn {"), None);
    }
}
