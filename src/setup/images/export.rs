//! The built-in Dockerfile as a file of the project, to be changed.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::{Error, Process, Result, files};
use crate::config::{Config, Project};
use crate::runner::image::BUILTIN;

/// What it is called unless told otherwise.
const NAME: &str = "Dockerfile.lazy";

/// What happens to a file that is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the export is refused.
    Keep,
    /// It is replaced.
    Replace,
}

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub path: PathBuf,
    /// What to write into lazy.toml so that it counts.
    pub setting: String,
}

/// Writes the built-in Dockerfile to `output`, by default `Dockerfile.lazy` at the project's root.
///
/// # Errors
/// [`crate::base::Kind::Conflict`] when there is such a file and it is to be kept; [`crate::base::Kind::Io`].
pub fn export(
    process: &Process,
    project: &Project,
    config: &Config,
    output: Option<&str>,
    existing: Existing,
) -> Result<Exported> {
    let path = output.map_or_else(|| project.root.join(NAME), |output| process.cwd().join(output));
    let taken = match path.symlink_metadata() {
        Ok(meta) => Some(meta),
        Err(source) if source.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(Error::io(format!("cannot look at {}", path.display()), source)),
    };
    match (taken, existing) {
        (Some(meta), _) if meta.is_dir() => {
            return Err(Error::conflict(format!("{} is a directory", path.display()))
                .hint(format!("lazy system export-dockerfile --output {}", path.join(NAME).display())));
        }
        (Some(_), Existing::Keep) => {
            return Err(Error::conflict(format!("{} is there already", path.display()))
                .hint("lazy system export-dockerfile --stdout")
                .hint("lazy system export-dockerfile --force"));
        }
        _ => {}
    }
    files::write_atomic(&path, dockerfile(project, config).as_bytes(), files::Mode::Shared)?;
    let named = path.strip_prefix(&project.root).unwrap_or(&path).display().to_string();
    Ok(Exported { path, setting: format!("[docker] dockerfile = {}", toml::Value::String(named)) })
}

/// The built-in Dockerfile for a build whose context is the project: the authorities come from the project's own file
/// where it has one, and from nowhere else.
pub fn dockerfile(project: &Project, config: &Config) -> String {
    const FROM_LAZY: &str = "COPY ca-certificates.pem /usr/local/share/lazy/ca-certificates.pem\n";
    const NOTE: &str =
        "# May be empty. What [docker] ca_certificates names is trusted from here on, in the build and in the image.\n";
    let named = Path::new(&config.docker.ca_certificates);
    let below = project.root.join(named).strip_prefix(&project.root).map(Path::to_path_buf).ok();
    let copied = match below.filter(|path| !path.as_os_str().is_empty() && !config.docker.ca_certificates.is_empty()) {
        Some(path) => {
            format!("COPY [{:?}, \"/usr/local/share/lazy/ca-certificates.pem\"]\n", path.display().to_string())
        }
        None => "RUN mkdir -p /usr/local/share/lazy && touch /usr/local/share/lazy/ca-certificates.pem\n".into(),
    };
    let note = "# Further authorities to trust: COPY a PEM file of this repository there instead.\n";
    let note =
        if copied.starts_with("COPY") { "# Trusted from here on, in the build and in the image.\n" } else { note };
    BUILTIN.replace(NOTE, note).replace(FROM_LAZY, &copied)
}
