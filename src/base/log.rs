//! Logging: `tracing` to one file (daemon, supervisor) or to standard error (`LAZY_LOG`), never to standard output.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use super::{Process, Result, ResultExt};

/// Sends log lines to standard error when `LAZY_LOG` is set (`debug`, or a filter such as `lazy::proxy=trace`).
pub fn to_stderr(process: &Process) {
    let Some(filter) = process.var("LAZY_LOG") else { return };
    tracing_subscriber::registry()
        .with(EnvFilter::new(filter))
        .with(fmt::layer().with_ansi(false).with_writer(std::io::stderr))
        .try_init()
        .ok();
}

/// Appends log lines to `path`; the level is `info` unless `LAZY_LOG` says otherwise.
pub fn to_file(process: &Process, path: &Path) -> Result<()> {
    if let Some(parent) = path.parent() {
        super::files::create_dir(parent)?;
    }
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .io_context(|| format!("cannot open the log file {}", path.display()))?;
    tracing_subscriber::registry()
        .with(EnvFilter::new(process.var("LAZY_LOG").unwrap_or("info")))
        .with(fmt::layer().with_ansi(false).with_writer(Mutex::new(file)))
        .try_init()
        .ok();
    Ok(())
}
