//! Which port the daemon listens on.

use tokio::net::TcpListener;

use crate::base::{Error, Kind, Result};
use crate::http::bind_window;
use crate::rpc::state_dir::{DEFAULT_PORT, PORT_WINDOW};

/// Where the search begins, and how many ports it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    first: u16,
    count: u16,
}

/// The configured port if it says something, else the last one, else the usual one. A configured port that is the usual
/// one says nothing: every project has it. Port 0 leaves the choice to the system.
fn window(configured: u16, remembered: Option<u16>) -> Window {
    match configured {
        0 => Window { first: 0, count: 1 },
        DEFAULT_PORT => Window { first: remembered.unwrap_or(DEFAULT_PORT), count: PORT_WINDOW },
        port => Window { first: port, count: PORT_WINDOW },
    }
}

/// Binds the first free port of the window; only a port in use makes it look further, in the end in the usual window if
/// this one began at a port that nobody asked for.
///
/// # Errors
/// [`Kind::Conflict`] when all are in use; as [`bind_window`] otherwise.
pub(super) async fn bind(host: &str, configured: u16, remembered: Option<u16>) -> Result<TcpListener> {
    let chosen = window(configured, remembered);
    let usual = window(configured, None);
    match search(host, chosen).await {
        Err(error) if error.kind() == Kind::Conflict && chosen != usual => search(host, usual).await,
        found => found,
    }
}

async fn search(host: &str, window: Window) -> Result<TcpListener> {
    bind_window(host, window.first, window.count).await.map_err(|error| match error.kind() {
        Kind::Conflict => Error::conflict(format!("the daemon cannot listen: {}", error.message()))
            .hint("lazy daemon kill-stray")
            .hint("lazy daemon list")
            .hint(format!("lsof -i :{}", window.first))
            .hint("or set another first port in lazy.toml: [server] port"),
        _ => error.context("the daemon cannot listen").hint("check [server] bind and port in lazy.toml"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_preference() {
        assert_eq!(window(DEFAULT_PORT, None), Window { first: 26024, count: 20 });
        assert_eq!(window(DEFAULT_PORT, Some(26030)), Window { first: 26030, count: 20 });
        assert_eq!(window(4000, Some(26030)), Window { first: 4000, count: 20 });
        assert_eq!(window(0, Some(26030)), Window { first: 0, count: 1 });
    }

    #[tokio::test]
    async fn a_full_window_says_how_to_find_who_is_in_it() {
        let taken = bind("127.0.0.1", 0, None).await.expect("any port");
        let first = taken.local_addr().expect("an address").port();
        let error = search("127.0.0.1", Window { first, count: 1 }).await.expect_err("taken");
        assert_eq!(error.kind(), Kind::Conflict);
        assert_eq!(error.hints()[..2], ["lazy daemon kill-stray", "lazy daemon list"]);
        let error = bind("192.0.2.1", 0, None).await.expect_err("not an address of this machine");
        assert_ne!(error.kind(), Kind::Conflict);
        assert!(error.hints().iter().all(|hint| !hint.contains("kill-stray")));
    }
}
