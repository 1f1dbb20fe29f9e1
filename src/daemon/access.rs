//! How a run reaches the daemon and the model: its token, its configuration file, its placeholder credential.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use crate::base::{Error, Process, Result, files};
use crate::model::link::{self, DAEMON_PORT, HOST_NAME, PROXY_PORT};
use crate::model::{RunnerKind, TaskId};
use crate::ops::{Access, GrantRequest, Granted};
use crate::proxy::grants::Identity;
use crate::proxy::{CallerRole, Grants};
use crate::rpc::StateDir;
use crate::rpc::mcp_config::{McpConfig, Reach};
use crate::rpc::tokens::Tokens;
use crate::store::Store;

/// Credentials that no run may see, whichever its agent reads.
const NEVER_INHERITED: [&str; 3] = ["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"];

/// The daemon's [`Access`].
pub(super) struct DaemonAccess {
    pub process: Process,
    pub state: StateDir,
    pub tokens: Arc<Tokens>,
    pub grants: Arc<Grants>,
    pub store: Store,
    /// Where the daemon listens.
    pub daemon: SocketAddr,
    /// Where the proxy listens.
    pub proxy: SocketAddr,
    /// Whether it listened there before, too.
    pub kept_proxy_address: bool,
    /// The variable that the real credential came from.
    pub credential: Option<&'static str>,
}

impl Access for DaemonAccess {
    fn grant(&self, request: &GrantRequest) -> Result<Granted> {
        let token = self.tokens.mint_task(&self.process, request.task, &request.run_name)?;
        let mcp_config = self.state.mcp_config_path(&request.run_name);
        let reach = reach(request.runner);
        let config = McpConfig {
            token,
            project_root: self.state.project_root().to_string_lossy().into_owned(),
            task_id: request.task.to_string(),
            target: base_url(self.daemon, DAEMON_PORT, reach),
            reach,
        };
        config.save_in_place(&mcp_config)?;
        let mut env = vec![
            ("ANTHROPIC_BASE_URL".to_string(), base_url(self.proxy, PROXY_PORT, reach)),
            (
                "ANTHROPIC_CUSTOM_HEADERS".to_string(),
                format!("x-lazy-role: agent\nx-lazy-task-id: {}", request.task_ref),
            ),
            ("LAZY_DAEMON_CONFIG".to_string(), mcp_config.to_string_lossy().into_owned()),
        ];
        let holder = credential_var(self.credential, request.credential_vars);
        if let Some(name) = holder {
            let identity = Identity {
                role: CallerRole::Agent,
                task: Some(&request.task_ref),
                label: &request.run_name,
                env_key: name,
                worktree: Some(&request.worktree),
            };
            let placeholder = self.grants.mint(identity, self.process.now())?;
            env.push((name.to_string(), placeholder.expose().to_string()));
        }
        let others = NEVER_INHERITED.iter().chain(request.credential_vars).filter(|name| Some(**name) != holder);
        for name in others {
            if !env.iter().any(|(key, _)| key == name) {
                env.push((name.to_string(), String::new()));
            }
        }
        let link_dir = match request.runner {
            RunnerKind::Docker | RunnerKind::Podman if cfg!(target_os = "linux") => {
                Some(link::host_dir(&self.process.home()?, self.state.project_root()))
            }
            _ => None,
        };
        Ok(Granted { env, mcp_config, link_dir })
    }

    fn revoke(&self, task: TaskId) -> Result<()> {
        let task_ref = self.store.row(task).and_then(|row| row.task.task_ref());
        // Each on its own: one that fails must not keep the others alive.
        let results = [
            self.tokens.revoke_task(task),
            task_ref.as_ref().map_or(Ok(()), |name| self.grants.revoke_task(name.as_str()).map(drop)),
            task_ref.as_ref().map_or(Ok(()), |name| files::remove_file(&self.state.mcp_config_path(&name.run_name()))),
        ];
        results.into_iter().collect()
    }

    fn kept_proxy_address(&self) -> bool {
        self.kept_proxy_address
    }
}

/// The variable that holds the placeholder: the daemon's own where the agent reads it, else the agent's first.
fn credential_var(present: Option<&'static str>, wanted: &'static [&'static str]) -> Option<&'static str> {
    present.filter(|name| wanted.contains(name)).or(wanted.first().copied())
}

/// How a run of this kind reaches a listener of this machine.
fn reach(runner: RunnerKind) -> Reach {
    match runner {
        RunnerKind::Host => Reach::Direct,
        RunnerKind::Docker | RunnerKind::Podman if cfg!(target_os = "linux") => Reach::Link,
        // Where engines live in a virtual machine, a unix socket of the host is none inside.
        RunnerKind::Docker | RunnerKind::Podman => Reach::Gateway,
    }
}

/// The address of a listener of this machine, as a run reaches it; `inside` is its port at the link's inner end.
fn base_url(address: SocketAddr, inside: u16, reach: Reach) -> String {
    match reach {
        Reach::Direct => format!("http://{}", reachable(address)),
        Reach::Gateway => format!("http://{HOST_NAME}:{}", address.port()),
        Reach::Link => format!("http://{}:{inside}", Ipv4Addr::LOCALHOST),
    }
}

/// The same listener under an address that one can connect to.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}

/// Points every minted configuration at where the daemon listens now; how many were changed. The token is never
/// touched: it is bound to one identity, and outlives the restart on purpose. A file that cannot be read or written is
/// logged and left.
pub(super) fn retarget(state: &StateDir, daemon: SocketAddr) -> usize {
    let directory = state.mcp_config_path("x").parent().map(Path::to_path_buf).unwrap_or_default();
    let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let configs = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    configs.map(|path| retarget_one(&path, daemon)).filter(|changed| *changed).count()
}

fn retarget_one(path: &Path, daemon: SocketAddr) -> bool {
    let rewritten = (|| -> Result<bool> {
        let mut config = McpConfig::load(path)?;
        let reach = match config.reach {
            // Written before the way was recorded.
            Reach::Direct if config.target.contains(HOST_NAME) => Reach::Gateway,
            recorded => recorded,
        };
        let target = base_url(daemon, DAEMON_PORT, reach);
        if config.target == target {
            return Ok(false);
        }
        config.target = target;
        config.save_in_place(path)?;
        Ok(true)
    })();
    rewritten.unwrap_or_else(|error: Error| {
        tracing::warn!(path = %path.display(), %error, "a minted configuration keeps its old address");
        false
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::base::Millis;

    const VARS: &[&str] = &["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"];

    fn access(dir: &Path, credential: Option<&'static str>) -> DaemonAccess {
        let process = Process::fake(["lazy"], &[("HOME", dir.to_str().expect("utf-8"))], dir, Millis(0));
        let state = StateDir::for_project(&process, &dir.join("app")).expect("a home");
        DaemonAccess {
            tokens: Arc::new(Tokens::open(state.mcp_tokens_path()).expect("opens")),
            grants: Arc::new(Grants::open(state.proxy_tokens_path()).expect("opens")),
            store: Store::open(&process, &dir.join("store")).expect("opens"),
            daemon: "127.0.0.1:26024".parse().expect("an address"),
            proxy: "127.0.0.1:4000".parse().expect("an address"),
            kept_proxy_address: true,
            process,
            state,
            credential,
        }
    }

    fn request(runner: RunnerKind) -> GrantRequest {
        GrantRequest {
            task: "aaaaaaaa-0000-4000-8000-000000000001".parse().expect("id"),
            task_ref: "fix".into(),
            run_name: "lazy-fix".into(),
            runner,
            worktree: "/p/.lazy/worktrees/fix".into(),
            credential_vars: VARS,
        }
    }

    fn value<'a>(granted: &'a Granted, key: &str) -> &'a str {
        granted.env.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str()).expect(key)
    }

    #[test]
    fn a_run_gets_a_placeholder_in_the_variable_of_the_real_credential() {
        let dir = tempfile::tempdir().expect("temp dir");
        let access = access(dir.path(), Some("ANTHROPIC_API_KEY"));
        let granted = access.grant(&request(RunnerKind::Host)).expect("grants");
        assert_eq!(value(&granted, "ANTHROPIC_BASE_URL"), "http://127.0.0.1:4000");
        assert_eq!(value(&granted, "ANTHROPIC_CUSTOM_HEADERS"), "x-lazy-role: agent\nx-lazy-task-id: fix");
        assert_eq!(value(&granted, "LAZY_DAEMON_CONFIG"), granted.mcp_config.to_str().expect("utf-8"));
        let placeholder = value(&granted, "ANTHROPIC_API_KEY");
        let grant = access.grants.lookup(placeholder).expect("reads").expect("known");
        assert_eq!(grant.task_id.as_deref(), Some("fix"));
        assert_eq!(grant.worktree.as_deref(), Some(Path::new("/p/.lazy/worktrees/fix")));
        assert_eq!(value(&granted, "CLAUDE_CODE_OAUTH_TOKEN"), "", "removed");
        assert_eq!(value(&granted, "ANTHROPIC_AUTH_TOKEN"), "", "removed");
        let mut keys: Vec<&String> = granted.env.iter().map(|(key, _)| key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), granted.env.len(), "each variable once");
        let config = McpConfig::load(&granted.mcp_config).expect("minted");
        assert_eq!(config.target, "http://127.0.0.1:26024");
        assert_eq!(config.task_id, request(RunnerKind::Host).task.to_string());
        let mode = std::fs::metadata(&granted.mcp_config).expect("file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let known = access.tokens.identify(config.token.expose()).expect("reads").expect("known");
        assert_eq!(known.task_id, Some(request(RunnerKind::Host).task));
    }

    #[test]
    fn the_second_turn_gets_the_same_and_a_container_its_own_way() {
        let dir = tempfile::tempdir().expect("temp dir");
        let access = access(dir.path(), Some("CLAUDE_CODE_OAUTH_TOKEN"));
        let first = access.grant(&request(RunnerKind::Host)).expect("grants");
        let token = McpConfig::load(&first.mcp_config).expect("minted").token;
        let second = access.grant(&request(RunnerKind::Docker)).expect("grants");
        assert_eq!(value(&first, "CLAUDE_CODE_OAUTH_TOKEN"), value(&second, "CLAUDE_CODE_OAUTH_TOKEN"));
        let config = McpConfig::load(&second.mcp_config).expect("minted");
        assert!(config.token == token);
        let (proxy, daemon) = match cfg!(target_os = "linux") {
            true => ("http://127.0.0.1:26025", "http://127.0.0.1:26024"),
            false => ("http://host.docker.internal:4000", "http://host.docker.internal:26024"),
        };
        assert_eq!(value(&second, "ANTHROPIC_BASE_URL"), proxy);
        assert_eq!(config.target, daemon);
    }

    #[test]
    fn each_way_has_its_address() {
        let address = "0.0.0.0:4000".parse().expect("an address");
        assert_eq!(base_url(address, PROXY_PORT, Reach::Direct), "http://127.0.0.1:4000");
        assert_eq!(base_url(address, PROXY_PORT, Reach::Gateway), "http://host.docker.internal:4000");
        assert_eq!(base_url(address, PROXY_PORT, Reach::Link), "http://127.0.0.1:26025");
        assert_eq!(reach(RunnerKind::Host), Reach::Direct);
    }

    #[test]
    fn without_a_credential_the_placeholder_still_says_who_calls() {
        let dir = tempfile::tempdir().expect("temp dir");
        let access = access(dir.path(), None);
        let granted = access.grant(&request(RunnerKind::Host)).expect("grants");
        assert!(access.grants.lookup(value(&granted, "CLAUDE_CODE_OAUTH_TOKEN")).expect("reads").is_some());
        assert_eq!(credential_var(Some("ANTHROPIC_API_KEY"), &["CURSOR_API_KEY"]), Some("CURSOR_API_KEY"));
        assert_eq!(credential_var(Some("ANTHROPIC_API_KEY"), &[]), None);
    }

    #[test]
    fn a_new_port_is_written_in_place_and_the_token_stays() {
        let dir = tempfile::tempdir().expect("temp dir");
        let access = access(dir.path(), None);
        let granted = access.grant(&request(RunnerKind::Host)).expect("grants");
        let before = McpConfig::load(&granted.mcp_config).expect("minted");
        assert_eq!(before.target, "http://127.0.0.1:26024");
        let inode = std::fs::metadata(&granted.mcp_config).expect("file").ino();
        let torn = access.state.mcp_config_path("torn");
        std::fs::write(&torn, "{\"tok").expect("writes");
        let moved: SocketAddr = "0.0.0.0:26030".parse().expect("an address");
        assert_eq!(retarget(&access.state, moved), 1);
        assert_eq!(retarget(&access.state, moved), 0, "nothing left to change");
        let after = McpConfig::load(&granted.mcp_config).expect("minted");
        assert_eq!(after, McpConfig { target: "http://127.0.0.1:26030".into(), ..before.clone() });
        assert_eq!(std::fs::metadata(&granted.mcp_config).expect("file").ino(), inode);
        assert_eq!(std::fs::read(&torn).expect("file"), b"{\"tok");

        let gateway = McpConfig { target: "http://host.docker.internal:1".into(), ..before.clone() };
        gateway.save_in_place(&granted.mcp_config).expect("writes");
        assert_eq!(retarget(&access.state, moved), 1);
        let after = McpConfig::load(&granted.mcp_config).expect("minted");
        assert_eq!(after.target, "http://host.docker.internal:26030");
    }

    /// Its address reads like one of the host, but is the relay's.
    #[test]
    fn a_container_with_the_link_never_notices_a_new_port() {
        let dir = tempfile::tempdir().expect("temp dir");
        let access = access(dir.path(), None);
        let granted = access.grant(&request(RunnerKind::Host)).expect("grants");
        let config = McpConfig::load(&granted.mcp_config).expect("minted");
        let linked = McpConfig { reach: Reach::Link, ..config };
        linked.save_in_place(&granted.mcp_config).expect("writes");
        assert_eq!(retarget(&access.state, "127.0.0.1:26030".parse().expect("an address")), 0);
        assert_eq!(McpConfig::load(&granted.mcp_config).expect("minted"), linked);
        let again = access.grant(&request(RunnerKind::Host)).expect("grants");
        assert_eq!(McpConfig::load(&again.mcp_config).expect("minted").reach, Reach::Direct);
    }
}
