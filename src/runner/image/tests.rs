//! The engine's failures, played by a script that stands for `docker`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::base::{Kind, Millis, Process};
use crate::config::Config;
use crate::model::RunnerKind;

/// Images are files: a name holds an id, an id holds what `inspect` says. `calls` has a line for each call.
const DOCKER: &str = r#"#!/bin/sh
cd "$FAKE" || exit 9
echo "$*" >> calls
file() { echo "$1" | tr '/' '_'; }
last() { for last; do :; done; echo "$last"; }
case "$1 $2" in
"info "*) echo name=seccomp ;;
"image inspect")
    shift 2; first=1; printf '['
    for name; do
        id=$(cat "names/$(file "$name")" 2>/dev/null || echo "$name")
        if [ ! -f "ids/$id" ]; then echo "Error: No such image: $name" >&2; echo ']'; exit 1; fi
        [ -n "$first" ] || printf ','; first=
        tags=$(grep -l "^$id\$" names/* 2>/dev/null | sed 's,names/,",; s,$,",' | paste -sd, -)
        sed "s|TAGS|$tags|" "ids/$id"
    done
    echo ']' ;;
"image prune") ;;
"images "*) ls ids ;;
"ps "*) cat containers 2>/dev/null || true ;;
"inspect "*) cat used 2>/dev/null || true ;;
"tag "*) cp "names/$(file "$2")" "names/$(file "$3")" 2>/dev/null || echo "$2" > "names/$(file "$3")" ;;
"rmi "*)
    name=$(last "$@")
    if [ -f "names/$(file "$name")" ]; then rm "names/$(file "$name")"; else rm -f "ids/$name"; fi ;;
"build "*)
    hash=; id_file=; tag=
    while [ $# -gt 1 ]; do
        case "$1 $2" in
        "--label lazy.dockerfile.hash="*) hash=${2#*=} ;;
        "--label lazy.dockerfile="*) origin=${2#*=} ;;
        "--iidfile "*) id_file=$2 ;;
        "--tag "*) tag=$2 ;;
        esac
        shift
    done
    echo "Step 1/2 : FROM somewhere"
    while [ -f hold ]; do sleep 0.02; done
    if [ -f broken ]; then cat broken >&2; exit 1; fi
    echo >> made
    id="sha256:new$(wc -l < made | tr -d ' ')"
    printf '{"Id":"%s","RepoTags":[TAGS],"Created":"%s","Size":5,"Config":{"User":"user","Labels":{"lazy.dockerfile.hash":"%s","lazy.dockerfile":"%s"}}}' \
        "$id" "$(cat now)" "$hash" "$origin" > "ids/$id"
    echo "$id" > "names/$(file "$tag")"
    printf %s "$id" > "$id_file" ;;
"run "*)
    case "$*" in
    *selfcheck) if [ -f unfit ]; then cat unfit >&2; exit 1; fi; echo lazy-agent ok 1 ;;
    *) cat missing 2>/dev/null; echo looked ;;
    esac ;;
*) echo "unknown: $*" >&2; exit 64 ;;
esac
"#;

const NOW: i64 = 1_700_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);

struct Fake {
    dir: tempfile::TempDir,
    engine: Engine,
    install: Install,
}

impl Fake {
    fn new() -> Fake {
        let dir = tempfile::tempdir().expect("temp dir");
        let at = dir.path();
        for name in ["bin", "ids", "names", "home", "project"] {
            fs::create_dir(at.join(name)).expect("directory");
        }
        fs::write(at.join("bin/docker"), DOCKER).expect("writes");
        fs::set_permissions(at.join("bin/docker"), fs::Permissions::from_mode(0o755)).expect("mode");
        fs::write(at.join("now"), Millis(NOW).iso()).expect("writes");
        let path = format!("{}:/usr/bin:/bin", at.join("bin").display());
        let home = at.join("home");
        let env =
            [("PATH", path.as_str()), ("HOME", home.to_str().expect("utf-8")), ("FAKE", at.to_str().expect("utf-8"))];
        let process = Process::fake(["lazy"], &env, at, Millis(NOW));
        let engine = Engine::of(RunnerKind::Docker, &process).expect("an engine");
        let install = Install { id: "0123456789abcdef".into(), path: at.join("lazy-agent") };
        Fake { dir, engine, install }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("writes");
    }

    fn recipe(&self) -> Recipe {
        self.recipe_of(&Config::default())
    }

    fn recipe_of(&self, config: &Config) -> Recipe {
        Recipe::for_project(self.engine.process(), config, &self.path("project"), "claude-code").expect("a recipe")
    }

    /// A project's own Dockerfile.
    fn custom(&self, text: &str) -> Recipe {
        self.put("project/Dockerfile.lazy", text);
        let mut config = Config::default();
        config.docker.dockerfile = "Dockerfile.lazy".into();
        self.recipe_of(&config)
    }

    async fn ensure(&self, recipe: &Recipe) -> (Result<Image>, Vec<String>) {
        let mut said = Vec::new();
        let image = ensure(&self.engine, recipe, &self.install, &mut |line: &str| said.push(line.to_string())).await;
        (image, said)
    }

    async fn good(&self, recipe: &Recipe) -> Image {
        self.ensure(recipe).await.0.expect("an image")
    }

    /// The calls since the last time.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        fs::remove_file(self.path("calls")).ok();
        calls.lines().map(str::to_string).collect()
    }

    fn builds(&self) -> Vec<String> {
        self.calls().into_iter().filter(|call| call.starts_with("build ")).collect()
    }

    fn name(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path("names").join(name)).ok().map(|id| id.trim().to_string())
    }

    fn age(&self, by: Duration) {
        self.engine.process().clock().advance(by);
        self.put("now", &self.engine.process().now().iso());
    }
}

#[tokio::test]
async fn the_usual_case_is_one_question() {
    let fake = Fake::new();
    let recipe = fake.recipe();
    let (image, said) = fake.ensure(&recipe).await;
    let image = image.expect("builds");
    assert_eq!((image.reference.as_str(), image.user.as_deref()), (recipe.name().as_str(), Some("user")));
    assert_eq!(fake.name(&recipe.name()).as_ref(), Some(&image.id));
    assert_eq!(fake.name("lazy-runner:latest").as_ref(), Some(&image.id));
    assert_eq!(fake.name(&format!("{}-building", recipe.name())), None);
    assert_eq!(said[1], "image: step 1/2: FROM somewhere", "{said:?}");
    let calls = fake.calls();
    let build = calls.iter().find(|call| call.starts_with("build")).expect("a build");
    assert!(!build.contains("--no-cache") && !build.contains("buildx") && build.contains("--iidfile"), "{build}");
    let (run, tag) = (position(&calls, "run --rm"), position(&calls, "tag "));
    assert!(run < tag, "it got its name before it was checked: {calls:?}");
    assert!(calls[run].contains(&format!("source={}", fake.install.path.display())), "{}", calls[run]);
    assert!(calls[run].contains("--network none"));

    let (again, said) = fake.ensure(&recipe).await;
    assert_eq!((again.expect("is there"), said), (image, vec![]));
    assert_eq!(fake.calls(), [format!("image inspect {}", recipe.name())]);

    let other = Install { id: "fedcba9876543210".into(), ..fake.install.clone() };
    ensure(&fake.engine, &recipe, &other, &mut |_| {}).await.expect("runs too");
    assert_eq!(fake.calls().iter().filter(|call| call.starts_with("run")).count(), 2, "another program is tried once");
}

fn position(calls: &[String], what: &str) -> usize {
    calls.iter().position(|call| call.starts_with(what)).unwrap_or_else(|| panic!("no {what}: {calls:?}"))
}

#[tokio::test]
async fn an_old_image_is_made_anew_and_a_changed_one_too() {
    let fake = Fake::new();
    let first = fake.good(&fake.recipe()).await;
    fake.builds();
    fake.age(DAY * 14);
    assert_eq!(fake.good(&fake.recipe()).await.id, first.id);
    fake.age(DAY);
    let second = fake.good(&fake.recipe()).await;
    assert_ne!(second.id, first.id);
    let calls = fake.calls();
    assert!(
        calls.iter().any(|call| call.starts_with("build") && call.contains("--no-cache")),
        "old layers were used again: {calls:?}"
    );
    assert!(calls.contains(&format!("rmi {}", first.id)), "the old one was left: {calls:?}");
    let mut config = Config::default();
    config.docker.ca_certificates = "ca.pem".into();
    fake.put("project/ca.pem", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n");
    let changed = fake.recipe_of(&config);
    assert!(matches!(freshness(&fake.engine, &changed).await.expect("looks"), Freshness::Outdated(_)));
    assert_ne!(fake.good(&changed).await.id, second.id);
    let builds = fake.builds();
    assert!(builds.len() == 1 && !builds[0].contains("--no-cache"), "{builds:?}");
}

#[tokio::test]
async fn an_old_image_does_when_a_new_one_cannot_be_made() {
    let fake = Fake::new();
    let first = fake.good(&fake.recipe()).await;
    fake.put("broken", "E: Unable to fetch some archives\n");
    fake.age(DAY * 20);
    fake.builds();
    let stale = fake.good(&fake.recipe()).await;
    assert_eq!(stale.id, first.id);
    assert!(stale.warnings[0].contains("20 days") && stale.warnings[0].contains("archives"), "{:?}", stale.warnings);
    assert_eq!(fake.builds().len(), 1);
    assert!(fake.good(&fake.recipe()).await.warnings[0].contains("the last try"), "told again");
    assert_eq!(fake.builds().len(), 0, "every start would wait for the same failure");
    fake.age(Duration::from_secs(7 * 60 * 60));
    fs::remove_file(fake.path("broken")).expect("mended");
    let fresh = fake.good(&fake.recipe()).await;
    assert!(fresh.id != first.id && fresh.warnings.is_empty());
}

#[tokio::test]
async fn without_a_network_the_image_of_before_is_used() {
    let fake = Fake::new();
    let offline = "curl: (6) Could not resolve host: registry.npmjs.org\n";
    fake.put("broken", offline);
    let error = fake.ensure(&fake.custom("FROM a\n")).await.0.expect_err("nothing to fall back to");
    assert!(error.message().contains("Could not resolve") && error.hints()[0].contains("network"), "{error}");
    fs::remove_file(fake.path("broken")).expect("mended");
    let before = fake.good(&fake.custom("FROM a\n")).await;
    fake.good(&fake.recipe()).await;
    let changed = fake.custom("FROM b\n");
    fake.put("broken", offline);
    let used = fake.good(&changed).await;
    assert_eq!(used.id, before.id, "the newest of the same Dockerfile, not any image");
    assert!(used.warnings[0].contains("newest"), "{:?}", used.warnings);
    fake.put("broken", "Step 2/2 : RUN make\nmake: *** No rule to make target\n");
    let error = fake.ensure(&changed).await.0.expect_err("the Dockerfile is wrong, not the network");
    assert!(error.message().ends_with("No rule to make target"), "{error}");
}

#[tokio::test]
async fn an_image_in_which_nothing_would_work_gets_no_name() {
    let fake = Fake::new();
    let recipe = fake.recipe();
    fake.put("unfit", "/usr/local/bin/lazy-agent: /lib/libc.so.6: version `GLIBC_2.38' not found\n");
    let error = fake.ensure(&recipe).await.0.expect_err("does not run");
    assert!(error.kind() == Kind::Unavailable && error.message().contains("GLIBC_2.38"), "{error}");
    assert!(error.hints()[0].starts_with("make static"), "{:?}", error.hints());
    assert_eq!(fake.name(&recipe.name()), None);
    fake.put("unfit", "exec /usr/local/bin/lazy-agent: exec format error\n");
    assert!(fake.ensure(&recipe).await.0.expect_err("does not run").message().contains("another processor"));
    fs::remove_file(fake.path("unfit")).expect("mended");
    fake.put("missing", "missing git\nmissing claude\n");
    let error = fake.ensure(&fake.custom("FROM a\n")).await.0.expect_err("it lacks programs");
    assert!(error.message().ends_with("has no git and no claude"), "{error}");
    assert!(error.hints()[0].contains("FROM lazy-runner"), "{:?}", error.hints());
    assert_eq!(fake.name(&fake.custom("FROM a\n").name()), None);
}

#[tokio::test]
async fn a_base_of_lazys_own_is_made_first() {
    let fake = Fake::new();
    let recipe = fake.custom("FROM lazy-runner\n");
    fake.good(&recipe).await;
    let builds = fake.builds();
    assert!(builds.len() == 2 && builds[1].contains("lazy-custom-"), "{builds:?}");
    assert!(builds[1].ends_with(&fake.path("project").display().to_string()), "its context is the project: {builds:?}");
    assert!(builds[1].contains(&format!("--file {}", fake.path("project/Dockerfile.lazy").display())));
    fake.good(&recipe).await;
    assert_eq!(fake.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_at_once_build_once() {
    let fake = std::sync::Arc::new(Fake::new());
    fake.put("hold", "");
    let one = tokio::spawn({
        let fake = fake.clone();
        async move { fake.ensure(&fake.recipe()).await }
    });
    until(|| fs::read_to_string(fake.path("calls")).is_ok_and(|calls| calls.contains("build "))).await;
    let two = tokio::spawn({
        let fake = fake.clone();
        async move {
            let waiting = fake.path("waiting");
            let mut said = Vec::new();
            let mut say = |line: &str| {
                said.push(line.to_string());
                fs::write(&waiting, line).expect("writes");
            };
            let image = ensure(&fake.engine, &fake.recipe(), &fake.install, &mut say).await;
            (image, said)
        }
    });
    until(|| fake.path("waiting").exists()).await;
    fs::remove_file(fake.path("hold")).expect("goes on");
    let (one, _) = one.await.expect("no panic");
    let (two, said) = two.await.expect("no panic");
    assert_eq!(one.expect("an image").id, two.expect("an image").id);
    assert_eq!(fake.builds().len(), 1);
    assert!(said.len() == 1 && said[0].starts_with("image: waiting for another build of lazy-runner"), "{said:?}");
}

async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came");
}

#[tokio::test]
async fn an_upgrade_takes_its_place_when_it_is_told_to() {
    let fake = Fake::new();
    let recipe = fake.recipe();
    let before = fake.good(&recipe).await;
    let staging = format!("{}-upgrade", recipe.name());
    let staged = stage(&fake.engine, &recipe, &fake.install, &mut |_| {}).await.expect("stages");
    assert_eq!(fake.name(&staging).as_ref(), Some(&staged.image().id));
    assert_eq!(fake.name(&recipe.name()).as_ref(), Some(&before.id), "it is in use already");
    staged.discard().await;
    assert_eq!((fake.name(&staging), fake.name(&recipe.name())), (None, Some(before.id.clone())));
    fake.put("broken", "no\n");
    assert!(stage(&fake.engine, &recipe, &fake.install, &mut |_| {}).await.is_err());
    assert_eq!(fake.name(&recipe.name()).as_ref(), Some(&before.id));
    fs::remove_file(fake.path("broken")).expect("mended");
    let staged = stage(&fake.engine, &recipe, &fake.install, &mut |_| {}).await.expect("stages");
    let image = staged.promote().await.expect("promotes");
    assert_eq!(fake.name(&recipe.name()), Some(image.id.clone()));
    assert_eq!((fake.name(&staging), fake.path("ids").join(&before.id).exists()), (None, false));
    let calls = fake.calls();
    assert!(calls.iter().filter(|call| call.starts_with("build")).skip(1).all(|call| call.contains("--no-cache")));
}

#[tokio::test]
async fn only_what_nothing_needs_is_removable() {
    let fake = Fake::new();
    let recipe = fake.recipe();
    let needed = fake.good(&recipe).await;
    let theirs = fake.good(&fake.custom("FROM a\n")).await;
    let found = list(&fake.engine, std::slice::from_ref(&recipe)).await.expect("lists");
    assert!(found.iter().all(|image| image.disposal == Disposal::Needed), "another project's counts: {found:?}");
    fake.custom("FROM b\n");
    let building = found.iter().find(|image| image.id == theirs.id).expect("listed");
    fs::rename(fake.path("names").join(&building.names[0]), fake.path("names/lazy-custom-x:0.1-building"))
        .expect("renames");
    let young = list(&fake.engine, std::slice::from_ref(&recipe)).await.expect("lists");
    assert!(young.iter().all(|image| image.disposal == Disposal::Needed), "a build under way: {young:?}");
    fake.age(Duration::from_secs(60 * 60));
    let stale = |found: &[Listed]| -> Vec<String> {
        let stale = found.iter().filter(|image| image.disposal == Disposal::Removable);
        stale.map(|image| image.id.clone()).collect()
    };
    let found = list(&fake.engine, std::slice::from_ref(&recipe)).await.expect("lists");
    assert_eq!(stale(&found), std::slice::from_ref(&theirs.id));
    fake.put("containers", "c1\n");
    fake.put("used", &format!("{}\n", theirs.id));
    assert!(stale(&list(&fake.engine, std::slice::from_ref(&recipe)).await.expect("lists")).is_empty());
    fs::remove_file(fake.path("containers")).expect("gone");
    let image = found.iter().find(|image| image.id == theirs.id).expect("listed");
    remove(&fake.engine, image).await.expect("removes");
    let left = list(&fake.engine, &[recipe]).await.expect("lists");
    assert_eq!(left.iter().map(|image| &image.id).collect::<Vec<_>>(), [&needed.id]);
}

#[tokio::test]
async fn without_an_engine_the_remedy_is_told() {
    let fake = Fake::new();
    fs::remove_file(fake.path("bin/docker")).expect("gone");
    let env = [("PATH", "/nonexistent"), ("HOME", "/nonexistent")];
    let process = Process::fake(["lazy"], &env, Path::new("/"), Millis(NOW));
    let engine = Engine::of(RunnerKind::Docker, &process).expect("an engine");
    let error = freshness(&engine, &fake.recipe()).await.expect_err("nobody answers");
    assert!(error.kind() == Kind::Unavailable && error.hints()[0].contains("install"), "{error}");
}
