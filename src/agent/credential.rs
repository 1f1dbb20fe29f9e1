//! Whether a credential in an environment can be one. Its value is shown to nobody.

use super::Agent;
use crate::base::{Error, Kind, Process, Result, text};

/// Refuses a credential variable that cannot be sent as it stands: with white space around it, with a control character
/// in it (a line end that was pasted along, say), or with anything that is not printable ASCII. A blank one is absent.
///
/// # Errors
/// [`Kind::Invalid`] naming the variable and the place, never the value.
pub fn require_sound_credentials(process: &Process) -> Result<()> {
    let mut names: Vec<&str> = Agent::ALL.iter().flat_map(|agent| agent.credential_vars()).copied().collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().try_for_each(|name| require_sound(process, name))
}

fn require_sound(process: &Process, name: &str) -> Result<()> {
    let Some(value) = process.var_os(name) else { return Ok(()) };
    let bytes = value.as_encoded_bytes();
    let trimmed = bytes.trim_ascii();
    if trimmed.is_empty() {
        return Ok(());
    }
    let odd = trimmed.iter().position(|byte| !byte.is_ascii_graphic());
    let what = match odd {
        Some(at) => {
            let kind = match trimmed[at] {
                byte if byte.is_ascii_whitespace() => "white space",
                byte if byte.is_ascii_control() => "a control character",
                _ => "something that is not ASCII",
            };
            format!("has {kind} in it, behind its first {}", text::plural(at, "character"))
        }
        None if trimmed.len() != bytes.len() => "has white space around it".to_string(),
        None => return Ok(()),
    };
    Err(Error::new(
        Kind::Invalid,
        format!("the credential in {name} {what}: it was not copied whole, or too much of it"),
    )
    .hint(format!("export {name}=\"$(printf %s \"${name}\" | tr -d '[:space:][:cntrl:]')\""))
    .hint(format!("or: unset {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use std::path::Path;

    #[test]
    fn what_cannot_be_a_credential_is_refused_and_not_shown() {
        let check = |value: &str| {
            let env = [("ANTHROPIC_API_KEY", value)];
            require_sound_credentials(&Process::fake(["lazy"], &env, Path::new("/"), Millis(0)))
        };
        for good in ["", "  ", "sk-ant-api03-abc_DEF"] {
            assert!(check(good).is_ok(), "{good:?}");
        }
        let cases = [
            (" secret", "white space around"),
            ("secret\n", "white space around"),
            ("sec ret", "white space in it, behind its first 3 characters"),
            ("sec\rret", "white space in it"),
            ("sec\u{1b}ret", "a control character"),
            ("sécret", "not ASCII"),
        ];
        for (value, what) in cases {
            let error = check(value).expect_err(value);
            assert!(error.message().contains(what) && error.message().contains("ANTHROPIC_API_KEY"), "{error}");
            assert!(!format!("{error:?}").contains("cret"), "{error:?}");
        }
    }
}
