//! The link: how a container reaches its daemon without a network.
//!
//! The daemon listens on a unix socket in a directory that is mounted into every container of its project. Inside, PID 1
//! listens on loopback and carries each connection over: it dials the socket, writes one line that says where the
//! connection is meant to go ([`LinkTarget::line`]), and copies bytes both ways. The daemon answers nothing to the line:
//! a target it refuses is a closed connection.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::{Error, Result, hash};

/// Where the directory with the socket is mounted in a container.
pub const LINK_DIR: &str = "/run/lazy/link";
/// The socket in it.
pub const LINK_SOCKET: &str = "link.sock";
/// The port, on loopback in a container, behind which the daemon is.
pub const DAEMON_PORT: u16 = 26_024;
/// The port, on loopback in a container, behind which the proxy is.
pub const PROXY_PORT: u16 = 26_025;
/// The longest line that names a target, its end included.
pub const LINE_LIMIT: usize = 300;

/// The name that means this machine to a container, also as the host of an [`Endpoint`].
pub const HOST_NAME: &str = "host.docker.internal";

/// The directory on the host that is mounted at [`LINK_DIR`]: `~/.lazy/link/<project>`.
pub fn host_dir(home: &Path, project_root: &Path) -> PathBuf {
    home.join(".lazy/link").join(hash::project_slug(project_root))
}

/// Where a connection through the link goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LinkTarget {
    /// The daemon's listener.
    Daemon,
    /// The proxy's listener.
    Proxy,
    /// Somewhere else, if the project allows it.
    Egress(Endpoint),
}

/// A host by name and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    /// A DNS name, in lower case.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

impl LinkTarget {
    /// The line that names it, with its end.
    pub fn line(&self) -> String {
        match self {
            LinkTarget::Daemon => "daemon\n".into(),
            LinkTarget::Proxy => "proxy\n".into(),
            LinkTarget::Egress(endpoint) => format!("egress {endpoint}\n"),
        }
    }

    /// Reads a line without its end; `None` when it names no target.
    pub fn parse(line: &str) -> Option<LinkTarget> {
        match line {
            "daemon" => Some(LinkTarget::Daemon),
            "proxy" => Some(LinkTarget::Proxy),
            other => other.strip_prefix("egress ")?.parse().ok().map(LinkTarget::Egress),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Endpoint> {
        let refuse = |why: &str| Error::invalid(format!("{text:?} is not a host and a port: {why}"));
        let (host, port) = text.rsplit_once(':').ok_or_else(|| refuse("write it as host:port"))?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| refuse("the port is 1 to 65535"))?;
        let host = host.to_ascii_lowercase();
        if host.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[') {
            return Err(refuse("a name is needed, not an address"));
        }
        let label = |label: &str| {
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            (1..=63).contains(&label.len())
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
                && edge(label.chars().next())
                && edge(label.chars().next_back())
        };
        if host.len() > 253 || !host.split('.').all(label) {
            return Err(refuse("the host is a DNS name without wildcards"));
        }
        Ok(Endpoint { host, port })
    }
}

impl TryFrom<String> for Endpoint {
    type Error = Error;

    fn try_from(text: String) -> Result<Endpoint> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> String {
        endpoint.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let npm = LinkTarget::Egress("Packages.example.com:443".parse().expect("fits"));
        for target in [LinkTarget::Daemon, LinkTarget::Proxy, npm] {
            let line = target.line();
            assert!(line.len() <= LINE_LIMIT);
            assert_eq!(LinkTarget::parse(line.trim_end()), Some(target));
        }
        for bad in ["", "Daemon", "egress", "egress x", "egress x:0", "daemon\n"] {
            assert_eq!(LinkTarget::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn endpoints_are_names_with_a_port() {
        for good in ["a:1", "a-b.example.com:65535", "host.docker.internal:5432"] {
            assert_eq!(good.parse::<Endpoint>().expect(good).to_string(), good);
        }
        for bad in
            ["a", "a:", ":1", "a:0", "a:65536", "*.b.c:1", "1.2.3.4:5", "[::1]:5", "a b:1", "-a:1", "a..b:1", "a.:1"]
        {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad}");
        }
    }
}
