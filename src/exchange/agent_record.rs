//! Which process the agent is, so that a supervisor that follows a killed one can end an agent that was left running.

use serde::{Deserialize, Serialize};

use super::Mailbox;
use crate::base::{Result, files, json};

/// A process by its id and its start, which together name it for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// The process id, which is also its group's.
    pub pid: u32,
    /// Its start in clock ticks since boot, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<u64>,
}

impl Mailbox {
    /// Records the running agent.
    pub fn write_agent(&self, agent: AgentRecord) -> Result<()> {
        json::save_private(&self.dir.join("agent.json"), &agent)
    }

    /// The agent that was recorded last; `None` when it ended, or the record is torn.
    pub fn load_agent(&self) -> Option<AgentRecord> {
        json::load_foreign(&self.dir.join("agent.json"), 1 << 16).ok().flatten()
    }

    /// The agent ended.
    pub fn clear_agent(&self) -> Result<()> {
        files::remove_file(&self.dir.join("agent.json"))
    }
}
