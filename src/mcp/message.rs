//! JSON-RPC 2.0 messages, one on a line.

use serde_json::{Value, json};

/// What a line is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Incoming {
    /// To be answered.
    Request { id: Value, method: String, params: Value },
    /// Never answered.
    Notification { method: String, params: Value },
    /// Not JSON, or not a message: answered with this error when it can be.
    Broken(Option<Value>),
    /// A blank line.
    Nothing,
}

/// Standard error codes.
pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;

impl Incoming {
    /// Reads a line.
    pub fn read(line: &[u8]) -> Incoming {
        if line.trim_ascii().is_empty() {
            return Incoming::Nothing;
        }
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return Incoming::Broken(Some(error(&Value::Null, PARSE_ERROR, "Parse error")));
        };
        let Value::Object(mut fields) = message else {
            return Incoming::Broken(Some(error(
                &Value::Null,
                INVALID_REQUEST,
                "a message is one JSON object; batches are not supported",
            )));
        };
        let id = fields.remove("id").unwrap_or_default();
        let Some(Value::String(method)) = fields.remove("method") else {
            // A reply to something this server never asked, or no message at all.
            let answerable = !id.is_null() && !fields.contains_key("result") && !fields.contains_key("error");
            return Incoming::Broken(answerable.then(|| error(&id, INVALID_REQUEST, "the message has no method")));
        };
        let params = fields.remove("params").unwrap_or_default();
        match id {
            Value::Null => Incoming::Notification { method, params },
            id => Incoming::Request { id, method, params },
        }
    }
}

/// A reply.
pub(super) fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A refusal of the protocol itself.
pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Progress of a call.
pub(super) fn progress(token: &Value, count: u64, message: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": { "progressToken": token, "progress": count, "message": message },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_some_message(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            Incoming::read(&bytes);
        }
    }

    #[test]
    fn a_null_id_is_a_notification() {
        let read = Incoming::read(br#"{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}"#);
        assert!(matches!(read, Incoming::Notification { .. }));
        assert!(matches!(Incoming::read(br#"{"id":0,"method":"ping"}"#), Incoming::Request { .. }));
    }

    #[test]
    fn broken_lines_are_answered_where_they_can_be() {
        assert!(matches!(Incoming::read(b"{"), Incoming::Broken(Some(_))));
        assert!(matches!(Incoming::read(b"[]"), Incoming::Broken(Some(_))));
        assert!(matches!(Incoming::read(br#"{"id":1,"result":{}}"#), Incoming::Broken(None)));
    }
}
