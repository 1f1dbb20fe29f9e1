//! The rules, one call after the other.

use super::*;

fn policy(change: impl FnOnce(&mut schema::Policy)) -> Policy {
    let mut settings = schema::Policy::default();
    change(&mut settings);
    Policy::from_settings(&settings, Some("/home/u".into()))
}

fn place() -> Place {
    Place { worktree: Some("/w/t".into()), home: Some("/home/u".into()) }
}

fn verdict(policy: &Policy, tool: &str, input: &str) -> Option<Rule> {
    let arguments = Arguments::read(input.as_bytes()).expect("an object");
    policy.judge(tool, &arguments, &place()).map(|denial| denial.rule)
}

#[test]
fn the_defaults_deny_connectors_and_secret_reads() {
    let policy = policy(|_| {});
    let secret = Some(Rule::SecretPathRead);
    for (tool, input, wanted) in [
        ("mcp__claude_ai_gmail_send", "{}", Some(Rule::ConnectorDenyDefault)),
        ("mcp__lazy__lazy_commit", r#"{"path":"/root/.ssh/id_rsa"}"#, None),
        ("Read", r#"{"file_path":"~/.ssh/id_rsa"}"#, secret),
        ("Read", r#"{"file_path":"src/main.rs"}"#, None),
        ("Read", r#"{"path":"/ok","file_path":"/root/.ssh/id_rsa"}"#, secret),
        ("Read", r#"{"file_path":["/root/.ssh/id_rsa"]}"#, secret),
        ("Read", "{}", None),
        ("read_file", r#"{"path":"../../.netrc"}"#, secret),
        ("NotebookRead", r#"{"notebook_path":"a/.env"}"#, secret),
        ("LS", r#"{"path":"/root/.ssh"}"#, secret),
        ("Grep", r#"{"pattern":"KEY","path":"/w/t","glob":"**/*.pem"}"#, secret),
        ("Grep", r#"{"pattern":"KEY","glob":"!*.pem"}"#, None),
        ("Grep", r#"{"pattern":"id_rsa"}"#, None),
        ("Glob", r#"{"pattern":"/root/.ssh/*"}"#, secret),
        ("Glob", r#"{"pattern":"**/*.rs"}"#, None),
        ("Write", r#"{"file_path":"/w/t/.env"}"#, None),
        ("Bash", r#"{"command":"cat ~/.ssh/id_rsa"}"#, None),
        ("WebFetch", r#"{"url":"https://example.com"}"#, None),
    ] {
        assert_eq!(verdict(&policy, tool, input), wanted, "{tool} {input}");
    }
    let long = format!(r#"{{"file_path":"{}"}}"#, "./".repeat(LONGEST));
    assert_eq!(verdict(&policy, "Read", &long), secret);
}

#[test]
fn the_name_alone_says_whether_the_input_matters() {
    let defaults = policy(|_| {});
    for (tool, wanted) in [("Read", true), ("Bash", false), ("Write", false), ("WebFetch", false), ("Task", false)] {
        assert_eq!(defaults.need(tool) == Need::Input, wanted, "{tool}");
    }
    let all = policy(|settings| {
        settings.deny_path_globs = vec!["/etc/**".into()];
        settings.egress_allowlist = vec!["a".into()];
        settings.deny_command_globs = vec!["rm *".into()];
        settings.connector_allowlist = vec!["mcp__claude_ai_x".into()];
    });
    for (tool, wanted) in [("Bash", true), ("Write", true), ("WebFetch", true), ("mcp__claude_ai_x", false)] {
        assert_eq!(all.need(tool) == Need::Input, wanted, "{tool}");
    }
    assert_eq!(all.need("mcp__claude_ai_x"), Need::Nothing, "allowed, and no further rule");
    assert!(matches!(all.need("mcp__claude_ai_y"), Need::Denied(_)));
    let off = policy(|settings| settings.enforce = false);
    assert!(!off.is_active() && off.need("mcp__claude_ai_y") == Need::Nothing);
    assert!(matches!(off.enforced().need("mcp__claude_ai_y"), Need::Denied(_)));
}

#[test]
fn globs_see_every_form_of_a_path() {
    let policy = policy(|settings| {
        settings.deny_secret_path_reads = false;
        settings.deny_path_globs = vec!["/etc/**".into(), "**/*.key".into(), "~/private/**".into(), "vendor/**".into()];
    });
    let denied = Some(Rule::PathGlobDeny);
    for (tool, input, wanted) in [
        ("Write", r#"{"file_path":"/etc/hosts"}"#, denied),
        ("Edit", r#"{"file_path":"../../../etc/hosts"}"#, denied),
        ("Read", r#"{"file_path":"a.key"}"#, denied),
        ("MultiEdit", r#"{"file_path":"~/private/x"}"#, denied),
        ("NotebookEdit", r#"{"notebook_path":"/home/u/./private/x"}"#, denied),
        ("Write", r#"{"file_path":"/w/t/vendor/x"}"#, denied),
        ("Write", r#"{"file_path":"./vendor/x"}"#, denied),
        ("Write", r#"{"file_path":"src/vendor/x"}"#, None),
        ("Write", r#"{"file_path":7}"#, denied),
        ("Read", r#"{"file_path":"/root/.ssh/id_rsa"}"#, None),
    ] {
        assert_eq!(verdict(&policy, tool, input), wanted, "{tool} {input}");
    }
}

#[test]
fn egress_goes_to_listed_hosts_only() {
    let policy = policy(|settings| settings.egress_allowlist = vec!["API.github.com".into()]);
    let denied = Some(Rule::EgressAllowlist);
    for (input, wanted) in [
        (r#"{"url":"https://api.github.com/x"}"#, None),
        (r#"{"url":"https://github.com/x"}"#, denied),
        (r#"{"url":"https://api.github.com@evil.example/"}"#, denied),
        (r#"{"url":["https://api.github.com/x"]}"#, denied),
        ("{}", denied),
    ] {
        assert_eq!(verdict(&policy, "WebFetch", input), wanted, "{input}");
    }
    assert_eq!(verdict(&policy, "WebSearch", r#"{"query":"x"}"#), None);
}

#[test]
fn commands_are_looked_at_in_parts() {
    let policy = policy(|settings| settings.deny_command_globs = vec!["git push*".into(), "rm -rf /*".into()]);
    let denied = Some(Rule::CommandGlobDeny);
    for (command, wanted) in [
        ("git push", denied),
        ("git   push  origin main", denied),
        ("cd x && git push", denied),
        ("(true; git push)", denied),
        ("echo a\\nrm -rf /etc", denied),
        ("git pushd", denied),
        ("git status", None),
        ("echo git push", None),
        ("rm -rf target", None),
    ] {
        let input = format!(r#"{{"command":"{command}"}}"#);
        assert_eq!(verdict(&policy, "Bash", &input), wanted, "{command}");
    }
    assert_eq!(verdict(&policy, "Bash", r#"{"command":["git","push"]}"#), denied);
    assert_eq!(verdict(&policy, "Bash", "{}"), None);
}

#[test]
fn a_denial_explains_itself() {
    let policy = policy(|_| {});
    let arguments = Arguments::path("x/../.ssh/id_rsa");
    let denial = policy.judge("Read", &arguments, &place()).expect("denied");
    assert_eq!(denial.pattern.as_deref(), Some("**/.ssh/**"));
    assert!(denial.reason.contains(".ssh/id_rsa"), "{}", denial.reason);
    let json = serde_json::to_value(&denial).expect("encodes");
    assert_eq!(json["rule"], "secret-path-read");
}
