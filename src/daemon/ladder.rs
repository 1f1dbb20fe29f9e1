//! Bringing the daemon up, rung by rung, and down again.
//!
//! Each rung either stands or refuses; what the rungs below it hold is let go again. A crash test can stop at each.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::access::{self, DaemonAccess};
use super::binary::BinaryId;
use super::claim::{self, Claim};
use super::dispatch::Operations;
use super::link::Link;
use super::loops::{self, Loops};
use super::router::{Front, Router};
use super::status::Facts;
use super::tools::ProjectTools;
use super::{Options, logfile, ports};
use crate::base::files::Mode;
use crate::base::{Error, Kind, Process, Result, ResultExt, checkpoint, files, log};
use crate::config::schema::Network;
use crate::config::{self, Config, Project};
use crate::forge::Forge;
use crate::git::Repo;
use crate::http::{Drain, Server, envelope};
use crate::model::link;
use crate::ops::{Access, Ctx, CtxParts, reconcile};
use crate::proxy::{CredentialSource, CredentialVar, EnvCredentials, Grants, Proxy, ProxyConfig};
use crate::rpc::StateDir;
use crate::rpc::state_dir::ProxyStatus;
use crate::rpc::tokens::Tokens;
use crate::store::Store;

/// How long running requests may take once the daemon ends.
const REQUESTS_END: Duration = Duration::from_secs(10);
/// How long a reconcile tick may take then.
const LOOPS_END: Duration = Duration::from_secs(5);
/// How long runs may take to end: TERM, a grace and KILL, with room to record it.
const RUNS_END: Duration = Duration::from_secs(20);
/// How long streams of the proxy may take, once their runs have ended.
const PROXY_END: Duration = Duration::from_secs(2);
/// How long connections of containers to elsewhere may take, once daemon and proxy are down.
const LINK_END: Duration = Duration::from_secs(1);

/// A daemon that is up.
pub(super) struct Daemon {
    server: Server,
    drain: Drain,
    loops: Loops,
    ctx: Ctx,
    proxy: Proxy,
    link: Option<Link>,
    end: Arc<Notify>,
    state: StateDir,
    /// Last: the pid file goes and the lock is let go when all else is down.
    claim: Arc<Claim>,
}

/// What stands below the listeners.
struct Ground {
    process: Process,
    state: StateDir,
    project: Project,
    config: Arc<Config>,
    credential: Option<&'static str>,
    claim: Arc<Claim>,
    repo: Repo,
    forge: Forge,
    store: Store,
    tokens: Arc<Tokens>,
    grants: Arc<Grants>,
    binary: BinaryId,
}

impl Daemon {
    /// Brings it up.
    ///
    /// # Errors
    /// What refused; then nothing is left of it but `startup-error` and the log.
    pub async fn start(process: &Process, options: &Options) -> Result<Daemon> {
        let root = canonical_root(&options.project_root)?;
        let state = StateDir::for_project(process, &root)?;
        files::create_private_dir(state.path())?;
        logfile::rotate(&state.log_path(), logfile::LIMIT, logfile::KEPT)?;
        log::to_file(process, &state.log_path())?;
        checkpoint::reach("daemon.log");
        let up = async { raise(ground(process, &state, &root).await?, Instant::now()).await };
        let daemon = up.await.inspect_err(|error| {
            // Of a daemon that serves it is not told that it failed to start.
            if !state.is_daemon_running() {
                claim::write_startup_error(&state, error);
            }
            tracing::error!(%error, "the daemon does not start");
        })?;
        files::remove_file(&state.startup_error_path()).ok();
        tracing::info!(root = %root.display(), url = daemon.url(), pid = std::process::id(), "ready");
        checkpoint::reach("daemon.ready");
        Ok(daemon)
    }

    /// `http://host:port`.
    pub fn url(&self) -> String {
        format!("http://{}", access::reachable(self.server.address()))
    }

    /// Resolves when a request asked for the end.
    pub async fn asked_to_end(&self) {
        self.end.notified().await;
    }

    /// Takes it down, in the order in which one thing needs another.
    pub async fn stop(self) {
        tracing::info!("ending");
        let Daemon { server, drain, loops, ctx, proxy, link, end: _, state, claim } = self;
        // First: what a container begins from now on waits for the next daemon instead of being cut off by this one.
        if let Some(link) = &link {
            link.close();
        }
        drain.begin(REQUESTS_END);
        // Side by side: a request may wait for the answer of a run, and a run for the answer of a request.
        let runs = async {
            loops.end(LOOPS_END).await;
            end_runs(&ctx).await;
        };
        tokio::join!(server.drained(), runs);
        checkpoint::reach("daemon.drained");
        // What a request started while the others were being ended.
        end_runs(&ctx).await;
        proxy.stop(PROXY_END).await;
        if let Some(link) = link {
            link.stop(LINK_END).await;
        }
        drop(ctx);
        files::remove_file(&state.startup_error_path()).ok();
        tracing::info!("ended");
        drop(claim);
    }
}

async fn end_runs(ctx: &Ctx) {
    if tokio::time::timeout(RUNS_END, reconcile::shutdown(ctx)).await.is_err() {
        tracing::error!("not every run could be ended in time; the next daemon takes them up");
    }
}

fn canonical_root(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|source| {
        Error::not_found(format!("the project {} is not there", path.display()))
            .caused_by(source)
            .hint("lazy daemon start --project <directory>")
    })
}

/// Configuration to store: everything that needs no listener.
async fn ground(process: &Process, state: &StateDir, root: &Path) -> Result<Ground> {
    let loaded = config::load_for_daemon(process, root)?;
    loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let config = Arc::new(loaded.config);
    checkpoint::reach("daemon.config");

    let credential = require_credential(process, &config)?;
    checkpoint::reach("daemon.credential");

    let claim = Arc::new(Claim::take(state).await?);
    let binary = BinaryId::compute(process);
    let tokens = Arc::new(Tokens::open(state.mcp_tokens_path())?);
    let grants = Arc::new(Grants::open(state.proxy_tokens_path())?);
    checkpoint::reach("daemon.lock");

    let repo = Repo::discover(process, root)?;
    if repo.root() != root {
        return Err(Error::invalid(format!("{} is not the root of a main checkout", root.display()))
            .hint(format!("lazy daemon start --project '{}'", repo.root().display())));
    }
    repo.require_commits()?;
    let forge = Forge::for_config(config.remote.driver.as_str())?;
    checkpoint::reach("daemon.repository");

    let project = Project::in_repo_with(root, &config);
    let store_root = project.storage_root(&config, process)?;
    claim::require_own_store(&store_root, root)?;
    let opener = process.clone();
    let store = tokio::task::spawn_blocking(move || Store::open(&opener, &store_root))
        .await
        .map_err(|source| Error::internal("opening the task store broke off").caused_by(source))??;
    checkpoint::reach("daemon.store");

    let (process, state) = (process.clone(), state.clone());
    Ok(Ground { process, state, project, config, credential, claim, repo, forge, store, tokens, grants, binary })
}

/// The variable of the credential that is there. Its value is only looked at for each request that needs it.
fn require_credential(process: &Process, config: &Config) -> Result<Option<&'static str>> {
    let present = EnvCredentials(process.clone()).credential().map(|found| found.var().name());
    if present.is_some() || config.ollama.enabled {
        return Ok(present);
    }
    let names = CredentialVar::ALL.map(CredentialVar::name).join(" nor ");
    Err(Error::unavailable(format!("the daemon has no credential for the model: neither {names} is set"))
        .hint("claude setup-token    # then: export CLAUDE_CODE_OAUTH_TOKEN=<what it printed>")
        .hint("or: export ANTHROPIC_API_KEY=<a key from the Anthropic console>")
        .hint("or a local model, in lazy.toml: [ollama] enabled = true")
        .hint("to look around without any: lazy demo"))
}

/// The listeners and what serves them. Whatever refuses here closes the ones before it.
async fn raise(ground: Ground, started: Instant) -> Result<Daemon> {
    let (proxy, kept) = start_proxy(&ground).await?;
    checkpoint::reach("daemon.proxy");
    let listening = async {
        let listener = listen(&ground).await?;
        let link = open_link(&ground, &listener, &proxy)?;
        Ok((listener, link))
    };
    match listening.await {
        Ok((listener, link)) => Ok(serve(ground, started, proxy, kept, listener, link)?),
        Err(error) => {
            proxy.stop(Duration::ZERO).await;
            Err(error)
        }
    }
}

/// Opens the link of this project's containers. Elsewhere than on Linux they reach the listeners through their engine.
fn open_link(ground: &Ground, listener: &TcpListener, proxy: &Proxy) -> Result<Option<Link>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let directory = link::host_dir(&ground.process.home()?, &ground.project.root);
    let daemon = listener.local_addr().io_context(|| "cannot read the address of the listener".into())?;
    let runner = &ground.config.runner;
    // With the open network they go there by themselves.
    let allow = if runner.network == Network::ProxyOnly { runner.egress_allow.clone() } else { Vec::new() };
    let link = Link::open(directory, access::reachable(daemon), access::reachable(proxy.address()), allow)?;
    checkpoint::reach("daemon.link");
    Ok(Some(link))
}

/// Starts the proxy where it was before if that can be: runs that outlived the last daemon look for it there.
async fn start_proxy(ground: &Ground) -> Result<(Proxy, bool)> {
    let audit = ground.project.data_dir.join("logs/proxy-audit.jsonl");
    let credential = Arc::new(EnvCredentials(ground.process.clone()));
    let settings = ProxyConfig::from_settings(&ground.config, audit, credential, ground.process.clone())?;
    let memory = ground.state.path().join("proxy-port");
    let before: Option<u16> = files::read_line_optional(&memory).and_then(|text| text.parse().ok());
    let again = before.filter(|_| settings.port.is_none());
    let first = ProxyConfig { port: settings.port.or(again), ..settings.clone() };
    let proxy = match Proxy::start(first, ground.grants.clone()).await {
        Err(error) if again.is_some() && error.kind() == Kind::Conflict => {
            tracing::warn!(%error, "the proxy moves to another port");
            Proxy::start(settings, ground.grants.clone()).await?
        }
        started => started?,
    };
    let port = proxy.address().port();
    if let Err(error) = files::write_atomic(&memory, port.to_string().as_bytes(), Mode::Private) {
        proxy.stop(Duration::ZERO).await;
        return Err(error);
    }
    Ok((proxy, before == Some(port)))
}

/// Binds the port and makes it known. Nothing is served yet: a connection waits in the queue for a moment.
async fn listen(ground: &Ground) -> Result<TcpListener> {
    let server = &ground.config.server;
    let listener = ports::bind(&server.bind, server.port, ground.state.port()).await?;
    let address = listener.local_addr().io_context(|| "cannot read the address of the listener".into())?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "[server] bind: the daemon is reachable from other machines");
    }
    claim::write_port(&ground.state, address.port())?;
    checkpoint::reach("daemon.port");
    let changed = access::retarget(&ground.state, address);
    tracing::info!(%address, changed, "listening");
    Ok(listener)
}

/// Serves; the only thing that can still refuse is the system.
fn serve(
    ground: Ground,
    started: Instant,
    proxy: Proxy,
    kept: bool,
    listener: TcpListener,
    link: Option<Link>,
) -> Result<Daemon> {
    let (drain, end, front) = (Drain::new(), Arc::new(Notify::new()), Arc::new(Front::default()));
    let server = Server::serve(listener, front.clone(), drain.clone())?;
    let Ground { process, state, project, config, credential, claim, repo, forge, store, tokens, grants, binary } =
        ground;
    let daemon_access: Arc<dyn Access> = Arc::new(DaemonAccess {
        process: process.clone(),
        state: state.clone(),
        tokens: tokens.clone(),
        grants,
        store: store.clone(),
        daemon: server.address(),
        proxy: proxy.address(),
        kept_proxy_address: kept,
        credential,
    });
    let root = project.root.clone();
    let parts = CtxParts { process, project, config, store, repo, forge, access: daemon_access, credential };
    let ctx = Ctx::new(parts);
    front.wire(Router {
        facts: Facts {
            started,
            instance_id: uuid::Uuid::new_v4().to_string(),
            project_root: root.to_string_lossy().into_owned(),
            address: server.address(),
            bind_host: ctx.config().server.bind.clone(),
            proxy: ProxyStatus {
                address: format!("http://{}", access::reachable(proxy.address())),
                upstream: proxy.upstream().to_string(),
            },
            agent_limit: ctx.config().limits.max_concurrent_agents,
            binary,
        },
        root,
        shared: claim.token().clone(),
        tokens,
        dispatch: Arc::new(Operations(ctx.clone())),
        tools: Arc::new(ProjectTools(ctx.clone())),
        drain: drain.clone(),
        end: end.clone(),
        heartbeat: envelope::INTERVAL,
    });
    let loops = start_loops(&ctx, &state, &claim, server.address().port());
    Ok(Daemon { server, drain, loops, ctx, proxy, link, end, state, claim })
}

fn start_loops(ctx: &Ctx, state: &StateDir, claim: &Arc<Claim>, port: u16) -> Loops {
    let mut loops = Loops::default();
    let (ticking, wishing) = (ctx.clone(), ctx.clone());
    loops.start(|end| async move {
        if let Err(error) = reconcile::first(&ticking).await {
            tracing::error!(%error, "what the last daemon left could not be looked at");
        }
        let tick = move || -> loops::Tick {
            let ctx = ticking.clone();
            Box::pin(async move { reconcile::tick(&ctx).await })
        };
        let wanted = move || {
            let ctx = wishing.clone();
            async move { ctx.reconcile_wanted().await }
        };
        loops::reconcile(tick, wanted, loops::INTERVAL, loops::STUCK, end).await;
    });
    let watching = ctx.clone();
    loops.start_endless(async move { reconcile::watch(&watching).await });
    let (log, claim) = (state.log_path(), claim.clone());
    loops.start_endless(async move {
        loop {
            tokio::time::sleep(loops::INTERVAL).await;
            claim.repair(port);
            if let Err(error) = logfile::rotate(&log, logfile::LIMIT, logfile::KEPT) {
                tracing::warn!(%error, "the log could not be rotated");
            }
        }
    });
    loops
}
