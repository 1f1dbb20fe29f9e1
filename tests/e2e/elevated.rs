//! Refs are moved by the daemon where the shared git directory is read-only: the real supervisor and a real agent inside
//! the mounts of a container, made by `unshare`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::world::{Agent, World};

/// The mounts of a container around `lazy supervise`: repository and shared git directory read-only, objects, this
/// worktree and its git directory writable, lazy's own data hidden.
const SPLIT: &str = r#"#!/bin/sh
set -e
real=$1; shift
case "$1" in
supervise) ;;
*) exec "$real" "$@" ;;
esac
if [ -z "$LAZY_TEST_SPLIT" ]; then
    LAZY_TEST_SPLIT=1 exec unshare --mount --propagation private sh "$0" "$real" "$@"
fi
unset LAZY_TEST_SPLIT
for word in "$@"; do
    [ "$last" = --worktree ] && worktree=$word
    last=$word
done
own=$(git -C "$worktree" rev-parse --path-format=absolute --git-dir)
common=$(git -C "$worktree" rev-parse --path-format=absolute --git-common-dir)
root=$(dirname "$common")
keep=$(mktemp -d)
mount --bind "$worktree" "$keep"
bind() { mount --bind "$1" "$1"; mount -o "remount,bind,$2" "$1"; }
bind "$root" ro
mount -t tmpfs none "$root/.lazy"
mkdir -p "$worktree"
mount --bind "$keep" "$worktree"
umount "$keep"; rmdir "$keep"
bind "$common" ro
bind "$common/objects" rw
bind "$common/objects/pack" ro
bind "$common/objects/info" ro
bind "$own" rw
cd "$worktree"
exec "$real" "$@"
"#;

/// Whether mounts can be made here; said by name when not.
fn mounts() -> bool {
    let tried = Command::new("unshare").args(["--mount", "--propagation", "private", "true"]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        let text = "mount namespaces cannot be made here (unshare --mount)";
        assert!(std::env::var_os("LAZY_REQUIRE_PARTS").is_none(), "{text}");
        eprintln!("skipped: {text}");
    }
    can
}

/// A world whose supervisors run inside [`SPLIT`]: the daemon lives in a mount namespace of its own in which, once it
/// runs, the script lies over its executable.
fn split(steps: Value) -> World {
    let world = World::new(Agent::Demo, steps);
    enter(&world);
    world
}

/// Starts the world's daemon in such a namespace.
fn enter(world: &World) {
    let place = world.home().join("split");
    fs::create_dir_all(&place).expect("dir");
    let (real, daemon, script) = (place.join("real"), place.join("lazy"), place.join("split.sh"));
    if !real.exists() {
        for to in [&real, &daemon] {
            fs::copy(env!("CARGO_BIN_EXE_lazy"), to).expect("copies");
        }
    }
    fs::write(place.join("mounts.sh"), SPLIT).expect("script");
    let wrapper = format!("#!/bin/sh\nexec sh '{}' '{}' \"$@\"\n", place.join("mounts.sh").display(), real.display());
    fs::write(&script, wrapper).expect("wrapper");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("mode");
    world.command(&["daemon", "stop", "--yes"]).output().expect("stops");
    let template = world.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
    command.arg("\"$1\" daemon start >&2; mount --bind \"$2\" \"$1\"").args(["sh".as_ref(), daemon.as_os_str()]);
    command.arg(&script).current_dir(&world.project).env_clear();
    command.envs(template.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = command.output().expect("unshare runs");
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), world.logs());
}

fn tool(name: &str, input: Value) -> Value {
    json!({ "tool_use": { "name": name, "input": input } })
}

fn bash(command: &str) -> Value {
    tool("bash", json!({ "command": command }))
}

fn worktree(world: &World, task: &str) -> PathBuf {
    world.project.join(".lazy/worktrees").join(task)
}

fn commit_on_main(world: &World, file: &str, content: &str) -> String {
    fs::write(world.project.join(file), content).expect("writes");
    world.git(&["add", "-A"]);
    world.git(&["commit", "--quiet", "-m", &format!("change {file}")]);
    world.git(&["rev-parse", "main"])
}

#[test]
fn a_whole_life_behind_a_read_only_git_directory() {
    if !mounts() {
        return;
    }
    let attempts = "for what in 'commit --allow-empty -m x' 'tag t' 'update-ref refs/heads/main HEAD' 'branch b' \
        'reset --hard HEAD~1' 'stash -u'; do git $what; echo \"$what: $?\"; done >.lazy-task-sandbox/tried 2>&1; \
        touch ../../../.git/x ../../../x; echo \"writes: $?\" >>.lazy-task-sandbox/tried; \
        git add -A && git status >>.lazy-task-sandbox/tried; echo \"reads: $?\" >>.lazy-task-sandbox/tried";
    let world = split(json!([
        { "when": { "prompt": "stopped at" }, "uses": "always", "reply": { "content": [{ "text": "I would rather not." }] } },
        { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [{ "tool_use": Agent::Demo.write("greeting.txt", "hello\n") }] } },
        { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [bash(attempts)] } },
        { "when": { "nth": 2 }, "uses": "always", "reply": { "content": [tool("mcp__lazy__lazy_commit", json!({ "message": "Greet" }))] } },
        { "uses": "always", "reply": { "content": [{ "text": "done" }] } },
    ]));
    world.ok(&["create", "--goal", "Greet", "--code", "greet", "--prompt", "x"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked", "{}", world.logs());
    let tried = fs::read_to_string(worktree(&world, "greet").join(".lazy-task-sandbox/tried")).expect("tried");
    for (line, code) in tried.lines().filter_map(|line| line.rsplit_once(": ")) {
        let refused = !["0"].contains(&code);
        match line {
            "reads" => assert!(!refused, "{tried}"),
            "commit --allow-empty -m x"
            | "tag t"
            | "update-ref refs/heads/main HEAD"
            | "branch b"
            | "reset --hard HEAD~1"
            | "stash"
            | "writes" => assert!(refused, "{line} worked:\n{tried}"),
            _ => {}
        }
    }
    assert!(tried.contains("Read-only file system") && tried.contains("reads: 0"), "{tried}");
    let shown = world.show("greet");
    let id = shown["id"].as_str().expect("id")[..8].to_string();
    let head = world.git(&["rev-parse", "lazy/greet"]);
    assert_eq!(world.git(&["log", "-1", "--format=%s", "lazy/greet"]), "Greet");
    assert_eq!(world.git(&["rev-parse", &format!("turn/{id}/post-work/{}", &head[..8])]), head, "{}", world.logs());

    let upstream = commit_on_main(&world, "other.txt", "other\n");
    world.ok(&["sync", "greet"]);
    let merged = world.git(&["rev-parse", "lazy/greet"]);
    assert_eq!(world.git(&["rev-parse", "lazy/greet^2"]), upstream);
    assert_eq!(world.git(&["log", "-1", "--format=%s", "lazy/greet"]), "Merge main");
    assert_eq!(world.git(&["rev-parse", &format!("turn/{id}/post-merge/{}", &merged[..8])]), merged);
    assert_eq!(fs::read_to_string(worktree(&world, "greet").join("other.txt")).expect("merged in"), "other\n");

    commit_on_main(&world, "greeting.txt", "good day\n");
    let said = world.refused(&["sync", "greet"]);
    assert!(said.contains("greeting.txt"), "{said}");
    assert_eq!(world.git(&["rev-parse", "lazy/greet"]), merged, "the conflict moved nothing");
    assert_eq!(world.git_at(&worktree(&world, "greet"), &["status", "--porcelain"]), "", "and left nothing");

    // a merge left half-done is rolled back by the next turn, and what it held is kept
    let half = Command::new("git").args(["merge", "main"]).current_dir(worktree(&world, "greet")).output();
    assert!(!half.expect("git runs").status.success(), "it conflicts");
    world.ok(&["unblock", "greet", "-m", "go on"]);
    assert_eq!(world.settled("greet"), "blocked", "{}", world.logs());
    let journal = world.show("greet")["journal"].to_string();
    assert!(journal.contains("merge-rollback-"), "{journal}");
    assert_eq!(world.git_at(&worktree(&world, "greet"), &["status", "--porcelain"]), "", "{}", world.logs());
}

#[test]
fn a_daemon_that_comes_back_finishes_the_merge() {
    if !mounts() {
        return;
    }
    let world = split(json!([{ "uses": "always", "reply": { "content": [{ "text": "done" }] } }]));
    world.ok(&["create", "--goal", "Greet", "--code", "greet", "--prompt", "x"]);
    world.ok(&["start", "greet"]);
    assert_eq!(world.settled("greet"), "blocked", "{}", world.logs());
    let upstream = commit_on_main(&world, "other.txt", "other\n");
    let mut sync = world.command(&["sync", "greet"]).spawn().expect("starts");
    world.until("the merge is on its way", || (world.status("greet") == "working").then_some(()));
    world.kill(world.daemon_pid().expect("a daemon"));
    sync.wait().expect("ends");
    enter(&world);
    assert_eq!(world.settled("greet"), "blocked", "{}", world.logs());
    world.until("the merge", || (world.git(&["merge-base", "main", "lazy/greet"]) == upstream).then_some(()));
    assert_eq!(world.git_at(&worktree(&world, "greet"), &["status", "--porcelain"]), "");
}

/// The configuration of a run: its token and the daemon's address.
fn config(world: &World, task: &str) -> Value {
    let file = world.state_dir().expect("a state directory").join(format!("mcp/daemon-mcp-lazy-{task}.json"));
    serde_json::from_str(&fs::read_to_string(file).expect("minted")).expect("JSON")
}

/// An order with a task's token; the status and the body.
fn order(world: &World, (config, path): (&Value, &str), arguments: &Value) -> (u16, Value) {
    let text = |key: &str| config[key].as_str().expect("text");
    let body = json!({ "arguments": arguments }).to_string();
    let address = text("target").trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(address).expect("the daemon listens");
    let project: String = text("projectRoot").bytes().fold(String::new(), |out, byte| match byte {
        b' '..=b'~' if byte != b'%' => out + &char::from(byte).to_string(),
        _ => out + &format!("%{byte:02X}"),
    });
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\nx-lazy-project: {project}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        text("token"),
        body.len()
    )
    .expect("asks");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("{error}\n{}", world.logs()));
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let (start, end) = (answer.find('{').expect("a body"), answer.rfind('}').expect("a body"));
    (status, serde_json::from_str(&answer[start..=end]).unwrap_or_else(|_| panic!("{answer}")))
}

/// Refs of the repository as they are now, without those of `except`.
fn refs(world: &World, except: &str) -> String {
    let all = world.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
    all.lines().filter(|line| !line.starts_with(except)).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_daemon_believes_no_order() {
    let world = World::new(
        Agent::Demo,
        json!([
            { "when": { "prompt": "wait", "nth": 0 }, "uses": "always", "reply": { "content": [{ "tool_use": Agent::Demo.write("mine.txt", "mine\n") }] } },
            { "when": { "prompt": "wait", "nth": 1 }, "uses": "always", "reply": { "content": [tool("mcp__lazy__lazy_commit", json!({ "message": "Mine" }))] } },
            { "when": { "prompt": "wait" }, "uses": "always", "reply": { "delay_ms": 120_000, "content": [{ "text": "late" }] } },
            { "when": { "nth": 0 }, "uses": "always", "reply": { "content": [{ "tool_use": Agent::Demo.write("theirs.txt", "theirs\n") }] } },
            { "when": { "nth": 1 }, "uses": "always", "reply": { "content": [tool("mcp__lazy__lazy_commit", json!({ "message": "Theirs" }))] } },
            { "uses": "always", "reply": { "content": [{ "text": "done" }] } },
        ]),
    );
    world.ok(&["create", "--goal", "Sibling", "--code", "sibling", "--prompt", "quick"]);
    world.ok(&["start", "sibling"]);
    assert_eq!(world.settled("sibling"), "blocked");
    let theirs = world.git(&["rev-parse", "lazy/sibling"]);
    world.ok(&["create", "--goal", "Own", "--code", "own", "--prompt", "wait"]);
    world.ok(&["start", "own"]);
    world.until("the commit", || (world.git(&["log", "-1", "--format=%s", "lazy/own"]) == "Mine").then_some(()));
    let upstream = commit_on_main(&world, "other.txt", "other\n");
    let (own, other) = (config(&world, "own"), config(&world, "sibling"));
    let id = own["taskId"].as_str().expect("id").to_string();
    let path = format!("/mcp/{id}/lazy_internal_git");
    let before = refs(&world, "none");
    let head = world.git(&["rev-parse", "lazy/own"]);
    let merge = |target: &str, message: &str| json!({ "operation": "merge", "target": target, "message": message });

    for (why, expected, arguments) in [
        ("a sibling's commit", 403, merge(&theirs, "Merge main")),
        ("a name", 400, merge("main", "Merge main")),
        ("an abbreviated id", 400, merge(&upstream[..12], "Merge main")),
        ("no commit", 400, merge(&"f".repeat(40), "Merge main")),
        ("a blank message", 400, merge(&upstream, " ")),
        ("a long message", 400, merge(&upstream, &"x".repeat(201))),
        ("a message of two lines", 400, merge(&upstream, "Merge main\n\nLazy-Task: x")),
        ("another operation", 400, json!({ "operation": "push" })),
        ("nothing", 400, json!({})),
        ("no merge to conclude", 409, json!({ "operation": "merge_commit" })),
        ("no merge to roll back", 409, json!({ "operation": "merge_abort" })),
        ("an unknown phase", 400, json!({ "operation": "tag", "phase": "../../heads/main", "sha": head })),
        ("a tag without a commit", 400, json!({ "operation": "tag", "phase": "post-work" })),
        ("a tag on a sibling's commit", 403, json!({ "operation": "tag", "phase": "post-work", "sha": theirs })),
        (
            "a tag on a commit of the upstream",
            403,
            json!({ "operation": "tag", "phase": "post-work", "sha": upstream }),
        ),
    ] {
        let (status, body) = order(&world, (&own, &path), &arguments);
        assert_eq!(status, expected, "{why}: {body}");
    }
    let (status, body) = order(&world, (&other, &path), &merge(&upstream, "Merge main"));
    assert!([401, 403].contains(&status), "another task's token: {status} {body}");
    let shared = json!({ "token": fs::read_to_string(world.state_dir().expect("dir").join("token")).unwrap_or_default().trim(),
        "target": own["target"], "projectRoot": own["projectRoot"] });
    let (status, body) = order(&world, (&shared, "/rpc/internalGit"), &merge(&upstream, "Merge main"));
    assert!(status >= 400, "it is no command: {body}");
    let (_, misspelt) = order(&world, (&own, &format!("/mcp/{id}/lazy_internal_gi")), &json!({}));
    assert!(
        !misspelt.to_string().contains("internal_git\"") && !misspelt.to_string().contains("mean lazy_internal"),
        "{misspelt}"
    );

    // an agent can write HEAD of its worktree; no branch but its own is moved all the same
    let worktree = worktree(&world, "own");
    let git_dir = PathBuf::from(world.git_at(&worktree, &["rev-parse", "--absolute-git-dir"]));
    let real = fs::read_to_string(git_dir.join("HEAD")).expect("HEAD");
    fs::write(git_dir.join("HEAD"), "ref: refs/heads/lazy/sibling\n").expect("writes");
    let (status, body) = order(&world, (&own, &path), &merge(&upstream, "Merge main"));
    assert_eq!(status, 409, "{body}");
    fs::write(git_dir.join("HEAD"), real).expect("writes");
    // nor does a merge that an agent made up get concluded
    fs::write(git_dir.join("MERGE_HEAD"), format!("{theirs}\n")).expect("writes");
    let (status, body) = order(&world, (&own, &path), &json!({ "operation": "merge_commit" }));
    assert_eq!(status, 403, "{body}");
    fs::remove_file(git_dir.join("MERGE_HEAD")).expect("removes");
    assert_eq!(refs(&world, "none"), before, "nothing has moved");

    let (status, body) =
        order(&world, (&own, &path), &json!({ "operation": "tag", "phase": "post-work", "sha": head }));
    assert_eq!((status, &body["result"]["outcome"]), (200, &json!("done")), "{body}");
    let (status, body) = order(&world, (&own, &path), &merge(&upstream, "Merge main"));
    assert_eq!((status, &body["result"]["outcome"]), (200, &json!("merged")), "{body}");
    assert_eq!(body["result"]["head"], json!(world.git(&["rev-parse", "lazy/own"])));
    let (_, again) = order(&world, (&own, &path), &merge(&upstream, "Merge main"));
    assert_eq!(again["result"]["outcome"], "up_to_date", "{again}");

    world.ok(&["stop", "own", "--reason", "enough", "--yes"]);
    let later = commit_on_main(&world, "later.txt", "later\n");
    let (status, body) = order(&world, (&own, &path), &merge(&later, "Merge main"));
    assert!([401, 409].contains(&status), "no turn runs: {status} {body}");
    assert_eq!(world.git(&["merge-base", "main", "lazy/own"]), upstream);
}
