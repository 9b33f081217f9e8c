//! What waits for one client of a stream: bounded in number and bytes. Whoever puts something in
//! never waits; what a later update replaces is the first to go. Must not know what the frames say.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use agent::limits;
use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::Notify;

use super::frame::Frame;

#[derive(Debug, Default)]
struct Buffered {
    queue: VecDeque<Frame>,
    bytes: usize,
    /// Size of the last lasting frame, where it did not fit.
    refused: usize,
    /// Frames taken so far: tells whether the client reads.
    taken: u64,
    last_id: Option<u64>,
    reader: Option<Waker>,
    /// Nothing is put in any more.
    ended: bool,
    /// Nobody takes any more.
    gone: bool,
}

/// The buffer between the one who listens to the bus and the socket.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    inside: Mutex<Buffered>,
    /// The reader took something, or is gone.
    moved: Notify,
}

impl Outbox {
    /// Puts a frame in, if it fits; a lasting one may push out transient ones.
    pub(super) fn offer(&self, frame: Frame) -> bool {
        let mut inside = self.lock();
        if inside.ended || inside.gone {
            return false;
        }
        if !inside.fits(&frame) && !frame.transient {
            inside.drop_transient();
        }
        if inside.absorb(&frame) {
            return true;
        }
        if !inside.fits(&frame) {
            if !frame.transient {
                inside.refused = frame.size();
            }
            return false;
        }
        inside.refused = 0;
        inside.push(frame);
        true
    }

    /// Ends the stream: what waits is given up, `farewell` makes the last frame from the last id that
    /// the client was handed.
    pub(super) fn end(&self, farewell: impl FnOnce(Option<u64>) -> Frame) {
        let mut inside = self.lock();
        inside.queue.clear();
        inside.bytes = 0;
        inside.ended = true;
        let last = farewell(inside.last_id);
        inside.push(last);
    }

    /// Frames that wait, and frames taken so far.
    pub(super) fn progress(&self) -> (usize, u64) {
        let inside = self.lock();
        (inside.queue.len(), inside.taken)
    }

    /// Waits until at least half of the buffer is free and what was refused fits; for ever where nobody
    /// takes any more. Whoever came back sooner would be refused again, and again, without a pause.
    pub(super) async fn room(&self) {
        self.until(Buffered::has_room).await;
    }

    /// Waits until the client is gone.
    pub(super) async fn gone(&self) {
        self.until(|inside| inside.gone).await;
    }

    /// Waits until everything was taken, or the client is gone.
    pub(super) async fn empty(&self) {
        self.until(|inside| inside.gone || inside.queue.is_empty()).await;
    }

    async fn until(&self, reached: impl Fn(&Buffered) -> bool) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Registered before looking, so that nothing between the two is missed.
            moved.as_mut().enable();
            if reached(&self.lock()) {
                return;
            }
            moved.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffered> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffered {
    /// One frame always fits into an empty buffer, whatever its size.
    fn fits(&self, frame: &Frame) -> bool {
        self.queue.is_empty()
            || (self.queue.len() < limits::STREAM_BUFFER
                && self.bytes + frame.size() <= limits::STREAM_BUFFER_BYTES)
    }

    fn has_room(&self) -> bool {
        let most = limits::STREAM_BUFFER / 2;
        let bytes = limits::STREAM_BUFFER_BYTES;
        let half = self.queue.len() <= most && self.bytes <= bytes / 2;
        !self.gone && (self.queue.is_empty() || (half && self.bytes + self.refused <= bytes))
    }

    /// Whether the last frame that waits takes this one in: the client did not yet come to it.
    fn absorb(&mut self, frame: &Frame) -> bool {
        let Some(last) = self.queue.back_mut() else { return false };
        let before = last.size();
        let room = limits::STREAM_BUFFER_BYTES.saturating_sub(self.bytes);
        if frame.size() > room || !last.absorb(frame) {
            return false;
        }
        self.bytes = self.bytes - before + last.size();
        true
    }

    fn push(&mut self, frame: Frame) {
        self.bytes += frame.size();
        self.queue.push_back(frame);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn drop_transient(&mut self) {
        self.queue.retain(|frame| !frame.transient);
        self.bytes = self.queue.iter().map(Frame::size).sum();
    }
}

/// The reading end: the body of the answer. Dropping it means that the client is gone.
#[derive(Debug)]
pub(super) struct Outlet(pub(super) Arc<Outbox>);

impl Stream for Outlet {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(bytes) = self.taken() {
            return Poll::Ready(Some(Ok(bytes)));
        }
        let mut inside = self.0.lock();
        match (inside.queue.is_empty(), inside.ended) {
            (true, true) => Poll::Ready(None),
            (true, false) => {
                inside.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            // Something was put in between the two looks.
            (false, _) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl Outlet {
    /// The next frame, if one waits.
    pub(super) fn taken(&self) -> Option<Bytes> {
        let mut inside = self.0.lock();
        let frame = inside.queue.pop_front()?;
        inside.bytes -= frame.size();
        inside.taken += 1;
        inside.last_id = frame.id.or(inside.last_id);
        if inside.queue.is_empty() {
            // Most clients wait for nothing most of the time: a thousand of them keep no room for it.
            inside.queue = VecDeque::new();
        }
        drop(inside);
        self.0.moved.notify_waiters();
        Some(frame.into_bytes())
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.0.lock().gone = true;
        self.0.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, StreamExt};

    fn frame(id: Option<u64>, size: usize, transient: bool) -> Frame {
        Frame::bare(Bytes::from(vec![b'x'; size]), id, transient)
    }

    #[test]
    fn a_full_buffer_loses_what_is_transient_first_and_never_grows() {
        let outbox = Outbox::default();
        for _ in 0..limits::STREAM_BUFFER {
            assert!(outbox.offer(frame(None, 1, true)));
        }
        assert!(!outbox.offer(frame(None, 1, true)), "a transient one is dropped");
        assert!(outbox.offer(frame(Some(1), 1, false)), "a lasting one takes its place");
        assert_eq!(outbox.progress().0, 1);
        let many =
            (2..2 * limits::STREAM_BUFFER as u64).filter(|id| outbox.offer(frame(Some(*id), 1, false)));
        assert_eq!(many.count(), limits::STREAM_BUFFER - 1);
    }

    #[test]
    fn bytes_are_bounded_too_but_one_frame_always_fits() {
        let outbox = Outbox::default();
        assert!(outbox.offer(frame(Some(1), 2 * limits::STREAM_BUFFER_BYTES, false)));
        assert!(!outbox.offer(frame(Some(2), 1, false)));
    }

    #[test]
    fn the_farewell_names_the_last_id_that_was_handed_over() {
        let outbox = Arc::new(Outbox::default());
        let mut outlet = Outlet(Arc::clone(&outbox));
        outbox.offer(frame(Some(7), 1, false));
        outbox.offer(frame(Some(8), 1, false));
        outlet.next().now_or_never().unwrap();
        let mut published = None;
        outbox.end(|last| {
            published = last;
            frame(None, 1, false)
        });
        assert_eq!(published, Some(7));
        assert!(outlet.next().now_or_never().unwrap().is_some());
        assert!(outlet.next().now_or_never().unwrap().is_none());
        assert!(!outbox.offer(frame(None, 1, false)));
    }

    #[test]
    fn there_is_room_when_what_was_refused_fits_and_not_before() {
        let outbox = Arc::new(Outbox::default());
        let outlet = Outlet(Arc::clone(&outbox));
        assert!(outbox.offer(frame(None, 9, false)));
        let large = frame(None, limits::STREAM_BUFFER_BYTES, false);
        assert!(!outbox.offer(large.clone()));
        assert!(outbox.room().now_or_never().is_none(), "it would be refused again");
        outlet.taken().unwrap();
        assert!(outbox.room().now_or_never().is_some());
        assert!(outbox.offer(large), "it fits into an empty buffer");
    }

    #[test]
    fn nobody_makes_room_for_a_client_that_is_gone() {
        let outbox = Arc::new(Outbox::default());
        drop(Outlet(Arc::clone(&outbox)));
        assert!(!outbox.offer(frame(None, 1, false)));
        assert!(outbox.room().now_or_never().is_none(), "it would be refused again");
    }

    #[test]
    fn a_client_that_leaves_is_noticed() {
        let outbox = Arc::new(Outbox::default());
        let outlet = Outlet(Arc::clone(&outbox));
        assert!(outbox.gone().now_or_never().is_none());
        drop(outlet);
        assert!(outbox.gone().now_or_never().is_some());
    }
}
