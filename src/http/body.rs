//! The one body type, and the replies every face needs.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as HttpBody, Frame};
use hyper::{Response, StatusCode, header};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::base::{Error, Kind, Result};

/// Any body that this crate sends. An error in it breaks the connection.
pub type Body = http_body_util::combinators::BoxBody<Bytes, Error>;

/// A body of known bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// A body of no bytes.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

/// A body that is written while it is being sent; at most 8 chunks wait for a slow reader.
pub fn channel() -> (Sender, Body) {
    let (sender, receiver) = mpsc::channel(8);
    (Sender(sender), Channel { receiver, broken: None }.boxed())
}

/// The writing end of a [`channel`] body. Dropping it ends the body as whole.
#[derive(Debug, Clone)]
pub struct Sender(mpsc::Sender<Result<Bytes>>);

impl Sender {
    /// Sends one chunk, waiting while the reader is behind.
    ///
    /// # Errors
    /// [`Kind::Canceled`] when the reader went away.
    pub async fn send(&self, bytes: impl Into<Bytes>) -> Result<()> {
        self.0.send(Ok(bytes.into())).await.map_err(|_| gone())
    }

    /// Ends the body as broken: the reader's connection is cut after the chunks sent so far.
    pub async fn fail(self, error: Error) {
        self.0.send(Err(error)).await.ok();
    }

    /// Ends when the reader went away.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

fn gone() -> Error {
    Error::new(Kind::Canceled, "the reader of the response went away")
}

struct Channel {
    receiver: mpsc::Receiver<Result<Bytes>>,
    broken: Option<Error>,
}

impl HttpBody for Channel {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match self.receiver.poll_recv(cx) {
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(Some(Err(error))) => {
                // hyper drops what it has buffered when a body fails; one turn of waiting lets it flush that first.
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A JSON reply.
pub fn json(status: u16, value: &impl Serialize) -> Response<Body> {
    let (status, bytes) = match serde_json::to_vec(value) {
        Ok(bytes) => (status, bytes),
        Err(_) => (500, br#"{"error":"the answer cannot be encoded as JSON"}"#.to_vec()),
    };
    let mut response = Response::new(full(bytes));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// The reply for a refusal: the status of its kind and its wire form.
pub fn failure(error: &Error) -> Response<Body> {
    json(error.kind().http_status(), &error.to_wire())
}

/// The answer to a request that was not carried out because the server ends or is not ready: it may be sent again.
pub fn try_again(error: &Error) -> Response<Body> {
    let mut response = failure(error);
    response.headers_mut().insert(hyper::header::RETRY_AFTER, hyper::header::HeaderValue::from_static("1"));
    response.headers_mut().insert(hyper::header::CONNECTION, hyper::header::HeaderValue::from_static("close"));
    response
}

/// Reads a body whole, up to `limit` bytes.
///
/// # Errors
/// [`Kind::Invalid`] when it is longer, [`Kind::Lost`] when the connection breaks first.
pub async fn read_body<B>(body: B, limit: usize) -> Result<Bytes>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_long = || Error::invalid(format!("the body is longer than {limit} bytes"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_long());
    }
    let mut body = std::pin::pin!(body);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| Error::new(Kind::Lost, "the body broke off").caused_by(source))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(too_long());
        }
        // A body of one chunk, which is the common case, is not copied.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_body_is_refused() {
        assert_eq!(read_body(full("12345"), 5).await.expect("fits"), "12345");
        assert_eq!(read_body(full("123456"), 5).await.expect_err("too long").kind(), Kind::Invalid);
        let (sender, body) = channel();
        let write = async move {
            for part in ["ab", "cd", "ef"] {
                sender.send(part).await.expect("read");
            }
        };
        let (read, ()) = tokio::join!(read_body(body, 6), write);
        assert_eq!(read.expect("fits"), "abcdef");
    }

    #[tokio::test]
    async fn a_failed_channel_is_not_whole() {
        let (sender, body) = channel();
        sender.send("ab").await.expect("room");
        sender.fail(Error::new(Kind::Lost, "upstream broke")).await;
        assert_eq!(read_body(body, 100).await.expect_err("broken").kind(), Kind::Lost);
    }

    #[tokio::test]
    async fn the_writer_learns_that_nobody_reads() {
        let (sender, body) = channel();
        drop(body);
        sender.closed().await;
        assert_eq!(sender.send("x").await.expect_err("gone").kind(), Kind::Canceled);
    }
}
