//! The first process of a container, as far as processes go: one child after the other, everything reaped.
//!
//! The child is a one-shot program. Its exit code says what follows: 0 is "again", 42 is "finished", anything else ends
//! the container with that code. Between two children nothing else is touched: what the last one left running goes on,
//! until this process ends and the kernel takes the rest of the container with it.

use std::os::unix::process::CommandExt as _;
use std::pin::pin;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, geteuid};
use tokio::signal::unix::{self, SignalKind};

use super::cmd::retry_busy;
use super::pids::{Signal, Tree, signal_process};
use super::{Cmd, Shutdown};
use crate::base::{Error, Result};

/// The exit code of a child after which there is nothing more to do.
pub const FINISHED: i32 = 42;

/// How long a child may take to end once the container is asked to; an engine's own patience is 10 s by default.
const END: Duration = Duration::from_secs(9);
/// How long a killed child may take to be gone.
const GONE: Duration = Duration::from_millis(500);
/// A child that lived shorter did no work.
const QUICK: Duration = Duration::from_millis(200);
/// So many quick ones in a row are a fault, and paced from then on.
const QUICK_ONES: u32 = 5;
/// The longest pause before the next.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whom a child runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group; there are no others.
    pub gid: u32,
}

/// What is done about processes whose parent is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// They are this process's to reap: it is the first one.
    Reap,
    /// Somebody else's.
    Leave,
}

impl Orphans {
    /// As it is for this process.
    pub fn here() -> Orphans {
        if std::process::id() == 1 { Orphans::Reap } else { Orphans::Leave }
    }
}

/// Runs `cmd` as `owner` again and again until it is finished, fails, or `shutdown` resolves; the exit code.
///
/// The child inherits both outputs and reads an empty standard input. `shutdown`'s signal is passed on to it; a child
/// that does not end within 9 s is killed with all that descends from it.
///
/// # Errors
/// [`crate::base::Kind::Unavailable`] when the program or its directory is not there, [`crate::base::Kind::Io`] when it
/// cannot be started.
pub async fn run(cmd: &Cmd, owner: Owner, orphans: Orphans, shutdown: impl Future<Output = Shutdown>) -> Result<u8> {
    let watching = unix::signal(SignalKind::child());
    let mut reaper =
        Reaper { orphans, deaths: watching.map_err(|source| Error::io("cannot watch for children", source))? };
    let mut shutdown = pin!(shutdown);
    let mut pace = Pace::default();
    loop {
        let began = Instant::now();
        let child = start(cmd, owner)?;
        let code = tokio::select! {
            code = reaper.exit_of(child) => code,
            signal = &mut shutdown => {
                end(child, signal, &mut reaper).await;
                return Ok(signal.exit_code());
            }
        };
        match code {
            0 => {}
            FINISHED => return Ok(0),
            // A code of a process is a byte.
            other => return Ok(u8::try_from(other).unwrap_or(u8::MAX)),
        }
        let pause = pace.pause_after(began.elapsed());
        if !pause.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = reaper.reap_on() => {}
                signal = &mut shutdown => return Ok(signal.exit_code()),
            }
        }
    }
}

fn start(cmd: &Cmd, owner: Owner) -> Result<Pid> {
    let mut command = cmd.prepare();
    command.stdin(Stdio::null());
    if owner.uid != geteuid().as_raw() {
        // The other groups go with the user.
        command.gid(owner.gid).uid(owner.uid);
    }
    let child = retry_busy(|| command.spawn()).map_err(|source| cmd.spawn_error(source))?;
    // From here on it is the reaper's: a handle that is dropped neither waits nor kills.
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| Error::internal("a child that was just started has no process id"))
}

async fn end(child: Pid, signal: Shutdown, reaper: &mut Reaper) {
    let pid = child.as_raw_pid().unsigned_abs();
    let mut tree = Tree::below(pid);
    let signal = match signal {
        Shutdown::Term => Signal::Term,
        Shutdown::Int => Signal::Int,
        Shutdown::Hup => Signal::Hup,
    };
    signal_process(pid, signal);
    if tokio::time::timeout(END, reaper.exit_of(child)).await.is_err() {
        tree.signal(Signal::Kill);
        tokio::time::timeout(GONE, reaper.exit_of(child)).await.ok();
    }
}

/// Collects the dead. Only one of these may be at work, and nothing else that waits for children.
struct Reaper {
    orphans: Orphans,
    deaths: unix::Signal,
}

impl Reaper {
    /// Waits for `child`, and for whoever else dies meanwhile; the exit code, 128 plus the number of a signal.
    async fn exit_of(&mut self, child: Pid) -> i32 {
        loop {
            // Several deaths may be told by one signal.
            while let Some((pid, code)) = self.next_dead(child) {
                if pid == child {
                    return code;
                }
            }
            self.deaths.recv().await;
        }
    }

    /// Reaps for ever.
    async fn reap_on(&mut self) {
        loop {
            if self.orphans == Orphans::Reap {
                while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
            }
            self.deaths.recv().await;
        }
    }

    fn next_dead(&self, child: Pid) -> Option<(Pid, i32)> {
        let found = match self.orphans {
            Orphans::Reap => rustix::process::wait(WaitOptions::NOHANG),
            Orphans::Leave => rustix::process::waitpid(Some(child), WaitOptions::NOHANG),
        };
        match found {
            Ok(found) => found.map(|(pid, status)| (pid, exit_code(status))),
            // Somebody else waited for it: how it ended is lost.
            Err(Errno::CHILD) => Some((child, 1)),
            Err(_) => None,
        }
    }
}

fn exit_code(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// Keeps a child that ends at once, again and again, from burning the machine.
#[derive(Debug, Default)]
struct Pace {
    quick: u32,
}

impl Pace {
    fn pause_after(&mut self, lived: Duration) -> Duration {
        if lived >= QUICK {
            self.quick = 0;
            return Duration::ZERO;
        }
        self.quick = self.quick.saturating_add(1);
        let Some(beyond) = self.quick.checked_sub(QUICK_ONES) else { return Duration::ZERO };
        Duration::from_secs(1 << beyond.min(5)).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn me() -> Owner {
        Owner { uid: geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    fn shell(script: &str, dir: &Path) -> Cmd {
        Cmd::new("/bin/sh").args(["-c", script]).cwd(dir)
    }

    async fn code_of(script: &str, dir: &Path) -> u8 {
        run(&shell(script, dir), me(), Orphans::Leave, std::future::pending()).await.expect("runs")
    }

    #[tokio::test]
    async fn nothing_is_started_again_but_what_succeeded() {
        let dir = tempfile::tempdir().expect("temp dir");
        let script = "echo >> turns; [ $(wc -l < turns) -ge 3 ] && exit 42; exit 0";
        assert_eq!(code_of(script, dir.path()).await, 0);
        assert_eq!(std::fs::read(dir.path().join("turns")).expect("written"), b"\n\n\n");
        assert_eq!(code_of("exit 7", dir.path()).await, 7);
        assert_eq!(code_of("kill -9 $$", dir.path()).await, 137);
        let missing = run(&Cmd::new("/no/such"), me(), Orphans::Leave, std::future::pending()).await;
        assert!(missing.expect_err("cannot start").message().contains("/no/such"));
    }

    #[tokio::test]
    async fn a_signal_is_passed_on_and_the_end_awaited() {
        let dir = tempfile::tempdir().expect("temp dir");
        let ready = dir.path().join("ready");
        let script = "trap 'echo ended > ended; exit 0' TERM; : > ready; while :; do sleep 0.01; done";
        let asked = async {
            while !ready.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Shutdown::Term
        };
        let code = run(&shell(script, dir.path()), me(), Orphans::Leave, asked).await.expect("runs");
        assert_eq!(code, 143);
        assert_eq!(std::fs::read(dir.path().join("ended")).expect("it had its time"), b"ended\n");
    }

    #[test]
    fn quick_ones_are_paced_and_a_slow_one_is_forgiven() {
        let mut pace = Pace::default();
        let seconds: Vec<u64> = (0..12).map(|_| pace.pause_after(Duration::ZERO).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pace.pause_after(QUICK), Duration::ZERO);
        assert_eq!(pace.pause_after(Duration::ZERO), Duration::ZERO);
    }
}
