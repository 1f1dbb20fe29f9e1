//! How a turn is launched: arguments, environment, standard input, and the files beside them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Agent, MCP_SERVER};
use crate::base::{Result, files, json, text};
use crate::model::Effort;

/// What to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program: a bare name is looked up in `PATH`.
    pub path: PathBuf,
    /// Arguments before those of the turn.
    pub first_args: Vec<OsString>,
    /// A command (or a sentence) that gets the program when it is missing.
    pub install_hint: &'static str,
}

/// One run of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentTurn {
    /// The task's worktree: the agent's working directory.
    pub worktree: PathBuf,
    /// `<worktree>/.lazy-task-sandbox`.
    pub sandbox: PathBuf,
    /// The whole prompt.
    pub prompt: String,
    /// Appended to the agent's own system prompt; empty adds nothing.
    pub system_prompt: String,
    /// The conversation to resume.
    pub session_id: Option<String>,
    /// The model to ask for.
    pub model: Option<String>,
    /// The effort to ask for.
    pub effort: Option<Effort>,
    /// What it may do.
    pub mode: TurnMode,
    /// Further arguments, last: the sandbox posture of the host runner.
    pub extra_args: Vec<String>,
    /// Where the MCP configuration of this turn is.
    pub mcp_config: PathBuf,
}

/// What an agent may do in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnMode {
    /// Everything.
    Work,
    /// Read and answer.
    ReadOnly,
}

/// Which user the agent's process belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunningAs {
    /// The superuser, as in most containers.
    Root,
    /// Anybody else.
    User,
}

/// A stdio MCP server the agent is to start.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct McpServer {
    /// The program.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, on top of the agent's.
    pub env: Vec<(String, String)>,
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("McpServer")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names)
            .finish()
    }
}

/// The tools an ask turn does without: those that change files, run commands, or arrange for that to happen later.
/// Claude Code takes one argument with names between blanks and passes over names it does not have.
/// Lazy's own are among them: a resumed conversation goes on offering them whatever the server says (seen with 2.1.332).
pub const CLAUDE_WRITING_TOOLS: &str = "Bash Write Edit NotebookEdit EnterWorktree ExitWorktree Workflow CronCreate \
    CronDelete ScheduleWakeup mcp__lazy__lazy_comment mcp__lazy__lazy_commit mcp__lazy__lazy_create \
    mcp__lazy__lazy_journal mcp__lazy__lazy_raise mcp__lazy__lazy_start mcp__lazy__lazy_update_progress";

/// The longest system prompt given as an argument: Linux takes 128 KiB for one, other systems less for all together.
const INLINE_SYSTEM_PROMPT: usize = 32 * 1024;

impl Agent {
    /// The arguments after [`Program::first_args`].
    ///
    /// The system prompt goes by file when [`Agent::write_mcp_config`] left this very text there (or when it is too long
    /// for an argument), else as an argument.
    pub fn args(self, turn: &AgentTurn) -> Vec<OsString> {
        match self {
            Agent::ClaudeCode => claude_args(turn),
            Agent::Demo => demo_args(turn),
        }
    }

    /// Variables to set on top of the inherited environment. Holds no credential.
    pub fn env(self, turn: &AgentTurn, user: RunningAs) -> Vec<(OsString, OsString)> {
        match self {
            Agent::Demo => Vec::new(),
            Agent::ClaudeCode => {
                let mut env = vec![
                    (OsString::from("CLAUDE_CONFIG_DIR"), turn.sandbox.join(".claude").into_os_string()),
                    ("DISABLE_AUTOUPDATER".into(), "1".into()),
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into()),
                    // It begins without the tools of an MCP server that is slow to start unless told to wait (tried with
                    // 2.1.197: both are needed; the limit is in milliseconds and is also that of the attempt).
                    ("MCP_CONNECTION_NONBLOCKING".into(), "0".into()),
                    ("MCP_CONNECT_TIMEOUT_MS".into(), "60000".into()),
                ];
                if user == RunningAs::Root {
                    // without it the program refuses to skip permission prompts as the superuser
                    env.push(("IS_SANDBOX".into(), "1".into()));
                }
                env
            }
        }
    }

    /// What to write to its standard input, which is then closed: the prompt, with control characters made visible.
    pub fn stdin(self, turn: &AgentTurn) -> Vec<u8> {
        text::escape_controls(&turn.prompt).into_bytes()
    }

    /// Writes the files a run reads besides its prompt: the MCP configuration with lazy's own server
    /// (`{"mcpServers":{"lazy":{command,args,env}}}`) and the system prompt. Call it before every run.
    ///
    /// # Errors
    /// [`crate::base::Kind::Io`] naming the file; without it the agent would run with no way to reach lazy.
    pub fn write_mcp_config(self, turn: &AgentTurn, server: &McpServer) -> Result<()> {
        let env: Map<String, Value> =
            server.env.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        let mut config = json!({"mcpServers": {MCP_SERVER: {
            "command": server.command.to_string_lossy(), "args": server.args, "env": env,
        }}});
        if self == Agent::ClaudeCode {
            // Newer versions keep the tools of MCP servers behind a search unless told otherwise (seen with 2.1.332;
            // 2.1.197 passes over the key): an agent that has to look for lazy_commit may not find that it has it.
            config["mcpServers"][MCP_SERVER]["alwaysLoad"] = Value::Bool(true);
        }
        json::save_private(&turn.mcp_config, &config)?;
        if turn.system_prompt.is_empty() {
            return files::remove_file(&system_prompt_file(turn));
        }
        files::write_atomic(&system_prompt_file(turn), system_prompt(turn).as_bytes(), files::Mode::Private)
    }
}

fn claude_args(turn: &AgentTurn) -> Vec<OsString> {
    let mut args = Args::new(["-p", "--output-format", "stream-json", "--verbose"]);
    if turn.mode == TurnMode::ReadOnly {
        args.option("--disallowedTools", CLAUDE_WRITING_TOOLS);
    }
    args.flag("--dangerously-skip-permissions");
    match system_prompt_source(turn) {
        Some(SystemPrompt::File(path)) => args.option("--append-system-prompt-file", path),
        Some(SystemPrompt::Text(text)) => args.option("--append-system-prompt", text),
        None => {}
    }
    args.common(turn);
    args.option("--mcp-config", &turn.mcp_config);
    args.flag("--strict-mcp-config");
    args.finish(turn)
}

fn demo_args(turn: &AgentTurn) -> Vec<OsString> {
    let mut args = Args::new([]);
    if turn.mode == TurnMode::ReadOnly {
        args.flag("--read-only");
    }
    match system_prompt_source(turn) {
        Some(SystemPrompt::File(path)) => args.option("--system-prompt-file", path),
        Some(SystemPrompt::Text(text)) => args.option("--system-prompt", text),
        None => {}
    }
    args.common(turn);
    args.option("--mcp-config", &turn.mcp_config);
    args.option("--sandbox", &turn.sandbox);
    args.finish(turn)
}

struct Args(Vec<OsString>);

impl Args {
    fn new<const N: usize>(first: [&str; N]) -> Args {
        Args(first.into_iter().map(OsString::from).collect())
    }

    fn flag(&mut self, name: &str) {
        self.0.push(name.into());
    }

    fn option(&mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) {
        self.0.push(name.into());
        self.0.push(value.as_ref().to_os_string());
    }

    fn common(&mut self, turn: &AgentTurn) {
        if let Some(session) = &turn.session_id {
            self.option("--resume", session);
        }
        if let Some(model) = &turn.model {
            self.option("--model", model);
        }
        if let Some(effort) = turn.effort {
            self.option("--effort", effort.as_str());
        }
    }

    fn finish(mut self, turn: &AgentTurn) -> Vec<OsString> {
        self.0.extend(turn.extra_args.iter().map(OsString::from));
        self.0
    }
}

enum SystemPrompt {
    File(PathBuf),
    Text(String),
}

fn system_prompt_source(turn: &AgentTurn) -> Option<SystemPrompt> {
    if turn.system_prompt.is_empty() {
        return None;
    }
    let text = system_prompt(turn);
    let file = system_prompt_file(turn);
    if text.len() > INLINE_SYSTEM_PROMPT || std::fs::read(&file).is_ok_and(|bytes| bytes == text.as_bytes()) {
        return Some(SystemPrompt::File(file));
    }
    Some(SystemPrompt::Text(text))
}

fn system_prompt(turn: &AgentTurn) -> String {
    text::escape_controls(&turn.system_prompt)
}

fn system_prompt_file(turn: &AgentTurn) -> PathBuf {
    Path::new(&turn.sandbox).join("system-prompt.md")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn turn(root: &Path) -> AgentTurn {
        AgentTurn {
            worktree: root.to_path_buf(),
            sandbox: root.join(".lazy-task-sandbox"),
            prompt: "-- mend it\0".into(),
            system_prompt: "be brief".into(),
            session_id: Some("s-1".into()),
            model: Some("claude-opus-4-7".into()),
            effort: Some(Effort::High),
            mode: TurnMode::Work,
            extra_args: vec!["--settings".into(), "{}".into()],
            mcp_config: root.join(".lazy-task-sandbox/mcp.json"),
        }
    }

    fn server() -> McpServer {
        McpServer {
            command: "/usr/local/bin/lazy-agent".into(),
            args: vec!["mcp".into(), "--task-id".into(), "x".into()],
            env: vec![("LAZY_DAEMON_CONFIG".into(), "/run/secret.json".into())],
        }
    }

    #[test]
    fn claude_arguments_keep_their_order() {
        let turn = turn(Path::new("/w t"));
        assert_eq!(
            Agent::ClaudeCode.args(&turn),
            [
                "-p",
                "--output-format",
                "stream-json",
                "--verbose",
                "--dangerously-skip-permissions",
                "--append-system-prompt",
                "be brief",
                "--resume",
                "s-1",
                "--model",
                "claude-opus-4-7",
                "--effort",
                "high",
                "--mcp-config",
                "/w t/.lazy-task-sandbox/mcp.json",
                "--strict-mcp-config",
                "--settings",
                "{}",
            ]
        );
        assert!(!Agent::ClaudeCode.args(&turn).iter().any(|arg| arg.to_string_lossy().contains("mend it")));
        assert_eq!(Agent::ClaudeCode.stdin(&turn), b"-- mend it\\u0000");
    }

    #[test]
    fn an_ask_turn_loses_the_writing_tools_before_permissions_are_skipped() {
        let mut turn = turn(Path::new("/w"));
        turn.mode = TurnMode::ReadOnly;
        let args = Agent::ClaudeCode.args(&turn);
        assert_eq!(args[4], "--disallowedTools");
        let denied: Vec<&str> = args[5].to_str().expect("text").split(' ').collect();
        for tool in ["Bash", "Write", "Edit", "NotebookEdit"] {
            assert!(denied.contains(&tool), "{tool}");
        }
        assert_eq!(args[6], "--dangerously-skip-permissions");
        assert_eq!(Agent::Demo.args(&turn)[0], "--read-only");
    }

    #[test]
    fn the_written_system_prompt_travels_by_file() {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut turn = turn(dir.path());
        Agent::ClaudeCode.write_mcp_config(&turn, &server()).expect("writes");
        let file = turn.sandbox.join("system-prompt.md");
        for (agent, option) in
            [(Agent::ClaudeCode, "--append-system-prompt-file"), (Agent::Demo, "--system-prompt-file")]
        {
            let args = agent.args(&turn);
            let at = args.iter().position(|arg| arg == option).expect("the option");
            assert_eq!(args[at + 1], file);
        }
        turn.system_prompt = "something else".into();
        assert!(Agent::ClaudeCode.args(&turn).contains(&OsString::from("something else")), "a stale file is not used");
        turn.system_prompt.clear();
        Agent::ClaudeCode.write_mcp_config(&turn, &server()).expect("writes");
        assert!(!file.exists());
        assert!(!Agent::ClaudeCode.args(&turn).iter().any(|arg| arg.to_string_lossy().contains("system-prompt")));
    }

    #[test]
    fn a_long_system_prompt_never_enters_argv() {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut turn = turn(dir.path());
        turn.system_prompt = "x".repeat(200_000);
        assert!(Agent::ClaudeCode.args(&turn).iter().all(|arg| arg.len() < 1_000));
    }

    #[test]
    fn the_mcp_configuration_is_private() {
        let dir = tempfile::tempdir().expect("temp dir");
        let turn = turn(dir.path());
        Agent::ClaudeCode.write_mcp_config(&turn, &server()).expect("writes");
        let mode = std::fs::metadata(&turn.mcp_config).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let config: Value = json::load(&turn.mcp_config).expect("parses").expect("there");
        assert_eq!(
            config,
            json!({"mcpServers": {"lazy": {
                "command": "/usr/local/bin/lazy-agent",
                "args": ["mcp", "--task-id", "x"],
                "env": {"LAZY_DAEMON_CONFIG": "/run/secret.json"},
                "alwaysLoad": true,
            }}})
        );
        assert!(!format!("{:?}", server()).contains("secret.json"), "values of the environment stay out of logs");
    }

    #[test]
    fn the_environment_points_into_the_sandbox() {
        let turn = turn(Path::new("/w"));
        let env = Agent::ClaudeCode.env(&turn, RunningAs::User);
        assert!(env.contains(&("CLAUDE_CONFIG_DIR".into(), "/w/.lazy-task-sandbox/.claude".into())));
        assert!(!env.iter().any(|(name, _)| name == "IS_SANDBOX"));
        assert!(Agent::ClaudeCode.env(&turn, RunningAs::Root).contains(&("IS_SANDBOX".into(), "1".into())));
    }
}
