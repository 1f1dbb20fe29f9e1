//! Which headers go on, in both directions.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::proxy::caller::CREDENTIAL_HEADERS;
use crate::proxy::gate::Effect;
use crate::proxy::gate::decode::Coding;
use crate::proxy::origin::Origin;

/// Headers that belong to one connection.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Takes out what is not for the upstream, and names the upstream as host.
pub(super) fn prepare_request(headers: &mut HeaderMap, origin: &Origin) {
    remove_hop_by_hop(headers);
    headers.remove(header::CONTENT_LENGTH);
    // The client's own connection answered it already.
    headers.remove(header::EXPECT);
    let ours: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with("x-lazy-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
    match HeaderValue::from_str(&origin.authority()) {
        Ok(host) => headers.insert(header::HOST, host),
        Err(_) => headers.remove(header::HOST),
    };
}

/// Takes out everything that may be a credential.
pub(super) fn remove_credentials(headers: &mut HeaderMap) {
    for name in CREDENTIAL_HEADERS {
        headers.remove(name);
    }
}

/// Takes out what belongs to the upstream's connection.
pub(super) fn prepare_response(headers: &mut HeaderMap, effect: Effect) {
    remove_hop_by_hop(headers);
    if effect == Effect::MayChange {
        headers.remove(header::CONTENT_LENGTH);
    }
}

/// How a response is encoded; `None` when that cannot be decoded.
pub(super) fn coding(headers: &HeaderMap) -> Option<Coding> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).into_iter();
    let first = values.next().map(|value| value.to_str().unwrap_or("unknown"));
    if values.next().is_some() { None } else { Coding::of(first) }
}

/// Whether a response is an event stream in plain text.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.to_ascii_lowercase().contains("text/event-stream"))
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // A client cannot have its credential or the length of its body taken out by naming it.
        .filter(|name| !CREDENTIAL_HEADERS.contains(name) && name != header::CONTENT_LENGTH)
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::origin::Base;

    #[test]
    fn only_end_to_end_headers_go_on() {
        let pairs = [
            ("host", "127.0.0.1:1"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("x-lazy-role", "agent"),
            ("x-lazy-anything", "1"),
            ("content-length", "5"),
            ("expect", "100-continue"),
            ("anthropic-version", "2023-06-01"),
            ("accept-encoding", "gzip"),
        ];
        let mut headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let base = Base::parse("https://api.example.com", "x").expect("reads");
        prepare_request(&mut headers, &base.origin);
        let mut left: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            [("accept-encoding", "gzip"), ("anthropic-version", "2023-06-01"), ("host", "api.example.com")]
        );
    }
}
