//! A stream that takes over the socket of its request: one task receives updates and writes them, with only the
//! bounded buffer in between. Must not know the content of frames, nor how requests are read.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use agent::limits;
use axum::http::response::Parts;
use axum::http::{HeaderValue, header};
use bytes::{Buf, Bytes};
use tokio::net::TcpStream;

use super::outbox::OutboxReader;
use super::pump::Pump;
use super::relay::Subscription;
use super::subscriber::Subscriber;

/// Lets the stream of a request take over the request's socket. An HTTP connection would hold 16 KiB of buffers and
/// need a second task for each write.
#[derive(Clone, Default)]
pub(crate) struct SocketTakeover(Arc<Mutex<Option<OpenedStream>>>);

impl SocketTakeover {
    /// Takes the stream, if the request opened one.
    pub(crate) fn take(&self) -> Option<OpenedStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sets the stream that takes over the socket.
    pub(super) fn open(&self, opened: OpenedStream) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
    }
}

/// A stream that is subscribed and not yet running.
pub(crate) struct OpenedStream {
    pub(super) pump: Pump,
    pub(super) subscription: Subscription,
    pub(super) last_seen: Option<u64>,
    pub(super) reader: OutboxReader,
}

impl OpenedStream {
    /// Writes `head` and then the stream to its end. The response has no length: it ends with the connection. Not an
    /// `async fn`, which would hold the memory of its arguments in each of thousands of streams.
    pub(crate) fn serve(self, head: Parts, socket: TcpStream) -> impl Future<Output = ()> {
        let Self { pump, subscription, last_seen, reader } = self;
        let clock = Arc::clone(pump.clock());
        let socket = Arc::new(socket);
        let subscriber = Arc::clone(subscription.subscriber());
        subscriber.connect(Arc::clone(&socket));
        let mut writer =
            SocketWriter { socket, subscriber, reader, unwritten: head_bytes(head, &clock.now()) };
        let pump = pump.run(subscription, last_seen);
        async move {
            if run_pump(pump, &mut writer).await.is_err() {
                return;
            }
            // A client that does not read the last event in time is gone.
            let timeout = clock.sleep(Duration::from_millis(limits::STREAM_FAREWELL_MS));
            tokio::select! {
                _ = poll_fn(|cx| writer.poll(cx)) => {}
                () = timeout => {}
            }
        }
    }
}

/// Runs the pump to its end and writes its frames. The pump is boxed: pinned inside this future, its memory would be
/// needed twice.
fn run_pump<'a>(
    pump: impl Future<Output = ()> + 'a,
    writer: &'a mut SocketWriter,
) -> impl Future<Output = Result<(), Gone>> + 'a {
    let mut pump = Box::pin(pump);
    poll_fn(move |cx| {
        let ended = pump.as_mut().poll(cx).is_ready();
        // Frames that the pump has just added are written in the same poll.
        match writer.poll(cx) {
            Poll::Ready(Err(Gone)) => Poll::Ready(Err(Gone)),
            _ if ended => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    })
}

/// The client is gone.
struct Gone;

struct SocketWriter {
    socket: Arc<TcpStream>,
    subscriber: Arc<Subscriber>,
    reader: OutboxReader,
    /// Bytes that are taken and not yet written.
    unwritten: Bytes,
}

impl SocketWriter {
    /// Writes everything that is buffered; pending while the socket takes no more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.client_left(cx) {
            return Poll::Ready(Err(Gone));
        }
        if self.unwritten.is_empty() {
            self.unwritten = self.subscriber.take_unwritten();
        }
        loop {
            if self.unwritten.is_empty() {
                let Some(frame) = self.reader.next_frame() else {
                    self.subscriber.open_gate();
                    return Poll::Ready(Ok(()));
                };
                self.unwritten = frame;
            }
            match self.socket.try_write(&self.unwritten) {
                Ok(0) => return Poll::Ready(Err(Gone)),
                Ok(written) if written == self.unwritten.len() => {
                    // An empty slice would keep its whole buffer alive, for example a snapshot.
                    self.unwritten = Bytes::new();
                }
                Ok(written) => self.unwritten.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if ready!(self.socket.poll_write_ready(cx)).is_err() {
                        return Poll::Ready(Err(Gone));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Poll::Ready(Err(Gone)),
            }
        }
    }

    /// Whether the client closed the connection. Bytes that it sends are ignored.
    fn client_left(&self, cx: &mut Context<'_>) -> bool {
        let mut ignored = [0; 256];
        while let Poll::Ready(ready) = self.socket.poll_read_ready(cx) {
            match ready.and_then(|()| self.socket.try_read(&mut ignored)) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return true,
            }
        }
        false
    }
}

/// The head of the response as bytes.
fn head_bytes(mut head: Parts, now: &jiff::Timestamp) -> Bytes {
    // The length is that of the empty placeholder body.
    head.headers.remove(header::CONTENT_LENGTH);
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
