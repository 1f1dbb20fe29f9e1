//! What `GET /daemon/status` answers: constants of this start, the id of the binary, and a count from memory.

use std::net::SocketAddr;
use std::time::Instant;

use super::binary::BinaryId;
use crate::rpc::state_dir::{DaemonStatus, ProxyStatus, Slots};

/// What does not change while the daemon runs.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub started: Instant,
    pub instance_id: String,
    pub project_root: String,
    pub address: SocketAddr,
    pub bind_host: String,
    pub proxy: ProxyStatus,
    pub agent_limit: u32,
    pub binary: BinaryId,
}

impl Facts {
    /// The answer, with `running` live agents.
    pub async fn status(&self, running: u32) -> DaemonStatus {
        DaemonStatus {
            status: "running".into(),
            pid: std::process::id(),
            uptime: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            version: env!("CARGO_PKG_VERSION").into(),
            binary_id: self.binary.soon().await,
            instance_id: self.instance_id.clone(),
            project_root: self.project_root.clone(),
            web_port: self.address.port(),
            bind_host: self.bind_host.clone(),
            proxy: Some(self.proxy.clone()),
            agents: Slots { running, limit: self.agent_limit },
        }
    }
}
