//! Operations: everything a caller can ask for, one definition each.
//!
//! An operation is a [`Command`] (its name, parameters and report, in `rpc`) and one async function here. The RPC
//! route, the command line, the MCP tools and the dashboard are thin faces on it: a rule (who may do it, from which
//! status, what is refused) lives here and nowhere else.
//!
//! An operation resolves, refuses, computes a list of [`crate::store::Edit`]s from a snapshot, applies it, and only then
//! lets the world follow: mailbox, run, branch, worktree. Operations that move a task hold its lifecycle lock. What a
//! crash leaves between the two halves is finished by [`reconcile`].
//!
//! **Invariants.** Persist before launch. Nothing that a person or an agent wrote is lost: an unread response, feedback
//! not surely read, a half-done merge. A caller that hangs up changes who hears the answer, not what happens.

mod accept;
mod ask;
mod caller;
mod commit;
mod create;
mod ctx;
mod edit;
mod finish;
mod gates;
mod heavy;
mod internal_git;
mod launch;
mod lookup;
mod narrator;
mod notes;
mod prompting;
mod protecting;
mod raised;
mod read;
pub mod reconcile;
mod reopen;
mod shell;
mod start;
mod stop;
mod sync;
mod table;
mod unblock;

pub use caller::{Caller, CallerKind};
pub use ctx::{Access, Ctx, CtxParts, GrantRequest, Granted};
pub use narrator::Narrator;
pub use table::{Handler, handler, names};

use crate::base::Result;
use crate::rpc::Command;

/// A command that can be carried out.
pub trait Operation: Command {
    /// Carries it out.
    fn run(
        ctx: &Ctx,
        caller: &Caller,
        params: Self::Params,
        narrator: &Narrator,
    ) -> impl Future<Output = Result<Self::Report>> + Send;
}
