//! One task per topic that listens to the bus for all subscribers. An update that is the same for all is encoded once, and
//! what was published during a pass reaches each client's task at once. Must not know what an update means for one client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use agent::limits;
use agent::port::{Bus, Clock, Delivered, Listener, Published};
use agent::update::{Topic, Update};
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::task::AbortHandle;

use super::frame;
use super::shared_frames::SharedFrames;
use super::subject::{Shown, Subject, visible};
use super::subscriber::{Delivery, DeliveryMode, Subscriber};

/// The relays of all topics that have subscribers.
#[derive(Debug, Default)]
pub(crate) struct Relays(Mutex<HashMap<Topic, Relay>>);

#[derive(Debug)]
struct Relay {
    slots: Arc<Mutex<SubscriberSlots>>,
    shared: Arc<SharedFrames>,
    task: AbortHandle,
}

/// The subscriber slots of a relay. A slot keeps its index until it is freed, so that an iteration in several parts
/// visits each subscriber once.
#[derive(Debug, Default)]
struct SubscriberSlots {
    subscribers: Vec<Option<Arc<Subscriber>>>,
    free: usize,
}

/// An occupied subscriber slot; dropping this frees it.
#[derive(Debug)]
pub(crate) struct Subscription {
    relays: Arc<Relays>,
    topic: Topic,
    slots: Arc<Mutex<SubscriberSlots>>,
    at: usize,
    subscriber: Arc<Subscriber>,
    shared: Arc<SharedFrames>,
}

impl Relays {
    /// Subscribes: every update that is published from now on is delivered to the slot.
    pub(super) fn join(
        self: &Arc<Self>,
        bus: &dyn Bus,
        clock: &Arc<dyn Clock>,
        subject: Subject,
    ) -> Subscription {
        let topic = subject.topic();
        let subscriber = Arc::<Subscriber>::default();
        let mut relays = lock(&self.0);
        // A relay that panicked has closed its slots; replace it.
        if relays.get(&topic).is_some_and(|relay| relay.task.is_finished()) {
            relays.remove(&topic);
        }
        let relay = relays.entry(topic).or_insert_with(|| {
            let (slots, shared) = (Arc::default(), Arc::default());
            let to = (Arc::clone(&slots), Arc::clone(&shared));
            let relay = run(subject, bus.subscribe(topic), to, Arc::clone(clock));
            Relay { slots, shared, task: tokio::spawn(relay).abort_handle() }
        });
        let (slots, shared) = (Arc::clone(&relay.slots), Arc::clone(&relay.shared));
        let mut locked = lock(&slots);
        let at = locked.occupy(Arc::clone(&subscriber));
        // The relay waits for this lock: every update it delivers from here on has a number that shows whether it is
        // new.
        subscriber.skip_until(bus.published());
        drop(locked);
        drop(relays);
        Subscription { relays: Arc::clone(self), topic, slots, at, subscriber, shared }
    }
}

impl Subscription {
    /// The bytes that all clients of the topic share.
    pub(super) fn shared(&self) -> &Arc<SharedFrames> {
        &self.shared
    }

    /// The next delivered update; `None` once the bus is closed.
    pub(super) fn poll_delivered(&self, cx: &Context<'_>) -> Poll<Option<Delivery>> {
        self.subscriber.poll_delivered(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut relays = lock(&self.relays.0);
        let none_left = lock(&self.slots).free_slot(self.at);
        let relay = relays.get(&self.topic).filter(|relay| Arc::ptr_eq(&relay.slots, &self.slots));
        if let Some(relay) = relay.filter(|_| none_left) {
            // A topic without subscribers needs no relay.
            relay.task.abort();
            relays.remove(&self.topic);
        }
    }
}

impl SubscriberSlots {
    fn occupy(&mut self, subscriber: Arc<Subscriber>) -> usize {
        let free = (self.free > 0).then(|| self.subscribers.iter().position(Option::is_none)).flatten();
        let Some(at) = free else {
            self.subscribers.push(Some(subscriber));
            return self.subscribers.len() - 1;
        };
        self.subscribers[at] = Some(subscriber);
        self.free -= 1;
        at
    }

    /// Frees a slot; returns whether no slot is occupied any more.
    fn free_slot(&mut self, at: usize) -> bool {
        self.subscribers[at] = None;
        self.free += 1;
        while self.subscribers.pop_if(|slot| slot.is_none()).is_some() {
            self.free -= 1;
        }
        self.subscribers.is_empty()
    }

    fn len(&self) -> usize {
        self.subscribers.len() - self.free
    }
}

/// Closes all subscribers when a relay ends, even by a panic, so that none waits forever.
struct Closing(Arc<Mutex<SubscriberSlots>>);

impl Drop for Closing {
    fn drop(&mut self) {
        lock(&self.0).subscribers.iter().flatten().for_each(|subscriber| subscriber.close());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the bus is closed. Updates that were published during a pass are written together in the next one. If
/// there are many subscribers, the relay waits a moment after each pass with drafts and merges the drafts that
/// arrive meanwhile.
async fn run(
    subject: Subject,
    mut listener: Box<dyn Listener>,
    (slots, shared): (Arc<Mutex<SubscriberSlots>>, Arc<SharedFrames>),
    clock: Arc<dyn Clock>,
) {
    let _closing = Closing(Arc::clone(&slots));
    let (mut merging, mut full) = (false, false);
    loop {
        let first = match merging {
            true if full => None,
            true => {
                clock.sleep(Duration::from_millis(limits::STREAM_GATHER_MS)).await;
                None
            }
            false => match listener.next().await {
                Some(delivered) => Some(delivered),
                None => return,
            },
        };
        let mut pass = RelayPass {
            of: subject,
            shared: &shared,
            draft: None,
            merge_drafts: merging,
            published: Vec::new(),
            bytes: 0,
            missed: 0,
        };
        full = pass.gather(first, &mut *listener);
        if pass.missed > 0 {
            for_each_subscriber(&slots, |subscriber| subscriber.lost(pass.missed)).await;
        }
        merging = pass.published.iter().any(|(published, _)| published.is_transient())
            && lock(&slots).len() > limits::STREAM_CROWD;
        if !pass.published.is_empty() {
            for_each_subscriber(&slots, |subscriber| subscriber.deliver(&pass.published)).await;
        }
    }
}

/// The updates of one pass.
struct RelayPass<'a> {
    of: Subject,
    shared: &'a SharedFrames,
    /// Whether consecutive drafts of one message are merged.
    merge_drafts: bool,
    draft: Option<(Update, u64)>,
    published: Vec<(Arc<Published>, DeliveryMode)>,
    bytes: usize,
    /// Number of updates that were lost before these.
    missed: u64,
}

impl RelayPass<'_> {
    /// Collects `first` and further updates that are ready, up to the size of a pass. Returns whether there may be
    /// more.
    fn gather(&mut self, first: Option<Delivered>, listener: &mut dyn Listener) -> bool {
        let mut next = first;
        let mut full = false;
        for _ in 0..limits::BUS_BUFFER {
            let Some(delivered) = next.take().or_else(|| listener.next().now_or_never().flatten()) else {
                break;
            };
            match delivered {
                Delivered::Missed(count) => {
                    // The snapshot that follows a loss contains the updates before it too.
                    self.missed += count + self.published.len() as u64;
                    (self.draft, self.bytes) = (None, 0);
                    self.published.clear();
                }
                Delivered::Update(published) => self.add(published),
            }
            full = self.published.len() >= limits::STREAM_TURN || self.bytes >= limits::STREAM_BUFFER_BYTES;
            if full {
                break;
            }
        }
        self.end_draft();
        full
    }

    fn add(&mut self, published: Arc<Published>) {
        if let Some((draft, number)) = &mut self.draft
            && frame::merge(draft, &published)
        {
            *number = published.number();
            return;
        }
        self.end_draft();
        if self.merge_drafts && frame::is_draft(&published) {
            self.draft = Some((Update::clone(&published), published.number()));
        } else {
            self.push(published);
        }
    }

    fn end_draft(&mut self) {
        if let Some((draft, number)) = self.draft.take() {
            self.push(Arc::new(Published::new(Arc::new(draft), number)));
        }
    }

    fn push(&mut self, published: Arc<Published>) {
        let mode = delivery_mode(self.of, self.shared, &published);
        self.bytes += mode.size();
        self.published.push((published, mode));
    }
}

/// Calls `apply` for every subscriber; lets other tasks run in between.
async fn for_each_subscriber(slots: &Mutex<SubscriberSlots>, apply: impl Fn(&Subscriber)) {
    let mut from = 0;
    loop {
        {
            let slots = lock(slots);
            let to = slots.subscribers.len().min(from + limits::STREAM_TURN);
            slots
                .subscribers
                .get(from..to)
                .into_iter()
                .flatten()
                .flatten()
                .for_each(|subscriber| apply(subscriber));
            if to == slots.subscribers.len() {
                return;
            }
            from = to;
        }
        tokio::task::yield_now().await;
    }
}

/// How the update reaches the subscribers. What all may see unchanged has one buffer for all of them.
fn delivery_mode(subject: Subject, shared: &SharedFrames, published: &Arc<Published>) -> DeliveryMode {
    let update: &Update = published;
    if matches!(update, Update::Member { .. }) {
        // The update has another meaning for the entity that it is about.
        return DeliveryMode::PerClient;
    }
    let id = subject.id_of(update);
    let bytes = |operator| -> Option<Bytes> {
        match (visible(update, subject.shows_thoughts(), operator), id) {
            (Shown::Not, _) => None,
            (Shown::AsItIs, Some(id)) => Some(shared.of(id, update).bytes),
            (Shown::AsItIs, None) => Some(frame::encode_shared(published)),
            (Shown::As(other), id) => Some(frame::encode(other.name(), id, &other)),
        }
    };
    DeliveryMode::Shared { operators: bytes(true), members: bytes(false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::id::SpaceId;
    use agent::port::BoxFuture;
    use jiff::Timestamp;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Waker;
    use uuid::Uuid;

    /// A bus whose listeners panic.
    #[derive(Default)]
    struct BrokenBus(AtomicU64);

    struct Panics;

    impl Listener for Panics {
        fn next(&mut self) -> BoxFuture<'_, Option<Delivered>> {
            Box::pin(async { panic!("a relay panics") })
        }
    }

    impl Bus for BrokenBus {
        fn publish(&self, _: &[Topic], _: Arc<Update>) {}
        fn published(&self) -> u64 {
            0
        }
        fn subscribe(&self, _: Topic) -> Box<dyn Listener> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::new(Panics)
        }
        fn listeners(&self, _: Topic) -> usize {
            0
        }
    }

    struct NoTime;

    impl Clock for NoTime {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn monotonic_ms(&self) -> u64 {
            0
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn a_relay_that_panics_closes_its_subscribers_and_is_replaced() {
        let (relays, bus) = (Arc::<Relays>::default(), BrokenBus::default());
        let clock: Arc<dyn Clock> = Arc::new(NoTime);
        let subject = Subject::Space(SpaceId(Uuid::nil()));
        let join = || relays.join(&bus, &clock, subject);
        let subscription = join();
        let closed = std::future::poll_fn(|cx| subscription.poll_delivered(cx)).await;
        assert!(closed.is_none());
        while !lock(&relays.0)[&subject.topic()].task.is_finished() {
            tokio::task::yield_now().await;
        }
        let [next, other] = [join(), join()];
        assert_eq!(bus.0.load(Ordering::Relaxed), 2);
        drop(subscription);
        assert!(next.poll_delivered(&Context::from_waker(Waker::noop())).is_pending());
        drop((next, other));
        assert!(lock(&relays.0).is_empty(), "no subscriber is left");
    }

    #[test]
    fn a_slot_keeps_its_index_until_it_is_freed() {
        let mut slots = SubscriberSlots::default();
        let subscriber = Arc::<Subscriber>::default;
        assert_eq!(
            [slots.occupy(subscriber()), slots.occupy(subscriber()), slots.occupy(subscriber())],
            [0, 1, 2]
        );
        assert!(!slots.free_slot(1));
        assert_eq!((slots.len(), slots.occupy(subscriber())), (2, 1));
        assert!(!slots.free_slot(1) && !slots.free_slot(2));
        assert_eq!((slots.len(), slots.subscribers.len()), (1, 1), "empty slots at the end are removed");
        assert!(slots.free_slot(0));
    }
}
