//! A socket on which the refusals that the HTTP library writes itself (a head that is no HTTP, too long a path, too many
//! headers) get a problem document as their body. Must not know routes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::problem::{Code, Problem};

/// The socket of one connection.
pub(crate) struct RefusalSocket {
    socket: TcpStream,
    /// The refusal that is not written yet.
    unwritten: Vec<u8>,
}

impl RefusalSocket {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self { socket, unwritten: Vec::new() }
    }

    /// The socket. Nothing of a refusal is unwritten unless the connection ended.
    pub(crate) fn into_inner(self) -> TcpStream {
        self.socket
    }

    fn poll_unwritten(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unwritten.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

/// The refusal to write instead of `head`, if the HTTP library wrote it: a response of the router has a request id.
fn refusal(head: &[u8]) -> Option<Vec<u8>> {
    let status = head.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5))?;
    let (code, detail) = match status {
        b"400" => (Code::BadHttp, "the request is not HTTP/1.1"),
        b"414" => (Code::UriTooLong, "the path and query of the request are too long"),
        b"431" => (Code::HeadersTooLarge, "the request has too many or too large headers"),
        _ => return None,
    };
    let by_router = head.windows(REQUEST_ID.len()).any(|part| part.eq_ignore_ascii_case(REQUEST_ID));
    if by_router { None } else { Some(Problem::new(code, detail).as_last_response()) }
}

/// The header that every response of the router has.
const REQUEST_ID: &[u8] = b"\r\nx-request-id: ";

impl AsyncRead for RefusalSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for RefusalSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_unwritten(cx))?;
        match refusal(bytes) {
            Some(refusal) => {
                self.unwritten = refusal;
                Poll::Ready(Ok(bytes.len()))
            }
            None => Pin::new(&mut self.socket).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unwritten(cx))?;
        match slices.first().and_then(|head| refusal(head)) {
            Some(refusal) => {
                self.unwritten = refusal;
                Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
            }
            None => Pin::new(&mut self.socket).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unwritten(cx))?;
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unwritten(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
