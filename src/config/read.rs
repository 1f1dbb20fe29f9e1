//! From the parsed file to a checked [`Config`]: every section, every key, every validation.

use std::collections::BTreeSet;
use std::path::Path;

use globset::Glob;
use toml::de::DeValue;

use super::mounts;
use super::reader::{Named, Section};
use super::schema::{
    Agent, Backend, Chattiness, Config, Daemon, Docs, Fallback, FallbackCredential, Mount, MountKind, Network, Ollama,
    Proxy, Remote, Role, Runner, StorageBackend,
};
use super::urls;
use crate::base::Result;
use crate::model::RunnerKind;
use crate::model::exchange::Maintain;
use crate::model::link::{Endpoint, HOST_NAME};

/// Reads the whole file.
///
/// # Errors
/// [`crate::base::Kind::Config`] for the first value that is not legal, naming the key and what is.
pub(super) fn config(file: &mut Section<'_, '_>) -> Result<Config> {
    let mut config = Config::default();
    models(file, &mut config)?;
    work(file, &mut config)?;
    storage(file, &mut config)?;
    agent(file.section("agent")?, &mut config.agent)?;

    let mut section = file.section("builder")?;
    section.choice("effort", &mut config.builder.effort)?;
    section.finish();

    let mut section = file.section("chattiness")?;
    for (key, level) in [
        ("default", &mut config.chattiness.default),
        ("builder", &mut config.chattiness.builder),
        ("agent", &mut config.chattiness.agent),
    ] {
        section.optional_choice::<Chattiness>(key, level)?;
    }
    section.finish();

    let mut section = file.section("server")?;
    section.integer("port", 0..=u16::MAX, &mut config.server.port)?;
    section.text("bind", &mut config.server.bind)?;
    section.integer("sync_interval", 0..=A_YEAR, &mut config.server.sync_interval)?;
    section.finish();

    runner(file.section("runner")?, &mut config.runner)?;
    remote(file.section("remote")?, &mut config.remote)?;

    let mut section = file.section("docker")?;
    for (key, path) in
        [("dockerfile", &mut config.docker.dockerfile), ("ca_certificates", &mut config.docker.ca_certificates)]
    {
        section.text(key, path)?;
        *path = expand_home(&section, key, path)?;
    }
    section.finish();

    proxy(file.section("proxy")?, &mut config.proxy)?;
    docs(file.section("docs")?, &mut config.docs)?;
    for entry in file.entries("mounts")? {
        config.mounts.push(mount(entry)?);
    }
    features(file.section("features")?, &mut config)?;
    automation(file, &mut config)?;
    limits(file, &mut config)?;
    daemon(file.section("daemon")?, &mut config.daemon)?;
    Ok(config)
}

/// No interval in seconds or milliseconds is longer; keeps every sum far from overflow.
const A_YEAR: u64 = 366 * 24 * 3600;
const A_YEAR_MS: u64 = A_YEAR * 1000;
/// No count or number of minutes is larger.
const MANY: u32 = 1_000_000;

fn models(file: &mut Section<'_, '_>, config: &mut Config) -> Result<()> {
    let mut section = file.section("ollama")?;
    let ollama = &mut config.ollama;
    section.flag("enabled", &mut ollama.enabled)?;
    section.text("model", &mut ollama.model)?;
    section.text("endpoint", &mut ollama.endpoint)?;
    ollama.endpoint = urls::from_host(&section, "endpoint", "[ollama] endpoint", &ollama.endpoint)?;
    if ollama.enabled && ollama.model.trim().is_empty() {
        return Err(section.fail("model", "must name a model while enabled = true"));
    }
    section.finish();

    let mut section = file.section("models")?;
    if let Some(model) = section.filled_text("default")? {
        config.models.default = model;
    }
    let mut roles = section.section("roles")?;
    let follow = match &config.ollama {
        Ollama { enabled: false, .. } => Role::default(),
        Ollama { model, endpoint, .. } => {
            Role { backend: Backend::Ollama, model: model.clone(), endpoint: endpoint.clone() }
        }
    };
    config.models.roles.builder = role(roles.section("builder")?, "builder", &follow)?;
    config.models.roles.agent = role(roles.section("agent")?, "agent", &follow)?;
    roles.finish();
    section.finish();
    Ok(())
}

fn role(mut section: Section<'_, '_>, name: &str, otherwise: &Role) -> Result<Role> {
    let mut role = Role::default();
    section.choice("backend", &mut role.backend)?;
    section.text("model", &mut role.model)?;
    section.text("endpoint", &mut role.endpoint)?;
    if !section.present() {
        return Ok(otherwise.clone());
    }
    if role.backend != Backend::Anthropic && role.model.trim().is_empty() {
        let why = format!("must name a model: the backend {} of the role {name} knows no default", role.backend.name());
        return Err(section.fail("model", &why));
    }
    role.endpoint = match role.backend {
        Backend::Anthropic => String::new(),
        Backend::Ollama if role.endpoint.is_empty() => Ollama::ENDPOINT.into(),
        _ => urls::from_host(&section, "endpoint", &format!("[models.roles.{name}] endpoint"), &role.endpoint)?,
    };
    section.finish();
    Ok(role)
}

fn work(file: &mut Section<'_, '_>, config: &mut Config) -> Result<()> {
    let mut section = file.section("session")?;
    section.flag("verbose", &mut config.session.verbose)?;
    section.flag("debug", &mut config.session.debug)?;
    section.flag("auto_commit_instructions", &mut config.session.auto_commit_instructions)?;
    section.finish();

    let mut section = file.section("data")?;
    if let Some(path) = section.filled_text("path")? {
        let inside = Path::new(&path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !inside {
            return Err(section.fail("path", "must be a directory below the project root, such as \".lazy\""));
        }
        config.data.path = path.trim_end_matches('/').to_string();
    }
    section.finish();

    let mut section = file.section("git")?;
    if let Some(prefix) = section.filled_text("default_branch_prefix")? {
        if !branch_part(&prefix) {
            return Err(section.fail("default_branch_prefix", "is not a name that git accepts in a branch"));
        }
        config.git.default_branch_prefix = prefix;
    }
    section.choice("lfs_check", &mut config.git.lfs_check)?;
    section.finish();

    let mut section = file.section("output")?;
    if let Some(length) = section.optional_integer("shortid_length", 4..=32_u8)? {
        config.output.shortid_length = usize::from(length);
    }
    section.finish();

    let mut section = file.section("documents")?;
    section.text("path", &mut config.documents.path)?;
    config.documents.path = expand_home(&section, "path", &config.documents.path)?;
    section.finish();

    let mut section = file.section("worktree")?;
    globs(&mut section, "include", &mut config.worktree.include)?;
    section.finish();

    let mut section = file.section("permissions")?;
    globs(&mut section, "protected", &mut config.permissions.protected)?;
    section.finish();

    let mut section = file.section("protection")?;
    let protection = &mut config.protection;
    section.flag("enabled", &mut protection.enabled)?;
    section.flag("gate_default_branch", &mut protection.gate_default_branch)?;
    section.texts("protected_branches", &mut protection.protected_branches)?;
    section.texts("protected_tasks", &mut protection.protected_tasks)?;
    section.finish();

    let mut section = file.section("checks")?;
    section.text("post_turn", &mut config.checks.post_turn)?;
    section.integer("post_turn_timeout", 1..=A_YEAR, &mut config.checks.post_turn_timeout)?;
    section.finish();

    let mut section = file.section("memory")?;
    section.integer("warn_bytes", 1..=u64::from(u32::MAX), &mut config.memory.warn_bytes)?;
    section.finish();
    Ok(())
}

fn storage(file: &mut Section<'_, '_>, config: &mut Config) -> Result<()> {
    let mut section = file.section("storage")?;
    section.choice::<StorageBackend>("backend", &mut config.storage.backend)?;
    section.text("external_path", &mut config.storage.external_path)?;
    config.storage.external_path = expand_home(&section, "external_path", &config.storage.external_path)?;
    section.flag("postgres_ssl", &mut config.storage.postgres_ssl)?;
    section.finish();
    Ok(())
}

fn agent(mut section: Section<'_, '_>, agent: &mut Agent) -> Result<()> {
    if let Some(id) = section.optional_text("agent_id")? {
        if !Agent::IDS.contains(&id.as_str()) {
            return Err(section.fail("agent_id", &format!("must be one of {}, not {id:?}", Agent::IDS.join(", "))));
        }
        agent.agent_id = id;
    }
    section.integer("watchdog_output_timeout_ms", 0..=A_YEAR_MS, &mut agent.watchdog_output_timeout_ms)?;
    section.integer("wind_down_timeout_ms", 0..=A_YEAR_MS, &mut agent.wind_down_timeout_ms)?;
    section.choice("effort", &mut agent.effort)?;
    section.finish();
    Ok(())
}

fn runner(mut section: Section<'_, '_>, runner: &mut Runner) -> Result<()> {
    section.choice("type", &mut runner.kind)?;
    section.choice("permission_mode", &mut runner.permission_mode)?;
    section.texts("sandbox_allowed_domains", &mut runner.sandbox_allowed_domains)?;
    section.texts("sandbox_deny_read", &mut runner.sandbox_deny_read)?;
    section.texts("sandbox_deny_write", &mut runner.sandbox_deny_write)?;
    section.flag("sandbox_allow_weaker_nested", &mut runner.sandbox_allow_weaker_nested)?;
    network(&mut section, runner, std::env::consts::OS)?;
    section.finish();
    Ok(())
}

/// How many hosts there are loopback addresses for in a container.
const EGRESS_HOSTS: usize = 254;

fn network(section: &mut Section<'_, '_>, runner: &mut Runner, system: &str) -> Result<()> {
    section.choice("network", &mut runner.network)?;
    let mut allowed = Vec::new();
    section.texts("egress_allow", &mut allowed)?;
    for text in allowed {
        let endpoint = text.parse::<Endpoint>().map_err(|error| section.fail("egress_allow", error.message()))?;
        if endpoint.host == "localhost" || endpoint.host.ends_with(".localhost") {
            let why = format!("{text:?} is the container itself; for this machine write {HOST_NAME}:{}", endpoint.port);
            return Err(section.fail("egress_allow", &why));
        }
        if !runner.egress_allow.contains(&endpoint) {
            runner.egress_allow.push(endpoint);
        }
    }
    let hosts: BTreeSet<&str> = runner.egress_allow.iter().map(|endpoint| endpoint.host.as_str()).collect();
    if hosts.len() > EGRESS_HOSTS {
        return Err(section.fail("egress_allow", &format!("names {} hosts; {EGRESS_HOSTS} are possible", hosts.len())));
    }
    match runner.network {
        Network::Open if !runner.egress_allow.is_empty() => {
            section.warn("[runner] egress_allow does nothing while network = \"open\"".into());
        }
        Network::ProxyOnly if system != "linux" => {
            let why = "\"proxy-only\" needs containers that share this machine's kernel, which is so on Linux only; \
                       write \"open\"";
            return Err(section.fail("network", why));
        }
        Network::ProxyOnly if runner.kind == RunnerKind::Host => {
            section.warn(
                "[runner] network = \"proxy-only\" applies to containers only: no such wall stands around host \
                 processes, which is what type says tasks run in"
                    .into(),
            );
        }
        Network::Open | Network::ProxyOnly => {}
    }
    Ok(())
}

fn remote(mut section: Section<'_, '_>, remote: &mut Remote) -> Result<()> {
    section.choice("driver", &mut remote.driver)?;
    if let Some(name) = section.filled_text("git_remote")? {
        remote.git_remote = name;
    }
    for (key, flag) in [
        ("auto_approve", &mut remote.auto_approve),
        ("offline", &mut remote.offline),
        ("github_auto_push", &mut remote.github_auto_push),
        (
            "github_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection",
            &mut remote.github_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection,
        ),
        ("gitlab_auto_push", &mut remote.gitlab_auto_push),
        (
            "gitlab_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection",
            &mut remote.gitlab_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection,
        ),
    ] {
        section.flag(key, flag)?;
    }
    section.finish();
    Ok(())
}

fn proxy(mut section: Section<'_, '_>, proxy: &mut Proxy) -> Result<()> {
    proxy.port = section.optional_integer("port", 1..=u16::MAX)?;
    section.text("bind", &mut proxy.bind)?;
    for (key, url) in [("upstream", &mut proxy.upstream), ("cursor_upstream", &mut proxy.cursor_upstream)] {
        section.text(key, url)?;
        *url = urls::checked(&section, key, url)?;
    }
    section.number("retry_after_threshold", &mut proxy.retry_after_threshold)?;
    for mut entry in section.entries("fallback")? {
        let upstream = entry.required_text("upstream")?;
        let mut fallback = Fallback {
            upstream: urls::checked(&entry, "upstream", &upstream)?,
            model: entry.filled_text("model")?,
            credential: FallbackCredential::None,
        };
        entry.choice("credential", &mut fallback.credential)?;
        entry.finish();
        proxy.fallback.push(fallback);
    }
    let mut policy = section.section("policy")?;
    policy.flag("enforce", &mut proxy.policy.enforce)?;
    policy.texts("connector_allowlist", &mut proxy.policy.connector_allowlist)?;
    policy.flag("deny_secret_path_reads", &mut proxy.policy.deny_secret_path_reads)?;
    globs(&mut policy, "deny_path_globs", &mut proxy.policy.deny_path_globs)?;
    policy.texts("egress_allowlist", &mut proxy.policy.egress_allowlist)?;
    policy.texts("deny_command_globs", &mut proxy.policy.deny_command_globs)?;
    policy.finish();
    section.finish();
    Ok(())
}

fn docs(mut section: Section<'_, '_>, docs: &mut Docs) -> Result<()> {
    if let Some(value) = section.value("url") {
        docs.url = match value.get_ref() {
            DeValue::Boolean(false) => None,
            DeValue::String(url) if url.trim().is_empty() => None,
            DeValue::String(url) => Some(urls::checked(&section, "url", url)?),
            other => return Err(section.wrong_kind("url", value, other, "an http(s) URL, \"\" or false")),
        };
    }
    section.finish();
    Ok(())
}

fn mount(mut entry: Section<'_, '_>) -> Result<Mount> {
    let mut kind = MountKind::Bind;
    entry.choice("type", &mut kind)?;
    let source = entry.filled_text("source")?;
    let name = entry.filled_text("name")?;
    let target = entry.required_text("target")?;
    let mut readonly = false;
    entry.flag("readonly", &mut readonly)?;
    if !target.starts_with('/') && !target.starts_with('{') {
        return Err(entry.fail("target", "must be absolute or start with {worktree} or {repo}"));
    }
    match kind {
        MountKind::Bind if source.is_none() => return Err(entry.fail("source", "is missing: a bind needs one")),
        MountKind::Bind if name.is_some() => {
            return Err(entry.fail("name", "is only for type = \"volume\"; delete it or change the type"));
        }
        MountKind::Volume if source.is_some() => {
            return Err(entry.fail("source", "is only for type = \"bind\"; a volume has a name at most"));
        }
        _ => {}
    }
    for (key, text) in [("source", source.as_deref()), ("target", Some(target.as_str()))] {
        if let Some(unknown) = text.and_then(mounts::unknown_placeholder) {
            return Err(
                entry.fail(key, &format!("has the placeholder {unknown}; only {{worktree}} and {{repo}} exist"))
            );
        }
    }
    let source = source.map(|source| expand_home(&entry, "source", &source)).transpose()?;
    if let Some(path) = source.as_deref().filter(|source| source.starts_with('/') && !source.contains('{'))
        && let Some(reason) = mounts::refused(entry.process(), Path::new(path))
    {
        return Err(entry.fail("source", &reason));
    }
    entry.finish();
    Ok(Mount { kind, source, name, target, readonly })
}

fn features(section: Section<'_, '_>, config: &mut Config) -> Result<()> {
    for (name, value) in section.free() {
        match value.get_ref() {
            DeValue::Boolean(flag) => config.features.insert(name.to_string(), *flag),
            other => return Err(section.wrong_kind(name, value, other, "true or false")),
        };
    }
    Ok(())
}

fn automation(file: &mut Section<'_, '_>, config: &mut Config) -> Result<()> {
    let mut section = file.section("automation")?;
    for mut entry in section.entries("maintain")? {
        let title = entry.required_text("title")?;
        let pattern = entry.required_text("pattern")?;
        if let Err(cause) = Glob::new(&pattern) {
            return Err(entry.fail("pattern", &format!("is not a glob: {}", cause.kind())));
        }
        let mut instructions = String::new();
        entry.text("instructions", &mut instructions)?;
        entry.finish();
        config.automation.maintain.push(Maintain { title, pattern, instructions });
    }
    let mut pre_accept = section.section("pre_accept")?;
    let into = &mut config.automation.pre_accept;
    pre_accept.flag("enabled", &mut into.enabled)?;
    pre_accept.texts("commands", &mut into.commands)?;
    pre_accept.integer("timeout", 1..=A_YEAR, &mut into.timeout)?;
    pre_accept.finish();
    section.finish();
    Ok(())
}

fn limits(file: &mut Section<'_, '_>, config: &mut Config) -> Result<()> {
    let mut section = file.section("limits")?;
    let limits = &mut config.limits;
    section.integer("max_concurrent_agents", 1..=MANY, &mut limits.max_concurrent_agents)?;
    section.integer("max_concurrent_builders", 1..=MANY, &mut limits.max_concurrent_builders)?;
    section.integer("idle_grace_minutes", 0..=MANY, &mut limits.idle_grace_minutes)?;
    section.integer("max_turns_without_human", 0..=MANY, &mut limits.max_turns_without_human)?;
    section.finish();
    Ok(())
}

fn daemon(mut section: Section<'_, '_>, daemon: &mut Daemon) -> Result<()> {
    section.flag("auto_react_ci", &mut daemon.auto_react_ci)?;
    section.flag("auto_react_comments", &mut daemon.auto_react_comments)?;
    section.integer("auto_react_max_retries", 0..=MANY, &mut daemon.auto_react_max_retries)?;
    section.choice("auto_react_backoff", &mut daemon.auto_react_backoff)?;
    section.integer("auto_react_daily_budget", 0..=MANY, &mut daemon.auto_react_daily_budget)?;
    section.integer("max_auto_turns", 0..=MANY, &mut daemon.max_auto_turns)?;
    section.flag("auto_resume", &mut daemon.auto_resume)?;
    section.integer("auto_resume_interval_minutes", 1..=MANY, &mut daemon.auto_resume_interval_minutes)?;
    section.integer("auto_resume_gap_minutes", 1..=MANY, &mut daemon.auto_resume_gap_minutes)?;
    section.integer("auto_resume_max_attempts", 1..=MANY, &mut daemon.auto_resume_max_attempts)?;
    section.finish();
    Ok(())
}

/// An array of globs that compile.
fn globs(section: &mut Section<'_, '_>, key: &'static str, into: &mut Vec<String>) -> Result<()> {
    section.texts(key, into)?;
    for pattern in into.iter() {
        if let Err(cause) = Glob::new(pattern) {
            return Err(section.fail(key, &format!("has {pattern:?}, which is not a glob: {}", cause.kind())));
        }
    }
    Ok(())
}

/// The path with a leading `~/` (or a lone `~`) replaced by the home directory.
fn expand_home(section: &Section<'_, '_>, key: &str, path: &str) -> Result<String> {
    let Some(rest) = path.strip_prefix("~/").or_else(|| (path == "~").then_some("")) else {
        return Ok(path.to_string());
    };
    match section.process().home() {
        Ok(home) => Ok(home.join(rest).to_string_lossy().trim_end_matches('/').to_string()),
        Err(_) => Err(section.fail(key, "starts with ~/ but HOME is not set; write an absolute path")),
    }
}

/// Whether git accepts `name` as the first part of a branch name.
fn branch_part(name: &str) -> bool {
    let bad = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    let part_ok = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    !name.starts_with('-')
        && !name.contains(bad)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name.split('/').all(part_ok)
}
