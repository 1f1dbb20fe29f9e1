//! The client of the proxies that are measured: the same for every one of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::upstream::Script;
use crate::world::Result;

/// One connection that is kept.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    key: String,
}

/// What came of one request.
pub struct Outcome {
    /// From the request's first byte until the first byte of the body.
    pub first: Duration,
    /// The body as it arrived.
    pub body: Vec<u8>,
    /// The body's length after each piece, and when the piece was there.
    pub arrivals: Vec<(usize, Instant)>,
}

impl Client {
    /// Connects; `key` is what it presents as its API key.
    pub async fn connect(address: SocketAddr, key: &str) -> Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Client { sender, host: address.to_string(), key: key.to_string() })
    }

    /// Sends a request and waits for the head of its response.
    pub async fn send(&mut self, script: Script, body: Bytes) -> Result<Response<Incoming>> {
        let request = Request::post(script.path())
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", &self.key)
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        if !response.status().is_success() {
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            return Err(format!("{}: {status}: {}", self.host, String::from_utf8_lossy(&body)).into());
        }
        Ok(response)
    }

    /// Sends a request and takes the whole response.
    pub async fn exchange(&mut self, script: Script, body: Bytes) -> Result<Outcome> {
        let begun = Instant::now();
        let mut incoming = self.send(script, body).await?.into_body();
        let (mut body, mut arrivals) = (Vec::new(), Vec::new());
        while let Some(frame) = incoming.frame().await {
            if let Ok(data) = frame?.into_data() {
                body.extend_from_slice(&data);
                arrivals.push((body.len(), Instant::now()));
            }
        }
        let first = arrivals.first().ok_or("the response has no body")?.1 - begun;
        Ok(Outcome { first, body, arrivals })
    }
}

/// The body of a request for a message, about this long.
pub fn prompt(script: Script, length: usize) -> Bytes {
    let text = "Look at how the report is put together. ".repeat(length / 40);
    let value = serde_json::json!({
        "model": "claude-opus-4-7",
        "max_tokens": 4096,
        "stream": script != Script::Plain,
        "metadata": {"user_id": script.word()},
        "messages": [{"role": "user", "content": text}],
    });
    value.to_string().into()
}
