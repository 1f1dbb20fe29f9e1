//! Refusals are values: a kind, one message, and the commands that help.
//!
//! The kind is the only thing a caller may branch on; [`Kind::row`] is the one table that maps it to an exit code, an
//! HTTP status and a JSON-RPC code. A hint is a command (or a sentence with one) that a person can paste.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A result whose error explains itself.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of refusal an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The command line itself is wrong: unknown flag, missing argument.
    Usage,
    /// A value the caller gave is not acceptable.
    Invalid,
    /// The named thing does not exist.
    NotFound,
    /// The name fits several things.
    Ambiguous,
    /// The present state forbids it (wrong status, lock held, dirty tree, gate closed).
    Conflict,
    /// No or an unknown credential.
    Unauthorized,
    /// A known caller that may not do this.
    Forbidden,
    /// Something needed is not there: daemon down, program missing, no credential, no network.
    Unavailable,
    /// A bounded wait ran out.
    Timeout,
    /// The connection broke while the work may have gone on.
    Lost,
    /// The configuration file does not load.
    Config,
    /// Reading or writing failed: disk full, permission, torn file.
    Io,
    /// A person or a signal ended it.
    Canceled,
    /// A defect: nothing else fits.
    Internal,
}

struct Row {
    exit: u8,
    http: u16,
    rpc: i64,
}

impl Kind {
    /// The one table: exit code, HTTP status, JSON-RPC code.
    const fn row(self) -> Row {
        let (exit, http, rpc) = match self {
            Kind::Usage => (2, 400, -32602),
            Kind::Invalid => (1, 400, -32602),
            Kind::NotFound => (1, 404, -32001),
            Kind::Ambiguous => (1, 409, -32002),
            Kind::Conflict => (1, 409, -32003),
            Kind::Unauthorized => (1, 401, -32004),
            Kind::Forbidden => (1, 403, -32005),
            Kind::Unavailable => (1, 503, -32006),
            Kind::Timeout => (1, 504, -32007),
            Kind::Lost => (1, 502, -32008),
            Kind::Config => (1, 422, -32009),
            Kind::Io => (1, 507, -32010),
            Kind::Canceled => (130, 499, -32011),
            Kind::Internal => (1, 500, -32603),
        };
        Row { exit, http, rpc }
    }

    /// The process exit code for a command that ends with this error.
    pub const fn exit_code(self) -> u8 {
        self.row().exit
    }

    /// The HTTP status that carries this error.
    pub const fn http_status(self) -> u16 {
        self.row().http
    }

    /// The JSON-RPC error code that carries this error.
    pub const fn rpc_code(self) -> i64 {
        self.row().rpc
    }

    /// The kind an HTTP status stands for when the body names none.
    pub const fn from_http_status(status: u16) -> Kind {
        match status {
            400 => Kind::Invalid,
            401 => Kind::Unauthorized,
            403 => Kind::Forbidden,
            404 => Kind::NotFound,
            409 => Kind::Conflict,
            422 => Kind::Config,
            499 => Kind::Canceled,
            502 => Kind::Lost,
            503 => Kind::Unavailable,
            504 => Kind::Timeout,
            507 => Kind::Io,
            _ => Kind::Internal,
        }
    }
}

/// A refusal: what happened in one message, the cause beneath it, and what to do next.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    hints: Vec<String>,
    details: Option<serde_json::Value>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// How an [`Error`] crosses the daemon's wire.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WireError {
    /// The message with its causes, on one line each.
    pub error: String,
    /// The kind, absent from bodies that other programs wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Commands that help.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// Structured facts a face may render, such as the candidates of an ambiguous name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl Error {
    /// A refusal of `kind` saying `message`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), hints: Vec::new(), details: None, source: None }))
    }

    /// A wrong command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Error::new(Kind::Usage, message)
    }

    /// A value that is not acceptable.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(Kind::Invalid, message)
    }

    /// Something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Error::new(Kind::NotFound, message)
    }

    /// A state that forbids the request.
    pub fn conflict(message: impl Into<String>) -> Self {
        Error::new(Kind::Conflict, message)
    }

    /// Something needed that is not there.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Error::new(Kind::Unavailable, message)
    }

    /// A defect.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(Kind::Internal, message)
    }

    /// A failed read or write, with a hint of its own for a full disk or a missing permission.
    pub fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        let hint = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Some("free some disk space and run the command again; nothing was half-written")
            }
            std::io::ErrorKind::ReadOnlyFilesystem => Some("the file system is mounted read-only"),
            std::io::ErrorKind::PermissionDenied => Some("check who owns the path and its mode: ls -ld <path>"),
            _ => None,
        };
        let error = Error::new(Kind::Io, message).caused_by(source);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// The same refusal with one more command that helps.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// The same refusal with its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same refusal with structured facts for a face to render.
    #[must_use]
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.0.details = Some(details);
        self
    }

    /// The same cause under a message that says what was being done.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.0.message = format!("{doing}: {}", self.0.message);
        self
    }

    /// What kind of refusal this is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message alone, without causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The commands that help.
    pub fn hints(&self) -> &[String] {
        &self.0.hints
    }

    /// Structured facts for a face to render.
    pub fn details(&self) -> Option<&serde_json::Value> {
        self.0.details.as_ref()
    }

    /// The message followed by each cause not already told by it.
    pub fn full_message(&self) -> String {
        let mut text = self.0.message.clone();
        let mut next: Option<&(dyn std::error::Error + 'static)> =
            self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static));
        while let Some(cause) = next {
            let cause_text = cause.to_string();
            if !cause_text.is_empty() && !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            next = cause.source();
        }
        text
    }

    /// The form that crosses the wire.
    pub fn to_wire(&self) -> WireError {
        WireError {
            error: self.full_message(),
            kind: Some(self.0.kind),
            hints: self.0.hints.clone(),
            details: self.0.details.clone(),
        }
    }

    /// The error a wire form stands for; `status` decides the kind when the body names none.
    pub fn from_wire(status: u16, wire: WireError) -> Self {
        let mut error = Error::new(wire.kind.unwrap_or(Kind::from_http_status(status)), wire.error);
        error.0.hints = wire.hints;
        error.0.details = wire.details;
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full_message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.full_message())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

/// Adds what was being done to a failure of another library.
pub trait ResultExt<T> {
    /// Turns an I/O failure into an [`Error`] that says what was being done.
    fn io_context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T> ResultExt<T> for std::io::Result<T> {
    fn io_context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::io(doing(), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_the_message_once() {
        let error = Error::io("cannot write the file", std::io::Error::other("device is gone")).hint("lazy doctor");
        assert_eq!(error.to_string(), "cannot write the file: device is gone");
        let back = Error::from_wire(507, error.to_wire());
        assert_eq!(back.kind(), Kind::Io);
        assert_eq!(back.to_string(), "cannot write the file: device is gone");
        assert_eq!(back.hints(), ["lazy doctor"]);
    }

    #[test]
    fn a_foreign_body_takes_its_kind_from_the_status() {
        let wire: WireError = serde_json::from_str(r#"{"error":"nope"}"#).expect("parses");
        assert_eq!(Error::from_wire(404, wire).kind(), Kind::NotFound);
    }

    #[test]
    fn a_full_disk_says_so() {
        let error = Error::io("cannot save", std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert!(error.hints()[0].contains("disk space"));
    }
}
