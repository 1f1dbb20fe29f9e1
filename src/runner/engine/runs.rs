//! The container runner: a task's supervisor in a container that stays between turns.
//!
//! A container is found again by its name, which names run and project, and judged by a fingerprint of everything it was
//! launched with but image and binary: one that fits is used for the next turn as it is, so an upgrade leaves it alone;
//! one that does not fit (other mounts, another network posture) is replaced between turns.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OnceCell};

use super::argv::{self, Common, Link, Quirks, Reach, Supervisor};
use super::container::{self, Listed, is_taken};
use super::program::{Engine, LAUNCH};
use super::walls::{self, Place};
use crate::base::{Error, Process, Result, hash};
use crate::config::{self, Config, Network};
use crate::model::RunnerKind;
use crate::model::exchange::PROTOCOL_VERSION;
use crate::runner::image::{self, Image, Recipe};
use crate::runner::install::{Install, Installs};
use crate::runner::{LaunchSpec, RunState};

/// How long what was found ready stays so without being looked at again.
const FRESH: Duration = Duration::from_secs(5);
/// How long a list of containers may be shown again.
const SEEN: Duration = Duration::from_millis(1_500);
/// How long a container that no longer fits may take to end.
const REPLACED: Duration = Duration::from_secs(5);

/// Runs the tasks of one project in containers. Clones share what they know.
#[derive(Debug, Clone)]
pub struct EngineRunner(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    project_root: PathBuf,
    /// Two projects may have tasks of one name at the same time.
    suffix: String,
    owner: String,
    quirks: OnceCell<Quirks>,
    ready: Mutex<Option<(Instant, String, Ready)>>,
    seen: Mutex<Option<(Instant, HashMap<String, bool>)>>,
}

#[derive(Debug, Clone)]
struct Ready {
    install: Install,
    image: Image,
}

/// A launch that can no longer be refused for what lazy can check.
#[derive(Debug)]
pub enum Prepared {
    /// Its container stands and fits.
    Warm,
    /// A container is to be made.
    New {
        /// The engine's arguments.
        args: Vec<OsString>,
        /// Values for the names among them.
        env: Vec<(String, String)>,
        /// What the person should know.
        warnings: Vec<String>,
    },
}

impl EngineRunner {
    /// The runner of an engine for one project.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] without a home directory.
    pub fn new(engine: Engine, project_root: &Path) -> Result<EngineRunner> {
        let root = project_root.to_string_lossy();
        let base = config::mounts::daemon_base(engine.process())?;
        let owner = hash::content_id(format!("{}\n{root}", base.display()).as_bytes());
        Ok(EngineRunner(Arc::new(Inner {
            suffix: hash::slug_hash(&root),
            project_root: project_root.to_path_buf(),
            owner,
            engine,
            quirks: OnceCell::new(),
            ready: Mutex::default(),
            seen: Mutex::default(),
        })))
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The name of a run's container.
    pub fn container_name(&self, run: &str) -> String {
        format!("{run}-{}", self.0.suffix)
    }

    fn process(&self) -> &Process {
        self.0.engine.process()
    }

    /// Sees to it that a launch finds an image and the agent's side of lazy, unless the run's container stands already.
    /// This can take minutes; `say` hears of it.
    pub(in crate::runner) async fn require_ready(
        &self,
        config: &Config,
        agent_id: &str,
        run: Option<&str>,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<()> {
        if config.runner.network == Network::ProxyOnly && !cfg!(target_os = "linux") {
            return Err(Error::unavailable("[runner] network = \"proxy-only\" works on Linux only")
                .hint("set in lazy.toml: [runner] network = \"open\""));
        }
        if let Some(run) = run
            && self.state(run).await? == RunState::Running
        {
            return Ok(());
        }
        self.ready(config, agent_id, say).await.map(drop)
    }

    async fn ready(&self, config: &Config, agent_id: &str, say: &mut (dyn FnMut(&str) + Send)) -> Result<Ready> {
        let mut ready = self.0.ready.lock().await;
        if let Some((at, agent, found)) = &*ready
            && at.elapsed() < FRESH
            && agent == agent_id
        {
            return Ok(found.clone());
        }
        let recipe = Recipe::for_project(self.process(), config, &self.0.project_root, agent_id)?;
        let install = Installs::new(self.process())?.ensure().await?;
        let image = image::ensure(&self.0.engine, &recipe, &install, say).await?;
        let found = Ready { install, image };
        *ready = Some((Instant::now(), agent_id.to_string(), found.clone()));
        Ok(found)
    }

    /// Decides between the container that stands and a new one, and composes the new one's launch. A container that
    /// does not fit is gone afterwards.
    pub(in crate::runner) async fn prepare(
        &self,
        config: &Config,
        spec: &LaunchSpec,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Prepared> {
        let name = self.container_name(&spec.run);
        let quirks = *self.0.quirks.get_or_try_init(|| self.0.engine.quirks()).await?;
        let standing = self.0.engine.container(&name).await?;
        let env = environment(config, spec);
        let fingerprint = self.fingerprint(config, spec, quirks, &env)?;
        if let Some(container) = &standing {
            if container.running && container.fingerprint == fingerprint {
                return Ok(Prepared::Warm);
            }
            let grace = if container.running { REPLACED } else { Duration::ZERO };
            self.0.engine.end_container(&name, grace).await?;
        }
        let ready = self.ready(config, &spec.agent_id, say).await?;
        let mut common = self.common(config, spec, quirks, &env, &ready.install.path)?;
        common.image.clone_from(&ready.image.id);
        common.labels.push((container::LAUNCH.into(), fingerprint));
        let args = argv::supervisor(&common, &supervisor(spec, ready.image.user.clone()))?;
        Ok(Prepared::New { args, env, warnings: ready.image.warnings.clone() })
    }

    /// Starts the container of a prepared launch.
    pub(in crate::runner) async fn launch(&self, spec: &LaunchSpec, prepared: Prepared) -> Result<Vec<String>> {
        let Prepared::New { args, env, warnings } = prepared else { return Ok(Vec::new()) };
        let name = self.container_name(&spec.run);
        let run = || {
            let cmd = env.iter().fold(self.0.engine.cmd(&args, LAUNCH), |cmd, (key, value)| cmd.env(key, value));
            async {
                let output = self.0.engine.finished(cmd, LAUNCH).await?;
                match output.success() {
                    true => Ok(()),
                    false => Err(self.0.engine.refusal(&output, &format!("start the container {name}"))),
                }
            }
        };
        let mut started = run().await;
        if started.as_ref().is_err_and(is_taken) {
            self.0.engine.end_container(&name, Duration::ZERO).await?;
            started = run().await;
        }
        if let Err(error) = started {
            // One that was made but could not start would be in the way of the next.
            self.0.engine.end_container(&name, Duration::ZERO).await.ok();
            return Err(error.hint("lazy doctor"));
        }
        *self.0.seen.lock().await = None;
        Ok(warnings)
    }

    /// How a run is, asked now.
    pub async fn state(&self, run: &str) -> Result<RunState> {
        Ok(match self.0.engine.container(&self.container_name(run)).await? {
            None => RunState::Gone,
            Some(container) if container.running => RunState::Running,
            Some(container) => RunState::Exited {
                code: Some(container.exit_code),
                reason: container.out_of_memory.then(|| "the container ran out of memory".to_string()),
            },
        })
    }

    /// Whether a run lives, as of a moment ago: for showing, where one question to the engine has to do for many tasks.
    pub(in crate::runner) async fn seems_alive(&self, run: &str) -> Result<bool> {
        let mut seen = self.0.seen.lock().await;
        if seen.as_ref().is_none_or(|(at, _)| at.elapsed() >= SEEN) {
            let listed = self.containers().await?;
            let running = listed.into_iter().map(|container| (container.name, container.running)).collect();
            *seen = Some((Instant::now(), running));
        }
        let name = self.container_name(run);
        Ok(seen.as_ref().is_some_and(|(_, running)| running.get(&name) == Some(&true)))
    }

    /// Whether someone has a shell or another command in the run's container.
    pub(in crate::runner) async fn is_visited(&self, run: &str) -> Result<bool> {
        Ok(self.0.engine.container(&self.container_name(run)).await?.is_some_and(|container| container.visitors > 0))
    }

    pub(in crate::runner) async fn stop(&self, run: &str, grace: Duration) -> Result<()> {
        self.0.engine.end_container(&self.container_name(run), grace).await?;
        *self.0.seen.lock().await = None;
        Ok(())
    }

    pub(in crate::runner) async fn logs(&self, run: &str, lines: usize) -> Result<String> {
        self.0.engine.container_log(&self.container_name(run), lines).await
    }

    /// The task containers of this project's daemon, also those that ended.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn containers(&self) -> Result<Vec<Listed>> {
        let labels = [format!("{}={}", container::OWNER, self.0.owner), format!("{}=task", container::KIND)];
        self.0.engine.containers(&labels).await
    }

    /// The engine's arguments for a shell in a run's container: `exec …`, on a terminal or not.
    pub async fn shell_args(&self, run: &str, worktree: &Path, terminal: Terminal) -> Result<Vec<OsString>> {
        let quirks = *self.0.quirks.get_or_try_init(|| self.0.engine.quirks()).await?;
        let (uid, gid) = user(quirks);
        let mut args: Vec<OsString> = vec!["exec".into(), "--interactive".into()];
        if terminal == Terminal::Yes {
            args.push("--tty".into());
        }
        args.extend(["--user".into(), format!("{uid}:{gid}").into(), "--workdir".into(), worktree.into()]);
        args.push(self.container_name(run).into());
        args.extend(["sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"].map(OsString::from));
        Ok(args)
    }

    /// What stands around the agent, in words.
    pub(in crate::runner) fn posture(&self, config: &Config) -> String {
        let network = match config.runner.network {
            Network::Open => "network open".to_string(),
            Network::ProxyOnly => match config.runner.egress_allow.len() {
                0 => "no network but lazy's proxy and daemon".to_string(),
                1 => "no network but lazy's proxy and daemon and 1 endpoint".to_string(),
                count => format!("no network but lazy's proxy and daemon and {count} endpoints"),
            },
        };
        format!("{} container, repository read-only, refs out of reach, {network}", self.0.engine.kind())
    }

    /// Of everything that decides whether a standing container fits. Image and binary do not: they change with an
    /// upgrade, which leaves a living container alone.
    fn fingerprint(
        &self,
        config: &Config,
        spec: &LaunchSpec,
        quirks: Quirks,
        env: &[(String, String)],
    ) -> Result<String> {
        let common = self.common(config, spec, quirks, env, Path::new("/install"))?;
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(&PROTOCOL_VERSION.to_le_bytes());
        for argument in argv::supervisor(&common, &supervisor(spec, None))? {
            field(argument.as_encoded_bytes());
        }
        for (key, value) in env {
            field(key.as_bytes());
            field(value.as_bytes());
        }
        Ok(hasher.finalize().to_hex()[..32].to_string())
    }

    fn common(
        &self,
        config: &Config,
        spec: &LaunchSpec,
        quirks: Quirks,
        env: &[(String, String)],
        install: &Path,
    ) -> Result<Common> {
        let place = Place {
            project_root: &spec.project_root,
            data_dir: &spec.data_dir,
            worktree: &spec.worktree,
            git: &spec.git,
            protocol_dir: &spec.protocol_dir,
            mcp_config: &spec.mcp_config,
            install,
            link: spec.link_dir.as_deref(),
        };
        let label = |key: &str, value: &str| (key.to_string(), value.to_string());
        Ok(Common {
            engine: self.0.engine.kind(),
            name: self.container_name(&spec.run),
            labels: vec![
                label(container::KIND, "task"),
                label(container::OWNER, &self.0.owner),
                label(container::PROJECT, &spec.project_root.to_string_lossy()),
                label(container::TASK, &spec.task.to_string()),
                label(container::RUN, &spec.run),
            ],
            image: String::new(),
            mounts: walls::mounts(self.process(), config, &place)?,
            env: env.iter().map(|(key, _)| key.clone()).collect(),
            workdir: spec.worktree.clone(),
            user: user(quirks),
            reach: match config.runner.network {
                Network::Open => Reach::open(),
                Network::ProxyOnly => Reach::proxy_only(&config.runner.egress_allow),
            },
            quirks,
        })
    }
}

/// Whether a shell is on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// It is.
    Yes,
    /// Its streams are pipes or files.
    No,
}

fn supervisor(spec: &LaunchSpec, image_user: Option<String>) -> Supervisor {
    Supervisor {
        protocol_dir: spec.protocol_dir.clone(),
        worktree: spec.worktree.clone(),
        image_user,
        link: if spec.link_dir.is_some() { Link::Socket } else { Link::Network },
    }
}

/// The host's user, as a container sees it.
fn user(quirks: Quirks) -> (u32, u32) {
    match quirks.rootless {
        true => (0, 0),
        false => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    }
}

/// What a container's processes find in their environment: nothing of the daemon's own but what is named here.
fn environment(config: &Config, spec: &LaunchSpec) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = spec.env.iter().filter(|(_, value)| !value.is_empty()).cloned().collect();
    let mut set = |key: &str, value: &str| env.push((key.to_string(), value.to_string()));
    set("GIT_SSH_COMMAND", "ssh -o StrictHostKeyChecking=accept-new");
    let (name, email) = &spec.identity;
    let mut settings = vec![("gc.auto", "0"), ("safe.directory", "*")];
    settings.extend(name.as_deref().map(|name| ("user.name", name)));
    settings.extend(email.as_deref().map(|email| ("user.email", email)));
    set("GIT_CONFIG_COUNT", &settings.len().to_string());
    for (index, (key, value)) in settings.into_iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{index}"), key);
        set(&format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    if !config.docker.ca_certificates.is_empty() {
        set("NODE_EXTRA_CA_CERTS", walls::CA_PATH);
        // PID 1 adds the file to the system's bundle.
        for key in [
            "SSL_CERT_FILE",
            "GIT_SSL_CAINFO",
            "CURL_CA_BUNDLE",
            "REQUESTS_CA_BUNDLE",
            "PIP_CERT",
            "CARGO_HTTP_CAINFO",
            "AWS_CA_BUNDLE",
        ] {
            set(key, "/etc/ssl/certs/ca-certificates.crt");
        }
    }
    env
}

/// Whether this kind of runner is one of containers.
pub fn is_container(kind: RunnerKind) -> bool {
    kind != RunnerKind::Host
}
