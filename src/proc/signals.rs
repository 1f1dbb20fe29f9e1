//! The signals that ask this process to end.

use tokio::signal::unix::{SignalKind, signal};

/// Which signal asked for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// `kill <pid>`, a container's stop.
    Term,
    /// Ctrl-C.
    Int,
    /// The terminal went away.
    Hup,
}

impl Shutdown {
    /// The exit code by convention: 128 plus the signal's number.
    pub const fn exit_code(self) -> u8 {
        match self {
            Shutdown::Term => 143,
            Shutdown::Int => 130,
            Shutdown::Hup => 129,
        }
    }
}

/// Completes when TERM, INT or HUP arrives. The handlers stand from the call on, not only from the first poll; from
/// then on these signals no longer end the process by themselves. Must be called inside a runtime.
pub fn shutdown_signal() -> impl Future<Output = Shutdown> + Send {
    let term = signal(SignalKind::terminate());
    let int = signal(SignalKind::interrupt());
    let hup = signal(SignalKind::hangup());
    async move {
        match (term, int, hup) {
            (Ok(mut term), Ok(mut int), Ok(mut hup)) => tokio::select! {
                _ = term.recv() => Shutdown::Term,
                _ = int.recv() => Shutdown::Int,
                _ = hup.recv() => Shutdown::Hup,
            },
            // Without handlers the signals keep their usual effect, which ends the process.
            _ => std::future::pending().await,
        }
    }
}
