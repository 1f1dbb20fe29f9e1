//! What a request says that a step may ask about.

use serde_json::Value;

use super::scenario::{Requests, When};

/// A request to the Messages API, read for matching.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub model: String,
    pub stream: bool,
    pub tools: Vec<String>,
    pub system: String,
    /// The text of the last user message without a tool result.
    pub prompt: String,
    /// Assistant messages after it.
    pub nth: usize,
    /// Tools that were called before the prompt.
    pub called: Vec<String>,
    /// All text of the last message.
    pub last: String,
    /// Tools whose results the last message carries.
    pub results: Vec<String>,
    /// Whether the request is part of an agent's work.
    pub is_main: bool,
}

impl Facts {
    /// Reads a request body.
    pub fn of(body: &Value) -> Facts {
        let empty = Vec::new();
        let messages = body["messages"].as_array().unwrap_or(&empty).as_slice();
        let tools: Vec<String> =
            body["tools"].as_array().unwrap_or(&empty).iter().filter_map(|tool| text_of(&tool["name"])).collect();
        let is_prompt = |message: &Value| message["role"] == "user" && results(message).next().is_none();
        let prompt_at = messages.iter().rposition(is_prompt);
        let after = prompt_at.map_or(messages, |at| &messages[at + 1..]);
        let last = messages.last().unwrap_or(&Value::Null);
        let name_of =
            |id: &Value| calls(messages).find(|block| block["id"] == *id).and_then(|block| text_of(&block["name"]));
        let earlier = &messages[..prompt_at.unwrap_or(0)];
        Facts {
            model: text_of(&body["model"]).unwrap_or_default(),
            stream: body["stream"] == true,
            is_main: !tools.is_empty() && body["max_tokens"] != 1,
            tools,
            system: text(&body["system"]),
            prompt: prompt_at.map(|at| text(&messages[at]["content"])).unwrap_or_default(),
            nth: after.iter().filter(|message| message["role"] == "assistant").count(),
            called: calls(earlier).filter_map(|block| text_of(&block["name"])).collect(),
            last: text(&last["content"]),
            results: results(last).filter_map(|block| name_of(&block["tool_use_id"])).collect(),
        }
    }

    /// Whether a step that asks for `when` may answer.
    pub fn fit(&self, when: &When) -> bool {
        let contains = |text: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| text.contains(wanted));
        let offered = |name: &String| self.tools.contains(name);
        let kind = match when.requests {
            Requests::Main => self.is_main,
            Requests::Side => !self.is_main,
            Requests::Any => true,
        };
        kind && contains(&self.prompt, &when.prompt)
            && contains(&self.last, &when.last)
            && contains(&self.system, &when.system)
            && contains(&self.model, &when.model)
            && when
                .tool_result
                .as_ref()
                .is_none_or(|names| names.as_slice().iter().any(|name| self.results.contains(name)))
            && when.offers.as_ref().is_none_or(offered)
            && !when.lacks.as_ref().is_some_and(offered)
            && when.called.as_ref().is_none_or(|name| self.called.contains(name))
            && when.nth.is_none_or(|nth| nth == self.nth)
    }

    /// Fills the placeholders of a text.
    pub fn fill(&self, template: &str) -> String {
        if !template.contains("{{") {
            return template.to_string();
        }
        let first_line = self.prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        template.replace("{{worktree}}", self.worktree()).replace("{{prompt}}", first_line.trim())
    }

    /// Fills the placeholders of every text inside a value.
    pub fn fill_value(&self, template: &Value) -> Value {
        match template {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(key, value)| (key.clone(), self.fill_value(value))).collect())
            }
            other => other.clone(),
        }
    }

    /// The directory that the request names as its working directory; `.` when it names none.
    fn worktree(&self) -> &str {
        let named = [&self.system, &self.prompt].into_iter().flat_map(|text| text.lines()).find_map(|line| {
            let at = line.to_ascii_lowercase().find("working directory: ")?;
            let path = line[at + "working directory: ".len()..].trim().trim_matches('`');
            path.starts_with('/').then_some(path)
        });
        named.unwrap_or(".")
    }
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_string)
}

fn calls(messages: &[Value]) -> impl Iterator<Item = &Value> {
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    blocks.filter(|block| block["type"] == "tool_use")
}

fn results(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result")
}

/// All text inside a content value, blocks separated by line ends.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| match block["type"].as_str() {
                Some("tool_result") => text(&block["content"]),
                _ => text_of(&block["text"]).unwrap_or_default(),
            })
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::scenario::OneOrMore;
    use super::*;

    fn facts() -> Facts {
        Facts::of(&json!({
            "model": "claude-opus-4-7",
            "system": [{"type": "text", "text": "be good"}, {"type": "text", "text": " - Primary working directory: /tmp/a b\n"}],
            "tools": [{"name": "Read"}],
            "messages": [
                {"role": "user", "content": "first"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t0", "name": "Commit", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t0", "content": "done"}]},
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": [{"type": "text", "text": "do it\nnow"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "the file"}]},
                    {"type": "text", "text": "a reminder"},
                ]},
            ],
        }))
    }

    #[test]
    fn matching_reads_the_turn() {
        let facts = facts();
        let some = |text: &str| Some(text.to_string());
        let base = When::default();
        for fits in [
            When { prompt: some("now"), nth: Some(1), ..base.clone() },
            When { last: some("the file"), tool_result: Some(OneOrMore::One("Read".into())), ..base.clone() },
            When { last: some("a reminder"), system: some("good"), model: some("opus"), ..base.clone() },
            When { called: some("Commit"), ..base.clone() },
            When { offers: some("Read"), lacks: some("Write"), requests: Requests::Any, ..base.clone() },
        ] {
            assert!(facts.fit(&fits), "{fits:?}");
        }
        for misfits in [
            When { prompt: some("first"), ..base.clone() },
            When { nth: Some(0), ..base.clone() },
            When { called: some("Read"), ..base.clone() },
            When { tool_result: Some(OneOrMore::More(vec!["Write".into()])), ..base.clone() },
            When { requests: Requests::Side, ..base.clone() },
            When { lacks: some("Read"), ..base.clone() },
        ] {
            assert!(!facts.fit(&misfits), "{misfits:?}");
        }
    }

    #[test]
    fn templates_are_filled() {
        let filled = facts().fill_value(&json!({"a": ["{{worktree}}/x"], "b": 1, "c": "{{prompt}}"}));
        assert_eq!(filled, json!({"a": ["/tmp/a b/x"], "b": 1, "c": "do it"}));
        assert_eq!(Facts::default().fill("{{worktree}}/x"), "./x");
    }

    #[test]
    fn side_traffic_is_told_apart() {
        assert!(!Facts::of(&json!({"messages": []})).is_main);
        assert!(!Facts::of(&json!({"tools": [{"name": "A"}], "max_tokens": 1})).is_main);
        assert!(Facts::of(&json!({"tools": [{"name": "A"}], "max_tokens": 2})).is_main);
    }
}
