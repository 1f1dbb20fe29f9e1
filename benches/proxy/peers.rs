//! What is measured: the upstream itself, lazy, and proxies that are installed.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lazy::base::Millis;
use lazy::proc::which;
use lazy::proxy::grants::Identity;
use lazy::proxy::{CallerRole, Grants};

use crate::world::{Result, Stopped, World, demo_settings, text};

/// How long a proxy may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(90);

/// One way to the upstream.
pub struct Peer {
    /// Its name in the tables.
    pub name: &'static str,
    /// Where it is asked.
    pub address: SocketAddr,
    /// What it is shown as the API key.
    pub key: String,
    /// What runs it, and ends with it.
    keeper: Keeper,
}

enum Keeper {
    Nobody,
    Process(Stopped),
    World(Box<World>),
}

impl Peer {
    /// The upstream itself.
    pub fn direct(upstream: SocketAddr) -> Peer {
        Peer { name: "direct", address: upstream, key: "sk-ant-bench-none".into(), keeper: Keeper::Nobody }
    }

    /// A fresh daemon of lazy's, its policy on as it is by default, with a placeholder granted to a task's agent.
    pub fn lazy(lazy: &Path, upstream: SocketAddr) -> Result<Peer> {
        let world = World::new(lazy, &demo_settings(&format!("http://{upstream}")), |_| Ok(()))?;
        let status: serde_json::Value = serde_json::from_str(&text(&mut world.lazy(&["daemon", "status", "--json"]))?)?;
        let address = status["proxy"]["address"].as_str().ok_or_else(|| format!("no proxy in {status}"))?;
        let address = address.trim_start_matches("http://").trim_end_matches('/').parse()?;
        let identity = Identity {
            role: CallerRole::Agent,
            task: Some("bench"),
            label: "bench",
            env_key: "ANTHROPIC_API_KEY",
            worktree: Some(&world.project()),
        };
        let grants = Grants::open(world.state_dir()?.join("proxy-tokens.json"))?;
        let key = grants.mint(identity, Millis(1_780_000_000_000))?.expose().to_string();
        Ok(Peer { name: "lazy", address, key, keeper: Keeper::World(Box::new(world)) })
    }

    /// nginx as a plain reverse proxy: connections kept, nothing buffered, nothing logged, as many workers as lazy has
    /// threads.
    pub fn nginx(dir: &Path, upstream: SocketAddr) -> Result<Option<Peer>> {
        let Some(program) = installed("nginx") else { return Ok(None) };
        let address = free_address()?;
        let prefix = dir.join("nginx");
        fs::create_dir_all(prefix.join("logs"))?;
        // Workers of a master that is root would run as a user who cannot write here.
        let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("  {kind}_temp_path {kind};\n"))
            .concat();
        let conf = format!(
            "{user}daemon off;\nworker_processes 2;\npid nginx.pid;\nerror_log logs/error.log;\n\
             events {{ worker_connections 2048; }}\n\
             http {{\n  access_log off;\n{temp}  keepalive_requests 100000000;\n  client_max_body_size 64m;\n  \
             client_body_buffer_size 1m;\n  \
             upstream model {{ server {upstream}; keepalive 256; keepalive_requests 100000000; }}\n  \
             server {{\n    listen {address};\n    location / {{\n      proxy_pass http://model;\n      \
             proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffering off;\n    }}\n  }}\n}}\n"
        );
        fs::write(prefix.join("nginx.conf"), conf)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(&prefix).args(["-c", "nginx.conf", "-e", "logs/error.log"]);
        Peer::started("nginx", address, dir, command).map(Some)
    }

    /// mitmproxy without a screen, its bodies streamed.
    pub fn mitmproxy(dir: &Path, upstream: SocketAddr) -> Result<Option<Peer>> {
        let Some(program) = installed("mitmdump") else { return Ok(None) };
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["--quiet", "--listen-host", "127.0.0.1", "--set", "stream_large_bodies=1", "--listen-port"]);
        command.arg(address.port().to_string()).args(["--mode", &format!("reverse:http://{upstream}")]);
        command.arg("--set").arg(format!("confdir={}", dir.join("mitmproxy").display()));
        Peer::started("mitmproxy", address, dir, command).map(Some)
    }

    /// LiteLLM's proxy, in the manner of its documentation: one model, the Messages API passed through.
    pub fn litellm(dir: &Path, upstream: SocketAddr) -> Result<Option<Peer>> {
        let Some(program) = installed("litellm") else { return Ok(None) };
        let address = free_address()?;
        let config = dir.join("litellm.yaml");
        let text = format!(
            "model_list:\n  - model_name: claude-opus-4-7\n    litellm_params:\n      model: anthropic/claude-opus-4-7\n      \
             api_base: http://{upstream}\n      api_key: sk-ant-bench-none\n"
        );
        fs::write(&config, text)?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&config).args(["--host", "127.0.0.1", "--port"]).arg(address.port().to_string());
        command.envs([
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true"),
            ("NO_PROXY", "127.0.0.1"),
        ]);
        Peer::started("LiteLLM", address, dir, command).map(Some)
    }

    /// Starts a proxy, which writes what it has to say into a file in `dir`, and waits until it listens.
    fn started(name: &'static str, address: SocketAddr, dir: &Path, mut command: Command) -> Result<Peer> {
        let said = dir.join(format!("{name}.log"));
        let log = fs::File::create(&said)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = Stopped(command.spawn()?);
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if child.0.try_wait()?.is_some() || begun.elapsed() > START_LIMIT {
                let said = fs::read_to_string(&said)?;
                let last: Vec<&str> = said.lines().skip(said.lines().count().saturating_sub(20)).collect();
                return Err(format!("{name} does not listen at {address}; its last words:\n{}", last.join("\n")).into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(Peer { name, address, key: "sk-ant-bench-none".into(), keeper: Keeper::Process(child) })
    }

    /// The processes that make it up; none for the upstream itself.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let pid = match &self.keeper {
            Keeper::Nobody => return Ok(Vec::new()),
            Keeper::Process(child) => child.0.id(),
            Keeper::World(world) => world.daemon_pid()?,
        };
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let children = children.split_whitespace().map(str::parse).collect::<std::result::Result<Vec<u32>, _>>()?;
        Ok([vec![pid], children].concat())
    }
}

/// Where a program is, if it is on the PATH or where Debian keeps servers.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    which(program, path).or_else(|| which(program, "/usr/sbin"))
}

/// An address of the loopback that nobody listens at.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
