//! The table of operations: from a command's name and JSON to JSON.

use std::pin::Pin;

use serde_json::Value;

use super::{Caller, Ctx, Narrator, Operation};
use crate::base::{Error, Result};
use crate::rpc::Command;
use crate::rpc::commands as c;

/// An operation behind its name.
pub type Handler = fn(Ctx, Caller, Value, Narrator) -> Pin<Box<dyn Future<Output = Result<Value>> + Send>>;

fn erased<O: Operation>(
    ctx: Ctx,
    caller: Caller,
    params: Value,
    narrator: Narrator,
) -> Pin<Box<dyn Future<Output = Result<Value>> + Send>> {
    Box::pin(async move {
        let params: O::Params = serde_json::from_value(params)
            .map_err(|source| Error::invalid(format!("the parameters of {} are wrong: {source}", O::NAME)))?;
        let report = O::run(&ctx, &caller, params, &narrator).await?;
        serde_json::to_value(report).map_err(|source| Error::internal("cannot encode a report").caused_by(source))
    })
}

macro_rules! table {
    ($($operation:ty,)*) => {
        /// Every operation by its name.
        const TABLE: &[(&str, Handler)] = &[$((<$operation as Command>::NAME, erased::<$operation>),)*];
    };
}

table! {
    c::Accept,
    c::AddComment,
    c::AddJournal,
    c::Ask,
    c::Close,
    c::CommitWork,
    c::Create,
    c::Diff,
    c::Edit,
    c::FlagRaised,
    c::List,
    c::ListRaised,
    c::Prioritize,
    c::Raise,
    c::ReadJournal,
    c::Reject,
    c::Reopen,
    c::ResolveRaised,
    c::Resume,
    c::Search,
    c::SetTag,
    c::Shell,
    c::Show,
    c::Start,
    c::Stop,
    c::SyncTask,
    c::SystemStatus,
    c::TaskStatus,
    c::Unblock,
    c::UpdateProgress,
    c::Wait,
    c::Watch,
}

/// The operation of a command's name.
pub fn handler(name: &str) -> Option<Handler> {
    TABLE.iter().find(|(known, _)| *known == name).map(|(_, handler)| *handler)
}

/// Every command's name.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}
