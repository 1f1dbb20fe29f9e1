use super::*;
use crate::model::exchange::{Completed, Failure, Stop};

fn mailbox() -> (tempfile::TempDir, Mailbox) {
    let dir = tempfile::tempdir().expect("temp dir");
    let mailbox = Mailbox::new(dir.path().join("mail box"));
    (dir, mailbox)
}

fn stop() -> Command {
    Command::Stop(Stop { task_id: TaskId::random(), reason: Some("test".into()) })
}

fn answer(command_id: &str) -> Response {
    let completed = Completed { result: "done".into(), ..Completed::default() };
    Response::Completed { command_id: command_id.into(), responses: vec![completed] }
}

fn names(mailbox: &Mailbox) -> Vec<String> {
    let entries = fs::read_dir(mailbox.dir()).expect("lists");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_command_is_taken_once() {
    let (_dir, mailbox) = mailbox();
    assert_eq!(mailbox.take_command().expect("an absent mailbox is an empty one"), None);
    let command = stop();
    mailbox.write_command(&command).expect("writes");
    assert!(mailbox.has_command());
    assert_eq!(mailbox.take_command().expect("takes"), Some(command));
    assert_eq!(mailbox.take_command().expect("is empty"), None);
    assert_eq!(names(&mailbox), Vec::<String>::new());
}

#[test]
fn an_unread_response_survives_commands_and_responses() {
    let (_dir, mailbox) = mailbox();
    mailbox.write_response(&answer("first")).expect("writes");
    mailbox.write_command(&stop()).expect("writes");
    assert_eq!(mailbox.load_response().expect("reads"), None);
    mailbox.write_response(&answer("second")).expect("writes");
    std::thread::sleep(std::time::Duration::from_millis(2));
    mailbox.write_response(&answer("third")).expect("writes");
    let kept = mailbox.superseded();
    let ids: Vec<&str> = kept.iter().map(|(_, response)| response.command_id()).collect();
    assert_eq!(ids, ["first", "second"]);
    for (path, _) in &kept {
        mailbox.discard_superseded(path).expect("discards");
    }
    assert!(mailbox.superseded().is_empty());
    assert_eq!(mailbox.load_response().expect("reads").expect("stays").command_id(), "third");
    mailbox.consume_response().expect("consumes");
    assert!(!mailbox.has_response());
}

#[test]
fn only_superseded_responses_can_be_discarded() {
    let (_dir, mailbox) = mailbox();
    mailbox.write_response(&answer("a")).expect("writes");
    assert!(mailbox.discard_superseded(&mailbox.dir().join("response.json")).is_err());
    assert!(mailbox.has_response());
}

#[test]
fn a_torn_command_is_reported_once_and_kept() {
    let (_dir, mailbox) = mailbox();
    files::create_dir(mailbox.dir()).expect("dir");
    for (bytes, id) in [
        (&b"{\"type\":\"start\",\"go"[..], Value::Null),
        (b"", Value::Null),
        (b"\xff\xfe", Value::Null),
        (br#"{"type":"dance","command_id":"c-9","protocol_version":77}"#, json!("c-9")),
    ] {
        fs::write(mailbox.dir().join("command.json"), bytes).expect("writes");
        let error = mailbox.take_command().expect_err("not readable");
        assert_eq!(error.kind(), Kind::Io);
        let details = error.details().expect("details");
        assert_eq!(details["command_id"], id);
        assert_eq!(fs::read(details["path"].as_str().expect("path")).expect("is kept"), bytes);
        assert_eq!(mailbox.take_command().expect("the slot is empty"), None);
    }
}

#[test]
fn a_torn_response_names_its_file_and_can_be_set_aside() {
    let (_dir, mailbox) = mailbox();
    files::create_dir(mailbox.dir()).expect("dir");
    fs::write(mailbox.dir().join("response.json"), b"{\"status\":\"comp").expect("writes");
    let error = mailbox.load_response().expect_err("torn");
    assert!(error.to_string().contains("response.json"), "{error}");
    let kept = mailbox.set_aside_response().expect("moves");
    assert_eq!(fs::read(kept).expect("is kept"), b"{\"status\":\"comp");
    assert_eq!(mailbox.load_response().expect("reads"), None);
}

#[test]
fn a_torn_superseded_response_stays_on_disk() {
    let (_dir, mailbox) = mailbox();
    files::create_dir(mailbox.dir()).expect("dir");
    fs::write(mailbox.dir().join("response.json"), b"{").expect("writes");
    mailbox.write_command(&stop()).expect("writes");
    assert!(mailbox.superseded().is_empty());
    assert!(names(&mailbox).iter().any(|name| name.starts_with(SUPERSEDED)));
}

#[test]
fn the_next_command_clears_the_progress_line() {
    let (_dir, mailbox) = mailbox();
    mailbox.write_progress(&ProgressFile { message: "half".into(), updated_at: "t".into() }).expect("writes");
    assert_eq!(mailbox.load_progress().expect("reads").message, "half");
    mailbox.write_command(&stop()).expect("writes");
    assert_eq!(mailbox.load_progress(), None);
}

#[test]
fn an_error_response_reads_back() {
    let (_dir, mailbox) = mailbox();
    let failure = Failure { command_id: "x".into(), error: "no".into(), phase: "work".into(), ..Failure::default() };
    mailbox.write_response(&Response::Error(failure.clone())).expect("writes");
    assert_eq!(mailbox.load_response().expect("reads"), Some(Response::Error(failure)));
}

#[test]
fn the_base_follows_the_environment() {
    let fake = |env: &[(&str, &str)]| Process::fake(["lazy"], env, Path::new("/w"), crate::base::Millis(0));
    assert_eq!(base(&fake(&[("HOME", "/h")])).expect("base"), Path::new("/h/.lazy/protocol"));
    assert_eq!(base(&fake(&[("LAZY_PROTOCOL_BASE", "/p")])).expect("base"), Path::new("/p"));
    assert_eq!(base(&fake(&[("LAZY_PROTOCOL_BASE", "p")])).expect("base"), Path::new("/w/p"));
}

#[test]
fn the_stream_file_is_bounded() {
    let (_dir, mailbox) = mailbox();
    let mut stream = mailbox.open_stream().expect("opens");
    stream.line(b"{\"a\":1}");
    stream.line(&vec![b'x'; (64 << 10) + 1]);
    for _ in 0..200 {
        stream.line(&vec![b'y'; 64 << 10]);
    }
    let text = fs::read_to_string(mailbox.stream_path()).expect("reads");
    assert!(text.len() <= (8 << 20) + 64, "{}", text.len());
    assert!(text.starts_with("{\"a\":1}\n{\"type\":\"lazy_line_dropped\",\"bytes\":65537}\n"));
    assert!(text.ends_with("\n{\"type\":\"lazy_stream_full\"}\n"));
    mailbox.open_stream().expect("opens");
    assert_eq!(fs::read(mailbox.stream_path()).expect("reads"), b"");
}

#[test]
fn the_agent_record_comes_and_goes() {
    let (_dir, mailbox) = mailbox();
    assert_eq!(mailbox.load_agent(), None);
    let agent = AgentRecord { pid: 7, start_time: Some(9) };
    mailbox.write_agent(agent).expect("writes");
    assert_eq!(mailbox.load_agent(), Some(agent));
    mailbox.clear_agent().expect("clears");
    assert_eq!(mailbox.load_agent(), None);
}

#[test]
fn what_an_agent_puts_in_the_mailbox_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mailbox = Mailbox::new(dir.path().join("box"));
    mailbox.create().expect("makes it");
    let secret = dir.path().join("secret.json");
    std::fs::write(&secret, r#"{"phase":"work"}"#).expect("writes");
    for name in ["response.json", "status.json", "progress.json", "agent.json"] {
        let path = mailbox.dir().join(name);
        let fifo = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(fifo.success());
        look(&mailbox, name);
        std::fs::remove_file(&path).expect("removes");
        std::os::unix::fs::symlink(&secret, &path).expect("links");
        look(&mailbox, name);
        std::fs::remove_file(&path).expect("removes");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("links");
        look(&mailbox, name);
        std::fs::remove_file(&path).expect("removes");
        std::fs::File::create(&path).expect("creates").set_len(10 << 30).expect("grows");
        look(&mailbox, name);
        std::fs::remove_file(&path).expect("removes");
    }
}

/// Each reader refuses or sees nothing; a response that is none is moved out of the way.
fn look(mailbox: &Mailbox, name: &str) {
    assert!(mailbox.load_progress().is_none());
    assert!(mailbox.load_agent().is_none());
    assert_eq!(mailbox.load_status().is_err(), name == "status.json");
    assert_eq!(mailbox.has_response(), name == "response.json");
    if name == "response.json" {
        assert_eq!(mailbox.load_response().expect_err("refused").kind(), crate::base::Kind::Io);
        let kept = mailbox.set_aside_response().expect("moves it");
        assert!(!mailbox.has_response());
        std::fs::rename(kept, mailbox.dir().join(name)).expect("back");
    }
}
