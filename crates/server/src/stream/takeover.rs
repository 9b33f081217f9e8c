//! A stream that has taken over the socket of its request: one task receives updates and writes them, with only the
//! bounded buffer in between. Must not know the content of frames, nor how requests are read.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use agent::limits;
use agent::port::BoxFuture;
use axum::http::response::Parts;
use bytes::{Buf, Bytes};
use tokio::net::TcpStream;

use super::outbox::OutboxReader;
use super::pump::Pump;
use super::relay::Subscription;
use super::subscriber::Subscriber;
use crate::takeover::{OwnsSocket, client_left, head_bytes};

/// A stream that is subscribed and not yet running.
pub(crate) struct OpenedStream {
    pub(super) pump: Pump,
    pub(super) subscription: Subscription,
    pub(super) last_seen: Option<u64>,
    pub(super) reader: OutboxReader,
}

impl OwnsSocket for OpenedStream {
    fn serve(self: Box<Self>, head: Parts, socket: TcpStream) -> BoxFuture<'static, ()> {
        Box::pin(self.run(head, socket))
    }
}

impl OpenedStream {
    /// Writes `head` and then the stream to its end. The response has no length: it ends with the connection. Not an
    /// `async fn`, which would hold the memory of its arguments in each of thousands of streams.
    fn run(self, head: Parts, socket: TcpStream) -> impl Future<Output = ()> + use<> {
        let Self { pump, subscription, last_seen, reader } = self;
        let clock = Arc::clone(pump.clock());
        let socket = Arc::new(socket);
        let subscriber = Arc::clone(subscription.subscriber());
        subscriber.connect(Arc::clone(&socket));
        let mut writer =
            SocketWriter { socket, subscriber, reader, unwritten: head_bytes(head, None, &clock.now()) };
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
        if client_left(&self.socket, cx) {
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
}
