//! What a tool call may do: fixed rules, judged before the call reaches the agent.
//!
//! | rule | tools | denied when |
//! | --- | --- | --- |
//! | `connector-deny-default` | `mcp__claude_ai_*` | the name is not in `connector_allowlist`; an allowed one meets no further rule |
//! | `secret-path-read` | those that read | a path is a key or a credential by its name ([`secrets`]) |
//! | `path-glob-deny` | those that read or write | a path fits one of `deny_path_globs` ([`glob`]) |
//! | `egress-allowlist` | `WebFetch` | the list is not empty and the URL's host is not in it ([`egress`]) |
//! | `command-glob-deny` | shells | the command, or a part of it, fits one of `deny_command_globs` |
//!
//! The first that denies wins. Rules are pure but for the links that [`paths`] follows, and know nothing of the model, the
//! prompt or the conversation: no text can talk them into anything.
//!
//! - Every path of a call counts (`path`, `file_path`, `notebook_path`), also what a search adds to it (`glob` of `Grep`,
//!   an absolute `pattern` of `Glob`), in each of its [`Forms`].
//! - A value that is no text where a rule needs one is denied; a call without the argument is not.
//! - Many calls need no look at their input: [`Policy::need`] says so by the tool's name alone.
//! - Commands are split at `;`, `|`, `&` and line ends by their text. That keeps accidents out and is no wall: a shell can
//!   spell a command in endless ways, and the sandbox is what stands behind.
//! - Tools that the upstream runs itself (`server_tool_use`, `mcp_tool_use`) are not judged: they have run by then.

mod arguments;
mod egress;
mod glob;
mod paths;
mod secrets;
mod trail;

use std::path::PathBuf;

use serde::Serialize;

pub use arguments::{Argument, Arguments, NoInput};
pub use egress::host;
pub use glob::{Glob, Stars};
pub use paths::{Forms, Place, straighten};
pub use secrets::secret_pattern;
pub use trail::{Replay, Replayed, replay};

use crate::config::schema;

/// How names of connectors inherited from a claude.ai account begin.
pub const CONNECTOR: &str = "mcp__claude_ai_";

/// Tools that read files; the last one is the built-in agent's.
const READING: [&str; 6] = ["Read", "Glob", "Grep", "NotebookRead", "LS", "read_file"];
/// Tools that write files; the last two are the built-in agent's.
const WRITING: [&str; 6] = ["Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "edit_file"];
const SHELLS: [&str; 2] = ["Bash", "bash"];
const FETCHING: &str = "WebFetch";

/// The longest path or command that is judged; a longer one is denied.
const LONGEST: usize = 64 << 10;
/// How much of a value a reason quotes, in characters.
const QUOTED: usize = 200;

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Connectors are denied unless listed.
    ConnectorDenyDefault,
    /// No reading of keys and credentials.
    SecretPathRead,
    /// Paths that no file tool may touch.
    PathGlobDeny,
    /// Hosts that may be fetched.
    EgressAllowlist,
    /// Commands that no shell may run.
    CommandGlobDeny,
}

impl Rule {
    /// Its id, as it stands in records and explanations.
    pub const fn id(self) -> &'static str {
        match self {
            Rule::ConnectorDenyDefault => "connector-deny-default",
            Rule::SecretPathRead => "secret-path-read",
            Rule::PathGlobDeny => "path-glob-deny",
            Rule::EgressAllowlist => "egress-allowlist",
            Rule::CommandGlobDeny => "command-glob-deny",
        }
    }
}

/// A verdict against a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    /// The rule.
    pub rule: Rule,
    /// The pattern of the rule that fits.
    pub pattern: Option<String>,
    /// The form of the path, the host or the part of the command that it fits.
    pub matched: Option<String>,
    /// Why, in words for the agent.
    pub reason: String,
}

/// What has to be known of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// No rule can deny it.
    Nothing,
    /// It is denied whatever its input is.
    Denied(Box<Denial>),
    /// Its input decides.
    Input,
}

/// The rules of a project.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    enforced: bool,
    connectors: Vec<String>,
    secrets_denied: bool,
    path_globs: Vec<Glob>,
    hosts: Vec<String>,
    command_globs: Vec<Glob>,
}

impl Policy {
    /// The rules that `[proxy.policy]` asks for; `~/` in a pattern is `home`.
    pub fn from_settings(settings: &schema::Policy, home: Option<PathBuf>) -> Policy {
        let place = Place { worktree: None, home };
        let path = |pattern: &String| match pattern.starts_with("~/") {
            true => Glob::new(&place.join(pattern), Stars::Segments),
            false => Glob::new(pattern, Stars::Segments),
        };
        Policy {
            enforced: settings.enforce,
            connectors: settings.connector_allowlist.clone(),
            secrets_denied: settings.deny_secret_path_reads,
            path_globs: settings.deny_path_globs.iter().map(path).collect(),
            hosts: settings.egress_allowlist.iter().map(|host| host.to_ascii_lowercase()).collect(),
            command_globs: settings.deny_command_globs.iter().map(|text| Glob::new(text, Stars::Anything)).collect(),
        }
    }

    /// Whether any call can be denied.
    pub fn is_active(&self) -> bool {
        self.enforced
    }

    /// The same rules, enforced: for looking at what they would do.
    pub fn enforced(self) -> Policy {
        Policy { enforced: true, ..self }
    }

    /// What has to be known of a call of this tool.
    pub fn need(&self, tool: &str) -> Need {
        if !self.enforced {
            return Need::Nothing;
        }
        if tool.starts_with(CONNECTOR) {
            return match self.connectors.iter().any(|allowed| allowed == tool) {
                true => Need::Nothing,
                false => Need::Denied(Box::new(Denial {
                    rule: Rule::ConnectorDenyDefault,
                    pattern: Some(format!("{CONNECTOR}*")),
                    matched: Some(tool.to_string()),
                    reason: "connectors of the account are not available to agents here".into(),
                })),
            };
        }
        let reads = READING.contains(&tool);
        let decides = (reads && self.secrets_denied)
            || ((reads || WRITING.contains(&tool)) && !self.path_globs.is_empty())
            || (tool == FETCHING && !self.hosts.is_empty())
            || (SHELLS.contains(&tool) && !self.command_globs.is_empty());
        if decides { Need::Input } else { Need::Nothing }
    }

    /// The verdict on a call: `None` lets it pass.
    pub fn judge(&self, tool: &str, arguments: &Arguments, place: &Place) -> Option<Denial> {
        match self.need(tool) {
            Need::Nothing => return None,
            Need::Denied(denial) => return Some(*denial),
            Need::Input => {}
        }
        let reads = READING.contains(&tool);
        if reads || WRITING.contains(&tool) {
            let paths = touched(tool, arguments);
            let forms: Vec<(Option<&str>, Option<Forms>)> = paths
                .iter()
                .map(|path| {
                    let text = path.text();
                    (text, text.filter(|text| text.len() <= LONGEST).map(|text| Forms::of(text, place)))
                })
                .collect();
            let secret = || forms.iter().find_map(|(text, forms)| secret_read(*text, forms.as_ref()));
            let glob = || forms.iter().find_map(|(text, forms)| self.glob_denied(*text, forms.as_ref()));
            return (reads && self.secrets_denied)
                .then(secret)
                .flatten()
                .or_else(|| (!self.path_globs.is_empty()).then(glob).flatten());
        }
        if tool == FETCHING { self.egress_denied(arguments) } else { self.command_denied(arguments) }
    }

    fn glob_denied(&self, text: Option<&str>, forms: Option<&Forms>) -> Option<Denial> {
        let Some(forms) = forms else { return Some(unreadable(Rule::PathGlobDeny, "path", text)) };
        forms.iter().find_map(|form| {
            let glob = self.path_globs.iter().find(|glob| glob.matches(form))?;
            Some(Denial {
                rule: Rule::PathGlobDeny,
                pattern: Some(glob.text().to_string()),
                matched: Some(form.to_string()),
                reason: format!("the path {} fits {:?}, which is closed to agents", quoted(form), glob.text()),
            })
        })
    }

    fn egress_denied(&self, arguments: &Arguments) -> Option<Denial> {
        let denied = |matched: Option<String>, reason: String| {
            Some(Denial { rule: Rule::EgressAllowlist, pattern: None, matched, reason })
        };
        let url = arguments.url.as_ref().and_then(Argument::text);
        match url.and_then(host) {
            Some(host) if self.hosts.contains(&host) => None,
            Some(host) => {
                let reason = format!("the host {} is not among those that may be fetched", quoted(&host));
                denied(Some(host), reason)
            }
            None => denied(None, "only plain http(s) URLs of listed hosts may be fetched".into()),
        }
    }

    fn command_denied(&self, arguments: &Arguments) -> Option<Denial> {
        let argument = arguments.command.as_ref()?;
        let Some(command) = argument.text().filter(|text| text.len() <= LONGEST) else {
            return Some(unreadable(Rule::CommandGlobDeny, "command", argument.text()));
        };
        commands(command).into_iter().find_map(|part| {
            let glob = self.command_globs.iter().find(|glob| glob.matches(&part))?;
            Some(Denial {
                rule: Rule::CommandGlobDeny,
                pattern: Some(glob.text().to_string()),
                reason: format!("the command {} fits {:?}, which agents may not run", quoted(&part), glob.text()),
                matched: Some(part),
            })
        })
    }
}

fn secret_read(text: Option<&str>, forms: Option<&Forms>) -> Option<Denial> {
    let Some(forms) = forms else { return Some(unreadable(Rule::SecretPathRead, "path", text)) };
    forms.iter().find_map(|form| {
        let pattern = secret_pattern(form)?;
        Some(Denial {
            rule: Rule::SecretPathRead,
            pattern: Some(pattern.to_string()),
            matched: Some(form.to_string()),
            reason: format!("{} holds a key or a credential by its name ({pattern})", quoted(form)),
        })
    })
}

/// A value that cannot be judged.
fn unreadable(rule: Rule, what: &str, text: Option<&str>) -> Denial {
    let reason = match text {
        Some(_) => format!("its {what} is longer than {LONGEST} bytes"),
        None => format!("its {what} is no text"),
    };
    Denial { rule, pattern: None, matched: None, reason }
}

/// Every path that a call of `tool` may touch, as the rules understand it.
pub fn touched(tool: &str, arguments: &Arguments) -> Vec<Argument> {
    let mut touched = arguments.paths.clone();
    let below = |name: &str| match arguments.paths.iter().find_map(Argument::text) {
        Some(path) => Argument::Text(format!("{}/{name}", path.trim_end_matches('/'))),
        None => Argument::Text(name.to_string()),
    };
    let is_whole = |text: &&str| text.starts_with('/') || text.starts_with('~');
    match tool {
        "Grep" => touched
            .extend(arguments.glob.as_ref().and_then(Argument::text).filter(|text| !text.starts_with('!')).map(below)),
        "Glob" => touched.extend(
            arguments
                .pattern
                .as_ref()
                .and_then(Argument::text)
                .filter(is_whole)
                .map(|text| Argument::Text(text.to_string())),
        ),
        _ => {}
    }
    touched
}

/// The whole command and its parts, blanks put straight.
fn commands(command: &str) -> Vec<String> {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = command.split([';', '|', '&', '\n', '\r', '(', ')', '{', '}', '`']).map(plain);
    [command.to_string(), plain(command)].into_iter().chain(parts.filter(|part| !part.is_empty())).collect()
}

fn quoted(text: &str) -> String {
    format!("{:?}", crate::base::text::truncate_chars(text, QUOTED))
}

#[cfg(test)]
mod tests;
