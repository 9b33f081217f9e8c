//! A socket on which the refusals that the HTTP library writes itself (a head that is no HTTP, too long a path, too many
//! headers) get a problem document as their body. Must not know routes.
//!
//! A refusal is recognized by when it is written, never by how bytes look: after a partial write, bytes may begin
//! anywhere in a response, for instance in a message whose text looks like a head. While every response that the router
//! began has reached the socket, only the library itself can begin to write. A refusal that shares a write with a
//! response before it (of requests sent without waiting for answers) stays as the library wrote it, without a body.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use agent::port::BoxFuture;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::problem::{Code, Problem};

/// The requests of one connection that the router got.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// One of them; dropping it means that the HTTP library has its whole response, or that there will be none.
#[derive(Debug)]
pub(crate) struct Exchange(Arc<Exchanges>);

impl Exchanges {
    /// Counts a request that the router gets.
    pub(crate) fn begin(self: &Arc<Self>) -> Exchange {
        self.begun.fetch_add(1, Ordering::AcqRel);
        Exchange(Arc::clone(self))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// A response whose exchange ends with its body.
pub(crate) fn until_written(exchange: Exchange, response: Response<Body>) -> Response<Body> {
    response.map(|body| Body::new(ExchangeBody { body, _exchange: exchange }))
}

struct ExchangeBody {
    body: Body,
    _exchange: Exchange,
}

impl HttpBody for ExchangeBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Makes the bytes of the last response of a connection.
pub(crate) type LastResponse = Box<dyn Fn(Problem) -> BoxFuture<'static, Vec<u8>> + Send>;

/// The socket of one connection.
pub(crate) struct RefusalSocket<S> {
    socket: S,
    exchanges: Arc<Exchanges>,
    /// So many exchanges are written to the socket to their end, as of the last flush.
    flushed: usize,
    last_response: LastResponse,
    /// The refusal that is being made.
    making: Option<BoxFuture<'static, Vec<u8>>>,
    /// The refusal that is not written yet.
    unwritten: Vec<u8>,
}

impl<S: AsyncWrite + Unpin> RefusalSocket<S> {
    pub(crate) fn new(socket: S, exchanges: Arc<Exchanges>, last_response: LastResponse) -> Self {
        Self { socket, exchanges, flushed: 0, last_response, making: None, unwritten: Vec::new() }
    }

    fn poll_unwritten(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(making) = &mut self.making {
            self.unwritten = ready!(making.as_mut().poll(cx));
            self.making = None;
        }
        while !self.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unwritten.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// Whether what is written now is a refusal; then one with a problem document is made in its place.
    fn replaces(&mut self, head: &[u8]) -> bool {
        // A response that the router began counts as not written until a flush that found it ended.
        if self.exchanges.begun.load(Ordering::Acquire) != self.flushed {
            return false;
        }
        let Some(problem) = refusal(head) else { return false };
        self.making = Some((self.last_response)(problem));
        true
    }

    /// The library flushes when all that it has to write is written.
    fn note_flush(&mut self) {
        let ended = self.exchanges.ended.load(Ordering::Acquire);
        if self.exchanges.begun.load(Ordering::Acquire) == ended {
            self.flushed = ended;
        }
    }
}

/// The problem that a refusal of the HTTP library stands for.
fn refusal(head: &[u8]) -> Option<Problem> {
    let status = head.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5))?;
    let (code, detail) = match status {
        b"400" => (Code::BadHttp, "the request is not HTTP/1.1"),
        b"414" => (Code::UriTooLong, "the path and query of the request are too long"),
        b"431" => (Code::HeadersTooLarge, "the request has too many or too large headers"),
        _ => return None,
    };
    Some(Problem::new(code, detail))
}

impl<S: AsyncRead + Unpin> AsyncRead for RefusalSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RefusalSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_unwritten(cx))?;
        if self.replaces(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unwritten(cx))?;
        if slices.first().is_some_and(|head| self.replaces(head)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        Pin::new(&mut self.socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unwritten(cx))?;
        self.note_flush();
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unwritten(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    const HEAD: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

    /// Takes a few bytes at a time.
    #[derive(Default)]
    struct Narrow(Vec<u8>);

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(7);
            self.0.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn socket() -> (RefusalSocket<Narrow>, Arc<Exchanges>) {
        let exchanges = Arc::<Exchanges>::default();
        let last: LastResponse = Box::new(|_| Box::pin(async { b"a problem document".to_vec() }));
        (RefusalSocket::new(Narrow::default(), Arc::clone(&exchanges), last), exchanges)
    }

    #[tokio::test]
    async fn a_body_that_looks_like_a_refusal_is_written_as_it_is() {
        let (mut socket, exchanges) = socket();
        // Seven bytes at a time, so that writes begin at every offset of the pattern.
        let response = "HTTP/1.1 200 OK\r\n\r\n".to_owned() + &"HTTP/1.1 400 ".repeat(50);
        for _ in 0..2 {
            let exchange = exchanges.begin();
            socket.write_all(&response.as_bytes()[..300]).await.unwrap();
            // The library has the whole response, and still writes.
            drop(exchange);
            socket.write_all(&response.as_bytes()[300..]).await.unwrap();
            socket.flush().await.unwrap();
        }
        assert_eq!(String::from_utf8(socket.socket.0).unwrap(), response.repeat(2));
    }

    #[tokio::test]
    async fn a_refusal_gets_its_document_before_and_after_responses() {
        let (mut socket, exchanges) = socket();
        socket.write_all(HEAD).await.unwrap();
        socket.flush().await.unwrap();
        assert_eq!(socket.socket.0, b"a problem document");
        socket.socket.0.clear();
        let exchange = exchanges.begin();
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        socket.flush().await.unwrap();
        drop(exchange);
        socket.flush().await.unwrap();
        socket.socket.0.clear();
        socket.write_all(HEAD).await.unwrap();
        socket.flush().await.unwrap();
        assert_eq!(socket.socket.0, b"a problem document");
    }
}
