//! Process ids: who lives, who descends from whom, and signals to all of them.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, kill_process, kill_process_group, test_kill_process, test_kill_process_group};

use crate::base::{Error, Kind, Result};

/// How often a wait for processes that are not our children looks again.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// The signals lazy sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Please end.
    Term,
    /// As Ctrl-C does.
    Int,
    /// The terminal went away.
    Hup,
    /// End now.
    Kill,
}

impl Signal {
    fn raw(self) -> rustix::process::Signal {
        match self {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Int => rustix::process::Signal::INT,
            Signal::Hup => rustix::process::Signal::HUP,
            Signal::Kill => rustix::process::Signal::KILL,
        }
    }
}

/// Whether a process of this id runs. A zombie counts as dead.
pub fn alive(pid: u32) -> bool {
    match Stat::of(pid) {
        Some(stat) => stat.lives(),
        None if Path::new("/proc/self/stat").exists() => false,
        // Without /proc the signal is the only question that can be asked; "may not" still means that it is there.
        None => raw_pid(pid).is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH))),
    }
}

/// When the process started, in clock ticks since boot: with the id it names one process for ever, because ids are
/// used again. `None` when there is no such process.
pub fn start_time(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.started)
}

/// Whether `pid` is alive and still the process that started at `started`. An unknown start decides by the id alone.
pub fn same_process(pid: u32, started: Option<u64>) -> bool {
    alive(pid) && started.is_none_or(|started| start_time(pid).is_none_or(|now| now == started))
}

/// Sends a signal to every process of a group.
///
/// # Errors
/// [`Kind::NotFound`] when there is no such group, [`Kind::Forbidden`] when it belongs to someone else.
pub fn signal_group(pid: u32, signal: Signal) -> Result<()> {
    let group = raw_pid(pid).ok_or_else(|| Error::invalid(format!("{pid} is not a process id")))?;
    kill_process_group(group, signal.raw()).map_err(|errno| match errno {
        Errno::SRCH => Error::new(Kind::NotFound, format!("there is no process group {pid}")),
        Errno::PERM => Error::new(Kind::Forbidden, format!("process group {pid} belongs to another user")),
        other => Error::io(format!("cannot signal process group {pid}"), other.into()),
    })
}

/// Sends a signal to one process, if it is still there.
pub(super) fn signal_process(pid: u32, signal: Signal) {
    if let Some(pid) = raw_pid(pid) {
        kill_process(pid, signal.raw()).ok();
    }
}

/// Ends a group and all that descends from its leader: TERM, `grace` to end, KILL to what is left. A group that is
/// already gone is as good.
///
/// # Errors
/// [`Kind::Timeout`] when something outlives even KILL (it hangs in the kernel).
pub async fn terminate_group(pid: u32, grace: Duration) -> Result<()> {
    let mut tree = Tree::below(pid);
    tree.signal(Signal::Term);
    if !tree.gone_within(grace).await {
        tree.signal(Signal::Kill);
        if !tree.gone_within(Duration::from_secs(5)).await {
            return Err(Error::new(Kind::Timeout, format!("process {pid} does not end, not even when killed"))
                .hint(format!("see what it waits for: ps -o pid,stat,wchan:30,args -g {pid}")));
        }
    }
    Ok(())
}

/// The program `name` in the directories of `path_var`, or as it is when it has a slash. `None` when there is no
/// executable file of that name.
pub fn which(name: &str, path_var: impl AsRef<OsStr>) -> Option<PathBuf> {
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    if name.is_empty() {
        return None;
    }
    std::env::split_paths(&path_var).map(|directory| directory.join(name)).find(|path| is_program(path))
}

fn raw_pid(pid: u32) -> Option<Pid> {
    // 0 would mean the caller's own group, 1 is init.
    i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)
}

/// One line of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy)]
struct Stat {
    pid: u32,
    state: u8,
    parent: u32,
    group: u32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        Stat::parse(pid, &text)
    }

    /// The name in parentheses may hold anything, so the fields are counted from the last one.
    fn parse(pid: u32, text: &[u8]) -> Option<Stat> {
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Stat {
            pid,
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    fn lives(self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }

    fn all() -> Vec<Stat> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        entries.flatten().filter_map(|entry| Stat::of(entry.file_name().to_str()?.parse().ok()?)).collect()
    }
}

/// A group's members and all descendants of its leader, remembered by id and start, so that those who lose their
/// parent meanwhile are still known.
#[derive(Debug)]
pub(super) struct Tree {
    root: u32,
    members: Vec<(u32, u64)>,
}

impl Tree {
    /// The group `root` leads and the processes that descend from it.
    pub(super) fn below(root: u32) -> Tree {
        let mut tree = Tree { root, members: Vec::new() };
        tree.refresh(&Stat::all());
        tree
    }

    fn refresh(&mut self, all: &[Stat]) {
        let mut known: Vec<u32> = vec![self.root];
        known.extend(self.members.iter().filter(|(pid, at)| start_time(*pid) == Some(*at)).map(|(pid, _)| *pid));
        loop {
            let before = known.len();
            for stat in all {
                let belongs = stat.group == self.root || known.contains(&stat.parent);
                if belongs && stat.pid > 1 && !known.contains(&stat.pid) {
                    known.push(stat.pid);
                }
            }
            if known.len() == before {
                break;
            }
        }
        for stat in all.iter().filter(|stat| known.contains(&stat.pid)) {
            if !self.members.contains(&(stat.pid, stat.started)) {
                self.members.push((stat.pid, stat.started));
            }
        }
    }

    /// Signals the group and every known member, those started since included.
    pub(super) fn signal(&mut self, signal: Signal) {
        self.refresh(&Stat::all());
        if let Some(group) = raw_pid(self.root) {
            kill_process_group(group, signal.raw()).ok();
        }
        for (pid, started) in &self.members {
            if let Some(raw) =
                raw_pid(*pid).filter(|_| same_process(*pid, Some(*started)) && !in_group(*pid, self.root))
            {
                kill_process(raw, signal.raw()).ok();
            }
        }
    }

    /// Whether a known member still runs.
    pub(super) fn any_alive(&self) -> bool {
        if self.members.is_empty() {
            // No /proc: ask for the group.
            return raw_pid(self.root).is_some_and(|group| test_kill_process_group(group).is_ok());
        }
        self.members.iter().any(|(pid, started)| same_process(*pid, Some(*started)))
    }

    async fn gone_within(&self, limit: Duration) -> bool {
        let until = tokio::time::Instant::now() + limit;
        while self.any_alive() {
            if tokio::time::Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(POLL).await;
        }
        true
    }
}

fn in_group(pid: u32, group: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.group == group)
}
