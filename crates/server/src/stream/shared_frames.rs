//! The durable updates of one topic as bytes, the newest in use: all clients that catch up share one buffer of each.
//! Bounded. What a client still holds is shared too, however old: it costs memory already. Must not know clients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use agent::id::MessageId;
use agent::limits;
use agent::update::Update;
use bytes::Bytes;

use super::frame;

/// One durable update that every client of the topic may see unchanged.
#[derive(Clone, Debug)]
pub(super) struct SharedFrame {
    /// Its id in this stream.
    pub(super) id: u64,
    /// The message that it shows, if it shows one.
    pub(super) message: Option<MessageId>,
    /// The frame as bytes, with its `id:` line.
    pub(super) bytes: Bytes,
}

/// The frames that were made last, at most [`limits::STREAM_SHARED_BYTES`].
#[derive(Debug, Default)]
pub(super) struct SharedFrames(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    frames: VecDeque<SharedFrame>,
    bytes: usize,
    /// Every frame that was made, by its id, for as long as somebody holds it.
    held: BTreeMap<u64, Weak<Bytes>>,
    /// When `held` has so many entries, those that nobody holds are removed.
    held_max: usize,
}

/// What the bytes of a frame are made of, so that a frame that is still held is found again.
struct HeldBytes(Arc<Bytes>);

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Kept {
    /// The bytes of the frame with this id, if somebody holds them, else new ones.
    fn bytes_of(&mut self, id: u64, encode: impl FnOnce() -> Bytes) -> Bytes {
        if let Some(held) = self.held.get(&id).and_then(Weak::upgrade) {
            return Bytes::from_owner(HeldBytes(held));
        }
        if self.held.len() >= self.held_max {
            self.held.retain(|_, held| held.strong_count() > 0);
            self.held_max = 2 * self.held.len() + limits::STREAM_BUFFER;
        }
        let bytes = Arc::new(encode());
        self.held.insert(id, Arc::downgrade(&bytes));
        Bytes::from_owner(HeldBytes(bytes))
    }
}

impl SharedFrames {
    /// The frame of this update: the kept one, or a new one, which is then kept.
    pub(super) fn of(&self, id: u64, update: &Update) -> SharedFrame {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = kept.frames.iter().rev().find(|frame| frame.id == id) {
            return frame.clone();
        }
        let message = match update {
            Update::Message { message } => Some(message.id),
            _ => None,
        };
        let bytes = kept.bytes_of(id, || frame::encode(update.name(), Some(id), update));
        let frame = SharedFrame { id, message, bytes };
        kept.bytes += frame.bytes.len();
        kept.frames.push_back(frame.clone());
        while kept.bytes > limits::STREAM_SHARED_BYTES
            && let Some(oldest) = kept.frames.pop_front()
        {
            kept.bytes -= oldest.bytes.len();
        }
        frame
    }

    /// The kept frames that follow `last` without a gap, oldest first.
    pub(super) fn after(&self, last: u64) -> Vec<SharedFrame> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = last;
        let mut found = Vec::new();
        for frame in &kept.frames {
            if frame.id == next + 1 {
                next = frame.id;
                found.push(frame.clone());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::changes::CommitKind;
    use agent::id::{AgentId, CycleId};
    use uuid::Uuid;

    fn update(n: u64) -> Update {
        let (agent, cycle) = (AgentId(Uuid::nil()), CycleId(Uuid::nil()));
        Update::Commit { agent, n, cycle, step: 0, kind: CommitKind::Decide }
    }

    #[test]
    fn all_clients_share_one_buffer_and_old_ones_are_dropped() {
        let shared = SharedFrames::default();
        let [one, other] = [(); 2].map(|()| shared.of(7, &update(7)).bytes);
        assert_eq!(one.as_ptr(), other.as_ptr());
        let most = limits::STREAM_SHARED_BYTES / one.len() + 100;
        for id in 8..8 + most as u64 {
            shared.of(id, &update(id));
        }
        let kept = shared.0.lock().unwrap();
        assert!(kept.bytes <= limits::STREAM_SHARED_BYTES && kept.frames.front().unwrap().id > 7);
        assert_eq!(kept.bytes, kept.frames.iter().map(|frame| frame.bytes.len()).sum::<usize>());
    }

    #[test]
    fn a_frame_that_a_client_holds_is_not_made_again_and_one_that_nobody_holds_is_forgotten() {
        let shared = SharedFrames::default();
        let held = shared.of(7, &update(7)).bytes;
        let most = 2 * limits::STREAM_SHARED_BYTES / held.len();
        for id in 8..8 + most as u64 {
            shared.of(id, &update(id));
        }
        assert!(shared.0.lock().unwrap().frames.iter().all(|frame| frame.id != 7));
        assert_eq!(shared.of(7, &update(7)).bytes.as_ptr(), held.as_ptr());
        let kept = shared.0.lock().unwrap();
        assert!(kept.held.len() <= 2 * kept.frames.len() + limits::STREAM_BUFFER);
    }

    #[test]
    fn only_frames_without_a_gap_are_returned() {
        let shared = SharedFrames::default();
        for id in [2, 3, 5] {
            shared.of(id, &update(id));
        }
        let ids = |last| shared.after(last).iter().map(|frame| frame.id).collect::<Vec<_>>();
        assert_eq!((ids(1), ids(2), ids(3), ids(0)), (vec![2, 3], vec![3], vec![], vec![]));
    }
}
