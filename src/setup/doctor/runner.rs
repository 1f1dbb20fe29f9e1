//! Checks of what tasks run in: the container engine, or the host's sandbox, and the agent.

use std::time::Duration;

use super::Check;
use super::machine::first_line;
use crate::base::Process;
use crate::base::text::plural;
use crate::config::{Config, Loaded, PermissionMode, Project};
use crate::model::RunnerKind;
use crate::proc::{self, Cmd};
use crate::runner::engine::{Engine, QUERY};
use crate::setup::leftovers;

const AVAILABLE: &str = "Runner available";

pub(super) async fn checks(process: &Process, loaded: &Loaded, project: Option<&Project>) -> Vec<Check> {
    let config = &loaded.config;
    let mut checks = Vec::new();
    match Engine::of(config.runner.kind, process) {
        None => {
            checks.push(Check::ok(AVAILABLE, "host process"));
            checks.extend(posture(process, config).await);
        }
        Some(engine) => checks.extend(of_engine(process, &engine, loaded, project).await),
    }
    checks.push(agent(process, config).await);
    checks
}

/// The engine; and, if it answers, what containers are made of.
async fn of_engine(process: &Process, engine: &Engine, loaded: &Loaded, project: Option<&Project>) -> Vec<Check> {
    let format = match engine.kind() {
        RunnerKind::Podman => "{{.Version.Version}}",
        _ => "{{.ServerVersion}}",
    };
    let version = match engine.text(["info", "--format", format], QUERY, "ask the engine about itself").await {
        Ok(version) => version,
        Err(error) => return vec![Check::error(AVAILABLE, &error), super::image::program(process).await],
    };
    let mut words = vec![format!("{} {version}", engine.kind())];
    if let Ok(quirks) = engine.quirks().await {
        let traits = [
            (quirks.rootless, "rootless"),
            (quirks.shifts_users, "user namespaces, which lazy's containers go without"),
            (quirks.selinux, "SELinux, whose labels lazy's containers go without"),
        ];
        words.extend(traits.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_string()));
    }
    words.push(format!("network: {}", loaded.config.runner.network));
    let mut checks = vec![Check::ok(AVAILABLE, words.join("; "))];
    if let Some(project) = project {
        checks.extend(super::image::checks(process, engine, loaded, project).await);
    }
    checks.push(super::image::program(process).await);
    let known = project.map(|project| (project, &loaded.config));
    if let Ok(orphans) = leftovers::orphaned_containers(process, known).await
        && !orphans.is_empty()
    {
        let detail = format!("{} that no task wants", plural(orphans.len(), "container"));
        checks.push(Check::warn("Orphaned containers", detail).hint("lazy doctor --clean-orphaned-containers"));
    }
    checks
}

/// How a host process is confined, and whether what confines it is there.
async fn posture(process: &Process, config: &Config) -> Vec<Check> {
    const LABEL: &str = "Host sandbox";
    if config.runner.permission_mode == PermissionMode::Bypass {
        return vec![
            Check::warn(LABEL, "permission_mode = \"bypass\": agents may do whatever you may")
                .hint("set permission_mode = \"sandbox\" under [runner] in lazy.toml"),
        ];
    }
    if !cfg!(target_os = "linux") {
        return vec![Check::ok(LABEL, "sandbox")];
    }
    let path = process.var_os("PATH").unwrap_or_default();
    let packages = [("bwrap", "bubblewrap"), ("socat", "socat")];
    let missing: Vec<&str> =
        packages.iter().filter(|(name, _)| proc::which(name, path).is_none()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        return vec![
            Check::fail(LABEL, format!("not installed: {}", missing.join(", ")))
                .hint(format!("sudo apt-get install {}", missing.join(" "))),
        ];
    }
    let try_it = ["--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"];
    match first_line(process, "bwrap", &try_it).await {
        Ok(_) => vec![Check::ok(LABEL, "sandbox, with bubblewrap and socat")],
        Err(_) if config.runner.sandbox_allow_weaker_nested => {
            vec![Check::warn(LABEL, "the weaker sandbox for unprivileged containers (sandbox_allow_weaker_nested)")]
        }
        Err(why) => {
            vec![Check::fail(LABEL, format!("bubblewrap cannot make a sandbox here: {why}")).hint(
                "in an unprivileged container: set sandbox_allow_weaker_nested = true under [runner] in lazy.toml",
            )]
        }
    }
}

async fn agent(process: &Process, config: &Config) -> Check {
    const LABEL: &str = "Agent installed";
    match config.agent.agent_id.as_str() {
        "claude-code" if config.runner.kind != RunnerKind::Host => {
            Check::ok(LABEL, "Claude Code, in the container image")
        }
        "claude-code" => claude(process, LABEL).await,
        "demo" => Check::ok(LABEL, "the demo agent is part of lazy"),
        other => Check::fail(LABEL, format!("this version of lazy does not have the agent {other}"))
            .hint("set agent_id = \"claude-code\" under [agent] in lazy.toml"),
    }
}

async fn claude(process: &Process, label: &str) -> Check {
    const INSTALL: &str = "npm install -g @anthropic-ai/claude-code";
    let Some(found) = proc::which("claude", process.var_os("PATH").unwrap_or_default()) else {
        return Check::fail(label, "claude is not in PATH").hint(INSTALL);
    };
    // A directory of its own, so that asking for the version touches nobody's settings.
    let Ok(own) = tempfile::tempdir() else {
        return Check::warn(label, format!("{}; it could not be asked: no temporary directory", found.display()));
    };
    let ask = Cmd::new(&found)
        .env_of(process)
        .env("CLAUDE_CONFIG_DIR", own.path())
        .env("DISABLE_AUTOUPDATER", "1")
        .arg("--version")
        .timeout(Duration::from_secs(20))
        .output_limit(1 << 16);
    match ask.output().await {
        Ok(output) if output.success() => Check::ok(label, output.stdout_text().trim().to_string()),
        Ok(output) if output.timed_out => Check::fail(label, "claude --version gave no answer").hint(INSTALL),
        Ok(output) => {
            let said = crate::base::text::one_line(&output.stderr_text());
            Check::fail(label, format!("claude --version failed: {said}")).hint(INSTALL)
        }
        Err(error) => Check::error(label, &error),
    }
}
