//! Request bodies: read whole within a size and a time, parsed before anything is done.

use std::time::Duration;

use hyper::body::Incoming;
use serde_json::{Map, Value};

use crate::base::{Error, Kind, Result};
use crate::http::read_body;

/// The largest body: a prompt of many megabytes is a mistake.
const LIMIT: usize = 16 << 20;

/// How long a caller on this machine may take to send it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads the body.
pub(super) async fn read(body: Incoming) -> Result<bytes::Bytes> {
    tokio::time::timeout(PATIENCE, read_body(body, LIMIT))
        .await
        .map_err(|_| Error::new(Kind::Timeout, "the body of the request did not arrive"))?
}

/// The parameters of `/rpc`: a JSON object; nothing at all stands for an empty one.
///
/// # Errors
/// [`Kind::Invalid`] saying what came instead.
pub(super) fn params(bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(Error::invalid(format!("the body must be a JSON object, not {}", type_name(&other)))),
        Err(source) => Err(Error::invalid("the body is not JSON").caused_by(source)),
    }
}

/// The arguments of `/mcp`, out of `{"arguments":{…}}`; `schema` is the tool's.
///
/// # Errors
/// [`Kind::Invalid`], with the envelope that was forgotten.
pub(super) fn arguments(bytes: &[u8], tool: &str, schema: &Value) -> Result<Map<String, Value>> {
    let mut fields = params(bytes)?;
    match fields.shift_remove("arguments") {
        Some(Value::Object(arguments)) => Ok(arguments),
        Some(Value::Null) => Ok(Map::new()),
        Some(other) => {
            Err(Error::invalid(format!("arguments must be a JSON object, not {}", type_name(&other)))
                .hint(example(schema)))
        }
        None if fields.is_empty() => Ok(Map::new()),
        None => {
            let known = schema.get("properties").and_then(Value::as_object);
            let (mine, stray): (Vec<&String>, Vec<&String>) =
                fields.keys().partition(|key| known.is_some_and(|known| known.contains_key(*key)));
            let message = match (mine.is_empty(), stray.is_empty()) {
                (false, _) => format!(
                    "the arguments of {tool} must stand inside \"arguments\": {} came outside of it",
                    list(&mine)
                ),
                (true, _) => format!("the body has no \"arguments\", and holds {}", list(&stray)),
            };
            Err(Error::invalid(message).hint(example(schema)))
        }
    }
}

/// An envelope with up to two parameters of the schema.
pub(super) fn example(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let declared =
        schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key.as_str());
    let mut names: Vec<&str> = Vec::new();
    for name in required.chain(declared) {
        if names.len() < 2 && !names.contains(&name) {
            names.push(name);
        }
    }
    let inner: Vec<String> = names.iter().map(|name| format!("\"{name}\": …")).collect();
    format!("{{\"arguments\": {{{}}}}}", inner.join(", "))
}

fn list(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "required": ["message"], "properties": {"files": {}, "message": {}, "more": {}}})
    }

    fn read(body: &str) -> Result<Map<String, Value>> {
        arguments(body.as_bytes(), "lazy_commit", &schema())
    }

    #[test]
    fn the_envelope_is_read() {
        for none in ["", " \n", "{}", r#"{"arguments":null}"#, r#"{"arguments":{}}"#] {
            assert!(read(none).expect(none).is_empty(), "{none}");
        }
        let found = read(r#"{"arguments":{"message":"m"}}"#).expect("reads");
        assert_eq!(Value::Object(found), json!({"message": "m"}));
    }

    #[test]
    fn what_is_no_envelope_is_refused_with_one() {
        let forgotten = read(r#"{"message":"m","x":1}"#).expect_err("no envelope");
        assert!(
            forgotten.message().contains("lazy_commit") && forgotten.message().contains("message came"),
            "{forgotten}"
        );
        assert_eq!(forgotten.hints(), [r#"{"arguments": {"message": …, "files": …}}"#]);
        assert!(read(r#"{"x":1}"#).expect_err("no envelope").message().contains('x'));
        for bad in ["[1]", "\"a\"", "1", "null", "{", r#"{"arguments":[]}"#, r#"{"arguments":"{}"}"#] {
            assert_eq!(read(bad).expect_err(bad).kind(), Kind::Invalid);
        }
        assert!(params(b"[]").expect_err("an array").message().contains("an array"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parameters_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Err(error) = params(&bytes) {
                prop_assert_eq!(error.kind(), Kind::Invalid);
            }
        }
    }
}
