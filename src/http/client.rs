//! A small client for daemons on this machine: one connection for each request, nothing sent twice.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::base::{Error, Kind, Result};

/// How long a connection attempt may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A client of one base address.
#[derive(Debug, Clone)]
pub struct Client {
    host: String,
    port: u16,
    prefix: String,
}

impl Client {
    /// A client of `base`: `http://host[:port][/prefix]`.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when `base` is not such an address.
    pub fn new(base: &str) -> Result<Client> {
        let refused = || Error::invalid(format!("{base:?} is not an http:// address"));
        let uri: Uri = base.parse().map_err(|_| refused())?;
        if uri.scheme_str() != Some("http") {
            return Err(refused());
        }
        let host = uri.host().ok_or_else(refused)?.to_string();
        Ok(Client { host, port: uri.port_u16().unwrap_or(80), prefix: uri.path().trim_end_matches('/').to_string() })
    }

    /// `host:port` of the peer.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Sends one request and waits, without a limit, for the head of the response.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the request never left (no connection, or closed before anything was written): it is
    /// safe to send again. [`Kind::Lost`] when the connection broke after that: the work may have been done.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>> {
        let body = body.into();
        let request = self.build(method, path, headers, body)?;
        let stream = self.connect().await?;
        let unsent = |source: hyper::Error| {
            Error::unavailable(format!("{} closed the connection before the request was sent", self.authority()))
                .caused_by(source)
        };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(unsent)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "client connection ended early");
            }
        });
        sender.ready().await.map_err(unsent)?;
        sender.try_send_request(request).await.map_err(|mut refused| match refused.take_message() {
            Some(_) => unsent(refused.into_error()),
            None => Error::new(
                Kind::Lost,
                format!(
                    "the connection to {} broke before the answer came; the work may have been done",
                    self.authority()
                ),
            )
            .caused_by(refused.into_error()),
        })
    }

    fn build(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Bytes) -> Result<Request<Full<Bytes>>> {
        let wrong = |what: &str| Error::invalid(format!("{what} cannot be sent over HTTP"));
        let mut builder = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(header::HOST, self.authority())
            .header(header::CONNECTION, "close");
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(&format!("the header {name:?}")))?;
            // The value may be a secret: the message does not quote it.
            let value = HeaderValue::from_str(value).map_err(|_| wrong(&format!("the value of the header {name}")))?;
            builder = builder.header(name, value);
        }
        builder.body(Full::new(body)).map_err(|_| wrong(&format!("the path {path:?}")))
    }

    async fn connect(&self) -> Result<TcpStream> {
        // The brackets of an IPv6 address belong to the URL, not to the name that is resolved.
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((host, self.port))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => {
                return Err(Error::unavailable(format!("nothing answers at {}", self.authority())).caused_by(source));
            }
            Err(_) => {
                let waited = CONNECT_TIMEOUT.as_secs();
                return Err(Error::unavailable(format!("no connection to {} within {waited} s", self.authority())));
            }
        };
        stream.set_nodelay(true).ok();
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn addresses_are_checked() {
        assert!(Client::new("127.0.0.1:80").is_err());
        assert!(Client::new("https://127.0.0.1").is_err());
        let client = Client::new("http://localhost:81/base/").expect("an address");
        assert_eq!((client.authority().as_str(), client.prefix.as_str()), ("localhost:81", "/base"));
    }

    #[tokio::test]
    async fn never_connected_differs_from_broken_on_the_way() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let client = Client::new(&format!("http://{}", listener.local_addr().expect("address"))).expect("client");
        let peer = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accepts");
            let mut head = [0; 16];
            stream.read_exact(&mut head).await.expect("reads some of the request");
            stream.write_all(b"HTTP/1.1 2").await.expect("answers a little");
        });
        let error = client.request(Method::GET, "/", &[], "").await.expect_err("broke");
        assert_eq!(error.kind(), Kind::Lost);
        peer.await.expect("joins");
        // Where the listener was, another test may listen by now; nobody does here.
        let nowhere = Client::new("http://127.0.0.1:1").expect("client");
        let error = nowhere.request(Method::GET, "/", &[], "").await.expect_err("nobody");
        assert_eq!(error.kind(), Kind::Unavailable);
    }

    #[tokio::test]
    async fn a_bad_header_value_is_not_quoted() {
        let client = Client::new("http://127.0.0.1:1").expect("client");
        let error = client.request(Method::GET, "/", &[("x-key", "se\ncret")], "").await.expect_err("refused");
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(!format!("{error:?}").contains("cret"));
    }
}
