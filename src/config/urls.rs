//! Checks of the URLs in the file.

use super::reader::Section;
use crate::base::Result;

/// The URL without trailing slashes.
///
/// # Errors
/// [`crate::base::Kind::Config`] when it is not an http(s) URL with a host.
pub(super) fn checked(section: &Section<'_, '_>, key: &str, url: &str) -> Result<String> {
    if host_span(url).is_none() {
        return Err(section.fail(key, &format!("must be an http:// or https:// URL, not {url:?}")));
    }
    Ok(url.trim_end_matches('/').to_string())
}

/// The same for a URL that the proxy, a process of this machine, calls: the container's name for the machine becomes
/// `localhost`, with a warning that calls the key `what`. Empty stays empty.
pub(super) fn from_host(section: &Section<'_, '_>, key: &str, what: &str, url: &str) -> Result<String> {
    if url.is_empty() {
        return Ok(String::new());
    }
    let url = checked(section, key, url)?;
    match host_span(&url) {
        Some((start, end)) if url[start..end].eq_ignore_ascii_case("host.docker.internal") => {
            let rewritten = format!("{}localhost{}", &url[..start], &url[end..]);
            section.warn(format!(
                "{what} = \"{url}\" is read as \"{rewritten}\": lazy's proxy makes the call from this machine, where \
                 host.docker.internal means nothing; write the address as this machine reaches it"
            ));
            Ok(rewritten)
        }
        _ => Ok(url),
    }
}

/// Where the host stands in an http(s) URL; `None` when it is not one.
fn host_span(url: &str) -> Option<(usize, usize)> {
    if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))?;
    let start = scheme.len();
    let authority_end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let host_start = url[start..authority_end].rfind('@').map_or(start, |at| start + at + 1);
    let authority = &url[host_start..authority_end];
    let length = match authority.starts_with('[') {
        true => authority.find(']')? + 1,
        false => authority.find(':').unwrap_or(authority.len()),
    };
    let port = &authority[length..];
    let port_ok = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (length > 0 && port_ok).then_some((host_start, host_start + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found() {
        let host = |url: &'static str| host_span(url).map(|(start, end)| &url[start..end]);
        assert_eq!(host("http://localhost:11434/v1"), Some("localhost"));
        assert_eq!(host("HTTPS://u:p@Example.org?x"), Some("Example.org"));
        assert_eq!(host("http://[::1]:80"), Some("[::1]"));
        for bad in ["", "localhost:1", "ftp://x", "http://", "http:///x", "http://a:99999", "http://a b", "http://[::1"]
        {
            assert_eq!(host(bad), None, "{bad}");
        }
    }
}
