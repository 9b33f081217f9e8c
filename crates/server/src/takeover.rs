//! Responses that wait for long take over the socket of their request: an HTTP connection would hold 16 KiB of buffers
//! meanwhile. Must not know what they wait for.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use agent::port::BoxFuture;
use axum::http::response::Parts;
use axum::http::{HeaderValue, header};
use bytes::Bytes;
use tokio::net::TcpStream;

/// What goes on with the socket of a request.
pub(crate) trait OwnsSocket: Send {
    /// Answers on the socket, which is closed afterwards. `head` is the response's as it was known at the beginning.
    fn serve(self: Box<Self>, head: Parts, socket: TcpStream) -> BoxFuture<'static, ()>;
}

/// Lets the response to a request take over the request's socket.
#[derive(Clone, Default)]
pub(crate) struct SocketTakeover(Arc<Mutex<Option<Box<dyn OwnsSocket>>>>);

impl SocketTakeover {
    /// Takes what goes on with the socket, if something does.
    pub(crate) fn take(&self) -> Option<Box<dyn OwnsSocket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sets what takes over the socket.
    pub(crate) fn set(&self, owner: Box<dyn OwnsSocket>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(owner);
    }
}

/// The head of the response as bytes. Without a length its body ends with the connection.
pub(crate) fn head_bytes(mut head: Parts, length: Option<usize>, now: &jiff::Timestamp) -> Bytes {
    // The length is that of an empty placeholder.
    head.headers.remove(header::CONTENT_LENGTH);
    if let Some(length) = length {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(now);
    if let Some(date) = date.ok().and_then(|date| HeaderValue::try_from(date).ok()) {
        head.headers.insert(header::DATE, date);
    }
    let mut bytes = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.into()
}

/// Whether the client closed the connection; else it is polled again when the client does. Bytes that it sends are
/// ignored.
pub(crate) fn client_left(socket: &TcpStream, cx: &mut Context<'_>) -> bool {
    use std::io::ErrorKind::{Interrupted, WouldBlock};
    let mut ignored = [0; 256];
    while let Poll::Ready(ready) = socket.poll_read_ready(cx) {
        match ready.and_then(|()| socket.try_read(&mut ignored)) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
            Err(_) => return true,
        }
    }
    false
}
