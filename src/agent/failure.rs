//! Why a run failed, from one table.
//!
//! The rows are tried in order, whatever the case, against stderr, the printed error and the spawn error; the first that
//! fits decides. An agent's own dialect stands before what all programs say, and a refusal of the credential before
//! anything transient: waiting mends the latter only.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::Agent;
use crate::base::text;
use crate::model::exchange::FailureClass;

/// What is known about a failed run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFailure {
    /// The exit code, absent when a signal ended it or it never began.
    pub exit_code: Option<i32>,
    /// The end of its standard error.
    pub stderr: String,
    /// What [`Agent::stdout_error`] found.
    pub stdout_error: Option<String>,
    /// Why it could not be started.
    pub spawn_error: Option<String>,
}

/// A failure with its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// The class.
    pub class: FailureClass,
    /// One line: what it means, and the line of output that says so.
    pub reason: String,
}

/// What a row looks at.
enum Sign {
    /// The exit code.
    Exit(i32),
    /// Anything the run said.
    Said(&'static str),
    /// Why it could not be started.
    Spawn(&'static str),
}

struct Row {
    /// Whose dialect it is; empty for what all programs say.
    only: &'static [Agent],
    sign: Sign,
    class: FailureClass,
    reason: &'static str,
}

const fn said(class: FailureClass, reason: &'static str, pattern: &'static str) -> Row {
    Row { only: &[], sign: Sign::Said(pattern), class, reason }
}

const fn dialect(only: &'static [Agent], class: FailureClass, reason: &'static str, pattern: &'static str) -> Row {
    Row { only, sign: Sign::Said(pattern), class, reason }
}

/// The one table.
const TABLE: &[Row] = &[
    dialect(&Agent::ALL, FailureClass::FatalAuth, "the agent has no credential", r"\bauthentication required\b"),
    dialect(
        &[Agent::Demo],
        FailureClass::FatalConfig,
        "the agent was given a flag it does not have",
        r"\bunknown option\b",
    ),
    dialect(
        &[Agent::ClaudeCode],
        FailureClass::FatalConfig,
        "the agent does not know a model or a flag it was given",
        r"\bunknown (option|argument)\b|\binvalid model\b|\bmodel not found\b|\bdid not match any of the known models\b|\bissue with the selected model\b",
    ),
    Row {
        only: &[],
        sign: Sign::Exit(127),
        class: FailureClass::FatalConfig,
        reason: "the agent's program was not found",
    },
    Row {
        only: &[],
        sign: Sign::Spawn(
            r"no such file|not found|\benoent\b|permission denied|\beacces\b|exec format error|not executable|not installed",
        ),
        class: FailureClass::FatalConfig,
        reason: "the agent's program could not be started",
    },
    said(
        FailureClass::FatalConfig,
        "the agent's program was not found",
        r"^(\S*sh: )?(line \d+: |\d+: )?(\S*/)?(claude|lazy|lazy-agent)(: command not found|: not found)\s*$|command not found: (claude|lazy|lazy-agent)\s*$",
    ),
    said(
        FailureClass::FatalAuth,
        "the credential was refused",
        r"\b401\b|\b403\b|\bunauthorized\b|\bforbidden\b|\bauthentication[_ ]error\b|\binvalid api key\b|\binvalid_api_key\b|\binvalid bearer token\b|\boauth token has expired\b|\bplease run /login\b|\bcredit balance is too low\b|\bout of extra usage\b",
    ),
    said(
        FailureClass::TransientOverload,
        "the model's service is busy or a limit is reached",
        r"\b429\b|\b529\b|\b503\b|\brate[ _-]?limit(s|ed|_error)?\b|\boverloaded(_error)?\b|\busage limit reached\b|\bcapacity\b",
    ),
    said(
        FailureClass::TransientUnreachable,
        "nothing answers at the model's address",
        r"\beconnrefused\b|\bconnectionrefused\b|\bconnection refused\b|\benotfound\b|\bgetaddrinfo\b",
    ),
    said(
        FailureClass::TransientNetwork,
        "the connection failed on the way",
        r"\beconnreset\b|\betimedout\b|\bepipe\b|\beai_again\b|\bsocket hang up\b|\bnetwork error\b|\bfetch failed\b|\b500\b|\b502\b|\b504\b|\btimeout\b|\btimed out\b|\bconnection reset\b",
    ),
    said(
        FailureClass::FatalConfig,
        "the model does not exist or is not open to this credential",
        r"\bnot_found_error\b|\bmodel_not_found\b|\bmodel not found\b|^.*\b(api error|http|status)\b.*\b404\b",
    ),
];

/// What the service says of a conversation that does not fit: its own check, the model's window, or the gateway's limit.
static TOO_LONG: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r"\bprompt is too long\b|\binput is too long\b|\bexceeds? (the )?context (limit|window)\b|\brequest_too_large\b|\brequest (entity )?too large\b|\bpayload too large\b|\bapi error:? 413\b",
    )
});

/// What the service says of a request that it will refuse again when it is sent again.
static REFUSED: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r"\binvalid_request_error\b|\brequest_too_large\b|\b(api error|http|status)( code)?[: ]+(400|413|422)\b|\b(400 bad request|413 (content|payload|request entity) too large|422 unprocessable)\b",
    )
});

fn constant(pattern: &str) -> Regex {
    let regex = RegexBuilder::new(pattern).case_insensitive(true).multi_line(true).build();
    regex.expect("the patterns are constants, and every test of this file compiles them all")
}

static COMPILED: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    TABLE
        .iter()
        .map(|row| match row.sign {
            Sign::Exit(_) => None,
            Sign::Said(pattern) | Sign::Spawn(pattern) => Some(constant(pattern)),
        })
        .collect()
});

impl Agent {
    /// The class of a failure, with a reason people can read.
    pub fn classify(self, failure: &RunFailure) -> Classified {
        let said = said_text(failure);
        let spawn = failure.spawn_error.as_deref().unwrap_or_default();
        for (row, regex) in TABLE.iter().zip(COMPILED.iter()) {
            if !row.only.is_empty() && !row.only.contains(&self) {
                continue;
            }
            let evidence = match (&row.sign, regex) {
                (Sign::Exit(code), _) => (failure.exit_code == Some(*code)).then(|| format!("exit code {code}")),
                (Sign::Said(_), Some(regex)) => line_of(&said, regex),
                (Sign::Spawn(_), Some(regex)) => line_of(spawn, regex),
                (_, None) => None,
            };
            if let Some(evidence) = evidence {
                return Classified { class: row.class, reason: format!("{}: {evidence}", row.reason) };
            }
        }
        let told = failure.stdout_error.as_deref().or(failure.spawn_error.as_deref()).map(text::one_line);
        let told = told.or_else(|| failure.stderr.lines().rev().map(text::one_line).find(|line| !line.is_empty()));
        let reason = match (told, failure.exit_code) {
            (Some(told), _) => text::truncate_chars(&told, 300),
            (None, Some(code)) => format!("the agent ended with exit code {code} and said nothing"),
            (None, None) => "the agent was ended by a signal and said nothing".to_string(),
        };
        Classified { class: FailureClass::Unknown, reason }
    }

    /// Whether the conversation no longer fits the model: drop the session and try again.
    pub fn is_prompt_too_long(self, failure: &RunFailure) -> bool {
        TOO_LONG.is_match(&said_text(failure))
    }

    /// The line that says that the service took the request for wrong or too large (HTTP 400, 413, 422).
    ///
    /// A single such answer may be a matter of the moment, and is tried again. When the last of several attempts ends
    /// so, the same request will be refused for ever: a person has to look.
    pub fn refused_request(self, failure: &RunFailure) -> Option<String> {
        if self.classify(failure).class != FailureClass::Unknown {
            return None;
        }
        line_of(&said_text(failure), &REFUSED)
    }

    /// Whether the conversation to resume is gone: drop the session and try again.
    pub fn is_session_not_found(self, failure: &RunFailure) -> bool {
        said_text(failure).to_lowercase().contains("no conversation found with session id")
    }
}

fn said_text(failure: &RunFailure) -> String {
    format!("{}\n{}", failure.stdout_error.as_deref().unwrap_or_default(), failure.stderr)
}

/// The line around the first match, shortened.
fn line_of(text: &str, regex: &Regex) -> Option<String> {
    let found = regex.find(text)?;
    let start = text[..found.start()].rfind('\n').map_or(0, |at| at + 1);
    let end = text[found.end()..].find('\n').map_or(text.len(), |at| found.end() + at);
    Some(text::truncate_chars(&text::one_line(&text[start..end]), 200))
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureClass::{FatalAuth, FatalConfig, TransientNetwork, TransientOverload, TransientUnreachable, Unknown};

    fn stderr(text: &str) -> RunFailure {
        RunFailure { exit_code: Some(1), stderr: text.into(), ..RunFailure::default() }
    }

    #[test]
    fn every_sign_has_its_class() {
        let cases = [
            ("API Error: 401 invalid x-api-key", FatalAuth),
            ("Failed to authenticate. API Error: 403 not allowed", FatalAuth),
            ("request was Unauthorized", FatalAuth),
            ("Forbidden", FatalAuth),
            ("authentication_error", FatalAuth),
            ("authentication error", FatalAuth),
            ("Invalid API key · Fix external API key", FatalAuth),
            ("invalid_api_key", FatalAuth),
            ("Invalid bearer token", FatalAuth),
            ("OAuth token has expired", FatalAuth),
            ("Please run /login", FatalAuth),
            ("Credit balance is too low", FatalAuth),
            ("You are out of extra usage", FatalAuth),
            ("API Error: Request rejected (429) · This request would exceed your rate limit", TransientOverload),
            ("API Error: 529 Overloaded. This is a server-side issue", TransientOverload),
            ("503 Service Unavailable", TransientOverload),
            ("rate_limit_error", TransientOverload),
            ("overloaded_error", TransientOverload),
            ("Claude AI usage limit reached|1760000000", TransientOverload),
            ("we are at capacity", TransientOverload),
            ("connect ECONNREFUSED 127.0.0.1:9", TransientUnreachable),
            ("ConnectionRefused", TransientUnreachable),
            ("Connection refused (os error 111)", TransientUnreachable),
            ("getaddrinfo ENOTFOUND api.example.com", TransientUnreachable),
            ("read ECONNRESET", TransientNetwork),
            ("connect ETIMEDOUT", TransientNetwork),
            ("write EPIPE", TransientNetwork),
            ("EAI_AGAIN", TransientNetwork),
            ("socket hang up", TransientNetwork),
            ("Network error", TransientNetwork),
            ("TypeError: fetch failed", TransientNetwork),
            ("API Error: 500 Internal server error.", TransientNetwork),
            ("502 Bad Gateway", TransientNetwork),
            ("504 Gateway Timeout", TransientNetwork),
            ("Request timed out.", TransientNetwork),
            ("not_found_error", FatalConfig),
            ("model_not_found", FatalConfig),
            ("API Error: 404 no such model", FatalConfig),
            ("error: unknown option '--nonsense'", FatalConfig),
            ("There's an issue with the selected model (x). It may not exist", FatalConfig),
            ("bash: line 1: claude: command not found", FatalConfig),
            ("sh: 1: claude: not found", FatalConfig),
            ("zsh: command not found: claude", FatalConfig),
            ("Segmentation fault", Unknown),
            ("", Unknown),
        ];
        for (text, class) in cases {
            assert_eq!(Agent::ClaudeCode.classify(&stderr(text)).class, class, "{text}");
        }
    }

    #[test]
    fn numbers_and_words_need_their_boundaries() {
        for text in
            ["took 14010 ms", "port 50401x", "a404b", "5000 tokens", "incapacity", "epipeline", "timeouts_total"]
        {
            assert_eq!(Agent::ClaudeCode.classify(&stderr(text)).class, Unknown, "{text}");
        }
        let nested = "npm: foo: command not found in the project's script";
        assert_eq!(Agent::ClaudeCode.classify(&stderr(nested)).class, Unknown, "only the agent's own program counts");
        assert_eq!(Agent::ClaudeCode.classify(&stderr("GET /x 404")).class, Unknown, "a 404 alone says nothing");
    }

    #[test]
    fn the_order_of_the_rows_decides() {
        let both = "API Error: 401 after ECONNRESET and 529 overloaded";
        assert_eq!(Agent::ClaudeCode.classify(&stderr(both)).class, FatalAuth);
        assert_eq!(Agent::ClaudeCode.classify(&stderr("429 timed out")).class, TransientOverload);
        let dialect = "invalid model; upstream said 429";
        assert_eq!(Agent::ClaudeCode.classify(&stderr(dialect)).class, FatalConfig, "the dialect comes first");
        assert_eq!(Agent::Demo.classify(&stderr(dialect)).class, TransientOverload, "and is not another agent's");
        let exit = RunFailure { exit_code: Some(127), stderr: "401".into(), ..RunFailure::default() };
        assert_eq!(Agent::Demo.classify(&exit).class, FatalConfig);
    }

    #[test]
    fn a_program_that_cannot_start_is_a_matter_of_configuration() {
        let failure = |text: &str| RunFailure { spawn_error: Some(text.into()), ..RunFailure::default() };
        assert_eq!(Agent::ClaudeCode.classify(&failure("No such file or directory (os error 2)")).class, FatalConfig);
        let busy = Agent::ClaudeCode.classify(&failure("Resource temporarily unavailable (os error 11)"));
        assert_eq!(busy.class, Unknown);
        assert!(busy.reason.contains("temporarily"));
    }

    #[test]
    fn the_reason_quotes_the_line() {
        let failure = RunFailure {
            exit_code: Some(1),
            stderr: "warming up\nbye".into(),
            stdout_error: Some("Invalid API key (HTTP 401)".into()),
            spawn_error: None,
        };
        let classified = Agent::ClaudeCode.classify(&failure);
        assert_eq!(classified.reason, "the credential was refused: Invalid API key (HTTP 401)");
        assert_eq!(Agent::ClaudeCode.classify(&stderr("a\nlast words\n")).reason, "last words");
        assert_eq!(Agent::ClaudeCode.classify(&stderr("")).reason, "the agent ended with exit code 1 and said nothing");
    }

    #[test]
    fn a_request_that_is_refused_again_and_again_is_seen() {
        let agent = Agent::ClaudeCode;
        for text in [
            r#"API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"tools.3: bad"}}"#,
            "API Error: 400 messages.1: tool_use without tool_result",
            "API Error: 413 request_too_large: Request exceeds the maximum size",
            "HTTP 422: unprocessable",
            "400 Bad Request",
        ] {
            let line = agent.refused_request(&stderr(&format!("warming up\n{text}\n")));
            assert_eq!(line.as_deref(), Some(text));
        }
        for text in ["400 tests passed", "API Error: 529 overloaded", "API Error: Connection closed", "took 400 ms", ""]
        {
            assert_eq!(agent.refused_request(&stderr(text)), None, "{text}");
        }
        let credit = "API Error: 400 invalid_request_error: Your credit balance is too low";
        assert_eq!(agent.refused_request(&stderr(credit)), None, "what has its own class keeps it");
    }

    #[test]
    fn conditions_with_their_own_answer_are_seen() {
        let long =
            RunFailure { stdout_error: Some("Prompt is too long · the request".into()), ..RunFailure::default() };
        assert!(Agent::ClaudeCode.is_prompt_too_long(&long));
        assert!(!Agent::ClaudeCode.is_session_not_found(&long));
        for text in [
            "API Error: 413 {\"type\":\"error\",\"error\":{\"type\":\"request_too_large\",\"message\":\"x\"}}",
            "API Error: 400 input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            "413 Request Entity Too Large",
        ] {
            assert!(Agent::ClaudeCode.is_prompt_too_long(&stderr(text)), "{text}");
        }
        assert!(!Agent::ClaudeCode.is_prompt_too_long(&stderr("wrote 413 lines, the file is too long")));
        let gone = stderr("No conversation found with session ID: 1111");
        assert!(Agent::ClaudeCode.is_session_not_found(&gone));
        assert!(!Agent::ClaudeCode.is_prompt_too_long(&gone));
    }
}
