//! The argument validator: the closed part of JSON Schema that lazy's own tools use.
//!
//! Keywords: `type` (a name or several), `description`, `enum`, `minLength`, `maxLength` (characters), `pattern`,
//! `items`, `properties`, `required`. [`check_schema`] refuses any other, so that a declared rule is never decoration.

use regex::Regex;
use serde_json::{Map, Value};

use crate::base::{Error, Result, text};

/// Refuses arguments that a schema does not allow; the first violation is named.
pub fn validate(schema: &Value, arguments: &Map<String, Value>) -> Result<()> {
    object(schema, arguments, "")
}

/// Whether a schema uses only what [`validate`] enforces.
pub fn check_schema(schema: &Value) -> std::result::Result<(), String> {
    const KNOWN: [&str; 9] =
        ["type", "description", "enum", "minLength", "maxLength", "pattern", "items", "properties", "required"];
    let Some(fields) = schema.as_object() else { return Err("a schema must be an object".into()) };
    if let Some(key) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("the keyword {key} is not enforced"));
    }
    if let Some(pattern) = fields.get("pattern").and_then(Value::as_str) {
        Regex::new(pattern).map_err(|error| error.to_string())?;
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    for name in fields.get("required").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !properties.is_some_and(|properties| properties.contains_key(name)) {
            return Err(format!("{name} is required and not declared"));
        }
    }
    properties.into_iter().flatten().try_for_each(|(_, schema)| check_schema(schema))?;
    fields.get("items").map_or(Ok(()), check_schema)
}

fn object(schema: &Value, arguments: &Map<String, Value>, path: &str) -> Result<()> {
    let empty = Map::new();
    let declared = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let unknown: Vec<&String> = arguments.keys().filter(|key| !declared.contains_key(*key)).collect();
    if !unknown.is_empty() {
        let named: Vec<String> = unknown
            .iter()
            .map(|key| match text::nearest(key, declared.keys().map(String::as_str)) {
                Some(near) => format!("{path}{key} (did you mean {near}?)"),
                None => format!("{path}{key}"),
            })
            .collect();
        let valid: Vec<&str> = declared.keys().map(String::as_str).collect();
        let valid = if valid.is_empty() { "none".into() } else { valid.join(", ") };
        return Err(Error::invalid(format!("unknown argument {}; the arguments are: {valid}", named.join(", "))));
    }
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if arguments.get(name).is_none_or(Value::is_null) {
            return Err(Error::invalid(format!("the argument {path}{name} is required")));
        }
    }
    for (name, value) in arguments.iter().filter(|(_, value)| !value.is_null()) {
        if let Some(schema) = declared.get(name) {
            check_value(schema, value, &format!("{path}{name}"))?;
        }
    }
    Ok(())
}

fn check_value(schema: &Value, value: &Value, path: &str) -> Result<()> {
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_type(name, value)) {
        return Err(Error::invalid(format!("{path} must be {}, not {}", types.join(" or "), type_name(value))));
    }
    match value {
        Value::String(value) => string(schema, value, path),
        Value::Array(values) => match schema.get("items") {
            Some(items) => {
                values.iter().enumerate().try_for_each(|(i, value)| check_value(items, value, &format!("{path}[{i}]")))
            }
            None => Ok(()),
        },
        Value::Object(fields) if schema.get("properties").is_some() => object(schema, fields, &format!("{path}.")),
        _ => Ok(()),
    }
}

fn string(schema: &Value, value: &str, path: &str) -> Result<()> {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        if !names.contains(&value) {
            return Err(Error::invalid(format!("{path} must be one of {}, not {value:?}", names.join(", "))));
        }
    }
    let length = value.chars().count();
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    if bound("minLength").is_some_and(|least| length < least) {
        return Err(Error::invalid(match length {
            0 => format!("{path} must not be empty"),
            _ => format!("{path} is too short: {length} characters"),
        }));
    }
    if let Some(most) = bound("maxLength").filter(|most| length > *most) {
        return Err(Error::invalid(format!("{path} is too long: {length} characters, {most} is the most")));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(value))
    {
        return Err(Error::invalid(format!("{path} does not have the form {pattern}: {value:?}")));
    }
    Ok(())
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        _ => type_name(value) == name,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(schema: &Value, arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        validate(schema, &arguments).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_first_violation_is_named() {
        let schema = json!({ "type": "object", "required": ["message"], "properties": {
            "message": { "type": "string", "minLength": 1, "maxLength": 5 },
            "kind": { "type": "string", "enum": ["a", "b"] },
            "count": { "type": "integer" },
            "files": { "type": "array", "items": { "type": "string", "pattern": "^[a-z]+$" } },
            "one": { "type": ["string", "array"], "items": { "type": "string" } },
        } });
        assert_eq!(refusal(&schema, json!({ "message": "hi", "count": 3, "files": ["ab"], "one": ["x"] })), "");
        assert_eq!(refusal(&schema, json!({ "message": "hi", "kind": null })), "");
        assert!(refusal(&schema, json!({})).contains("message is required"));
        assert!(refusal(&schema, json!({ "message": null })).contains("required"));
        assert!(refusal(&schema, json!({ "messag": "hi" })).contains("did you mean message"));
        assert!(refusal(&schema, json!({ "message": "" })).contains("must not be empty"));
        assert!(refusal(&schema, json!({ "message": "abcdef" })).contains("too long"));
        assert!(refusal(&schema, json!({ "message": 1 })).contains("must be string, not number"));
        assert!(refusal(&schema, json!({ "message": "a", "kind": "c" })).contains("one of a, b"));
        assert!(refusal(&schema, json!({ "message": "a", "count": 1.5 })).contains("integer"));
        assert!(refusal(&schema, json!({ "message": "a", "files": ["ok", "Bad"] })).contains("files[1]"));
        assert!(refusal(&schema, json!({ "message": "a", "one": 1 })).contains("string or array"));
    }

    #[test]
    fn an_unenforced_keyword_is_found() {
        assert!(
            check_schema(&json!({ "type": "object", "properties": { "n": { "type": "number", "minimum": 1 } } }))
                .is_err()
        );
        assert!(check_schema(&json!({ "type": "object", "required": ["x"], "properties": {} })).is_err());
        assert!(check_schema(&json!({ "type": "string", "pattern": "(" })).is_err());
    }
}
