//! The model credential in an environment: which variable has it, and how to get one.

use crate::base::Process;

/// The variables that may hold it, in order of preference.
pub const VARIABLES: [&str; 2] = ["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"];

/// The variable of this process that has a credential. The value is never looked at beyond being there.
pub fn variable(process: &Process) -> Option<&'static str> {
    VARIABLES.into_iter().find(|name| process.var(name).is_some())
}

/// Commands that get one, each ready to paste.
pub fn remedies() -> Vec<String> {
    vec![
        "with a Claude subscription: claude setup-token, then export CLAUDE_CODE_OAUTH_TOKEN=<the token>".into(),
        "with an API key: export ANTHROPIC_API_KEY=<the key>".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use std::path::Path;

    #[test]
    fn the_token_comes_first_and_blank_is_absent() {
        let found = |env: &[(&str, &str)]| variable(&Process::fake(["lazy"], env, Path::new("/"), Millis(0)));
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("ANTHROPIC_API_KEY", " ")]), None);
        assert_eq!(found(&[("ANTHROPIC_API_KEY", "k")]), Some("ANTHROPIC_API_KEY"));
        let both = [("ANTHROPIC_API_KEY", "k"), ("CLAUDE_CODE_OAUTH_TOKEN", "t")];
        assert_eq!(found(&both), Some("CLAUDE_CODE_OAUTH_TOKEN"));
    }
}
