//! The durable updates of one topic as bytes, the newest in use: all clients that catch up share one buffer of each.
//! Bounded. Must not know clients.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

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
        let frame = SharedFrame { id, message, bytes: frame::encode(update.name(), Some(id), update) };
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
    fn only_frames_without_a_gap_are_returned() {
        let shared = SharedFrames::default();
        for id in [2, 3, 5] {
            shared.of(id, &update(id));
        }
        let ids = |last| shared.after(last).iter().map(|frame| frame.id).collect::<Vec<_>>();
        assert_eq!((ids(1), ids(2), ids(3), ids(0)), (vec![2, 3], vec![3], vec![], vec![]));
    }
}
