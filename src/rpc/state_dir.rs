//! The daemon's state directory: one for each project, outside of it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::{Process, Result, files, hash, lock::FileLock};

/// The first TCP port a daemon tries; it walks [`PORT_WINDOW`] ports from there.
pub const DEFAULT_PORT: u16 = 26024;
/// How many ports are tried.
pub const PORT_WINDOW: u16 = 20;

/// `~/.lazy/daemon/<basename>-<first 8 hex of sha256 of the root>/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
    project_root: PathBuf,
}

impl StateDir {
    /// The directory for a project.
    pub fn for_project(process: &Process, project_root: &Path) -> Result<StateDir> {
        let path = StateDir::base(process)?.join(hash::project_slug(project_root));
        Ok(StateDir { path, project_root: project_root.to_path_buf() })
    }

    /// Where every project's state directory lies: `LAZY_DAEMON_BASE_DIR`, else `~/.lazy/daemon`.
    pub fn base(process: &Process) -> Result<PathBuf> {
        match process.var_os("LAZY_DAEMON_BASE_DIR").filter(|value| !value.is_empty()) {
            Some(base) => Ok(PathBuf::from(base)),
            None => Ok(process.home()?.join(".lazy/daemon")),
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The project it serves.
    pub fn project_root(&self) -> &Path {
        &self.project_root
    }

    /// Held by the daemon for its life.
    pub fn lock_path(&self) -> PathBuf {
        self.path.join("daemon.lock")
    }

    /// The daemon's process id, decimal.
    pub fn pid_path(&self) -> PathBuf {
        self.path.join("lazy.pid")
    }

    /// The shared token, 0600; reused across restarts.
    pub fn token_path(&self) -> PathBuf {
        self.path.join("token")
    }

    /// The port last bound, decimal.
    pub fn port_path(&self) -> PathBuf {
        self.path.join("web-port")
    }

    /// The daemon's log.
    pub fn log_path(&self) -> PathBuf {
        self.path.join("daemon.log")
    }

    /// Why the last start failed.
    pub fn startup_error_path(&self) -> PathBuf {
        self.path.join("startup-error")
    }

    /// The project's root as text, because the slug is lossy.
    pub fn root_path(&self) -> PathBuf {
        self.path.join("root")
    }

    /// The registry of identity tokens, 0600.
    pub fn mcp_tokens_path(&self) -> PathBuf {
        self.path.join("mcp-tokens.json")
    }

    /// The registry of placeholder credentials, 0600.
    pub fn proxy_tokens_path(&self) -> PathBuf {
        self.path.join("proxy-tokens.json")
    }

    /// The minted configuration of one identity: the only file here that is ever mounted.
    pub fn mcp_config_path(&self, label: &str) -> PathBuf {
        self.path.join("mcp").join(format!("daemon-mcp-{label}.json"))
    }

    /// Whether a daemon holds the lock now.
    pub fn is_daemon_running(&self) -> bool {
        FileLock::is_held(&self.lock_path())
    }

    /// The recorded process id.
    pub fn pid(&self) -> Option<u32> {
        files::read_line_optional(&self.pid_path())?.parse().ok()
    }

    /// The recorded port.
    pub fn port(&self) -> Option<u16> {
        files::read_line_optional(&self.port_path())?.parse().ok().filter(|port| *port != 0)
    }
}

/// The answer of `GET /daemon/status`: asked without a credential, so it says nothing secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatus {
    /// Always `running`.
    pub status: String,
    /// Process id.
    pub pid: u32,
    /// Milliseconds since it started.
    pub uptime: u64,
    /// The program's version.
    pub version: String,
    /// The id of the running binary: first 16 hex of blake3 of its bytes.
    pub binary_id: String,
    /// Fresh at every start.
    pub instance_id: String,
    /// The project served; a client that expected another learns here why its token is refused.
    pub project_root: String,
    /// The port bound.
    pub web_port: u16,
    /// The interface bound.
    pub bind_host: String,
    /// The model proxy.
    pub proxy: Option<ProxyStatus>,
    /// Live runs and the cap on them.
    pub agents: Slots,
}

/// The model proxy, as `GET /daemon/status` tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyStatus {
    /// `http://host:port`.
    pub address: String,
    /// Where it forwards.
    pub upstream: String,
}

/// How many of something run, and how many may.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Slots {
    /// Now.
    pub running: u32,
    /// At most.
    pub limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;

    #[test]
    fn the_slug_is_the_one_other_programs_read() {
        let process = Process::fake(["lazy"], &[("HOME", "/home/u")], Path::new("/"), Millis(0));
        let dir = StateDir::for_project(&process, Path::new("/srv/my app")).expect("home is set");
        assert_eq!(dir.path(), Path::new("/home/u/.lazy/daemon/my app-8945ea3e"));
        assert!(!dir.is_daemon_running());
    }
}
