//! Whole commands against a shell script that stands in for `claude`, in real worktrees.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Args, Mode, serve, stop};
use crate::base::{Millis, Process};
use crate::exchange::Mailbox;
use crate::model::exchange::{Command, Completed, Failure, Head, PROTOCOL_VERSION, Response, Sync, Work};
use crate::model::{RunnerKind, TaskId};
use crate::proc::Cmd;

mod phases;
mod runs;
mod service;

/// What every fake agent begins with: it notes its arguments, input and environment, and has words for stream lines.
const PRELUDE: &str = r#"
n=$(cat "$FAKE/count" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >"$FAKE/count"
printf '%s\n' "$@" >"$FAKE/args.$n"; cat >"$FAKE/stdin.$n"; env >"$FAKE/env.$n"
init() { echo '{"type":"system","subtype":"init","session_id":"s-'$n'","model":"m-1","tools":["Bash","mcp__lazy__lazy_commit"],"mcp_servers":[{"name":"lazy","status":"connected"}]}'; }
say() { echo '{"type":"assistant","message":{"content":[{"type":"text","text":"'"$1"'"}]}}'; }
tool() { echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t'$n'","name":"'"$1"'","input":{}}]}}'; }
tool_end() { echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t'$n'","content":"ok"}]}}'; }
result() { echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$1"'","session_id":"s-'$n'","usage":{"input_tokens":10,"output_tokens":5}}'; }
error() { echo '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"'"$1"'","session_id":"s-'$n'","usage":{"input_tokens":7,"output_tokens":1}}'; exit 1; }
commit() { git add -A && git commit -qm "$1"; }
"#;

struct Rig {
    dir: tempfile::TempDir,
    process: Process,
    root: PathBuf,
    worktree: PathBuf,
    mailbox: Mailbox,
    task: TaskId,
}

impl Rig {
    /// A repository with a worktree for a task, and `script` as the agent.
    async fn new(script: &str) -> Rig {
        Rig::with_env(script, &[]).await
    }

    async fn with_env(script: &str, more: &[(&str, &str)]) -> Rig {
        let dir = tempfile::tempdir().expect("temp dir");
        let home = dir.path().canonicalize().expect("exists");
        let (root, bin, fake) = (home.join("my projéct"), home.join("bin"), home.join("fake"));
        for path in [&root, &bin, &fake] {
            std::fs::create_dir(path).expect("dir");
        }
        std::fs::write(home.join(".gitconfig"), "[user]\nname = Tester\nemail = tester@example.com\n").expect("config");
        let program = bin.join("claude");
        std::fs::write(&program, format!("#!/bin/sh\nFAKE='{}'{PRELUDE}{script}\n", fake.display())).expect("script");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
        let mut env = BTreeMap::from([
            ("PATH", path.as_str()),
            ("HOME", home.to_str().expect("utf-8")),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("LAZY_DAEMON_CONFIG", "/run/daemon mcp.json"),
            ("LAZY_RETRY_SCALE", "0.001"),
        ]);
        env.extend(more.iter().copied());
        env.retain(|_, value| !value.is_empty());
        let env: Vec<(&str, &str)> = env.into_iter().collect();
        let process = Process::fake(["lazy"], &env, &home, Millis(1_800_000_000_000));
        let worktree = root.join(".lazy/worktrees/task-one");
        let mailbox = Mailbox::new(home.join("protocol"));
        let rig = Rig { dir, process, root, worktree, mailbox, task: TaskId::random() };
        rig.git(&["init", "--quiet", "--initial-branch=main"]).await;
        rig.write("a.txt", "one\n");
        rig.write("Makefile", "all:\n\techo\n");
        rig.write(".gitignore", ".lazy/\n.lazy-task-sandbox/\n");
        rig.git(&["add", "-A"]).await;
        rig.git(&["commit", "-qm", "first"]).await;
        let worktree = rig.worktree.to_str().expect("utf-8").to_string();
        rig.git(&["worktree", "add", "-q", "-b", "lazy/task-one", &worktree]).await;
        rig
    }

    async fn git_at(&self, at: &Path, args: &[&str]) -> String {
        let output = Cmd::new("git").args(args).env_of(&self.process).cwd(at).output().await.expect("git runs");
        assert!(output.success(), "git {args:?}: {}", output.stderr_text());
        output.stdout_text().trim_end().to_string()
    }

    async fn git(&self, args: &[&str]) -> String {
        self.git_at(&self.root, args).await
    }

    async fn head(&self) -> String {
        self.git_at(&self.worktree, &["rev-parse", "HEAD"]).await
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.root.join(name), text).expect("writes");
    }

    /// What the n-th run of the agent was given: `args`, `stdin` or `env`.
    fn given(&self, what: &str, run: u32) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("fake/{what}.{run}"))).expect("the agent ran")
    }

    fn runs(&self) -> u32 {
        let text = std::fs::read_to_string(self.dir.path().join("fake/count")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    fn head_of_command(&self) -> Head {
        Head {
            command_id: "c-1".into(),
            task_id: self.task,
            protocol_version: PROTOCOL_VERSION,
            turn_started_at: "2026-12-01T00:00:00.000Z".into(),
            agent_id: "claude-code".into(),
            model_id: Some("model-x".into()),
            effort: None,
            agent_session_id: None,
            system_prompt: "be good".into(),
            agent_extra_args: Vec::new(),
            watchdog_output_timeout_ms: None,
            wind_down_timeout_ms: 60_000,
            protected_patterns: Vec::new(),
            post_turn_check: None,
            post_turn_timeout: None,
            parent_branch: Some("main".into()),
            branch_point_sha: None,
        }
    }

    fn work(&self) -> Work {
        Work {
            head: self.head_of_command(),
            goal: "mend it".into(),
            prompt: "please mend it".into(),
            sync_before_work: false,
            sync_after_work: false,
            maintain: Vec::new(),
        }
    }

    async fn sync(&self) -> Command {
        let upstream_sha = self.git(&["rev-parse", "main"]).await;
        Command::Sync(Sync { head: self.head_of_command(), upstream_sha })
    }

    fn args(&self, mode: Mode) -> Args {
        Args {
            protocol_dir: self.mailbox.dir().to_path_buf(),
            worktree: self.worktree.clone(),
            runner: RunnerKind::Host,
            mode,
        }
    }

    /// Serves what is in the mailbox; the exit code.
    async fn serve(&self, mode: Mode) -> u8 {
        let (_stopper, stop) = stop::pair();
        let args = self.args(mode);
        let serving = serve::serve(&self.process, &args, &self.mailbox, stop);
        tokio::time::timeout(Duration::from_secs(120), serving).await.expect("ends").expect("serves")
    }

    /// One command, answered.
    async fn turn(&self, command: Command) -> Response {
        self.mailbox.write_command(&command).expect("writes");
        assert_eq!(self.serve(Mode::OneShot).await, 0);
        let response = self.mailbox.load_response().expect("reads").expect("a response");
        self.mailbox.consume_response().expect("consumes");
        response
    }

    async fn completed(&self, command: Command) -> Vec<Completed> {
        match self.turn(command).await {
            Response::Completed { command_id, responses } => {
                assert_eq!(command_id, "c-1");
                responses
            }
            Response::Error(failure) => panic!("{failure:#?}\n{}", self.process.captured().1),
        }
    }

    async fn failed(&self, command: Command) -> Failure {
        match self.turn(command).await {
            Response::Error(failure) => failure,
            completed => panic!("{completed:#?}"),
        }
    }
}

/// Until the condition holds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(std::time::Instant::now() < end, "{what} never came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
