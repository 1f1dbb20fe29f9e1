//! Where the bytes come from, and their id.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::base::{Error, Kind, Result, ResultExt};

/// A Linux build compiled in, for machines whose own executables do not run in a container.
#[cfg(embedded_agent)]
const EMBEDDED: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/lazy-agent")));
#[cfg(not(embedded_agent))]
const EMBEDDED: Option<&[u8]> = None;

/// Where the bytes come from.
#[derive(Debug, Clone, Default)]
pub(super) enum Source {
    /// The embedded build where there is one, else the running executable.
    #[default]
    Own,
    /// A file: another version's program, and the tests.
    File(PathBuf),
}

/// What an install must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// The first 16 hex of blake3.
    pub id: String,
    /// Bytes.
    pub size: u64,
}

impl Source {
    /// Whether this is the program itself, whose identity never changes while it runs.
    pub fn is_own(&self) -> bool {
        matches!(self, Source::Own)
    }

    /// The id and size of the bytes; for the program itself computed once per process, off the runtime.
    pub async fn identity(&self) -> Result<Identity> {
        static OWN: OnceLock<Identity> = OnceLock::new();
        if self.is_own()
            && let Some(known) = OWN.get()
        {
            return Ok(known.clone());
        }
        let source = self.clone();
        let identity = off_thread(move || identity_of(source.open()?)).await?;
        if self.is_own() {
            return Ok(OWN.get_or_init(|| identity).clone());
        }
        Ok(identity)
    }

    /// The bytes, from the start.
    pub fn open(&self) -> Result<Box<dyn Read + Send>> {
        match (self, EMBEDDED) {
            (Source::File(path), _) => {
                let file = File::open(path).io_context(|| format!("cannot read {}", path.display()))?;
                Ok(Box::new(file))
            }
            (Source::Own, Some(bytes)) => Ok(Box::new(bytes)),
            (Source::Own, None) if cfg!(target_os = "linux") => {
                let file = File::open("/proc/self/exe").io_context(|| "cannot read the running program".to_string())?;
                Ok(Box::new(file))
            }
            (Source::Own, None) => Err(Error::unavailable(
                "containers need a Linux build of lazy, and this executable has none inside",
            )
            .hint("build one on Linux with: make static; then here: LAZY_EMBED_AGENT=<path of that lazy> cargo build --release")),
        }
    }
}

/// Streams through the hash: the bytes are never in memory as a whole.
pub(super) fn identity_of(mut bytes: impl Read) -> Result<Identity> {
    let mut hasher = blake3::Hasher::new();
    let size = io::copy(&mut bytes, &mut hasher).io_context(|| "cannot read the program's bytes".to_string())?;
    Ok(Identity { id: hasher.finalize().to_hex()[..16].to_string(), size })
}

/// Runs work that reads or writes much where it blocks nobody.
pub(super) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|source| Error::new(Kind::Internal, "the work on the program's bytes broke off").caused_by(source))?
}
