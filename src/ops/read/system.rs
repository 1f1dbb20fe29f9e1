//! `systemStatus`: the project as the daemon sees it.

use crate::base::{Error, Result};
use crate::model::{Status, Target};
use crate::ops::{Caller, Ctx, Narrator, Operation};
use crate::rpc::commands::{Empty, SystemStatus, SystemStatusReport};

impl Operation for SystemStatus {
    async fn run(ctx: &Ctx, _: &Caller, _: Empty, _: &Narrator) -> Result<SystemStatusReport> {
        let rows = ctx.store().rows();
        let count =
            |status: Status| u32::try_from(rows.iter().filter(|row| row.status() == status).count()).unwrap_or(0);
        let config = ctx.config();
        let default_target = match ctx.repo().default_branch(ctx.remote()) {
            Ok(branch) => Target::Branch { branch },
            Err(_) => Target::default_branch(),
        };
        Ok(SystemStatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            project: ctx.project().root.display().to_string(),
            offline: config.remote.offline,
            driver: config.remote.driver.as_str().into(),
            remote: config.remote.git_remote.clone(),
            storage: ctx.store().root().display().to_string(),
            credential: ctx.credential().map(str::to_string),
            damaged: ctx
                .store()
                .damaged()
                .iter()
                .map(|damaged| format!("{}: {}", damaged.path.display(), damaged.message))
                .collect(),
            counts: Status::ALL
                .into_iter()
                .map(|status| (status, count(status)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            runner: config.runner.kind,
            agent: config.agent.agent_id.clone(),
            effort: config.agent.effort,
            default_target,
            notes: Vec::new(),
            config: serde_json::to_value(config)
                .map_err(|source| Error::internal("cannot encode the configuration").caused_by(source))?,
        })
    }
}
