//! Which programs are at work where.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The processes of a program that work in one of the directories, or name one in their environment. One that may not be
/// looked at counts. `None` where the system does not show its processes, so that nothing can be said.
pub fn working_in(program: &str, places: &[&Path]) -> Option<Vec<u32>> {
    std::fs::read_link("/proc/self/cwd").ok()?;
    let entries = std::fs::read_dir("/proc").ok()?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Some(pids.filter(|pid| is_running(*pid, program) && is_in(*pid, places)).collect())
}

fn is_running(pid: u32, program: &str) -> bool {
    // a zombie holds nothing, whatever its name
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    let is_zombie = stat.iter().rposition(|byte| *byte == b')').is_some_and(|end| stat.get(end + 2) == Some(&b'Z'));
    let known = name.strip_prefix(program.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"));
    known && !is_zombie
}

fn is_in(pid: u32, places: &[&Path]) -> bool {
    let cwd = match std::fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(cwd) => cwd,
        // one that is just ending has none any more
        Err(error) => return error.kind() == std::io::ErrorKind::PermissionDenied,
    };
    if places.iter().any(|place| cwd.starts_with(place)) {
        return true;
    }
    let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|pair| {
        let value = pair.iter().position(|byte| *byte == b'=').map_or(pair, |at| &pair[at + 1..]);
        pair.starts_with(b"GIT_")
            && places.iter().any(|place| PathBuf::from(OsStr::from_bytes(value)).starts_with(place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_is_found_where_it_works() {
        let dir = tempfile::tempdir().expect("temp dir");
        let place = dir.path().canonicalize().expect("exists");
        let elsewhere = tempfile::tempdir().expect("temp dir");
        let mut child = tokio::process::Command::new("sleep").arg("60").current_dir(&place).spawn().expect("sleeps");
        let pid = child.id().expect("runs");
        let mut named = tokio::process::Command::new("sleep")
            .arg("60")
            .env("GIT_DIR", place.join("x"))
            .current_dir(elsewhere.path())
            .spawn()
            .expect("sleeps");
        let other = named.id().expect("runs");
        // the name is that of the program only once it has taken over
        let found = |wanted: u32| {
            (0..2000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                working_in("sleep", &[&place]).is_some_and(|pids| pids.contains(&wanted))
            })
        };
        assert!(found(pid) && found(other));
        assert!(!working_in("slee", &[&place]).expect("/proc").contains(&pid), "another program");
        child.kill().await.expect("ends");
        named.kill().await.expect("ends");
        let left = working_in("sleep", &[&place]).expect("/proc");
        assert!(!left.contains(&pid) && !left.contains(&other), "{left:?}");
    }
}
