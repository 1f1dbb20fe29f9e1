use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::base::{Kind, Millis};

const GOOD: &str = "#!/bin/sh\necho lazy-agent ok 9.9.9\n";

/// A home, and a program that stands for lazy.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().expect("temp dir"))
    }

    fn bin(&self) -> PathBuf {
        self.0.path().join("home/.lazy/bin")
    }

    /// The installs, with these bytes as the running program.
    fn installs(&self, program: &str) -> Installs {
        let path = self.0.path().join("program");
        fs::write(&path, program).expect("writes");
        let home = self.0.path().join("home");
        let env = [("HOME", home.to_str().expect("utf-8")), ("PATH", "/usr/bin:/bin")];
        let process = Process::fake(["lazy"], &env, Path::new("/"), Millis(0));
        Installs { source: Source::File(path), ..Installs::new(&process).expect("a home") }
    }

    /// A file in the directory of installs.
    fn put(&self, name: &str, text: &str) -> PathBuf {
        fs::create_dir_all(self.bin()).expect("directory");
        let path = self.bin().join(name);
        fs::write(&path, text).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.bin()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn inode(path: &Path) -> u64 {
    path.metadata().expect("exists").ino()
}

#[tokio::test]
async fn the_program_is_written_once_and_pointed_at() {
    let home = Home::new();
    let installs = home.installs(GOOD);
    let install = installs.ensure().await.expect("installs");
    assert_eq!(install.id, crate::base::hash::content_id(GOOD.as_bytes()));
    assert_eq!(install.path, home.bin().join(format!("lazy-agent-{}", install.id)));
    assert_eq!(fs::read_to_string(&install.path).expect("reads"), GOOD);
    assert_eq!(install.path.metadata().expect("exists").mode() & 0o7777, 0o755);
    let before = inode(&install.path);
    assert_eq!(installs.ensure().await.expect("again"), install);
    assert_eq!(inode(&install.path), before, "it was written again");
    let current = fs::read_link(home.bin().join("lazy-agent-current")).expect("a link");
    assert_eq!(current, Path::new(install.path.file_name().expect("a name")), "the link is relative");

    let newer = home.installs(&format!("{GOOD}# newer\n")).ensure().await.expect("installs");
    assert_ne!(newer.id, install.id);
    assert_eq!(inode(&install.path), before, "the older one was touched");
    assert_eq!(fs::read(home.bin().join("lazy-agent-current")).expect("reads"), fs::read(&newer.path).expect("reads"));
    assert_eq!(home.names().len(), 3, "{:?}", home.names());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_get_one_whole_program() {
    let home = Home::new();
    let installs = home.installs(GOOD);
    let all = (0..16).map(|_| {
        tokio::spawn({
            let installs = installs.clone();
            async move { installs.ensure().await }
        })
    });
    let mut found = BTreeSet::new();
    for one in all.collect::<Vec<_>>() {
        let install = one.await.expect("no panic").expect("installs");
        assert_eq!(fs::read_to_string(&install.path).expect("reads"), GOOD);
        found.insert(install.path);
    }
    assert_eq!(found.len(), 1);
    assert_eq!(home.names().len(), 2, "something was left: {:?}", home.names());
}

#[tokio::test]
async fn a_damaged_install_is_made_anew() {
    let home = Home::new();
    let installs = home.installs(GOOD);
    let path = installs.ensure().await.expect("installs").path;
    let torn = &GOOD[..10];
    let flipped = GOOD.replace("ok", "ko");
    for (what, text, mode) in
        [("torn", torn, 0o755), ("flipped", &flipped, 0o755), ("open", GOOD, 0o777), ("shut", GOOD, 0o600)]
    {
        let opened = fs::File::open(&path).expect("a container has it open");
        fs::remove_file(&path).expect("removes");
        fs::write(&path, text).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
        let State::Damaged(_, why) = installs.state().await.expect("looks") else { panic!("{what} passes for whole") };
        assert!(!why.is_empty());
        installs.ensure().await.expect("mends");
        assert_eq!(fs::read_to_string(&path).expect("reads"), GOOD, "{what}");
        assert_eq!(path.metadata().expect("exists").mode() & 0o777, 0o755, "{what}");
        drop(opened);
    }
    assert!(matches!(installs.state().await.expect("looks"), State::Installed(_)));
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_nothing_is_left() {
    let home = Home::new();
    let bad = home.installs("#!/bin/sh\necho 'GLIBC_2.99 not found' >&2; exit 1\n");
    let error = bad.ensure().await.expect_err("does not run");
    assert!(error.kind() == Kind::Unavailable && error.message().contains("GLIBC_2.99"), "{error}");
    assert!(home.names().is_empty(), "{:?}", home.names());
    let other = home.installs("#!/bin/sh\necho v1.2.3\n");
    assert!(other.ensure().await.is_err(), "another program passes for lazy");

    let installs = home.installs(GOOD);
    let State::Absent(install) = installs.state().await.expect("looks") else { panic!("it is not there") };
    fs::create_dir(&install.path).expect("directory");
    let error = installs.ensure().await.expect_err("a directory");
    assert!(error.kind() == Kind::Conflict && error.hints()[0].starts_with("mv "), "{error}");
    fs::remove_dir(&install.path).expect("removes");
    std::os::unix::fs::symlink("/bin/true", &install.path).expect("links");
    assert_eq!(installs.ensure().await.expect_err("a link").kind(), Kind::Conflict);

    let homeless = Home::new();
    fs::create_dir_all(homeless.bin().parent().expect("a parent")).expect("directory");
    fs::write(homeless.bin(), "a file").expect("writes");
    let error = homeless.installs(GOOD).ensure().await.expect_err("no directory");
    assert!(error.kind() == Kind::Io && error.message().contains(".lazy/bin"), "{error}");
}

#[tokio::test]
async fn a_denied_write_names_the_owner() {
    let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let own = write::not_writable(Path::new("/proc/nobody/x"), denied);
    assert_eq!(own.kind(), Kind::Io);
    let full = write::not_writable(Path::new("/tmp/x"), std::io::Error::from(std::io::ErrorKind::StorageFull));
    assert!(full.hints().iter().any(|hint| hint.contains("disk space")), "{full}");
}

#[tokio::test]
async fn only_what_nobody_uses_is_collected() {
    let home = Home::new();
    let names = ["1111111111111111", "2222222222222222", "3333333333333333", "4444444444444444"];
    let [used, held, current, idle] = names.map(|id| home.put(&format!("lazy-agent-{id}"), "x"));
    let legacy = home.put("lazy-agent", "old");
    let strangers = ["lazy-agent-123", "lazy-agent-XYZ4444444444444", "notes", "lazy-agent-4444444444444444.bak"];
    let strangers = strangers.map(|name| home.put(name, "mine"));
    std::os::unix::fs::symlink(current.file_name().expect("a name"), home.bin().join("lazy-agent-current"))
        .expect("links");
    let holder = fs::File::open(&held).expect("opens");
    flock(&holder, FlockOperation::LockShared).expect("locks");
    // The engine may know the directory by another name.
    let alias = home.0.path().join("alias");
    std::os::unix::fs::symlink(home.bin(), &alias).expect("links");
    let in_use = BTreeSet::from([alias.join(used.file_name().expect("a name")), legacy.clone()]);
    let installs = home.installs(GOOD);
    assert_eq!(installs.collect(&in_use).await.expect("collects"), std::slice::from_ref(&idle));
    for path in [&used, &held, &current, &legacy].into_iter().chain(&strangers) {
        assert!(path.exists(), "{} is gone", path.display());
    }
    // Not only dropped: a child that is just being started somewhere may have a copy of the descriptor for a moment.
    flock(&holder, FlockOperation::Unlock).expect("lets go");
    assert_eq!(installs.collect(&BTreeSet::new()).await.expect("collects"), [legacy, used, held]);
    assert!(current.exists() && strangers.iter().all(|path| path.exists()));
}

#[tokio::test]
async fn what_was_handed_out_is_not_collected() {
    let home = Home::new();
    let first = home.installs(GOOD).ensure().await.expect("installs");
    let newer = home.installs(&format!("{GOOD}# newer\n"));
    newer.ensure().await.expect("installs");
    assert!(newer.collect(&BTreeSet::new()).await.expect("collects").is_empty());
    assert!(first.path.exists(), "a launch under way lost its program");
}

#[tokio::test]
async fn the_file_of_older_versions_is_taken_over_once() {
    let home = Home::new();
    let old = "#!/bin/sh\necho lazy-agent ok 0.0.1\n";
    let legacy = home.put("lazy-agent", old);
    let before = inode(&legacy);
    home.installs(GOOD).ensure().await.expect("installs");
    let adopted = home.bin().join(format!("lazy-agent-{}", crate::base::hash::content_id(old.as_bytes())));
    assert_eq!(fs::read_to_string(&adopted).expect("reads"), old);
    assert_eq!(inode(&legacy), before, "containers that mount it see another file");

    let strange = Home::new();
    strange.put("lazy-agent", "#!/bin/sh\nexit 1\n");
    strange.installs(GOOD).ensure().await.expect("a broken one is in nobody's way");
    assert_eq!(strange.names().len(), 3, "{:?}", strange.names());
}
