//! The state that the relay of a topic and the task of one client share: the updates that the task did not take yet. Must
//! not know the form of updates, nor other subscribers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use agent::limits;
use agent::port::Published;
use bytes::Bytes;

/// What the task of a client receives.
#[derive(Debug)]
pub(super) enum Delivery {
    /// An update, with the bytes that all clients share.
    Update(Arc<Published>, DeliveryMode),
    /// This many updates were lost.
    Missed(u64),
}

/// How an update reaches the subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveryMode {
    /// Each client's task handles the update.
    PerClient,
    /// These bytes are the same for all clients; `None` if the update is not visible.
    Shared {
        /// The bytes for operators.
        operators: Option<Bytes>,
        /// The bytes for members.
        members: Option<Bytes>,
    },
}

impl DeliveryMode {
    /// The shared bytes for operators or members, if they may see the update.
    pub(super) fn bytes(&self, operator: bool) -> Option<&Bytes> {
        match self {
            Self::PerClient => None,
            Self::Shared { operators, members } => (if operator { operators } else { members }).as_ref(),
        }
    }

    /// Size in bytes of the larger of the two forms.
    pub(super) fn size(&self) -> usize {
        [true, false]
            .map(|operator| self.bytes(operator).map_or(0, Bytes::len))
            .into_iter()
            .max()
            .unwrap_or(0)
    }
}

#[derive(Debug, Default)]
struct SubscriberState {
    /// The number of the last update that was published before the client subscribed.
    skip_until: u64,
    queued: VecDeque<(Arc<Published>, DeliveryMode)>,
    /// Number of updates that were lost before those in `queued`.
    missed: u64,
    /// The bus is closed.
    bus_closed: bool,
    task: Option<Waker>,
}

/// The slot of one client at a relay.
#[derive(Debug, Default)]
pub(super) struct Subscriber(Mutex<SubscriberState>);

impl Subscriber {
    /// Ignores updates up to that number: they were published before the client subscribed, so its snapshot contains
    /// them.
    pub(super) fn skip_until(&self, number: u64) {
        self.lock().skip_until = number;
    }

    /// The next delivered update; `None` once the bus is closed.
    pub(super) fn poll_delivered(&self, cx: &Context<'_>) -> Poll<Option<Delivery>> {
        let mut state = self.lock();
        if state.missed > 0 {
            return Poll::Ready(Some(Delivery::Missed(std::mem::take(&mut state.missed))));
        }
        if let Some((published, mode)) = state.queued.pop_front() {
            if state.queued.is_empty() {
                // Most queues are empty most of the time: an empty one holds no memory.
                state.queued = VecDeque::new();
            }
            return Poll::Ready(Some(Delivery::Update(published, mode)));
        }
        if state.bus_closed {
            return Poll::Ready(None);
        }
        if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            state.task = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Queues the updates for the client's task.
    pub(super) fn deliver(&self, batch: &[(Arc<Published>, DeliveryMode)]) {
        let mut state = self.lock();
        let new = batch.partition_point(|(published, _)| published.number() <= state.skip_until);
        batch[new..].iter().for_each(|(published, mode)| state.enqueue(published, mode));
        state.wake();
    }

    /// Records that `count` updates were lost.
    pub(super) fn lost(&self, count: u64) {
        let mut state = self.lock();
        state.drop_queue(count);
        state.wake();
    }

    /// Records that the bus is closed.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.bus_closed = true;
        state.wake();
    }

    fn lock(&self) -> MutexGuard<'_, SubscriberState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscriberState {
    fn enqueue(&mut self, published: &Arc<Published>, mode: &DeliveryMode) {
        if self.queued.len() < limits::BUS_BUFFER {
            self.queued.push_back((Arc::clone(published), mode.clone()));
        } else {
            self.drop_queue(1);
        }
    }

    /// After a loss the client needs a snapshot, so the queued updates are dropped too.
    fn drop_queue(&mut self, count: u64) {
        self.missed += count + self.queued.len() as u64;
        self.queued = VecDeque::new();
    }

    fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::id::{AgentId, MessageId, SpaceId};
    use agent::update::Update;
    use uuid::Uuid;

    fn published(number: u64) -> (Arc<Published>, DeliveryMode) {
        let (space, agent) = (SpaceId(Uuid::nil()), AgentId(Uuid::nil()));
        let (message, delta) = (MessageId(Uuid::nil()), String::new());
        let update = Update::Draft { space, message, agent, delta, chars: 0 };
        (Arc::new(Published::new(Arc::new(update), number)), DeliveryMode::PerClient)
    }

    fn next(subscriber: &Subscriber) -> Option<Option<Delivery>> {
        match subscriber.poll_delivered(&Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_was_published_before_the_client_subscribed_is_not_delivered() {
        let subscriber = Subscriber::default();
        subscriber.skip_until(7);
        subscriber.deliver(&[published(6), published(7), published(8)]);
        assert!(
            matches!(next(&subscriber), Some(Some(Delivery::Update(published, _))) if published.number() == 8)
        );
        assert!(next(&subscriber).is_none());
    }

    #[test]
    fn a_full_queue_is_dropped_and_the_number_of_lost_updates_is_reported() {
        let subscriber = Subscriber::default();
        for _ in 0..=limits::BUS_BUFFER {
            subscriber.deliver(&[published(1)]);
        }
        subscriber.deliver(&[published(1)]);
        let missed = limits::BUS_BUFFER as u64 + 1;
        assert!(matches!(next(&subscriber), Some(Some(Delivery::Missed(count))) if count == missed));
        assert!(matches!(next(&subscriber), Some(Some(Delivery::Update(..)))));
        subscriber.lost(3);
        assert!(matches!(next(&subscriber), Some(Some(Delivery::Missed(3)))));
        assert!(next(&subscriber).is_none());
        subscriber.close();
        assert!(matches!(next(&subscriber), Some(None)));
    }
}
