//! The host that a URL names, for those URLs that every reader understands alike.

/// The host in lower case.
///
/// `None` for everything that two readers could understand differently: other schemes, user names, backslashes,
/// escapes, blanks, control characters, hosts that are not plain ASCII.
pub fn host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte == b'\\') {
        return None;
    }
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let (host, port) = match authority.strip_prefix('[') {
        Some(literal) => {
            let (inside, after) = literal.split_once(']')?;
            inside.parse::<std::net::Ipv6Addr>().ok()?;
            (&authority[..inside.len() + 2], after)
        }
        None => {
            let at = authority.find(':').unwrap_or(authority.len());
            (&authority[..at], &authority[at..])
        }
    };
    let named = host.starts_with('[')
        || (!host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)));
    let port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    (named && port).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn plain_urls_have_a_host_and_tricky_ones_have_none() {
        for (url, wanted) in [
            ("https://API.github.com/x?y#z", Some("api.github.com")),
            ("HTTP://localhost:8080", Some("localhost")),
            ("https://[::1]:9/x", Some("[::1]")),
            ("https://a.b?c", Some("a.b")),
            ("https://api.github.com@evil.example/", None),
            ("https://evil.example\\@api.github.com/", None),
            ("https://api.github.com%2eevil.example/", None),
            ("https://api.github.com\t.evil.example/", None),
            (" https://api.github.com/", None),
            ("https:api.github.com", None),
            ("ftp://api.github.com/", None),
            ("https://bücher.example/", None),
            ("https:///x", None),
            ("https://a:b/", None),
            ("https://[x]/", None),
            ("", None),
        ] {
            assert_eq!(host(url).as_deref(), wanted, "{url}");
        }
    }
}
