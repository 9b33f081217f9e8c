//! The buffer of one client of a stream, bounded in frames and bytes. The writer never waits: if the buffer is full,
//! transient frames are dropped first. Must not know the content of frames.

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
struct Buffer {
    queue: VecDeque<Frame>,
    bytes: usize,
    /// Size of the last durable frame if it did not fit, else 0.
    rejected: usize,
    /// Frames taken so far; shows whether the client reads.
    taken: u64,
    last_id: Option<u64>,
    reader: Option<Waker>,
    /// The stream has ended: no more frames are accepted.
    ended: bool,
    /// The client is gone: no more frames are taken.
    gone: bool,
}

/// The buffer between the task of a client and its socket.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    buffer: Mutex<Buffer>,
    /// Notified when the reader took a frame. Only a writer that has no room waits for it: one that has is not woken for each frame.
    taken: Notify,
    /// Notified when the reader is gone.
    gone: Notify,
}

impl Outbox {
    /// Adds a frame if it fits; returns whether it did. Transient frames are dropped to make room for a durable one.
    pub(super) fn offer(&self, frame: Frame) -> bool {
        let mut buffer = self.lock();
        if buffer.ended || buffer.gone {
            return false;
        }
        if !buffer.fits(&frame) && !frame.transient {
            buffer.drop_transient();
        }
        if buffer.merge(&frame) {
            return true;
        }
        if !buffer.fits(&frame) {
            if !frame.transient {
                buffer.rejected = frame.size();
            }
            return false;
        }
        buffer.rejected = 0;
        buffer.push(frame);
        true
    }

    /// Ends the stream: drops all waiting frames and adds the frame that `farewell` creates from the last id that was
    /// taken.
    pub(super) fn end(&self, farewell: impl FnOnce(Option<u64>) -> Frame) {
        let mut buffer = self.lock();
        buffer.queue.clear();
        buffer.bytes = 0;
        buffer.ended = true;
        let last = farewell(buffer.last_id);
        buffer.push(last);
    }

    /// Whether at least half of the buffer is free and the rejected frame fits.
    pub(super) fn has_room(&self) -> bool {
        self.lock().has_room()
    }

    /// The number of waiting frames, and the number of frames taken so far.
    pub(super) fn progress(&self) -> (usize, u64) {
        let buffer = self.lock();
        (buffer.queue.len(), buffer.taken)
    }

    /// Waits until at least half of the buffer is free and the rejected frame fits; forever if the client is gone.
    /// A writer that retried earlier would be rejected again and again without a pause.
    pub(super) async fn wait_for_room(&self) {
        self.until(&self.taken, Buffer::has_room).await;
    }

    /// Waits until the client is gone.
    pub(super) async fn wait_gone(&self) {
        self.until(&self.gone, |buffer| buffer.gone).await;
    }

    async fn until(&self, change: &Notify, reached: impl Fn(&Buffer) -> bool) {
        loop {
            let changed = change.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no notification in between is missed.
            changed.as_mut().enable();
            if reached(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    /// Whether the frame fits. An empty buffer takes any frame, whatever its size.
    fn fits(&self, frame: &Frame) -> bool {
        self.queue.is_empty()
            || (self.queue.len() < limits::STREAM_BUFFER
                && self.bytes + frame.size() <= limits::STREAM_BUFFER_BYTES)
    }

    fn has_room(&self) -> bool {
        let most = limits::STREAM_BUFFER / 2;
        let bytes = limits::STREAM_BUFFER_BYTES;
        let half = self.queue.len() <= most && self.bytes <= bytes / 2;
        !self.gone && (self.queue.is_empty() || (half && self.bytes + self.rejected <= bytes))
    }

    /// Merges the frame into the last waiting frame if possible; returns whether it did.
    fn merge(&mut self, frame: &Frame) -> bool {
        let Some(last) = self.queue.back_mut() else { return false };
        let before = last.size();
        let room = limits::STREAM_BUFFER_BYTES.saturating_sub(self.bytes);
        if frame.size() > room || !last.merge(frame) {
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

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.queue.pop_front()?;
        self.bytes -= frame.size();
        self.taken += 1;
        self.last_id = frame.id.or(self.last_id);
        if self.queue.is_empty() {
            // Most buffers are empty most of the time: an empty one holds no memory.
            self.queue = VecDeque::new();
        }
        Some(frame)
    }

    fn drop_transient(&mut self) {
        self.queue.retain(|frame| !frame.transient);
        self.bytes = self.queue.iter().map(Frame::size).sum();
    }
}

/// The reading end, which is the body of the response. It is dropped when the client is gone.
#[derive(Debug)]
pub(super) struct OutboxReader(pub(super) Arc<Outbox>);

impl Stream for OutboxReader {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut buffer = self.0.lock();
        if let Some(frame) = buffer.pop() {
            drop(buffer);
            return Poll::Ready(Some(Ok(self.taken(frame))));
        }
        if buffer.ended {
            return Poll::Ready(None);
        }
        buffer.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl OutboxReader {
    fn taken(&self, frame: Frame) -> Bytes {
        self.0.taken.notify_waiters();
        frame.into_bytes()
    }
}

impl Drop for OutboxReader {
    fn drop(&mut self) {
        self.0.lock().gone = true;
        self.0.gone.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, StreamExt};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    /// Counts wake-ups.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn frame(id: Option<u64>, size: usize, transient: bool) -> Frame {
        Frame::from_bytes(Bytes::from(vec![b'x'; size]), id, transient)
    }

    #[test]
    fn a_full_buffer_drops_transient_frames_first_and_never_grows() {
        let outbox = Outbox::default();
        for _ in 0..limits::STREAM_BUFFER {
            assert!(outbox.offer(frame(None, 1, true)));
        }
        assert!(!outbox.offer(frame(None, 1, true)), "a transient one is dropped");
        assert!(outbox.offer(frame(Some(1), 1, false)), "a durable one takes its place");
        assert_eq!(outbox.progress().0, 1);
        let many =
            (2..2 * limits::STREAM_BUFFER as u64).filter(|id| outbox.offer(frame(Some(*id), 1, false)));
        assert_eq!(many.count(), limits::STREAM_BUFFER - 1);
    }

    #[test]
    fn bytes_are_bounded_but_an_empty_buffer_takes_any_frame() {
        let outbox = Outbox::default();
        assert!(outbox.offer(frame(Some(1), 2 * limits::STREAM_BUFFER_BYTES, false)));
        assert!(!outbox.offer(frame(Some(2), 1, false)));
    }

    #[test]
    fn the_last_frame_has_the_last_id_that_was_taken() {
        let outbox = Arc::new(Outbox::default());
        let mut reader = OutboxReader(Arc::clone(&outbox));
        outbox.offer(frame(Some(7), 1, false));
        outbox.offer(frame(Some(8), 1, false));
        reader.next().now_or_never().unwrap();
        let mut last_id = None;
        outbox.end(|last| {
            last_id = last;
            frame(None, 1, false)
        });
        assert_eq!(last_id, Some(7));
        assert!(reader.next().now_or_never().unwrap().is_some());
        assert!(reader.next().now_or_never().unwrap().is_none());
        assert!(!outbox.offer(frame(None, 1, false)));
    }

    #[test]
    fn there_is_room_only_once_the_rejected_frame_fits() {
        let outbox = Arc::new(Outbox::default());
        let mut reader = OutboxReader(Arc::clone(&outbox));
        assert!(outbox.offer(frame(None, 9, false)));
        let large = frame(None, limits::STREAM_BUFFER_BYTES, false);
        assert!(!outbox.offer(large.clone()));
        assert!(outbox.wait_for_room().now_or_never().is_none(), "it would be rejected again");
        reader.next().now_or_never().unwrap();
        assert!(outbox.wait_for_room().now_or_never().is_some());
        assert!(outbox.offer(large), "it fits into an empty buffer");
    }

    #[test]
    fn there_is_never_room_for_a_client_that_is_gone() {
        let outbox = Arc::new(Outbox::default());
        drop(OutboxReader(Arc::clone(&outbox)));
        assert!(!outbox.offer(frame(None, 1, false)));
        assert!(outbox.wait_for_room().now_or_never().is_none(), "it would be rejected again");
    }

    #[test]
    fn a_client_that_takes_its_frames_wakes_nobody_who_waits_for_it_to_leave() {
        let outbox = Arc::new(Outbox::default());
        let mut reader = OutboxReader(Arc::clone(&outbox));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut gone = std::pin::pin!(outbox.wait_gone());
        assert!(gone.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(outbox.offer(frame(None, 1, true)) && reader.next().now_or_never().is_some());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        drop(reader);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn dropping_the_reader_means_that_the_client_is_gone() {
        let outbox = Arc::new(Outbox::default());
        let reader = OutboxReader(Arc::clone(&outbox));
        assert!(outbox.wait_gone().now_or_never().is_none());
        drop(reader);
        assert!(outbox.wait_gone().now_or_never().is_some());
    }
}
