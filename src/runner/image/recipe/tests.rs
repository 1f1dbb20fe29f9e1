use super::*;
use crate::base::Millis;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("temp dir"))
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
        fs::write(&path, text).expect("writes");
        path
    }

    fn recipe(&self, env: &[(&str, &str)], config: &Config) -> Result<Recipe> {
        let process = Process::fake(["lazy"], env, Path::new("/"), Millis(0));
        Recipe::for_project(&process, config, self.root(), "claude-code")
    }
}

fn with(dockerfile: &str, certificates: &str) -> Config {
    let mut config = Config::default();
    config.docker.dockerfile = dockerfile.into();
    config.docker.ca_certificates = certificates.into();
    config
}

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";

#[test]
fn the_variable_comes_before_the_key_before_the_built_in() {
    let place = Place::new();
    place.put("Dockerfile.lazy", "FROM a\n");
    let other = place.put("elsewhere/Dockerfile", "FROM b\n");
    let builtin = place.recipe(&[], &Config::default()).expect("built in");
    assert_eq!((builtin.origin(), builtin.text()), (&Origin::BuiltIn, BUILTIN));
    assert_eq!(builtin.name(), format!("lazy-runner:{}", version()));
    let keyed = place.recipe(&[], &with("Dockerfile.lazy", "")).expect("by the key");
    assert_eq!((keyed.origin(), keyed.text()), (&Origin::Configured(place.root().join("Dockerfile.lazy")), "FROM a\n"));
    assert_eq!(keyed.context.as_deref(), Some(place.root()));
    assert!(
        keyed.name().starts_with("lazy-custom-") && keyed.name().len() == "lazy-custom-:".len() + 12 + version().len()
    );
    for named in ["elsewhere/Dockerfile", other.to_str().expect("utf-8")] {
        let chosen = place.recipe(&[(OVERRIDE, named)], &with("Dockerfile.lazy", "")).expect("by the variable");
        assert_eq!((chosen.origin(), chosen.text()), (&Origin::Override(other.clone()), "FROM b\n"));
    }
    assert_eq!(keyed.reference(RunnerKind::Docker), keyed.name());
    assert_eq!(keyed.reference(RunnerKind::Podman), format!("localhost/{}", keyed.name()));
}

#[test]
fn what_is_named_must_be_there() {
    let place = Place::new();
    let missing = place.recipe(&[(OVERRIDE, "nope")], &Config::default()).expect_err("missing");
    assert!(missing.kind() == Kind::Config && missing.message().starts_with(OVERRIDE), "{missing}");
    assert!(missing.hints()[0].contains("unset LAZY_DOCKERFILE_LAZY"));
    let missing = place.recipe(&[], &with("nope", "")).expect_err("missing");
    assert!(missing.message().starts_with("[docker] dockerfile"), "{missing}");
    let missing = place.recipe(&[], &with("", "nope.pem")).expect_err("missing");
    assert!(missing.message().starts_with("[docker] ca_certificates"), "{missing}");
    place.put("der.crt", "0\u{1}binary");
    assert!(place.recipe(&[], &with("", "der.crt")).expect_err("no PEM").message().contains("PEM"));
    fs::create_dir(place.root().join("dir")).expect("directory");
    assert!(place.recipe(&[], &with("dir", "")).expect_err("a directory").message().contains("not a file"));
    fs::write(place.root().join("latin"), b"FROM \xe9").expect("writes");
    assert!(place.recipe(&[], &with("latin", "")).expect_err("no text").message().contains("UTF-8"));
}

#[test]
fn an_agents_own_dockerfile_never_governs() {
    let place = Place::new();
    place.put(".lazy/worktrees/t/Dockerfile.lazy", "FROM a\n");
    std::os::unix::fs::symlink(".lazy/worktrees/t/Dockerfile.lazy", place.root().join("link")).expect("links");
    for named in [".lazy/worktrees/t/Dockerfile.lazy", "link", "x/../.lazy/worktrees/t/Dockerfile.lazy"] {
        place.put("x/y", "");
        let error = place.recipe(&[], &with(named, "")).expect_err(named);
        assert!(error.kind() == Kind::Config && error.message().contains("worktree"), "{error}");
    }
    let asked = place.recipe(&[(OVERRIDE, ".lazy/worktrees/t/Dockerfile.lazy")], &Config::default());
    assert!(asked.is_ok(), "a person may try a branch's own");
}

#[test]
fn every_input_is_in_the_hash() {
    let place = Place::new();
    place.put("ca.pem", PEM);
    place.put("plain", "FROM debian\n");
    place.put("based", "FROM lazy-runner:latest\n");
    let hash = |env: &[(&str, &str)], config: &Config| place.recipe(env, config).expect("a recipe").hash().to_string();
    let registry = [("npm_config_registry", "https://npm.example/")];
    let plain = hash(&[], &Config::default());
    assert_eq!(plain, hash(&[], &Config::default()));
    let mut all = vec![plain];
    all.push(hash(&[], &with("", "ca.pem")));
    all.push(hash(&registry, &Config::default()));
    all.push(hash(&[], &with("plain", "")));
    all.push(hash(&[], &with("plain", "ca.pem")));
    all.push(hash(&[], &with("based", "")));
    all.push(hash(&registry, &with("based", "")));
    place.put("ca.pem", &PEM.repeat(2));
    all.push(hash(&[], &with("", "ca.pem")));
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:#?}");
    assert_eq!(hash(&registry, &with("plain", "")), all[3], "the registry is no input of one's own Dockerfile");
    assert_eq!(hash(&[("HTTPS_PROXY", "http://proxy:1")], &Config::default()), all[0]);
}

#[test]
fn only_a_proxy_that_a_build_can_reach_is_handed_on() {
    let place = Place::new();
    let env = [("HTTPS_PROXY", "http://proxy:1"), ("http_proxy", "http://127.0.0.1:1"), ("no_proxy", "a,b")];
    let recipe = place.recipe(&env, &Config::default()).expect("a recipe");
    assert_eq!(recipe.network, ["HTTPS_PROXY", "no_proxy"]);
}

#[test]
fn a_base_of_lazys_own_is_seen() {
    let place = Place::new();
    for (from, ours) in [
        ("lazy-runner", true),
        ("lazy-runner:latest", true),
        ("localhost/lazy-runner", true),
        ("lazy-runner:0.0", false),
        ("example.org/lazy-runner", false),
        ("debian", false),
    ] {
        place.put("f", &format!("FROM {from}\n"));
        assert_eq!(place.recipe(&[], &with("f", "")).expect("a recipe").base.is_some(), ours, "{from}");
    }
}

#[test]
fn the_built_in_dockerfile_says_what_it_is_checked_for() {
    for words in ["git curl jq", "ARG NPM_REGISTRY=", "ARG CLAUDE_CODE_VERSION=latest", "sha512sum", "USER user"] {
        assert!(BUILTIN.contains(words), "{words}");
    }
}
