//! Named places at which a test can stop the process to kill it there.
//!
//! With `LAZY_CHECKPOINT=<name>[:<n>]` in the environment, the n-th time (default 1) that the named place is reached the
//! process writes `checkpoint <name>` to the file `LAZY_CHECKPOINT_FILE` and sleeps for ever, so that a test can send
//! it SIGKILL at exactly that point. Without the variable a checkpoint is one atomic load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

struct Armed {
    name: String,
    left: AtomicU32,
    marker: std::path::PathBuf,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

/// Arms the checkpoint that the environment names. Called once at start-up with the process's own environment.
pub fn arm(name_and_count: Option<&str>, marker: Option<&std::path::Path>) {
    let armed = name_and_count.zip(marker).map(|(text, marker)| {
        let (name, count) = text.rsplit_once(':').and_then(|(n, c)| Some((n, c.parse().ok()?))).unwrap_or((text, 1));
        Armed { name: name.to_string(), left: AtomicU32::new(count), marker: marker.to_path_buf() }
    });
    ARMED.set(armed).ok();
}

/// Marks a place a crash test can stop at.
pub fn reach(name: &str) {
    let Some(Some(armed)) = ARMED.get() else { return };
    if armed.name == name && armed.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        std::fs::write(&armed.marker, format!("checkpoint {name}\n")).ok();
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}
