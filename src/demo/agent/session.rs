//! A conversation on disk: `<sandbox>/.demo/<id>.jsonl`, one message a line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::base::{Error, Kind, Result, ResultExt, files};

/// A conversation that is being held.
#[derive(Debug)]
pub struct Session {
    id: String,
    path: PathBuf,
    file: File,
    messages: Vec<Value>,
}

impl Session {
    /// A new conversation.
    pub fn create(sandbox: &Path) -> Result<Session> {
        let id = uuid::Uuid::new_v4().to_string();
        let path = path(sandbox, &id);
        files::create_private_dir(&sandbox.join(".demo"))?;
        let file = append(OpenOptions::new().create_new(true), &path)?;
        Ok(Session { id, path, file, messages: Vec::new() })
    }

    /// The conversation of an id.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when there is none; the message is the one Claude Code has for this.
    pub fn load(sandbox: &Path, id: &str) -> Result<Session> {
        let missing = || Error::new(Kind::NotFound, format!("No conversation found with session ID: {id}"));
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(missing());
        }
        let path = path(sandbox, id);
        let bytes = files::read_optional(&path)?.ok_or_else(missing)?;
        let messages = bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            .filter(|message| message["role"].is_string())
            .collect();
        let mut file = append(&mut OpenOptions::new(), &path)?;
        if !bytes.is_empty() && bytes.last() != Some(&b'\n') {
            file.write_all(b"\n").io_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Session { id: id.to_string(), path, file, messages })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its messages, oldest first.
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Adds the prompt. Calls that an interruption left without an answer are answered with an error first: the API
    /// refuses a call without one.
    pub fn begin(&mut self, prompt: &str) -> Result<()> {
        let mut content = self.unanswered();
        content.push(json!({"type": "text", "text": prompt}));
        self.push("user", Value::from(content))
    }

    /// Adds a message, on disk before it counts.
    pub fn push(&mut self, role: &str, content: Value) -> Result<()> {
        if content.as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        let message = json!({"role": role, "content": content});
        self.file
            .write_all(format!("{message}\n").as_bytes())
            .io_context(|| format!("cannot write {}", self.path.display()))?;
        self.messages.push(message);
        Ok(())
    }

    fn unanswered(&self) -> Vec<Value> {
        let Some(last) = self.messages.last().filter(|message| message["role"] == "assistant") else {
            return Vec::new();
        };
        let calls = last["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_use");
        calls
            .map(|call| {
                json!({
                    "type": "tool_result", "tool_use_id": call["id"], "is_error": true,
                    "content": "The call was interrupted; whether it had an effect is not known.",
                })
            })
            .collect()
    }
}

fn path(sandbox: &Path, id: &str) -> PathBuf {
    sandbox.join(".demo").join(format!("{id}.jsonl"))
}

fn append(options: &mut OpenOptions, path: &Path) -> Result<File> {
    options.append(true).mode(0o600).open(path).io_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_goes_on_after_a_torn_line_and_a_cut_off_call() {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut session = Session::create(dir.path()).expect("creates");
        session.begin("one").expect("writes");
        session
            .push("assistant", json!([{"type": "tool_use", "id": "t1", "name": "bash", "input": {}}]))
            .expect("writes");
        session.push("user", json!([])).expect("nothing to say is not written");
        let id = session.id().to_string();
        drop(session);
        let file = dir.path().join(".demo").join(format!("{id}.jsonl"));
        let mut bytes = std::fs::read(&file).expect("reads");
        bytes.extend_from_slice(b"{\"role\":\"user\",\"cont");
        std::fs::write(&file, bytes).expect("tears");

        let mut session = Session::load(dir.path(), &id).expect("loads");
        assert_eq!(session.messages().len(), 2);
        session.begin("two").expect("writes");
        let last = &session.messages()[2]["content"];
        assert_eq!((last[0]["tool_use_id"].as_str(), last[1]["text"].as_str()), (Some("t1"), Some("two")));
        let again = Session::load(dir.path(), &id).expect("loads again");
        assert_eq!(again.messages(), session.messages());
    }

    #[test]
    fn an_unknown_conversation_is_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        for id in ["11111111-2222", "../x", "", "a/b"] {
            let error = Session::load(dir.path(), id).expect_err("not there");
            assert_eq!(error.kind(), Kind::NotFound);
            assert_eq!(error.message(), format!("No conversation found with session ID: {id}"));
        }
    }
}
