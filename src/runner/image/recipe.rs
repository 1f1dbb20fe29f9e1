//! What goes into an image, and its hash.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::dockerfile;
use crate::base::{Error, Kind, Process, Result};
use crate::config::Config;
use crate::model::RunnerKind;

/// The built-in Dockerfile.
pub const BUILTIN: &str = include_str!("../../../assets/Dockerfile");
/// The repository of images made from it.
const RUNNER: &str = "lazy-runner";
/// The variable that names a Dockerfile before any configuration.
pub(super) const OVERRIDE: &str = "LAZY_DOCKERFILE_LAZY";
/// A Dockerfile or a list of authorities is not larger.
const FILE_LIMIT: u64 = 16 << 20;

/// Everything an image is made of. See [`Recipe::for_project`].
#[derive(Debug, Clone)]
pub struct Recipe {
    pub(super) origin: Origin,
    pub(super) text: String,
    pub(super) certificates: Vec<u8>,
    /// Build arguments that decide what the image holds.
    pub(super) args: Vec<(String, String)>,
    /// Variables that only decide how the network is reached: passed by name, not part of the hash.
    pub(super) network: Vec<String>,
    pub(super) context: Option<PathBuf>,
    pub(super) base: Option<Box<Recipe>>,
    pub(super) agent: String,
    pub(super) data_dir: String,
    hash: String,
}

/// Which Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The one in this executable.
    BuiltIn,
    /// The one `[docker] dockerfile` names, absolute.
    Configured(PathBuf),
    /// The one `LAZY_DOCKERFILE_LAZY` names, absolute.
    Override(PathBuf),
}

impl Recipe {
    /// The recipe for a project: `LAZY_DOCKERFILE_LAZY` before `[docker] dockerfile` before the built-in one. Relative
    /// paths start at the project's root, never at a task's worktree.
    ///
    /// # Errors
    /// [`Kind::Config`] when the Dockerfile or the file of authorities named is missing, is no text, lies in a task's
    /// worktree, or holds no certificate; the message names the variable or the key.
    pub fn for_project(process: &Process, config: &Config, project_root: &Path, agent_id: &str) -> Result<Recipe> {
        let origin = origin(process, config, project_root)?;
        let certificates = certificates(config, project_root)?;
        let builtin = Recipe::assemble(process, Origin::BuiltIn, BUILTIN.into(), certificates.clone(), agent_id);
        let (what, path) = match &origin {
            Origin::BuiltIn => return Ok(builtin.with_args(process)),
            Origin::Configured(path) => ("[docker] dockerfile".to_string(), path.clone()),
            Origin::Override(path) => (OVERRIDE.to_string(), path.clone()),
        };
        let bytes = read(&path, &what)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::new(Kind::Config, format!("{what}: {} is not UTF-8 text", path.display())))?;
        let from_ours = dockerfile::bases(&text).iter().any(|image| is_ours(image));
        let mut recipe = Recipe::assemble(process, origin, text, certificates, agent_id);
        recipe.context = Some(project_root.to_path_buf());
        recipe.data_dir = config.data.path.clone();
        // What the base holds is the person's own business: only the agents' Dockerfile must have the agent.
        recipe.base = from_ours.then(|| Box::new(Recipe { agent: String::new(), ..builtin.with_args(process) }));
        recipe.hash = recipe.hashed();
        Ok(recipe)
    }

    /// Which Dockerfile it is.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The Dockerfile's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The repository, without a tag: `lazy-runner`, `lazy-custom-<12 hex>`.
    pub fn repository(&self) -> String {
        match self.origin {
            Origin::BuiltIn => RUNNER.into(),
            _ => custom_repository(self.text.as_bytes()),
        }
    }

    /// The name of the image as people say it: `lazy-runner:0.1`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.repository(), version())
    }

    /// The name as this engine is told it; podman's own images are below `localhost/`, and a bare name might be looked
    /// up in a registry.
    pub fn reference(&self, engine: RunnerKind) -> String {
        qualified(engine, &self.name())
    }

    /// 64 hex digits over everything that decides what the image holds.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What the label says of where it comes from.
    pub(super) fn origin_label(&self) -> String {
        match &self.origin {
            Origin::BuiltIn => "built-in".into(),
            Origin::Configured(path) | Origin::Override(path) => path.display().to_string(),
        }
    }

    /// The programs that an image of it must have.
    pub(super) fn programs(&self) -> Vec<&'static str> {
        let mut programs = vec!["git"];
        match self.agent.as_str() {
            "claude-code" => programs.push("claude"),
            "cursor" => programs.push("cursor-agent"),
            // The demo agent is lazy itself; a base is not what agents run in.
            _ => {}
        }
        programs
    }

    fn assemble(process: &Process, origin: Origin, text: String, certificates: Vec<u8>, agent: &str) -> Recipe {
        let mut recipe = Recipe {
            origin,
            text,
            certificates,
            args: Vec::new(),
            network: network_variables(process),
            context: None,
            base: None,
            agent: agent.to_string(),
            data_dir: String::new(),
            hash: String::new(),
        };
        recipe.hash = recipe.hashed();
        recipe
    }

    /// With the arguments of the built-in Dockerfile: the registry that npm uses.
    fn with_args(mut self, process: &Process) -> Recipe {
        if let Some(registry) = process.var("npm_config_registry").or_else(|| process.var("NPM_CONFIG_REGISTRY")) {
            self.args.push(("NPM_REGISTRY".into(), registry.trim_end_matches('/').to_string()));
        }
        self.hash = self.hashed();
        self
    }

    fn hashed(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(self.text.as_bytes());
        part(&self.certificates);
        part(self.base.as_ref().map_or("", |base| base.hash.as_str()).as_bytes());
        for (name, value) in &self.args {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// The name of the image made from a Dockerfile with this text.
pub(super) fn custom_name(text: &[u8]) -> String {
    format!("{}:{}", custom_repository(text), version())
}

/// The name of the built-in image of this version.
pub(super) fn builtin_name() -> String {
    format!("{RUNNER}:{}", version())
}

fn custom_repository(text: &[u8]) -> String {
    format!("lazy-custom-{}", &blake3::hash(text).to_hex()[..12])
}

/// The version in tags: major and minor.
pub(super) fn version() -> String {
    let mut parts = env!("CARGO_PKG_VERSION").split('.');
    format!("{}.{}", parts.next().unwrap_or("0"), parts.next().unwrap_or("0"))
}

/// A name as an engine is told it.
pub(super) fn qualified(engine: RunnerKind, name: &str) -> String {
    match engine {
        RunnerKind::Podman => format!("localhost/{name}"),
        _ => name.to_string(),
    }
}

/// Whether a Dockerfile that starts from this image starts from the built-in one.
fn is_ours(image: &str) -> bool {
    let image = image.strip_prefix("localhost/").unwrap_or(image);
    match image.split_once(':') {
        None => image == RUNNER,
        Some((name, tag)) => name == RUNNER && (tag == "latest" || tag == version()),
    }
}

fn origin(process: &Process, config: &Config, root: &Path) -> Result<Origin> {
    if let Some(named) = process.var(OVERRIDE) {
        return Ok(Origin::Override(root.join(named)));
    }
    if config.docker.dockerfile.is_empty() {
        return Ok(Origin::BuiltIn);
    }
    let path = root.join(&config.docker.dockerfile);
    let worktrees = root.join(&config.data.path).join("worktrees");
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if path.starts_with(&worktrees) || real(&path).starts_with(real(&worktrees)) {
        return Err(Error::new(
            Kind::Config,
            format!("[docker] dockerfile: {} is in a task's worktree, where the agent could change it", path.display()),
        )
        .hint("name a file of the main checkout")
        .hint(format!("to try a branch's own once: export {OVERRIDE}={}", path.display())));
    }
    Ok(Origin::Configured(path))
}

fn certificates(config: &Config, root: &Path) -> Result<Vec<u8>> {
    if config.docker.ca_certificates.is_empty() {
        return Ok(Vec::new());
    }
    const WHAT: &str = "[docker] ca_certificates";
    let path = root.join(&config.docker.ca_certificates);
    let bytes = read(&path, WHAT)?;
    let begins = b"-----BEGIN CERTIFICATE-----";
    if !bytes.windows(begins.len()).any(|window| window == begins) {
        return Err(Error::new(Kind::Config, format!("{WHAT}: {} holds no certificate in PEM form", path.display()))
            .hint(format!("openssl x509 -inform der -in {0} -out {0}.pem", path.display())));
    }
    Ok(bytes)
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    let refuse = |why: String| Error::new(Kind::Config, format!("{what}: {} {why}", path.display()));
    let meta = fs::metadata(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => refuse("does not exist".into()).hint(match what {
            OVERRIDE => format!("unset {OVERRIDE}    # then: lazy daemon restart"),
            _ => format!("ls -l {}", path.parent().unwrap_or(path).display()),
        }),
        _ => refuse("cannot be read".into()).caused_by(source),
    })?;
    if !meta.is_file() {
        return Err(refuse("is not a file".into()));
    }
    if meta.len() > FILE_LIMIT {
        return Err(refuse(format!("has {} bytes, which is too many", meta.len())));
    }
    fs::read(path).map_err(|source| refuse("cannot be read".into()).caused_by(source))
}

/// Proxy variables that a build can use: a proxy on this machine's loopback is not one.
fn network_variables(process: &Process) -> Vec<String> {
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
    let names = names.iter().flat_map(|name| [name.to_string(), name.to_ascii_lowercase()]);
    let loopback = |value: &str| ["://localhost", "://127.", "://[::1]"].iter().any(|part| value.contains(part));
    names.filter(|name| process.var(name).is_some_and(|value| !loopback(value))).collect()
}

#[cfg(test)]
mod tests;
