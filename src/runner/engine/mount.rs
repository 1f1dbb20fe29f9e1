//! Mounts of a container, as values and as the engine's words.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::base::{Error, Result};
use crate::model::RunnerKind;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mount {
    /// A path of the host.
    Bind {
        /// On the host; it must exist.
        source: PathBuf,
        /// In the container.
        target: PathBuf,
        /// What the container may do there.
        access: Access,
    },
    /// A volume of the engine; without a name it goes with the container.
    Volume {
        /// Its name.
        name: Option<String>,
        /// In the container.
        target: PathBuf,
        /// What the container may do there.
        access: Access,
    },
    /// Nothing: what lies there on a wider mount is hidden.
    Hidden {
        /// In the container.
        target: PathBuf,
    },
}

/// What a container may do with a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

impl Mount {
    /// The same path inside and outside.
    pub fn same(path: &Path, access: Access) -> Mount {
        Mount::Bind { source: path.to_path_buf(), target: path.to_path_buf(), access }
    }

    /// A file or directory under another path inside, read-only.
    pub fn shown(source: &Path, target: &str) -> Mount {
        Mount::Bind { source: source.to_path_buf(), target: target.into(), access: Access::ReadOnly }
    }

    /// Where it is in the container.
    pub fn target(&self) -> &Path {
        match self {
            Mount::Bind { target, .. } | Mount::Volume { target, .. } | Mount::Hidden { target } => target,
        }
    }

    /// The value of the engine's `--mount`. Unlike `-v` it refuses a source that is missing, and takes colons.
    ///
    /// # Errors
    /// [`crate::base::Kind::Invalid`] for a path that the engine's syntax cannot name.
    pub fn argument(&self, engine: RunnerKind) -> Result<OsString> {
        let mut fields: Vec<OsString> = Vec::new();
        match self {
            Mount::Bind { source, target, access } => {
                fields.push("type=bind".into());
                fields.push(pair("source", source));
                fields.push(pair("target", target));
                fields.extend((*access == Access::ReadOnly).then(|| "readonly".into()));
            }
            Mount::Volume { name, target, access } => {
                fields.push("type=volume".into());
                fields.extend(name.as_ref().map(|name| pair("source", Path::new(name))));
                fields.push(pair("target", target));
                fields.extend((*access == Access::ReadOnly).then(|| "readonly".into()));
            }
            Mount::Hidden { target } => {
                fields.push("type=tmpfs".into());
                fields.push(pair("target", target));
                fields.push("tmpfs-size=1048576".into());
                // Podman would fill it with what it is to hide.
                fields.extend((engine == RunnerKind::Podman).then(|| "notmpcopyup".into()));
            }
        }
        let fields = fields.into_iter().map(|field| quoted(field, engine)).collect::<Result<Vec<_>>>()?;
        Ok(fields.join(OsString::from(",").as_os_str()))
    }
}

fn pair(key: &str, value: &Path) -> OsString {
    let mut text = OsString::from(key);
    text.push("=");
    text.push(value);
    text
}

/// A field of the comma-separated list.
fn quoted(field: OsString, engine: RunnerKind) -> Result<OsString> {
    let bytes = field.as_bytes();
    if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
        return Err(Error::invalid(format!("a line break in a path cannot be mounted: {}", field.to_string_lossy())));
    }
    if !bytes.iter().any(|byte| matches!(byte, b',' | b'"')) {
        return Ok(field);
    }
    if engine == RunnerKind::Podman {
        return Err(Error::invalid(format!(
            "podman cannot mount a path with a comma or a quote: {}",
            field.to_string_lossy()
        ))
        .hint("move the project to a path without them, or use the docker runner"));
    }
    let mut out = vec![b'"'];
    for byte in bytes {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
    Ok(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(mount: &Mount, engine: RunnerKind) -> String {
        mount.argument(engine).expect("fits").to_string_lossy().into_owned()
    }

    #[test]
    fn the_engines_words() {
        let same = Mount::same(Path::new("/a b:c"), Access::ReadWrite);
        assert_eq!(text(&same, RunnerKind::Docker), "type=bind,source=/a b:c,target=/a b:c");
        let shown = Mount::shown(Path::new("/a"), "/b");
        assert_eq!(text(&shown, RunnerKind::Podman), "type=bind,source=/a,target=/b,readonly");
        let volume =
            Mount::Volume { name: Some("deps".into()), target: "/w/node_modules".into(), access: Access::ReadWrite };
        assert_eq!(text(&volume, RunnerKind::Docker), "type=volume,source=deps,target=/w/node_modules");
        let hidden = Mount::Hidden { target: "/r/.lazy".into() };
        assert_eq!(text(&hidden, RunnerKind::Docker), "type=tmpfs,target=/r/.lazy,tmpfs-size=1048576");
        assert!(text(&hidden, RunnerKind::Podman).ends_with(",notmpcopyup"));
    }

    #[test]
    fn commas_and_quotes() {
        let odd = Mount::same(Path::new("/a,\"b"), Access::ReadOnly);
        assert_eq!(text(&odd, RunnerKind::Docker), "type=bind,\"source=/a,\"\"b\",\"target=/a,\"\"b\",readonly");
        assert!(odd.argument(RunnerKind::Podman).is_err());
        assert!(Mount::same(Path::new("/a\nb"), Access::ReadOnly).argument(RunnerKind::Docker).is_err());
    }
}
