//! A stream on a socket of its own: one task that listens to the bus and writes, with nothing between
//! the two but the bounded buffer. Must not know what the frames say, nor how requests are read.

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

use super::outbox::Outlet;
use super::pump::Pump;
use super::relay::StreamPosition;
use super::subscriber::Subscriber;

/// What a request offers that came over a socket: that a stream takes the socket over. An HTTP
/// connection holds 16 KiB of buffers and puts a second task before each write.
#[derive(Clone, Default)]
pub(crate) struct SocketTakeover(Arc<Mutex<Option<Opened>>>);

impl SocketTakeover {
    /// The stream, where the request opened one.
    pub(crate) fn opened(&self) -> Option<Opened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Opens a stream.
    pub(super) fn open(&self, opened: Opened) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
    }
}

/// A stream that has begun to listen.
pub(crate) struct Opened {
    pub(super) pump: Pump,
    pub(super) place: StreamPosition,
    pub(super) last_seen: Option<u64>,
    pub(super) outlet: Outlet,
}

impl Opened {
    /// Answers with `head` and the stream, to its end. Nothing tells its length: it ends with the
    /// connection. No `async fn`: that would keep room for its arguments besides what they become, in
    /// each of a thousand streams.
    pub(crate) fn pour(self, head: Parts, socket: TcpStream) -> impl Future<Output = ()> {
        let Self { pump, place, last_seen, outlet } = self;
        let clock = Arc::clone(pump.clock());
        let socket = Arc::new(socket);
        let seat = Arc::clone(place.seat());
        seat.connect(Arc::clone(&socket));
        let mut sink = Sink { socket, seat, outlet, rest: written(head, &clock.now()) };
        let pump = pump.run(place, last_seen);
        async move {
            if poured(pump, &mut sink).await.is_err() {
                return;
            }
            // A client that does not take even the last message is gone.
            let patience = clock.sleep(Duration::from_millis(limits::STREAM_FAREWELL_MS));
            tokio::select! {
                _ = poll_fn(|cx| sink.poll(cx)) => {}
                () = patience => {}
            }
        }
    }
}

/// Runs the pump to its end, and writes what it puts in. The pump has a box of its own: pinned in the
/// stream's future it would take its room there twice.
fn poured<'a>(
    pump: impl Future<Output = ()> + 'a,
    sink: &'a mut Sink,
) -> impl Future<Output = Result<(), Gone>> + 'a {
    let mut pump = Box::pin(pump);
    poll_fn(move |cx| {
        let ended = pump.as_mut().poll(cx).is_ready();
        // What the pump has just put in is written in the same turn.
        match sink.poll(cx) {
            Poll::Ready(Err(Gone)) => Poll::Ready(Err(Gone)),
            _ if ended => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    })
}

/// The client is not there any more.
struct Gone;

struct Sink {
    socket: Arc<TcpStream>,
    seat: Arc<Subscriber>,
    outlet: Outlet,
    /// Taken, and not yet written.
    rest: Bytes,
}

impl Sink {
    /// Writes all that there is; pending while there is more than the socket takes.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.is_left(cx) {
            return Poll::Ready(Err(Gone));
        }
        if self.rest.is_empty() {
            self.rest = self.seat.left();
        }
        loop {
            if self.rest.is_empty() {
                let Some(frame) = self.outlet.taken() else {
                    self.seat.open();
                    return Poll::Ready(Ok(()));
                };
                self.rest = frame;
            }
            match self.socket.try_write(&self.rest) {
                Ok(0) => return Poll::Ready(Err(Gone)),
                Ok(written) if written == self.rest.len() => {
                    // Bytes that are used up still hold what they were cut from: a whole snapshot.
                    self.rest = Bytes::new();
                }
                Ok(written) => self.rest.advance(written),
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

    /// Whether the client hung up. It has nothing more to say: what it says is thrown away.
    fn is_left(&self, cx: &mut Context<'_>) -> bool {
        let mut words = [0; 256];
        while let Poll::Ready(ready) = self.socket.poll_read_ready(cx) {
            match ready.and_then(|()| self.socket.try_read(&mut words)) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return true,
            }
        }
        false
    }
}

/// The head of the answer as bytes.
fn written(mut head: Parts, now: &jiff::Timestamp) -> Bytes {
    // The body that was put in for it is empty, and was counted.
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
