//! Paths that are keys and credentials by their names.

/// The pattern that says so, if one does. Case-sensitive; matched anywhere in the path.
pub fn secret_pattern(path: &str) -> Option<&'static str> {
    let mut last = "";
    let mut before = "";
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == ".ssh" {
            return Some("**/.ssh/**");
        }
        if last == ".aws" && part.starts_with("credentials") {
            return Some("**/.aws/credentials*");
        }
        before = std::mem::replace(&mut last, part);
    }
    let by_name = match last {
        ".env" => Some("**/.env"),
        name if name.starts_with(".env.") => Some("**/.env.*"),
        "id_rsa" | "id_dsa" | "id_ecdsa" | "id_ed25519" => Some("**/id_{rsa,dsa,ecdsa,ed25519}"),
        ".netrc" => Some("**/.netrc"),
        ".git-credentials" => Some("**/.git-credentials"),
        ".npmrc" => Some("**/.npmrc"),
        ".pypirc" => Some("**/.pypirc"),
        name if name.ends_with(".pem") => Some("**.pem"),
        name if name.ends_with("credentials.json") => Some("**credentials.json"),
        _ => None,
    };
    let pair = match (last, before) {
        ("config", parent) if parent.ends_with(".aws") => Some("**.aws/config"),
        ("config", parent) if parent.ends_with(".kube") => Some("**.kube/config"),
        ("config.json", parent) if parent.ends_with(".docker") => Some("**.docker/config.json"),
        _ => None,
    };
    by_name.or(pair)
}

#[cfg(test)]
mod tests {
    use super::secret_pattern;

    #[test]
    fn the_default_patterns() {
        for secret in [
            "/root/.ssh/id_rsa",
            "~/.ssh",
            "/root/.ssh/",
            ".ssh/known_hosts",
            ".env",
            "/w/.env.example",
            "/root/.aws/credentials",
            "/root/.aws/credentials.bak",
            "/root/.aws/credentials/x",
            "/root/.aws/config",
            "id_ed25519",
            "/x/id_dsa",
            "a/b.pem",
            "/h/.netrc",
            "/h/.git-credentials",
            ".npmrc",
            ".pypirc",
            "/h/.docker/config.json",
            "/h/.kube/config",
            "/h/gcp-credentials.json",
            "credentials.json/",
        ] {
            assert!(secret_pattern(secret).is_some(), "{secret}");
        }
        for open in [
            "",
            "/",
            "/w/src/ssh/mod.rs",
            "/w/.envrc",
            "/w/env",
            "/w/.environment",
            "/w/id_rsa.pub",
            "/w/x.pem.txt",
            "/w/config",
            "/w/.aws/readme",
            "/w/config.json",
            "/w/npmrc",
            "/w/.SSH/x",
            "/w/credentials.jsonl",
        ] {
            assert_eq!(secret_pattern(open), None, "{open}");
        }
    }
}
