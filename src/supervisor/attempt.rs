//! One run of an agent: started, followed line by line, guarded, and read.

use std::time::{Duration, Instant};

use tokio::process::ChildStdout;

use super::fault::Fault;
use super::launch::{Launcher, Request};
use super::stop::Stop;
use super::turn::Turn;
use crate::agent::{Agent, AgentResult, RunFailure, StreamEvent, ToolsVerdict};
use crate::base::time::duration_text;
use crate::exchange::{AgentRecord, StreamFile};
use crate::model::Usage;
use crate::proc::guard::{Guard, Kill};
use crate::proc::lines::{Line, Lines};
use crate::proc::{self, Collector, DRAIN, Exit, GRACE, Keep, Running};

/// Bytes of standard error that are kept.
const STDERR: usize = 64 << 10;
/// An agent that closed its output can say nothing more; so long it may still live.
const CLOSED: Duration = Duration::from_secs(30);
/// What remains for the agent's own end when this process is ending.
const ENDING: Duration = Duration::from_secs(3);

/// What came of a run.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) end: End,
    /// The conversation, as the stream named it.
    pub(super) session_id: Option<String>,
    /// `lazy=<status> tools=<n>`.
    pub(super) mcp_tools: Option<String>,
    /// Tokens, as far as they are known.
    pub(super) usage: Usage,
    pub(super) ran: Duration,
    /// Tool calls that came to their end.
    pub(super) steps: u64,
}

/// How a run ended.
#[derive(Debug)]
pub(super) enum End {
    /// With a result.
    Done(AgentResult),
    /// It had none of lazy's tools and was ended.
    NoTools,
    /// It made no progress and was ended; the message says how long and inside which tools.
    NoProgress(String),
    /// It printed a final result that cannot be used, and was ended because it did not exit.
    Unusable(String),
    /// In any other way; the message is the best one known.
    Failed(RunFailure, String),
}

/// Runs the agent once.
pub(super) async fn run(turn: &mut Turn<'_>, launcher: &Launcher, request: &Request) -> Result<Attempt, Fault> {
    let cmd = launcher.command(turn, request)?;
    let begun = Instant::now();
    let mut running = match proc::spawn_piped(cmd) {
        Ok(running) => running,
        Err(error) => return Ok(not_started(error.full_message())),
    };
    let record = AgentRecord { pid: running.pid(), start_time: proc::start_time(running.pid()) };
    if let Err(error) = turn.mailbox.write_agent(record) {
        tracing::warn!(%error, "the agent's process id is not recorded");
    }
    let Some(stdout) = running.take_stdout() else { return Ok(not_started("its output is not piped".into())) };
    let mut stderr = running.take_stderr().map(|pipe| Collector::start(pipe, STDERR, Keep::Tail));
    let mut follower = Follower {
        agent: launcher.agent,
        lines: Lines::new(stdout),
        guard: Guard::new(request.limits.watchdog, request.limits.wind_down),
        closed: None,
        result_line: None,
        session_id: None,
        mcp_tools: None,
        steps: 0,
    };
    let halt = follower.follow(&mut running, &mut turn.stream, &mut turn.stop).await?;
    let exit = match halt {
        Halt::Exit(exit) => exit,
        Halt::Stopped => running.terminate(ENDING).await?,
        _ => running.terminate(GRACE).await?,
    };
    follower.drain(&mut turn.stream).await;
    let stderr = match stderr.as_mut() {
        Some(collector) => collector.finish(tokio::time::Instant::now() + DRAIN).await.0,
        None => Vec::new(),
    };
    turn.mailbox.clear_agent().ok();
    if halt == Halt::Stopped {
        return Err(Fault::ending());
    }
    Ok(follower.read(halt, exit, &String::from_utf8_lossy(&stderr), begun.elapsed()))
}

fn not_started(message: String) -> Attempt {
    let failure = RunFailure { spawn_error: Some(message.clone()), ..RunFailure::default() };
    Attempt {
        end: End::Failed(failure, message),
        session_id: None,
        mcp_tools: None,
        usage: Usage::default(),
        ran: Duration::ZERO,
        steps: 0,
    }
}

/// Why following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halt {
    Exit(Exit),
    Killed(Kill),
    NoTools,
    Stopped,
}

/// The stream of a run and what was learned from it.
struct Follower {
    agent: Agent,
    lines: Lines<ChildStdout>,
    guard: Guard,
    closed: Option<Instant>,
    result_line: Option<Vec<u8>>,
    session_id: Option<String>,
    mcp_tools: Option<String>,
    steps: u64,
}

impl Follower {
    /// Until the agent exits or has to be ended.
    async fn follow(&mut self, running: &mut Running, file: &mut StreamFile, stop: &mut Stop) -> Result<Halt, Fault> {
        self.guard.on_progress(Instant::now());
        loop {
            let wake = self.wake();
            tokio::select! {
                line = self.lines.next(), if self.closed.is_none() => match line {
                    Ok(Some(line)) => if self.take(line, file) == ToolsVerdict::Missing {
                        return Ok(Halt::NoTools);
                    },
                    Ok(None) | Err(_) => self.closed = Some(Instant::now()),
                },
                exit = running.wait() => return Ok(Halt::Exit(exit?)),
                () = sleep_until(wake) => {
                    let now = Instant::now();
                    if let Some(kill) = self.guard.poll(now) {
                        return Ok(Halt::Killed(kill));
                    }
                    if self.closed.is_some_and(|at| now.duration_since(at) >= CLOSED) {
                        return Ok(Halt::Killed(Kill::WindDown));
                    }
                }
                () = stop.requested() => return Ok(Halt::Stopped),
            }
        }
    }

    fn wake(&self) -> Option<Instant> {
        let closed = self.closed.and_then(|at| at.checked_add(CLOSED));
        self.guard.deadline().into_iter().chain(closed).min()
    }

    /// What is still in the pipe after the exit; a grandchild may hold it open.
    async fn drain(&mut self, file: &mut StreamFile) {
        let until = tokio::time::Instant::now() + DRAIN;
        while self.closed.is_none() {
            match tokio::time::timeout_at(until, self.lines.next()).await {
                Ok(Ok(Some(line))) => {
                    self.take(line, file);
                }
                _ => self.closed = Some(Instant::now()),
            }
        }
    }

    fn take(&mut self, line: Line, file: &mut StreamFile) -> ToolsVerdict {
        let now = Instant::now();
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::Dropped { bytes } => {
                tracing::warn!(bytes, "a line of the agent's stream was too long and is lost");
                file.dropped(bytes);
                self.guard.on_progress(now);
                return ToolsVerdict::Unknown;
            }
        };
        let event = self.agent.parse_line(&bytes);
        if event != StreamEvent::Ignored {
            file.line(&bytes);
        }
        if event.is_progress() {
            self.guard.on_progress(now);
        }
        match &event {
            StreamEvent::SessionStart { session_id, .. } => {
                self.session_id = Some(session_id.clone());
                self.mcp_tools = event.mcp_summary();
                return event.lazy_tools();
            }
            StreamEvent::ToolStart { id, name, .. } => self.guard.on_tool_start(id, name),
            StreamEvent::ToolEnd { id } => {
                self.steps += 1;
                self.guard.on_tool_end(id);
            }
            StreamEvent::Result => {
                self.result_line = Some(bytes);
                self.guard.on_result(now);
            }
            StreamEvent::Progress { .. } | StreamEvent::Heartbeat | StreamEvent::Ignored => {}
        }
        ToolsVerdict::Unknown
    }

    fn read(self, halt: Halt, exit: Exit, stderr: &str, ran: Duration) -> Attempt {
        let (line, tail) = (self.result_line.as_deref(), self.lines.tail());
        let salvaged = self.agent.salvage_usage(line, tail).unwrap_or_default();
        let result = self.agent.result(line, tail);
        let (end, usage) = match (halt, result) {
            (Halt::NoTools | Halt::Stopped, _) => (End::NoTools, salvaged),
            (Halt::Killed(Kill::NoProgress), _) => (End::NoProgress(self.kill_message(ran)), salvaged),
            (_, Ok(result)) if !result.is_error => {
                let usage = result.usage;
                (End::Done(result), usage)
            }
            (Halt::Killed(Kill::WindDown), Err(unusable)) => (End::Unusable(unusable.to_string()), salvaged),
            (_, result) => {
                let failure = RunFailure {
                    exit_code: exit.code,
                    stderr: stderr.to_string(),
                    stdout_error: self.agent.stdout_error(line, tail),
                    spawn_error: None,
                };
                let message = message(&failure, exit, result.err().map(|unusable| unusable.to_string()));
                (End::Failed(failure, message), salvaged)
            }
        };
        Attempt { end, session_id: self.session_id, mcp_tools: self.mcp_tools, usage, ran, steps: self.steps }
    }

    fn kill_message(&self, ran: Duration) -> String {
        let tools: Vec<&str> = self.guard.tools_in_flight().collect();
        let inside = if tools.is_empty() { String::new() } else { format!(", while in {}", tools.join(", ")) };
        format!("the agent completed no step for too long{inside} and was ended after {}", duration_text(ran))
    }
}

/// What the run says of itself, else the end of its standard error, else how it ended.
fn message(failure: &RunFailure, exit: Exit, unusable: Option<String>) -> String {
    if let Some(told) = &failure.stdout_error {
        return crate::base::text::truncate_chars(told, 500);
    }
    let lines: Vec<&str> = failure.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    if !lines.is_empty() && exit.code != Some(0) {
        let end = lines[lines.len().saturating_sub(10)..].join("\n");
        let skip = end.chars().count().saturating_sub(500);
        return end.chars().skip(skip).collect();
    }
    match (exit.code, exit.signal, unusable) {
        (Some(0), _, Some(unusable)) => unusable,
        (Some(code), ..) => format!("the agent ended with exit code {code}"),
        (None, Some(signal), _) => format!("the agent was ended by signal {signal}"),
        (None, None, _) => "the agent ended in an unknown way".into(),
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
