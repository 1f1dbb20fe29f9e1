//! The three command lines that start a container, as pure functions: one request to an agent, a task's supervisor, an
//! interactive builder. Values of the environment never stand on them: a name does, and the engine's program finds the
//! value in its own environment.

use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::mount::Mount;
use super::walls::AGENT_PATH;
use crate::base::Result;
use crate::config::Network;
use crate::model::RunnerKind;
use crate::model::link::Endpoint;

/// The name by which a container calls this machine.
pub const HOST: &str = "host.docker.internal";

/// What every container of lazy's has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// Whose words to use.
    pub engine: RunnerKind,
    /// The container's name.
    pub name: String,
    /// `key=value`.
    pub labels: Vec<(String, String)>,
    /// The image: a reference or an id.
    pub image: String,
    /// What it sees of this machine.
    pub mounts: Vec<Mount>,
    /// Names of variables that are passed on.
    pub env: Vec<String>,
    /// Where it starts.
    pub workdir: PathBuf,
    /// Who works in it, as the container sees users.
    pub user: (u32, u32),
    /// What it reaches.
    pub reach: Reach,
    /// What the engine's own setup asks for.
    pub quirks: Quirks,
}

/// What a container reaches over the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The posture.
    pub network: Network,
    /// Further endpoints of [`Network::ProxyOnly`], each behind an address of its own on loopback.
    pub egress: Vec<(Endpoint, Ipv4Addr)>,
}

/// Peculiarities of an engine's installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quirks {
    /// The engine belongs to a user: root of a container is that user.
    pub rootless: bool,
    /// The engine shifts user ids; lazy's containers go without, or their files would belong to nobody.
    pub shifts_users: bool,
    /// The machine labels files; a container could not read what is mounted.
    pub selinux: bool,
}

/// A task's supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervisor {
    /// The mailbox.
    pub protocol_dir: PathBuf,
    /// The worktree.
    pub worktree: PathBuf,
    /// The user that the image is made for; empty is root.
    pub image_user: Option<String>,
    /// Whether PID 1 opens the link.
    pub link: Link,
}

/// How a container reaches the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Through the mounted socket.
    Socket,
    /// Over the network, by [`HOST`].
    Network,
}

impl Reach {
    /// The engine's usual network.
    pub fn open() -> Reach {
        Reach { network: Network::Open, egress: Vec::new() }
    }

    /// Nothing but the link and these endpoints: one address for each host, in order.
    pub fn proxy_only(endpoints: &[Endpoint]) -> Reach {
        let mut hosts: Vec<&str> = Vec::new();
        let mut egress = Vec::new();
        for endpoint in endpoints {
            let at = hosts.iter().position(|host| *host == endpoint.host).unwrap_or_else(|| {
                hosts.push(&endpoint.host);
                hosts.len() - 1
            });
            let [high, low] = u16::try_from(at + 1).unwrap_or(u16::MAX).to_be_bytes();
            egress.push((endpoint.clone(), Ipv4Addr::new(127, 1, high, low)));
        }
        Reach { network: Network::ProxyOnly, egress }
    }

    fn words(&self, engine: RunnerKind, args: &mut Args) {
        match (self.network, engine) {
            (Network::ProxyOnly, _) => args.option("--network", "none"),
            // It has names of its own for this machine, and its older versions refuse the word.
            (Network::Open, RunnerKind::Podman) => {}
            (Network::Open, _) => args.option("--add-host", format!("{HOST}:host-gateway")),
        }
        let mut named: Vec<&str> = Vec::new();
        for (endpoint, address) in &self.egress {
            if !named.contains(&endpoint.host.as_str()) {
                named.push(&endpoint.host);
                args.option("--add-host", format!("{}:{address}", endpoint.host));
            }
        }
    }
}

/// One request to an agent: `program` runs with `arguments` and the container goes with it.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] for a path the engine cannot mount; so for all three.
pub fn one_shot(common: &Common, program: &str, arguments: &[OsString]) -> Result<Vec<OsString>> {
    let mut args = Args::run(["--rm", "--init"]);
    args.common(common, common.user)?;
    args.option("--entrypoint", program);
    args.word(&common.image);
    args.0.extend(arguments.iter().cloned());
    Ok(args.0)
}

/// A task's supervisor: detached, kept after its end so that its log and its exit code can be read.
pub fn supervisor(common: &Common, run: &Supervisor) -> Result<Vec<OsString>> {
    let mut args = Args::run(["--detach"]);
    // PID 1 has to be root to become the right user; what it starts is not.
    args.common(common, (0, 0))?;
    match common.engine {
        RunnerKind::Podman => {
            args.option("--log-driver", "k8s-file");
            args.option("--log-opt", "max-size=10mb");
        }
        _ => {
            args.option("--log-driver", "json-file");
            args.option("--log-opt", "max-size=10m");
            args.option("--log-opt", "max-file=2");
        }
    }
    args.option("--entrypoint", AGENT_PATH);
    args.word(&common.image);
    args.word("init");
    args.option("--protocol-dir", &run.protocol_dir);
    args.option("--worktree", &run.worktree);
    args.option("--runner", common.engine.as_str());
    args.option("--uid", common.user.0.to_string());
    args.option("--gid", common.user.1.to_string());
    if let Some(user) = &run.image_user {
        args.option("--image-user", user);
    }
    if run.link == Link::Socket {
        args.word("--link");
    }
    for (endpoint, address) in &common.reach.egress {
        args.option("--egress", format!("{endpoint}={address}"));
    }
    Ok(args.0)
}

/// An interactive builder on a terminal: `arguments` are for `lazy-agent builder`.
pub fn builder(common: &Common, arguments: &[OsString]) -> Result<Vec<OsString>> {
    let mut args = Args::run(["--rm", "--init", "--interactive", "--tty"]);
    args.common(common, common.user)?;
    args.option("--entrypoint", AGENT_PATH);
    args.word(&common.image);
    args.word("builder");
    args.0.extend(arguments.iter().cloned());
    Ok(args.0)
}

struct Args(Vec<OsString>);

impl Args {
    fn run<const N: usize>(how: [&str; N]) -> Args {
        Args(std::iter::once("run").chain(how).map(OsString::from).collect())
    }

    fn word(&mut self, word: impl AsRef<OsStr>) {
        self.0.push(word.as_ref().to_owned());
    }

    fn option(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.word(name);
        self.word(value);
    }

    fn common(&mut self, common: &Common, (uid, gid): (u32, u32)) -> Result<()> {
        // An image that is missing is lazy's to build, not the engine's to look for on the network.
        self.option("--pull", "never");
        self.option("--name", &common.name);
        self.option("--hostname", hostname(&common.name));
        for (key, value) in &common.labels {
            self.option("--label", format!("{key}={value}"));
        }
        self.option("--user", format!("{uid}:{gid}"));
        if common.quirks.shifts_users {
            self.option("--userns", "host");
        }
        if common.quirks.selinux {
            self.option("--security-opt", "label=disable");
        }
        common.reach.words(common.engine, self);
        self.option("--workdir", &common.workdir);
        for mount in &common.mounts {
            self.option("--mount", mount.argument(common.engine)?);
        }
        for name in &common.env {
            self.option("--env", name);
        }
        Ok(())
    }
}

/// A DNS label from a container's name.
fn hostname(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    name.chars().map(fit).take(63).collect::<String>().trim_matches('-').to_string()
}
