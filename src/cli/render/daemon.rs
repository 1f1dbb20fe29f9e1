//! Daemons.

use std::time::Duration;

use super::sheet::Sheet;
use crate::base::text::pad_columns;
use crate::base::time::duration_text;
use crate::cli::style::Style;
use crate::rpc::state_dir::DaemonStatus;

/// Whether the running daemon is this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// The same bytes.
    Same,
    /// Another build.
    Other,
}

/// `lazy daemon status` of one that answers.
pub(crate) fn status(status: &DaemonStatus, build: Build, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    sheet
        .line(format!("Daemon is {}.", style.success("running")))
        .field("PID", status.pid.to_string())
        .field("Project", &status.project_root)
        .field("Web", format!("http://{}:{}", reachable(&status.bind_host), status.web_port))
        .maybe("Proxy", status.proxy.as_ref().map(|proxy| format!("{} → {}", proxy.address, proxy.upstream)))
        .field("Agents", format!("{}/{} running", status.agents.running, status.agents.limit))
        .field("Uptime", duration_text(Duration::from_millis(status.uptime)))
        .field("Version", &status.version)
        .field("Build", &status.binary_id);
    if build == Build::Other {
        sheet.field("STALE", style.warning("it runs another build than this command; lazy daemon restart"));
    }
    sheet.text()
}

/// An address a browser on this machine can open.
fn reachable(host: &str) -> &str {
    match host {
        "0.0.0.0" | "::" | "" => "127.0.0.1",
        host => host,
    }
}

/// Where the daemon's pages are.
pub(crate) fn url(status: &DaemonStatus) -> String {
    format!("http://{}:{}/", reachable(&status.bind_host), status.web_port)
}

/// `lazy daemon status` when none runs.
pub(crate) fn absent(startup_error: Option<&str>, style: Style) -> String {
    let mut out = String::from("Daemon is not running.\n");
    if let Some(reason) = startup_error {
        out.push_str(&format!("  {} {reason}\n", style.bold("Last start failed:")));
    }
    out.push_str(&format!("  {}\n", style.id("lazy daemon start")));
    out
}

/// `lazy daemon status` of one that holds the lock and does not answer.
pub(crate) fn silent(pid: Option<u32>, style: Style) -> String {
    let pid = pid.map_or_else(|| "unknown".into(), |pid| pid.to_string());
    format!("Daemon is {} (pid {pid}).\n  {}\n", style.error("ALIVE but UNRESPONSIVE"), style.id("lazy daemon restart"))
}

/// One state directory on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The process, when one holds the lock.
    pub pid: Option<u32>,
    /// Its port.
    pub port: Option<u16>,
    /// What it answered.
    pub status: Option<DaemonStatus>,
    /// The project it serves.
    pub root: String,
    /// Whether that directory is still there.
    pub root_exists: bool,
}

/// `lazy daemon list`: the live ones, and how many directories have none.
pub(crate) fn list(rows: &[Row], dead: usize, style: Style) -> String {
    let mut out = String::new();
    if rows.is_empty() {
        out.push_str("No daemon is running.\n");
    } else {
        let columns = [("PID", 8), ("PORT", 6), ("VERSION", 10), ("AGE", 10)];
        let head: Vec<String> = columns.iter().map(|(name, width)| pad_columns(name, *width)).collect();
        out.push_str(&format!("{} {}\n", style.bold(head.join(" ")), style.bold("PROJECT")));
    }
    for row in rows {
        let version = row.status.as_ref().map_or("-", |status| status.version.as_str());
        let age = row.status.as_ref().map_or_else(|| "-".into(), |s| duration_text(Duration::from_millis(s.uptime)));
        let stray = if row.root_exists { String::new() } else { style.warning(" (stray — root missing)") };
        out.push_str(&format!(
            "{} {} {} {} {}{stray}\n",
            pad_columns(&row.pid.map_or_else(|| "-".into(), |pid| pid.to_string()), 8),
            pad_columns(&row.port.map_or_else(|| "-".into(), |port| port.to_string()), 6),
            pad_columns(version, 10),
            pad_columns(&age, 10),
            row.root
        ));
    }
    if dead > 0 {
        out.push_str(&style.dim(format!("{dead} state directories belong to projects that are gone")));
        out.push_str(&format!("\n{}\n", style.id("lazy daemon kill-stray --prune-dirs")));
    }
    out
}
