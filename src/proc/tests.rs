use std::time::{Duration, Instant};

use super::*;
use crate::base::Kind;

fn sh(script: &str) -> Cmd {
    Cmd::new("sh").arg("-c").arg(script)
}

async fn gone(pid: u32) {
    let until = Instant::now() + Duration::from_secs(10);
    while alive(pid) {
        assert!(Instant::now() < until, "process {pid} still lives");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn codes_signals_and_both_outputs_come_back() {
    let output = sh("printf out; printf err >&2; exit 7").output().await.expect("runs");
    assert_eq!((output.code, output.signal, output.success()), (Some(7), None, false));
    assert_eq!((output.stdout_text().as_str(), output.stderr_text().as_str()), ("out", "err"));
    let output = sh("kill -9 $$").output().await.expect("runs");
    assert_eq!((output.code, output.signal), (None, Some(9)));
    assert!(sh("exit 0").output().await.expect("runs").success());
}

#[tokio::test]
async fn a_missing_program_or_directory_is_named() {
    let error = Cmd::new("no-such-program-here").output().await.expect_err("missing");
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("no-such-program-here"), "{error}");
    let error = sh("true").cwd(std::path::Path::new("/no/such dir")).output().await.expect_err("missing");
    assert!(error.to_string().contains("/no/such dir"), "{error}");
}

#[tokio::test]
async fn the_environment_and_the_input_are_the_ones_given() {
    let process = crate::base::Process::fake(
        ["lazy"],
        &[("PATH", "/usr/bin:/bin"), ("A", "1")],
        std::path::Path::new("/"),
        crate::base::Millis(0),
    );
    let cmd = sh("printf '%s-%s-%s-' \"$A\" \"$B\" \"$HOME\"; cat").env_of(&process).env("B", "2").env_remove("C");
    let output = cmd.stdin_bytes(b"input".to_vec()).output().await.expect("runs");
    assert_eq!(output.stdout_text(), "1-2--input");
}

#[tokio::test]
async fn input_nobody_reads_does_no_harm() {
    let output = sh("exec <&-; exit 3").stdin_bytes(vec![b'x'; 4 << 20]).output().await.expect("runs");
    assert_eq!(output.code, Some(3));
}

#[tokio::test]
async fn a_timeout_ends_grandchildren_too() {
    let dir = tempfile::tempdir().expect("temp dir");
    let pids = dir.path().join("pids");
    // One grandchild in the group, one in a session of its own, one that ignores TERM.
    let script = format!(
        "sleep 600 & echo $! >>{0}; setsid sleep 600 & echo $! >>{0}
         (trap '' TERM; while :; do sleep 1; done) & echo $! >>{0}; echo up; wait",
        pids.display()
    );
    let begun = Instant::now();
    let output = sh(&script).timeout(Duration::from_millis(700)).output().await.expect("runs");
    assert!(output.timed_out && !output.success());
    assert!(begun.elapsed() < Duration::from_secs(20));
    let text = std::fs::read_to_string(&pids).expect("pids");
    assert_eq!(text.lines().count(), 3);
    for pid in text.lines() {
        gone(pid.parse().expect("a number")).await;
    }
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_delays_the_end_by_the_drain_only() {
    let begun = Instant::now();
    let output = sh("sleep 30 & echo $!").output().await.expect("runs");
    assert_eq!(output.code, Some(0));
    assert!(output.truncated);
    assert!(begun.elapsed() < DRAIN + Duration::from_secs(5));
    let pid: u32 = output.stdout_text().trim().parse().expect("its id");
    assert!(alive(pid), "a normal end leaves background processes alone");
    signal_group(pid, Signal::Kill).ok();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid.try_into().expect("fits")).expect("not 0"),
        rustix::process::Signal::KILL,
    )
    .expect("ends what the test started");
}

#[tokio::test]
async fn huge_output_is_bounded_at_either_end() {
    let script = "head -c 3000000 /dev/zero; printf end";
    let head = sh(script).output_limit(1000).output().await.expect("runs");
    assert_eq!((head.stdout.len(), head.truncated, head.code), (1000, true, Some(0)));
    let tail = sh(script).output_limit(1000).keep(Keep::Tail).output().await.expect("runs");
    assert_eq!((tail.stdout.len(), tail.truncated), (1000, true));
    assert!(tail.stdout.ends_with(b"end"));
}

#[tokio::test]
async fn a_dropped_wait_kills_the_child() {
    let mut running = spawn_piped(sh("sleep 600 & wait")).expect("spawns");
    let pid = running.pid();
    assert!(tokio::time::timeout(Duration::from_millis(50), running.wait()).await.is_err());
    assert!(alive(pid) && start_time(pid).is_some());
    drop(running);
    gone(pid).await;
}

#[tokio::test]
async fn terminate_waits_for_a_polite_end() {
    use tokio::io::AsyncReadExt as _;
    let mut running = spawn_piped(sh("trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done")).expect("spawns");
    let mut stdout = running.take_stdout().expect("piped");
    stdout.read_exact(&mut [0; 3]).await.expect("it is up");
    assert_eq!(running.terminate(GRACE).await.expect("ends").code, Some(5));
    assert_eq!(running.terminate(GRACE).await.expect("again").code, Some(5));
}

#[tokio::test]
async fn a_detached_child_logs_is_reaped_and_can_be_ended() {
    let dir = tempfile::tempdir().expect("temp dir");
    let log = dir.path().join("logs/run.log");
    std::fs::create_dir(dir.path().join("logs")).expect("dir");
    std::fs::write(&log, "before\n").expect("writes");
    let pid = spawn_detached(sh("echo out; echo err >&2; cat; sleep 600"), &log).expect("spawns");
    let until = Instant::now() + Duration::from_secs(10);
    while std::fs::read_to_string(&log).expect("reads") != "before\nout\nerr\n" {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let started = start_time(pid);
    assert!(same_process(pid, started) && !same_process(pid, started.map(|at| at + 1)));
    terminate_group(pid, GRACE).await.expect("ends");
    assert!(!alive(pid));
    // Reaped, not only dead.
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        assert!(Instant::now() < until, "a zombie stays");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    terminate_group(pid, GRACE).await.expect("already gone is as good");
}

#[tokio::test]
async fn a_zombie_counts_as_dead() {
    let mut child = std::process::Command::new("sh").args(["-c", "exit 0"]).spawn().expect("spawns");
    gone(child.id()).await;
    assert!(std::path::Path::new(&format!("/proc/{}", child.id())).exists());
    child.wait().expect("reaps");
}

#[test]
fn which_finds_executables_only() {
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::write(dir.path().join("plain"), "x").expect("writes");
    crate::base::files::write_atomic(&dir.path().join("tool"), b"#!/bin/sh\n", crate::base::files::Mode::Program)
        .expect("writes");
    assert_eq!(which("plain", dir.path()), None);
    assert_eq!(which("", dir.path()), None);
    assert_eq!(which("tool", dir.path()), Some(dir.path().join("tool")));
    let path = dir.path().join("tool");
    assert_eq!(which(path.to_str().expect("utf-8"), ""), Some(path));
}

#[test]
fn nobody_is_signalled_by_a_silly_id() {
    assert!(signal_group(0, Signal::Term).is_err());
    assert!(signal_group(1, Signal::Term).is_err());
    assert!(!alive(u32::MAX));
}
