use std::fs;

use super::*;
use crate::base::Kind;
use crate::setup::testing::Place;

fn project(place: &Place) -> Project {
    fs::create_dir_all(place.root.join(".lazy")).expect("directory");
    Project::in_repo(&place.root)
}

#[test]
fn the_dockerfile_becomes_the_projects_own() {
    let place = Place::new();
    let (project, config) = (project(&place), Config::default());
    let process = place.process(&[]);
    let exported = export(&process, &project, &config, None, Existing::Keep).expect("exports");
    assert_eq!(exported.path, place.root.join("Dockerfile.lazy"));
    assert_eq!(exported.setting, "[docker] dockerfile = \"Dockerfile.lazy\"");
    let text = place.read("Dockerfile.lazy");
    assert!(!text.contains("COPY ca-certificates.pem"), "its build would need a file that only lazy has");
    assert!(text.contains("touch /usr/local/share/lazy/ca-certificates.pem") && text.contains("CLAUDE_CODE_VERSION"));

    place.write("Dockerfile.lazy", "mine");
    let refused = export(&process, &project, &config, None, Existing::Keep).expect_err("it is there");
    assert!(
        refused.kind() == Kind::Conflict && refused.hints().iter().any(|hint| hint.ends_with("--force")),
        "{refused}"
    );
    assert_eq!(place.read("Dockerfile.lazy"), "mine");
    export(&process, &project, &config, None, Existing::Replace).expect("replaces");
    assert_ne!(place.read("Dockerfile.lazy"), "mine");

    fs::create_dir(place.root.join("sub")).expect("directory");
    let below = place.process_at(&place.root.join("sub"), &[]);
    let exported = export(&below, &project, &config, Some("D"), Existing::Keep).expect("exports");
    assert_eq!(exported.setting, "[docker] dockerfile = \"sub/D\"");
    let refused = export(&process, &project, &config, Some("sub"), Existing::Replace).expect_err("a directory");
    assert!(refused.hints()[0].ends_with("sub/Dockerfile.lazy"), "{refused}");
}

#[test]
fn the_projects_own_authorities_are_copied_by_its_own_dockerfile() {
    let place = Place::new();
    let project = project(&place);
    let mut config = Config::default();
    let pem = "\"/usr/local/share/lazy/ca-certificates.pem\"";
    for (named, copied) in [("certs/my ca.pem", true), ("/etc/ssl/other.pem", false)] {
        config.docker.ca_certificates = named.into();
        let text = dockerfile(&project, &config);
        assert_eq!(text.contains(&format!("COPY [{named:?}, {pem}]")), copied, "{named}");
        assert_ne!(text.contains("RUN mkdir -p /usr/local/share/lazy"), copied, "{named}");
    }
}

#[test]
fn what_overrides_is_marked() {
    let place = Place::new();
    let project = project(&place);
    place.write("lazy.toml", "[docker]\ndockerfile = \"D\"\n");
    place.write("D", "FROM a\n");
    place.write("E", "FROM b\n");
    let sources = |env: &[(&str, &str)]| Images::open(&place.process(env), &project).expect("opens").sources();
    let root = place.root.display();
    let plain = sources(&[]);
    assert_eq!((plain.config, plain.dockerfile), (format!("{root}/lazy.toml"), format!("{root}/D")));
    let config = format!("{root}/lazy.toml");
    let marked = sources(&[("LAZY_DOCKERFILE_LAZY", "E"), ("LAZY_CONFIG", &config)]);
    assert_eq!(marked.dockerfile, format!("{root}/E (from LAZY_DOCKERFILE_LAZY)"));
    assert!(marked.config.ends_with("(from LAZY_CONFIG)"), "{}", marked.config);
}

#[tokio::test]
async fn without_a_credential_or_an_engine_it_is_said_before_anything() {
    let place = Place::new();
    let project = project(&place);
    place.write("lazy.toml", "[runner]\ntype = \"dangerously-host-process-without-any-isolation\"\n");
    let bare = Images::open(&place.process(&[("PATH", "/nonexistent")]), &project).expect("opens");
    let refused = bare.require_credential().expect_err("none");
    assert!(refused.message().ends_with("Nothing was changed") && refused.hints().len() == 2, "{refused}");
    assert!(bare.build(Layers::Reuse, &mut |_| {}).await.is_err());
    let refused = bare.list().await.expect_err("no engine");
    assert!(refused.kind() == Kind::Unavailable && refused.message().contains("host processes"), "{refused}");
    let plan = bare.plan().await.expect("a plan without images");
    assert!(plan.image.is_none() && plan.program.ends_with("not installed yet"), "{plan:?}");
    let keyed = Images::open(&place.process(&[("ANTHROPIC_API_KEY", "k")]), &project).expect("opens");
    keyed.require_credential().expect("there is one");
}
