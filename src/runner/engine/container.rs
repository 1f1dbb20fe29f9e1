//! Containers that are there: asking after them, ending them, reading what they wrote.

use std::time::Duration;

use super::program::{Engine, QUERY};
use crate::base::{Error, Kind, Result};
use crate::proc::Output;

/// The label with the project's root.
pub const PROJECT: &str = "lazy.project";
/// The label with the task's id.
pub const TASK: &str = "lazy.task";
/// The label with the run's name.
pub const RUN: &str = "lazy.run";
/// The label that says which daemon's container it is.
pub const OWNER: &str = "lazy.owner";
/// The label that says what it is for.
pub const KIND: &str = "lazy.kind";
/// The label with the fingerprint of what it was launched with.
pub const LAUNCH: &str = "lazy.launch";

/// A container as the engine knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Whether it runs.
    pub running: bool,
    /// How it ended, once it did.
    pub exit_code: i32,
    /// Whether the system ended it because memory ran out.
    pub out_of_memory: bool,
    /// Commands that someone runs in it now.
    pub visitors: usize,
    /// The fingerprint it was launched with; empty when it has none.
    pub fingerprint: String,
}

/// A line of the list of containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The container's name.
    pub name: String,
    /// Whether it runs.
    pub running: bool,
    /// The task it is for; empty when the label is missing.
    pub task: String,
    /// The project it is for.
    pub project: String,
    /// The daemon it is for.
    pub owner: String,
}

impl Engine {
    /// A container by its exact name; `None` when there is none.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn container(&self, name: &str) -> Result<Option<Container>> {
        let format = format!(
            "{{{{.State.Running}}}}|{{{{.State.ExitCode}}}}|{{{{.State.OOMKilled}}}}|{{{{len .ExecIDs}}}}|{{{{index .Config.Labels \"{LAUNCH}\"}}}}"
        );
        let output = self.run(["container", "inspect", "--format", &format, name], QUERY).await?;
        if !output.success() {
            return if is_missing(&output) { Ok(None) } else { Err(self.refusal(&output, "ask after a container")) };
        }
        let text = output.stdout_text();
        let fields: Vec<&str> = text.trim().split('|').collect();
        let [running, code, memory, visitors, fingerprint] = fields[..] else {
            return Err(Error::internal(format!("{} described a container as {:?}", self.kind(), text.trim())));
        };
        Ok(Some(Container {
            running: running == "true",
            exit_code: code.parse().unwrap_or(-1),
            out_of_memory: memory == "true",
            visitors: visitors.parse().unwrap_or(0),
            fingerprint: if fingerprint == "<no value>" { String::new() } else { fingerprint.to_string() },
        }))
    }

    /// lazy's containers that carry all of these labels (`key` or `key=value`), also those that ended.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn containers(&self, labels: &[String]) -> Result<Vec<Listed>> {
        let mut args: Vec<String> = vec!["ps".into(), "--all".into(), "--no-trunc".into()];
        for label in labels {
            args.push("--filter".into());
            args.push(format!("label={label}"));
        }
        args.push("--format".into());
        let label = |key: &str| format!("{{{{.Label \"{key}\"}}}}");
        args.push(format!("{{{{.Names}}}}\t{{{{.State}}}}\t{}\t{}\t{}", label(TASK), label(OWNER), label(PROJECT)));
        let text = self.text(&args, QUERY, "list containers").await?;
        Ok(text.lines().filter_map(listed).collect())
    }

    /// Ends a container and removes it with its nameless volumes: TERM to its first process, `grace`, KILL. One that is
    /// gone is as good.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn end_container(&self, name: &str, grace: Duration) -> Result<()> {
        let seconds = grace.as_secs().to_string();
        if !grace.is_zero() {
            let stopped = self.run(["stop", "--time", &seconds, name], grace + QUERY * 2).await?;
            if is_missing(&stopped) {
                return Ok(());
            }
        }
        let removed = self.run(["rm", "--force", "--volumes", name], QUERY * 3).await?;
        let busy = removed.stderr_text().contains("already in progress");
        match removed.success() || is_missing(&removed) || busy {
            true => Ok(()),
            false => Err(self.refusal(&removed, &format!("remove the container {name}"))),
        }
    }

    /// The last `lines` lines that a container wrote; empty when it is gone.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn container_log(&self, name: &str, lines: usize) -> Result<String> {
        let count = lines.to_string();
        let output =
            self.finished(self.cmd(["logs", "--tail", &count, name], QUERY).output_limit(1 << 20), QUERY).await?;
        if !output.success() {
            return if is_missing(&output) { Ok(String::new()) } else { Err(self.refusal(&output, "read a log")) };
        }
        let mut text = output.stdout_text();
        text.push_str(&output.stderr_text());
        Ok(text.trim_end().to_string())
    }
}

fn listed(line: &str) -> Option<Listed> {
    let mut fields = line.split('\t');
    let name = fields.next()?.split(',').next()?.to_string();
    let running = fields.next()? == "running";
    let mut label = || fields.next().filter(|text| *text != "<no value>").unwrap_or_default().to_string();
    Some(Listed { name, running, task: label(), owner: label(), project: label() })
}

/// Whether a call failed because what it names is not there.
fn is_missing(output: &Output) -> bool {
    let said = output.stderr_text().to_lowercase();
    !output.success()
        && ["no such container", "no such object", "no container with name"].iter().any(|words| said.contains(words))
}

/// Whether a failed launch met a container of that name.
pub(super) fn is_taken(error: &Error) -> bool {
    error.kind() == Kind::Unavailable && error.message().contains("is already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list() {
        let line = "lazy-fix-1a2b3c4d\trunning\taaaaaaaa-0000-4000-8000-000000000001\t00ff\t/srv/my app";
        let found = listed(line).expect("a line");
        assert_eq!((found.name.as_str(), found.running, found.owner.as_str()), ("lazy-fix-1a2b3c4d", true, "00ff"));
        assert_eq!(found.project, "/srv/my app");
        let bare = listed("lazy-x\texited\t<no value>\t\t").expect("a line");
        assert_eq!((bare.running, bare.task.as_str(), bare.project.as_str()), (false, "", ""));
    }

    #[test]
    fn what_is_missing_is_told_from_what_fails() {
        let said = |text: &str| Output { code: Some(1), stderr: text.into(), ..Output::default() };
        assert!(is_missing(&said("Error: No such container: x")));
        assert!(is_missing(&said("Error: no container with name or ID \"x\" found: no such container")));
        assert!(!is_missing(&said("Error: something else")));
    }
}
