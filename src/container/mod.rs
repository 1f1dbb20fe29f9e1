//! The first process of a container: everything between the engine's start of it and the supervisor's turns.
//!
//! `lazy-agent init` is started as the container's root and stays. In this order it
//! - makes the image's user the wanted uid and gid ([`identity`]), so that what the agent writes belongs to the host's
//!   user; with uid 0 (also: a rootless engine, where the container's root is the host's user) there is nothing to do;
//! - has the image's TLS programs trust the authorities of [`CA_FILE`] ([`trust`]);
//! - opens the inner end of the link ([`relay`]): daemon, proxy and allowed endpoints on loopback addresses;
//! - runs the one-shot supervisor as that user, again and again ([`crate::proc::init`]);
//! - in the end hands what root left in the worktree to that user, who could not remove it otherwise.
//!
//! **Invariants.** No program of the image is run, and nothing of it is needed: an image without a shell works, and a
//! read-only or odd `/etc` costs a warning. Between turns other processes are left alone; they die with this one. A
//! connection waits up to ten minutes for a daemon that is down. Everything held is bounded, and small.
//!
//! **Files owned** (all inside the container): entries of `/etc/passwd` and `/etc/group`, the owner of the user's home,
//! what is missing at the end of [`trust::BUNDLE`].
//!
//! **Refused:** arguments that say no protocol directory or worktree; a loopback port that is taken.

mod home;
pub mod identity;
pub mod no_proxy;
pub mod relay;
pub mod trust;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::base::{Error, Process, Result};
use crate::model::RunnerKind;
use crate::model::link::{DAEMON_PORT, Endpoint, LINK_DIR, LINK_SOCKET, LinkTarget, PROXY_PORT};
use crate::proc::{self, Cmd, init};

/// Authorities to trust beside the image's own, as PEM; absent when the project names none.
pub const CA_FILE: &str = "/run/lazy/ca.pem";

/// What `lazy-agent init` is told.
///
/// `--protocol-dir DIR --worktree DIR --runner docker|podman [--uid N --gid N] [--image-user NAME] [--link]
/// [--egress HOST:PORT=ADDRESS]…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    /// The mailbox.
    pub protocol_dir: PathBuf,
    /// The worktree.
    pub worktree: PathBuf,
    /// The engine.
    pub runner: RunnerKind,
    /// Whom the supervisor runs as; 0 is root, and no user is mapped. Without `--uid`: 0.
    pub owner: init::Owner,
    /// The image's configured user, as the engine tells it: a name, a number, either with `:group`, or empty.
    pub image_user: String,
    /// Whether there is a link.
    pub link: Link,
    /// What is reached beside daemon and proxy, and behind which loopback address.
    pub egress: Vec<Egress>,
}

/// Whether the container's ports 26024 and 26025 lead to daemon and proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// They do.
    Open,
    /// The daemon is reached otherwise.
    Absent,
}

/// An endpoint that the container may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// As the agent names it.
    pub endpoint: Endpoint,
    /// What that name means in the container, one of 127.0.0.0/8.
    pub address: Ipv4Addr,
}

impl Args {
    /// Reads the words behind `init`.
    ///
    /// # Errors
    /// [`crate::base::Kind::Usage`], naming the argument.
    pub fn parse(words: &[String]) -> Result<Args> {
        let (mut protocol, mut worktree, mut runner, mut uid, mut gid) = (None, None, None, 0, 0);
        let (mut image_user, mut link, mut egress) = (String::new(), Link::Absent, Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Error::usage(format!("init: {word} needs a value")));
            match word.as_str() {
                "--protocol-dir" => protocol = Some(PathBuf::from(value()?)),
                "--worktree" => worktree = Some(PathBuf::from(value()?)),
                "--runner" => runner = Some(RunnerKind::parse_alias(value()?)?),
                "--uid" => uid = number(word, value()?)?,
                "--gid" => gid = number(word, value()?)?,
                "--image-user" => image_user = value()?.clone(),
                "--link" => link = Link::Open,
                "--egress" => egress.push(parse_egress(value()?)?),
                other => return Err(Error::usage(format!("init: unknown argument {other}"))),
            }
        }
        let missing = |flag: &str| Error::usage(format!("init: {flag} is missing"));
        Ok(Args {
            protocol_dir: protocol.ok_or_else(|| missing("--protocol-dir"))?,
            worktree: worktree.ok_or_else(|| missing("--worktree"))?,
            runner: runner.ok_or_else(|| missing("--runner"))?,
            owner: init::Owner { uid, gid },
            image_user,
            link,
            egress,
        })
    }

    /// The words that [`Args::parse`] reads back, `init` not among them.
    pub fn words(&self) -> Vec<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = vec!["--protocol-dir".into(), path(&self.protocol_dir)];
        words.extend(["--worktree".into(), path(&self.worktree), "--runner".into(), self.runner.to_string()]);
        words.extend(["--uid".into(), self.owner.uid.to_string(), "--gid".into(), self.owner.gid.to_string()]);
        if !self.image_user.is_empty() {
            words.extend(["--image-user".into(), self.image_user.clone()]);
        }
        if self.link == Link::Open {
            words.push("--link".into());
        }
        for Egress { endpoint, address } in &self.egress {
            words.extend(["--egress".into(), format!("{endpoint}={address}")]);
        }
        words
    }
}

fn number(flag: &str, text: &str) -> Result<u32> {
    // The last one means "no id" to the system.
    let number = text.parse().ok().filter(|number| *number != u32::MAX);
    number.ok_or_else(|| Error::usage(format!("init: {flag} needs a number, not {text:?}")))
}

fn parse_egress(text: &str) -> Result<Egress> {
    let refuse = |why: String| Error::usage(format!("init: --egress {text:?}: {why}"));
    let (endpoint, address) = text.rsplit_once('=').ok_or_else(|| refuse("write it as host:port=address".into()))?;
    let address: Option<Ipv4Addr> = address.parse().ok().filter(Ipv4Addr::is_loopback);
    Ok(Egress {
        endpoint: endpoint.parse().map_err(|error: Error| refuse(error.message().into()))?,
        address: address.ok_or_else(|| refuse("the address is not one of 127.0.0.0/8".into()))?,
    })
}

/// Runs the container until its supervisor is finished or a signal ends it; the exit code.
///
/// # Errors
/// When a port of the link is taken, or the supervisor cannot be started.
pub async fn run(process: &Process, args: Args) -> Result<u8> {
    // Before anything that takes time: a first process without handlers does not even die of TERM.
    let shutdown = proc::shutdown_signal();
    let mut set: Vec<(String, String)> = Vec::new();
    if args.owner.uid != 0 {
        let user = identity::establish(Path::new("/"), &args.image_user, args.owner, |warning| warn(process, warning));
        set.push(("HOME".into(), user.home));
        set.extend(["USER", "LOGNAME"].map(|name| (name.into(), user.name.clone())));
    }
    if let Err(error) = trust::extend(Path::new(CA_FILE), Path::new(trust::BUNDLE)) {
        warn(process, &format!("the image does not trust {CA_FILE}: {error}"));
    }
    let names = process.env().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    set.extend(no_proxy::amended(names));
    let doors = if args.link == Link::Open { args.doors() } else { Vec::new() };
    let _relay = relay::Relay::open(&doors, &Path::new(LINK_DIR).join(LINK_SOCKET))?;
    let mut supervisor = Cmd::new(process.executable()?)
        .arg("supervise")
        .arg("--protocol-dir")
        .arg(&args.protocol_dir)
        .arg("--worktree")
        .arg(&args.worktree)
        .args(["--runner", args.runner.as_str(), "--one-shot"])
        .env_of(process)
        .cwd(&args.worktree);
    for (name, value) in set {
        supervisor = supervisor.env(name, value);
    }
    let ended = init::run(&supervisor, args.owner, init::Orphans::here(), shutdown).await;
    if args.owner.uid != 0 {
        home::reclaim(&args.worktree, args.owner);
    }
    ended
}

impl Args {
    /// Which loopback address leads where.
    fn doors(&self) -> Vec<(SocketAddr, LinkTarget)> {
        let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut doors = vec![(here(DAEMON_PORT), LinkTarget::Daemon), (here(PROXY_PORT), LinkTarget::Proxy)];
        for Egress { endpoint, address } in &self.egress {
            doors.push(((*address, endpoint.port).into(), LinkTarget::Egress(endpoint.clone())));
        }
        doors
    }
}

fn warn(process: &Process, warning: &str) {
    process.err_line(format!("lazy-agent init: {warning}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn arguments_come_back() {
        let text = "--protocol-dir /p --worktree /w --runner podman --uid 501 --gid 20 --image-user node:node --link \
                    --egress a.b:443=127.1.0.1 --egress host.docker.internal:5432=127.1.0.2";
        let args = Args::parse(&words(text)).expect("parses");
        assert_eq!(args.words(), words(text));
        assert_eq!(args.owner, init::Owner { uid: 501, gid: 20 });
        let doors: Vec<String> = args.doors().into_iter().map(|(at, to)| format!("{at} {}", to.line())).collect();
        let wanted = [
            "127.0.0.1:26024 daemon\n",
            "127.0.0.1:26025 proxy\n",
            "127.1.0.1:443 egress a.b:443\n",
            "127.1.0.2:5432 egress host.docker.internal:5432\n",
        ];
        assert_eq!(doors, wanted);
        let least = Args::parse(&words("--protocol-dir /p --worktree /w --runner docker")).expect("parses");
        assert_eq!((least.owner.uid, least.link, least.image_user.as_str()), (0, Link::Absent, ""));
        assert_eq!(Args::parse(&least.words()).expect("parses"), least);
    }

    #[test]
    fn bad_arguments_are_named() {
        let base = "--protocol-dir /p --worktree /w --runner docker";
        for (bad, named) in [
            ("--uid", "--uid"),
            ("--uid -1", "--uid"),
            ("--gid 4294967295", "--gid"),
            ("--egress a.b:443", "--egress"),
            ("--egress a.b:443=10.0.0.1", "--egress"),
            ("--egress 1.2.3.4:443=127.1.0.1", "--egress"),
            ("--verbose", "--verbose"),
        ] {
            let error = Args::parse(&words(&format!("{base} {bad}"))).expect_err(bad);
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.message().contains(named), "{error}");
        }
        for missing in
            ["--protocol-dir /p --runner docker", "--worktree /w --runner docker", "--protocol-dir /p --worktree /w"]
        {
            assert_eq!(Args::parse(&words(missing)).expect_err(missing).kind(), Kind::Usage);
        }
    }
}
