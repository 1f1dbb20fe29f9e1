//! Where a request goes: an origin, and the path prefix that a base address adds.

use std::fmt;
use std::sync::Arc;

use hyper::Uri;

use super::misconfigured;
use crate::base::Result;

/// Scheme, host and port: what credentials and connections are keyed by. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Origin(Arc<Parts>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Parts {
    secure: bool,
    host: String,
    port: u16,
}

/// A base address, as configured.
#[derive(Debug, Clone)]
pub(super) struct Base {
    /// Where connections go.
    pub origin: Origin,
    /// What precedes every path; no trailing slash, often empty.
    pub prefix: String,
    /// The address as it was configured, for records and messages; no trailing slash.
    pub text: String,
}

impl Origin {
    /// Whether connections are TLS.
    pub fn is_secure(&self) -> bool {
        self.0.secure
    }

    /// The name to resolve, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        self.0.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, also when it is the scheme's own.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// The value of the `host` header: the port only when it is not the scheme's own.
    pub fn authority(&self) -> String {
        match (self.0.secure, self.0.port) {
            (true, 443) | (false, 80) => self.0.host.clone(),
            (_, port) => format!("{}:{port}", self.0.host),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.0.secure { "https" } else { "http" }, self.authority())
    }
}

impl Base {
    /// Reads a base address; `setting` is the key it was configured by.
    ///
    /// # Errors
    /// When it is not `http(s)://host[:port][/prefix]`. An address that carries a user or password is not quoted.
    pub fn parse(text: &str, setting: &str) -> Result<Base> {
        let text = text.trim_end_matches('/');
        if text.contains('@') {
            return Err(misconfigured(format!("{setting} must not carry a user name or password")));
        }
        let refused =
            || misconfigured(format!("{setting} = {text:?} is not an address of the form https://host[:port][/path]"));
        let uri: Uri = text.parse().map_err(|_| refused())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(refused()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(refused)?.to_ascii_lowercase();
        if uri.query().is_some() {
            return Err(refused());
        }
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let origin = Origin(Arc::new(Parts { secure, host, port }));
        Ok(Base { origin, prefix: uri.path().trim_end_matches('/').to_string(), text: text.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let base = Base::parse("https://API.example.com/v1/", "x").expect("reads");
        assert_eq!((base.origin.authority().as_str(), base.prefix.as_str()), ("api.example.com", "/v1"));
        assert_eq!(base.origin, Base::parse("https://api.example.com:443", "x").expect("reads").origin);
        assert_eq!(Base::parse("http://[::1]:81", "x").expect("reads").origin.host(), "::1");
        for bad in ["", "api.example.com", "ftp://x", "http://", "http://h/?a=b", "http:///x"] {
            assert!(Base::parse(bad, "proxy.upstream").is_err(), "{bad}");
        }
        let error = Base::parse("https://user:hunter2@host", "proxy.upstream").expect_err("refused");
        assert!(!error.to_string().contains("hunter2"));
    }
}
