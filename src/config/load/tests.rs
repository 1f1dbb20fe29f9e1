//! The layers of the configuration, and what is refused in them.

use super::*;
use crate::base::Millis;
use crate::config::schema::{
    Backend, Backoff, Chattiness, Driver, FallbackCredential, LfsCheck, MountKind, Network, PermissionMode,
    StorageBackend,
};
use crate::model::{Effort, RunnerKind};
use proptest::prelude::*;
use std::fs;

fn process() -> Process {
    Process::fake(["lazy"], &[("HOME", "/home/u")], Path::new("/p"), Millis(0))
}

fn try_text(text: &str) -> Result<Loaded> {
    load_text(&process(), Path::new("/p/lazy.toml"), text)
}

fn loads(text: &str) -> Loaded {
    try_text(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The message of a refusal, which must be of the kind and carry place and hints.
fn refusal(text: &str) -> String {
    let error = try_text(text).expect_err(text);
    assert_eq!(error.kind(), Kind::Config, "{text}");
    assert!(error.message().starts_with("/p/lazy.toml:"), "{error}");
    assert!(error.hints().iter().any(|hint| hint.contains("lazy.toml.example")), "{error}");
    error.message().to_string()
}

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(loads(""), Loaded::default());
    assert_eq!(loads("\u{feff}# nothing\r\n").config, Config::default());
}

#[test]
fn every_field_of_the_schema_is_read() {
    let known = known_keys(&process());
    let json = serde_json::to_value(Config::default()).expect("serializes");
    let mut fields = Vec::new();
    leaves(&json, "", &mut fields);
    assert!(fields.len() > 80);
    for field in fields {
        assert!(known.contains(&field), "{field} is in the schema, but nothing reads it");
    }
}

fn leaves(value: &serde_json::Value, path: &str, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(value, &path, into);
            }
        }
        _ => into.push(path.to_string()),
    }
}

#[test]
fn values_of_every_section_arrive() {
    let loaded = loads(
        r#"
            permissions = { protected = ["a/**"] }
            session.verbose = true
            [models]
            default = "m"
            [models.roles.agent]
            backend = "proxy"
            model = "p"
            endpoint = "http://10.0.0.1:80/"
            [storage]
            backend = "postgres"
            external_path = "~/tasks"
            postgres_ssl = true
            [git]
            lfs_check = "warn"
            default_branch_prefix = "bots/lazy"
            [output]
            shortid_length = 12
            [agent]
            effort = "max"
            watchdog_output_timeout_ms = 0x10
            [builder]
            effort = "low"
            [chattiness]
            default = ""
            agent = "terse"
            [server]
            port = 0
            sync_interval = 0
            [runner]
            type = "podman"
            permission_mode = "bypass"
            sandbox_deny_read = ["~/x"]
            network = "open"
            egress_allow = []
            [remote]
            driver = "gitlab"
            gitlab_dangerously_sync_comments_in_public_repos_and_open_yourself_to_prompt_injection = true
            [docker]
            ca_certificates = "~/ca.pem"
            [proxy]
            port = 8766
            upstream = "https://gate.example//"
            retry_after_threshold = 2.5
            [[proxy.fallback]]
            upstream = "http://localhost:1/"
            [[proxy.fallback]]
            upstream = "https://api.anthropic.com"
            model = "h"
            credential = "anthropic"
            [docs]
            url = false
            [[mounts]]
            source = "fixtures"
            target = "{repo}/f"
            [[mounts]]
            type = "volume"
            target = "/v"
            readonly = true
            [features]
            anything = false
            [daemon]
            auto_react_backoff = "none"
            [[automation.maintain]]
            title = "docs"
            pattern = "docs/**"
            "#,
    );
    let config = &loaded.config;
    assert_eq!((loaded.unknown.len(), loaded.warnings.len()), (0, 0), "{:?}", loaded.unknown);
    assert!(config.session.verbose && config.storage.postgres_ssl);
    assert_eq!(config.permissions.protected, ["a/**"]);
    assert_eq!(config.models.roles.agent.backend, Backend::Proxy);
    assert_eq!(config.models.roles.agent.endpoint, "http://10.0.0.1:80");
    assert_eq!(config.models.roles.builder, Default::default());
    assert_eq!(config.storage.backend, StorageBackend::Postgres);
    assert_eq!(config.storage.external_path, "/home/u/tasks");
    assert_eq!((config.git.lfs_check, config.git.default_branch_prefix.as_str()), (LfsCheck::Warn, "bots/lazy"));
    assert_eq!((config.output.shortid_length, config.agent.watchdog_output_timeout_ms), (12, 16));
    assert_eq!((config.agent.effort, config.builder.effort), (Effort::Max, Effort::Low));
    assert_eq!((config.chattiness.default, config.chattiness.agent), (None, Some(Chattiness::Terse)));
    assert_eq!((config.runner.kind, config.runner.permission_mode), (RunnerKind::Podman, PermissionMode::Bypass));
    assert_eq!((config.remote.driver, config.server.port), (Driver::Gitlab, 0));
    assert_eq!(config.docker.ca_certificates, "/home/u/ca.pem");
    assert_eq!((config.proxy.port, config.proxy.retry_after_threshold), (Some(8766), 2.5));
    assert_eq!(config.proxy.upstream, "https://gate.example");
    assert_eq!(config.proxy.fallback[0].upstream, "http://localhost:1");
    assert_eq!(config.proxy.fallback[0].credential, FallbackCredential::None);
    assert_eq!(config.proxy.fallback[1].model.as_deref(), Some("h"));
    assert_eq!(config.docs.url, None);
    assert_eq!((config.mounts[0].kind, config.mounts[1].kind), (MountKind::Bind, MountKind::Volume));
    assert_eq!(config.daemon.auto_react_backoff, Backoff::None);
    assert_eq!(config.automation.maintain[0].instructions, "");
    assert!(loaded.present.contains("session.verbose") && !loaded.present.contains("session.debug"));
}

#[test]
fn each_illegal_value_is_refused_with_what_is_legal() {
    for (text, key, legal) in [
        ("[models]\ndefault = ''", "[models] default", "blank"),
        ("[models]\ndefault = 4", "[models] default", "a string, not 4"),
        ("[models.roles.agent]\nbackend = 'olama'", "backend", "did you mean \"ollama\""),
        ("[models.roles.agent]\nbackend = 'ollama'", "role agent", "must name a model"),
        ("[models.roles.builder]\nbackend = 'proxy'\nmodel = ' '", "role builder", "must name a model"),
        ("[models.roles.agent]\nbackend='ollama'\nmodel='m'\nendpoint='localhost:1'", "endpoint", "http://"),
        ("[ollama]\nenabled = true", "[ollama] model", "must name a model"),
        ("[session]\nverbose = 'yes'", "[session] verbose", "true or false, not the string \"yes\""),
        ("[data]\npath = '../x'", "[data] path", "below the project root"),
        ("[data]\npath = '/x'", "[data] path", "below the project root"),
        ("[storage]\nbackend = 'sqlite'", "[storage] backend", "external, postgres"),
        ("[git]\nlfs_check = 'on'", "[git] lfs_check", "refuse, warn, off"),
        ("[git]\ndefault_branch_prefix = 'a b'", "default_branch_prefix", "git accepts"),
        ("[output]\nshortid_length = 3", "shortid_length", "from 4 to 32, not 3"),
        ("[agent]\nagent_id = 'claude'", "[agent] agent_id", "claude-code, cursor, demo"),
        ("[agent]\neffort = 'huge'", "[agent] effort", "low, medium, high, xhigh, max"),
        ("[agent]\nwind_down_timeout_ms = -1", "wind_down_timeout_ms", "a whole number from 0"),
        ("[builder]\neffort = 'MAX'", "[builder] effort", "did you mean \"max\""),
        ("[chattiness]\nagent = 'silent'", "[chattiness] agent", "terse, normal, chatty"),
        ("[server]\nport = 70000", "[server] port", "from 0 to 65535, not 70000"),
        ("[server]\nport = '26024'", "[server] port", "not the string \"26024\""),
        ("[runner]\ntype = 'vm'", "[runner] type", "docker, podman, dangerously-host-process"),
        ("[runner]\npermission_mode = 'none'", "permission_mode", "sandbox, bypass"),
        ("[runner]\nsandbox_deny_read = ['a', ' ']", "sandbox_deny_read", "not blank"),
        ("[runner]\nsandbox_deny_write = 'a'", "sandbox_deny_write", "an array of strings"),
        ("[runner]\nnetwork = 'none'", "[runner] network", "open, proxy-only"),
        ("[runner]\negress_allow = 'a:1'", "[runner] egress_allow", "an array of strings"),
        ("[runner]\negress_allow = ['a']", "[runner] egress_allow", "host:port"),
        ("[runner]\negress_allow = ['a:1', '1.2.3.4:443']", "[runner] egress_allow", "not an address"),
        ("[runner]\negress_allow = ['*.a.b:443']", "[runner] egress_allow", "without wildcards"),
        ("[runner]\negress_allow = ['LocalHost:5432']", "egress_allow", "host.docker.internal:5432"),
        ("runner = 4", "runner", "a table, not 4"),
        ("[remote]\ndriver = 'gerrit'", "[remote] driver", "local, github, gitlab"),
        ("[remote]\noffline = 1", "[remote] offline", "true or false, not 1"),
        ("[proxy]\nport = 0", "[proxy] port", "from 1 to 65535"),
        ("[proxy]\nupstream = 'api.anthropic.com'", "[proxy] upstream", "http:// or https:// URL"),
        ("[proxy]\nretry_after_threshold = -1", "retry_after_threshold", "at least 0"),
        ("[proxy]\nretry_after_threshold = inf", "retry_after_threshold", "finite"),
        ("[proxy]\nretry_after_threshold = nan", "retry_after_threshold", "finite"),
        ("[[proxy.fallback]]\nmodel = 'm'", "[[proxy.fallback]] entry 1: upstream", "missing"),
        ("[[proxy.fallback]]\nupstream='http://a'\n[[proxy.fallback]]\nupstream=' '", "entry 2: upstream", "blank"),
        ("[[proxy.fallback]]\nupstream='http://a'\nmodel=''", "entry 1: model", "blank"),
        ("[[proxy.fallback]]\nupstream='http://a'\ncredential='x'", "entry 1: credential", "anthropic, none"),
        ("[proxy]\nfallback = 'x'", "[proxy] fallback", "array of tables"),
        ("[proxy]\nfallback = [1]", "[proxy] fallback", "array of tables"),
        ("[proxy.policy]\negress_allowlist = 'a'", "[proxy.policy] egress_allowlist", "an array"),
        ("[proxy.policy]\ndeny_path_globs = ['a[']", "deny_path_globs", "not a glob"),
        ("[docs]\nurl = 'docs'", "[docs] url", "http:// or https:// URL"),
        ("[docs]\nurl = true", "[docs] url", "\"\" or false"),
        ("[[mounts]]\nsource = 'a'", "[[mounts]] entry 1: target", "missing"),
        ("[[mounts]]\ntarget = '/a'", "[[mounts]] entry 1: source", "a bind needs one"),
        ("[[mounts]]\nsource='a'\ntarget='a'", "entry 1: target", "absolute"),
        ("[[mounts]]\nsource='a'\ntarget='/a'\nname='n'", "entry 1: name", "volume"),
        ("[[mounts]]\ntype='volume'\nsource='a'\ntarget='/a'", "entry 1: source", "bind"),
        ("[[mounts]]\ntype='volume'\nname=''\ntarget='/a'", "entry 1: name", "blank"),
        ("[[mounts]]\ntype='tmpfs'\ntarget='/a'", "entry 1: type", "bind, volume"),
        ("[[mounts]]\nsource='{home}/a'\ntarget='/a'", "entry 1: source", "{home}"),
        ("[[mounts]]\nsource='/home/u/.lazy'\ntarget='/a'", "entry 1: source", "may not be mounted"),
        ("[[mounts]]\nsource='~/.lazy/scratch/x'\ntarget='/a'", "entry 1: source", "scratch"),
        ("[features]\nx = 'on'", "[features] x", "true or false"),
        ("[worktree]\ninclude = ['{']", "[worktree] include", "not a glob"),
        ("[permissions]\nprotected = [1]", "[permissions] protected", "not 1"),
        ("[protection]\nenabled = 'no'", "[protection] enabled", "true or false"),
        ("[[automation.maintain]]\npattern='a'", "[[automation.maintain]] entry 1: title", "missing"),
        ("[[automation.maintain]]\ntitle='a'\npattern='['", "entry 1: pattern", "not a glob"),
        ("[automation.pre_accept]\ntimeout = 0", "[automation.pre_accept] timeout", "from 1"),
        ("[checks]\npost_turn_timeout = 1.5", "post_turn_timeout", "whole number"),
        ("[memory]\nwarn_bytes = 0", "[memory] warn_bytes", "from 1"),
        ("[limits]\nmax_concurrent_agents = 0", "max_concurrent_agents", "from 1"),
        ("[limits]\nmax_concurrent_builders = 0", "max_concurrent_builders", "from 1"),
        ("[limits]\nidle_grace_minutes = -1", "idle_grace_minutes", "from 0"),
        ("[limits]\nmax_turns_without_human = true", "max_turns_without_human", "not true"),
        ("[daemon]\nauto_react_backoff = 'fib'", "auto_react_backoff", "none, linear, exponential"),
        ("[daemon]\nauto_resume_interval_minutes = 0", "auto_resume_interval_minutes", "from 1"),
        ("[daemon]\nauto_resume_gap_minutes = 0", "auto_resume_gap_minutes", "from 1"),
        ("[daemon]\nauto_resume_max_attempts = 0", "auto_resume_max_attempts", "from 1"),
        ("limits = 3", "limits", "a table, not 3"),
        ("[checks]\npost_turn_timeout = 99999999999999999999", "post_turn_timeout", "whole number"),
    ] {
        let message = refusal(text);
        assert!(message.contains(key) && message.contains(legal), "{text:?} gave {message:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_container_can_be_walled_in() {
    let loaded = loads(
        "[runner]\nnetwork = 'proxy-only'\negress_allow = ['Packages.example.com:443', 'db:5432', 'packages.example.com:443']",
    );
    assert_eq!((loaded.unknown.len(), loaded.warnings.len()), (0, 0), "{:?}", loaded.warnings);
    assert_eq!(loaded.config.runner.network, Network::ProxyOnly);
    let allowed: Vec<String> = loaded.config.runner.egress_allow.iter().map(ToString::to_string).collect();
    assert_eq!(allowed, ["packages.example.com:443", "db:5432"]);
    let many: Vec<String> = (0..255).map(|number| format!("'h{number}:1'")).collect();
    let message = refusal(&format!("[runner]\nnetwork = 'proxy-only'\negress_allow = [{}]", many.join(", ")));
    assert!(message.contains("[runner] egress_allow names 255 hosts"), "{message}");
}

#[test]
fn a_wall_that_is_none_is_said() {
    let open = loads("[runner]\negress_allow = ['a:1']");
    assert_eq!(open.config.runner.egress_allow.len(), 1);
    assert!(open.warnings[0].contains("egress_allow does nothing"), "{:?}", open.warnings);
    if cfg!(target_os = "linux") {
        let text = "[runner]\nnetwork = 'proxy-only'\ntype = 'dangerously-host-process-without-any-isolation'";
        assert!(loads(text).warnings[0].contains("applies to containers only"));
    } else {
        assert!(refusal("[runner]\nnetwork = 'proxy-only'").contains("on Linux only"));
    }
}

#[test]
fn a_refusal_points_at_the_value() {
    let message = refusal("# one\n[limits]\n\tmax_concurrent_agents  =  0 # none\n");
    assert!(message.starts_with("/p/lazy.toml:3:28: [limits] max_concurrent_agents must be"), "{message}");
    assert!(message.contains("\n  3 | \tmax_concurrent_agents  =  0 # none\n"), "{message}");
    let caret = message.lines().last().expect("a caret line");
    assert_eq!(caret, format!("    | \t{}^", " ".repeat(26)));
    let message = refusal("[[mounts]]\nsource = 'a'\ntarget = '/a'\n[[mounts]]\nsource = 'b'\n");
    assert!(message.starts_with("/p/lazy.toml:4:"), "what is missing is placed at its table: {message}");
}

#[test]
fn retired_keys_get_their_treatment() {
    for (text, says) in [
        ("[remote_github]\nauto_push = true", "under [remote]"),
        ("[storage]\nbackend = 'in-repo'", "external_path"),
        ("[storage]\nbackend = 'orphan-branch'", "external_path"),
        ("[proxy]\nenabled = false", "delete the line"),
        ("[proxy]\nenabled = 'true'", "delete the line"),
    ] {
        let message = refusal(text);
        assert!(message.contains(says), "{message}");
    }
    let loaded = loads("runner = 'podman'");
    assert_eq!(loaded.config.runner.kind, RunnerKind::Podman);
    assert!(loaded.warnings[0].starts_with("line 1: ") && loaded.warnings[0].contains("[runner]"));
    assert!(loaded.present.contains("runner.type"));
    assert!(refusal("runner = 'vm'").contains("[runner] type must be one of"));

    let loaded = loads("[protection]\npassphrase_file = '.lazy/x'\nenabled = true");
    assert!(loaded.config.protection.enabled && loaded.unknown.is_empty());
    assert!(loaded.warnings[0].contains("lazy system passphrase set") && loaded.warnings[0].contains("lazy doctor"));
    let loaded = loads("[proxy]\nenabled = true");
    assert!(loaded.warnings[0].contains("delete the line") && loaded.unknown.is_empty());
}

#[test]
fn the_older_spelling_of_the_wind_down_is_read() {
    let loaded = loads("[agent]\ngraceful_exit_timeout_ms = 5");
    assert_eq!(loaded.config.agent.wind_down_timeout_ms, 5);
    assert_eq!((loaded.warnings.len(), loaded.unknown.len()), (0, 0));
    let both = loads("[agent]\ngraceful_exit_timeout_ms = 5\nwind_down_timeout_ms = 6");
    assert_eq!(both.config.agent.wind_down_timeout_ms, 6);
}

#[test]
fn the_containers_name_for_the_host_becomes_localhost() {
    let loaded = loads(
        "[ollama]\nenabled=true\nmodel='m'\nendpoint='http://Host.Docker.Internal:11434/'\n\
             [models.roles.builder]\nbackend='ollama'\nmodel='b'\nendpoint='http://host.docker.internal:1'",
    );
    assert_eq!(loaded.config.ollama.endpoint, "http://localhost:11434");
    assert_eq!(loaded.config.models.roles.builder.endpoint, "http://localhost:1");
    assert_eq!(loaded.warnings.len(), 2);
    assert!(loaded.warnings[1].contains("[models.roles.builder] endpoint"), "{:?}", loaded.warnings);
    let agent = &loaded.config.models.roles.agent;
    assert_eq!((agent.backend, agent.model.as_str()), (Backend::Ollama, "m"), "the block is for all roles");
    assert_eq!(loads("[models.roles.agent]\nendpoint='http://x'").config.models.roles.agent.endpoint, "");
}

#[test]
fn unknown_keys_are_named_with_what_was_meant() {
    let loaded = loads(
        "[serber]\nport = 1\n[server]\nprot = 2\n[proxy.policy]\nenforced = true\n[models.roles.agnet]\nmodel = ''\n\
             [[mounts]]\nsource = 'a'\ntarget = '/a'\nread_only = true\n[features]\nwild = true\n[zz]\n",
    );
    let unknown: Vec<(&str, Option<&str>, usize)> =
        loaded.unknown.iter().map(|key| (key.key.as_str(), key.suggestion.as_deref(), key.line)).collect();
    assert_eq!(
        unknown,
        [
            ("serber", Some("server"), 1),
            ("server.prot", Some("server.port"), 4),
            ("proxy.policy.enforced", Some("proxy.policy.enforce"), 6),
            ("models.roles.agnet", Some("models.roles.agent"), 7),
            ("mounts[1].read_only", Some("mounts[1].readonly"), 12),
            ("zz", None, 15),
        ]
    );
    assert_eq!(loaded.config.server, Default::default());
}

#[test]
fn a_nearer_file_that_differs_is_said_once() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (root, below) = (dir.path(), dir.path().join("sub"));
    fs::create_dir(&below).expect("directory");
    let process = process();
    let warnings = || load(&process, root, &below).expect("loads").warnings;
    fs::write(below.join("lazy.toml"), "[server]\nport = 1\n").expect("writes");
    assert!(warnings()[0].contains("does not exist"), "{:?}", warnings());
    fs::write(root.join("lazy.toml"), "[server]\nport = 2\n").expect("writes");
    assert!(warnings()[0].contains("differs"), "{:?}", warnings());
    assert_eq!(load(&process, root, &below).expect("loads").config.server.port, 1);
    assert_eq!(load_for_daemon(&process, root).expect("loads").config.server.port, 2);
    fs::copy(below.join("lazy.toml"), root.join("lazy.toml")).expect("copies");
    assert_eq!(warnings(), Vec::<String>::new());
}

#[test]
fn a_file_that_cannot_be_read_is_not_an_absent_one() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("lazy.toml");
    assert_eq!(load_for_daemon(&process(), dir.path()).expect("no file"), Loaded::default());
    std::os::unix::fs::symlink("/nowhere/at/all", &path).expect("links");
    assert_eq!(load_for_daemon(&process(), dir.path()).expect_err("dangling").kind(), Kind::Config);
    fs::remove_file(&path).expect("removes");
    fs::create_dir(&path).expect("a directory");
    assert_eq!(load_for_daemon(&process(), dir.path()).expect_err("a directory").kind(), Kind::Config);
}

#[test]
fn without_a_home_only_what_needs_it_fails() {
    let homeless = Process::fake(["lazy"], &[], Path::new("/p"), Millis(0));
    let read = |text| load_text(&homeless, Path::new("lazy.toml"), text);
    assert!(read("[[mounts]]\nsource = '/a'\ntarget = '/a'").is_ok());
    let error = read("[storage]\nexternal_path = '~/x'").expect_err("no home");
    assert!(error.message().contains("HOME is not set"), "{error}");
}

fn word() -> impl Strategy<Value = String> {
    let known = known_keys(&process()).into_iter().collect::<Vec<_>>();
    let value = prop_oneof![
        Just("1".to_string()),
        Just("-1".into()),
        Just("true".into()),
        Just("\"x\"".into()),
        Just("[1]".into()),
        Just("[\"\"]".into()),
        Just("{ a = 1 }".into()),
        Just("1979-05-27".into()),
        Just("nan".into()),
        Just("'http://host.docker.internal:80/'".into()),
        Just("'~/x'".into()),
        Just("{}".into()),
    ];
    (proptest::sample::select(known), value).prop_map(|(key, value)| format!("{} = {value}\n", key.replace("[]", "")))
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(source) = Source::from_bytes(Path::new("lazy.toml"), bytes) {
            parse(&process(), &source).ok();
        }
    }

    #[test]
    fn any_toml_like_text_is_read_without_a_panic(text in "[a-z\\[\\]={}.\"'#\\n \\\\0-9\u{e9}\u{1f600}]{0,120}") {
        try_text(&text).ok();
    }

    #[test]
    fn any_value_of_any_key_is_read_or_refused_in_place(lines in proptest::collection::vec(word(), 1..6)) {
        if let Err(error) = try_text(&lines.concat()) {
            prop_assert_eq!(error.kind(), Kind::Config);
            prop_assert!(error.details().is_some(), "{}", error);
        }
    }
}
