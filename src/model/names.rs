//! Ids, codes and refs, and the rule by which text names a task.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::{Error, Kind, Millis, Result};

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A fresh random id.
            pub fn random() -> Self {
                $name(Uuid::new_v4())
            }

            /// The first 8 hex digits.
            pub fn short(&self) -> String {
                self.0.simple().to_string()[..8].to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0.hyphenated())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0.hyphenated())
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Uuid::parse_str(text).map($name).map_err(|_| Error::invalid(format!("{text:?} is not an id")))
            }
        }
    };
}

uuid_id!(
    /// The id of a task: a UUID v4.
    TaskId
);
uuid_id!(
    /// The id of a session: a UUID v4.
    SessionId
);

/// A person's handle for a task: 2 to 63 of `[a-z0-9-]`, first and last alphanumeric, `lazy-` reserved.
///
/// Older stores hold longer and dotted codes; they are read as they are ([`Code::read`]) and never made ([`Code::new`]).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(String);

impl Code {
    /// A new code, checked.
    ///
    /// # Errors
    /// [`Kind::Invalid`] with a message of its own for each way to be wrong.
    pub fn new(text: &str) -> Result<Code> {
        let wrong = |why: String| Err(Error::invalid(format!("{text:?} is not a task code: {why}")));
        let count = text.chars().count();
        let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        match text {
            _ if count < 2 => wrong("it is shorter than 2 characters".into()),
            _ if count > 63 => wrong(format!("it has {count} characters, 63 is the most")),
            _ if text.contains('.') => wrong(format!("dots are not allowed, try {:?}", text.replace('.', "-"))),
            _ if !text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') => {
                wrong("only lowercase letters, digits and hyphens are allowed".into())
            }
            _ if !alphanumeric(text.chars().next()) || !alphanumeric(text.chars().next_back()) => {
                wrong("it must start and end with a letter or a digit".into())
            }
            _ if text.starts_with("lazy-") => wrong("the prefix lazy- is reserved".into()),
            "new" | "link" => wrong("this word is reserved".into()),
            _ if count == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                wrong("eight hex digits look like the short id of another task".into())
            }
            _ if Uuid::parse_str(text).is_ok() => wrong("it looks like the id of another task".into()),
            _ => Ok(Code(text.to_string())),
        }
    }

    /// A code as an existing store has it.
    pub fn read(text: impl Into<String>) -> Code {
        Code(text.into())
    }

    /// A code made from free text, if anything usable is left of it.
    pub fn derive(text: &str) -> Option<Code> {
        let mut slug = String::new();
        for c in text.chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c.to_ascii_lowercase());
            } else if !slug.ends_with('-') {
                slug.push('-');
            }
        }
        let cut: String = slug.trim_matches('-').chars().take(63).collect();
        Code::new(cut.trim_matches('-')).ok()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name that a task's branch, worktree and run share, stored once: `lazy/<ref>`, `.lazy/worktrees/<ref>`,
/// `lazy-<ref>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskRef(String);

impl TaskRef {
    /// The ref for a task: its code if no other task ever had it, else with the date, else with the short id too.
    pub fn choose(id: TaskId, code: Option<&Code>, created_at: Millis, taken: impl Fn(&str) -> bool) -> TaskRef {
        let Some(code) = code else {
            let short = id.short();
            return TaskRef(if taken(&short) { id.to_string() } else { short });
        };
        let dated = format!("{code}-{}", created_at.short_date());
        let full = format!("{dated}-{}", id.short());
        let choice = [code.to_string(), dated].into_iter().find(|name| !taken(name)).unwrap_or(full);
        TaskRef(choice)
    }

    /// A stored ref.
    pub fn read(text: impl Into<String>) -> TaskRef {
        TaskRef(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the run: `lazy-<ref>`.
    pub fn run_name(&self) -> String {
        format!("lazy-{}", self.0)
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the rule for naming a task needs to know of each one.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The task.
    pub id: TaskId,
    /// Its code.
    pub code: Option<Code>,
    /// Whether it is complete or abandoned.
    pub terminal: bool,
    /// When it was created.
    pub created_at: Millis,
}

/// Which task `text` names: the full id; else the code (one live task wins over finished ones, of finished ones the
/// newest); else a unique prefix of the id.
///
/// `unreadable` are tasks of which only the id is known. Each may have any code: while there are some, a short text that
/// is no known code and could be one is not taken for the beginning of another task's id.
///
/// # Errors
/// [`Kind::NotFound`]; [`Kind::Ambiguous`] with the candidates' ids under `matches` in the details.
pub fn resolve(
    text: &str,
    candidates: impl Iterator<Item = Candidate> + Clone,
    unreadable: &[TaskId],
) -> Result<TaskId> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::invalid("no task was named").hint("lazy list"));
    }
    if let Ok(id) = text.parse::<TaskId>() {
        let known = candidates.clone().any(|c| c.id == id) || unreadable.contains(&id);
        return if known { Ok(id) } else { Err(no_such_task(text)) };
    }
    let by_code: Vec<Candidate> =
        candidates.clone().filter(|c| c.code.as_ref().is_some_and(|code| code.as_str() == text)).collect();
    let live: Vec<&Candidate> = by_code.iter().filter(|c| !c.terminal).collect();
    match live[..] {
        [one] => return Ok(one.id),
        [_, _, ..] => return Err(ambiguous(text, live.iter().map(|c| c.id))),
        [] => {}
    }
    if let Some(newest) = by_code.iter().max_by_key(|c| c.created_at) {
        return Ok(newest.id);
    }
    let hex = text.to_ascii_lowercase();
    if !hex.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Err(no_such_task(text));
    }
    let ids = candidates.map(|c| c.id).chain(unreadable.iter().copied());
    let found: Vec<TaskId> = ids.filter(|id| id.to_string().starts_with(&hex)).collect();
    match found[..] {
        [one] if !unreadable.is_empty() && !unreadable.contains(&one) && Code::new(text).is_ok() => {
            let count = unreadable.len();
            let matches: Vec<String> = found.iter().chain(unreadable).map(ToString::to_string).collect();
            Err(Error::new(
                Kind::Ambiguous,
                format!(
                    "{text:?} begins the id of task {}, and may be the code of {}",
                    one.short(),
                    match count {
                        1 => "a task whose record cannot be read".to_string(),
                        _ => format!("one of {count} tasks whose records cannot be read"),
                    }
                ),
            )
            .with_details(serde_json::json!({ "matches": matches, "name": text }))
            .hint("lazy doctor")
            .hint(format!("name it by its id: {}", one.short())))
        }
        [one] => Ok(one),
        [] => Err(no_such_task(text)),
        _ => Err(ambiguous(text, found.iter().copied())),
    }
}

fn no_such_task(text: &str) -> Error {
    Error::not_found(format!("no task found matching {text:?}")).hint("lazy list --all")
}

fn ambiguous(text: &str, ids: impl Iterator<Item = TaskId>) -> Error {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    Error::new(Kind::Ambiguous, format!("{text:?} fits {} tasks", ids.len()))
        .with_details(serde_json::json!({ "matches": ids, "name": text }))
        .hint("name the task by more of its id: lazy list --all")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: &str, code: Option<&str>, terminal: bool, at: i64) -> Candidate {
        Candidate { id: id.parse().expect("id"), code: code.map(Code::read), terminal, created_at: Millis(at) }
    }

    const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
    const B: &str = "aaaabbbb-0000-4000-8000-000000000002";

    #[test]
    fn codes_are_labels() {
        for good in ["ab", "fix-login", "a1", &"x".repeat(63)] {
            assert!(Code::new(good).is_ok(), "{good}");
        }
        for bad in ["a", "", "Fix", "-ab", "ab-", "a.b", "a b", "lazy-x", "new", "deadbeef", A, &"x".repeat(64)] {
            assert!(Code::new(bad).is_err(), "{bad}");
        }
        assert_eq!(Code::derive("Fix the Login, now!").map(|c| c.to_string()), Some("fix-the-login-now".into()));
        assert_eq!(Code::derive("!!"), None);
    }

    #[test]
    fn a_live_task_wins_over_finished_ones_with_its_code() {
        let all = [candidate(A, Some("fix"), true, 1), candidate(B, Some("fix"), false, 0)];
        assert_eq!(resolve("fix", all.iter().cloned(), &[]).expect("resolves").to_string(), B);
        let done = [candidate(A, Some("fix"), true, 1), candidate(B, Some("fix"), true, 0)];
        assert_eq!(resolve("fix", done.iter().cloned(), &[]).expect("resolves").to_string(), A);
    }

    #[test]
    fn prefixes_must_be_unique() {
        let all = [candidate(A, None, false, 1), candidate(B, None, false, 0)];
        assert_eq!(resolve("aaaaa", all.iter().cloned(), &[]).expect("resolves").to_string(), A);
        assert_eq!(resolve("aaaa", all.iter().cloned(), &[]).expect_err("two fit").kind(), Kind::Ambiguous);
        assert_eq!(resolve("zz", all.iter().cloned(), &[]).expect_err("none fits").kind(), Kind::NotFound);
    }

    #[test]
    fn the_code_of_a_task_that_cannot_be_read_is_not_taken_for_the_id_of_another() {
        let all = [candidate(A, None, false, 1)];
        let torn: TaskId = "cccccccc-0000-4000-8000-000000000003".parse().expect("id");
        let error = resolve("aaaa", all.iter().cloned(), &[torn]).expect_err("it could be a code");
        assert_eq!(error.kind(), Kind::Ambiguous);
        assert!(error.to_string().contains("cannot be read"), "{error}");
        assert_eq!(resolve("aaaaaaaa", all.iter().cloned(), &[torn]).expect("no code").to_string(), A);
        assert_eq!(resolve(A, all.iter().cloned(), &[torn]).expect("the id").to_string(), A);
        assert_eq!(resolve("cccc", all.iter().cloned(), &[torn]).expect("its own id"), torn);
        assert_eq!(resolve("aaaa", all.iter().cloned(), &[]).expect("nothing is torn").to_string(), A);
    }

    #[test]
    fn refs_stay_unique() {
        let id: TaskId = A.parse().expect("id");
        let code = Code::new("fix").expect("code");
        let at = Millis::parse("2026-05-06T00:00:00Z").expect("time");
        assert_eq!(TaskRef::choose(id, None, at, |_| false).as_str(), "aaaaaaaa");
        assert_eq!(TaskRef::choose(id, None, at, |name| name == "aaaaaaaa").as_str(), A);
        assert_eq!(TaskRef::choose(id, Some(&code), at, |_| false).as_str(), "fix");
        assert_eq!(TaskRef::choose(id, Some(&code), at, |n| n == "fix").as_str(), "fix-26-05-06");
        assert_eq!(TaskRef::choose(id, Some(&code), at, |_| true).as_str(), "fix-26-05-06-aaaaaaaa");
    }
}
