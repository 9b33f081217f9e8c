//! One task per topic that hears the bus for all who watch it. What they are all shown alike is encoded
//! once and written to their sockets in one go: a thousand tasks that wake up for it cost more than what
//! they write. A client with anything else to receive gets it from its own task. Must not know what an update means
//! for one client.

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

use super::frame::{self, Frame};
use super::subject::{Shown, Subject, visible};
use super::subscriber::{Batch, DeliveryMode, Subscriber};

/// The relays of all topics that are watched.
#[derive(Debug, Default)]
pub(crate) struct Relays(Mutex<HashMap<Topic, Relay>>);

#[derive(Debug)]
struct Relay {
    seats: Arc<Mutex<Seats>>,
    task: AbortHandle,
}

/// A seat stays where it is until it is given up: whoever goes through them meets each once.
#[derive(Debug, Default)]
struct Seats {
    places: Vec<Option<Arc<Subscriber>>>,
    free: usize,
}

/// A seat that is taken; dropping it gives it up.
#[derive(Debug)]
pub(crate) struct StreamPosition {
    relays: Arc<Relays>,
    topic: Topic,
    seats: Arc<Mutex<Seats>>,
    at: usize,
    seat: Arc<Subscriber>,
}

impl Relays {
    /// Takes a seat: everything that is told from now on is heard there.
    pub(super) fn join(
        self: &Arc<Self>,
        bus: &dyn Bus,
        clock: &Arc<dyn Clock>,
        subject: Subject,
        operator: bool,
    ) -> StreamPosition {
        let topic = subject.topic();
        let seat = Arc::new(Subscriber::new(operator));
        let mut relays = lock(&self.0);
        // One that broke has closed its seats; whoever comes now is served by another.
        if relays.get(&topic).is_some_and(|relay| relay.task.is_finished()) {
            relays.remove(&topic);
        }
        let relay = relays.entry(topic).or_insert_with(|| {
            let seats = Arc::default();
            let relay = run(subject, bus.subscribe(topic), Arc::clone(&seats), Arc::clone(clock));
            Relay { seats, task: tokio::spawn(relay).abort_handle() }
        });
        let seats = Arc::clone(&relay.seats);
        let mut all = lock(&seats);
        let at = all.take(Arc::clone(&seat));
        // The relay waits for the seats: whatever it tells from here on is either new or known to be old.
        seat.begin(bus.published());
        drop(all);
        drop(relays);
        StreamPosition { relays: Arc::clone(self), topic, seats, at, seat }
    }
}

impl StreamPosition {
    /// The seat.
    pub(super) fn seat(&self) -> &Arc<Subscriber> {
        &self.seat
    }

    /// The next that was heard; `None` once the bus is closed.
    pub(super) fn poll_delivered(&self, cx: &Context<'_>) -> Poll<Option<Delivered>> {
        self.seat.poll_delivered(cx)
    }
}

impl Drop for StreamPosition {
    fn drop(&mut self) {
        let mut relays = lock(&self.relays.0);
        let nobody_left = lock(&self.seats).give_up(self.at);
        let relay = relays.get(&self.topic).filter(|relay| Arc::ptr_eq(&relay.seats, &self.seats));
        if let Some(relay) = relay.filter(|_| nobody_left) {
            // A topic that nobody watches costs nothing.
            relay.task.abort();
            relays.remove(&self.topic);
        }
    }
}

impl Seats {
    fn take(&mut self, seat: Arc<Subscriber>) -> usize {
        let free = (self.free > 0).then(|| self.places.iter().position(Option::is_none)).flatten();
        let Some(at) = free else {
            self.places.push(Some(seat));
            return self.places.len() - 1;
        };
        self.places[at] = Some(seat);
        self.free -= 1;
        at
    }

    /// Whether nobody is left.
    fn give_up(&mut self, at: usize) -> bool {
        self.places[at] = None;
        self.free += 1;
        while self.places.pop_if(|place| place.is_none()).is_some() {
            self.free -= 1;
        }
        self.places.is_empty()
    }

    fn len(&self) -> usize {
        self.places.len() - self.free
    }
}

/// However a relay ends, nobody waits at it for ever.
struct Closing(Arc<Mutex<Seats>>);

impl Drop for Closing {
    fn drop(&mut self) {
        lock(&self.0).places.iter().flatten().for_each(|seat| seat.close());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until the bus is closed. What was told while others were written to goes out together; in a crowd drafts
/// are left to gather for a while behind each that is sent, and are one draft for everybody.
async fn run(
    subject: Subject,
    mut listener: Box<dyn Listener>,
    seats: Arc<Mutex<Seats>>,
    clock: Arc<dyn Clock>,
) {
    let _closing = Closing(Arc::clone(&seats));
    let (mut grew, mut full) = (false, false);
    loop {
        let first = match grew {
            true if full => None,
            true => {
                clock.sleep(Duration::from_millis(limits::STREAM_GATHER_MS)).await;
                None
            }
            false => match listener.next().await {
                Some(heard) => Some(heard),
                None => return,
            },
        };
        let mut heard =
            Gathered { of: subject, draft: None, together: grew, published: Vec::new(), bytes: 0, missed: 0 };
        full = heard.gather(first, &mut *listener);
        if heard.missed > 0 {
            all(&seats, |seat| seat.miss(heard.missed)).await;
        }
        grew = heard.published.iter().any(|(published, _)| published.is_transient())
            && lock(&seats).len() > limits::STREAM_CROWD;
        if !heard.published.is_empty() {
            let batch = Batch::new(heard.published);
            all(&seats, |seat| seat.pass(&batch)).await;
        }
    }
}

/// What goes out in one go.
struct Gathered {
    of: Subject,
    /// Drafts of one message that follow on each other are one.
    together: bool,
    draft: Option<(Update, u64)>,
    published: Vec<(Arc<Published>, DeliveryMode)>,
    bytes: usize,
    /// Updates that are gone, before those.
    missed: u64,
}

impl Gathered {
    /// That, and what else was told by now, as much as goes out at once. Whether there may be more.
    fn gather(&mut self, first: Option<Delivered>, listener: &mut dyn Listener) -> bool {
        let mut next = first;
        let mut full = false;
        for _ in 0..limits::BUS_BUFFER {
            let Some(heard) = next.take().or_else(|| listener.next().now_or_never().flatten()) else { break };
            match heard {
                Delivered::Missed(count) => {
                    // What is behind a gap comes with the snapshot, and what is before it, too.
                    self.missed += count + self.published.len() as u64;
                    (self.draft, self.bytes) = (None, 0);
                    self.published.clear();
                }
                Delivered::Update(published) => self.take(published),
            }
            full = self.published.len() >= limits::STREAM_TURN || self.bytes >= limits::STREAM_BUFFER_BYTES;
            if full {
                break;
            }
        }
        self.end_draft();
        full
    }

    fn take(&mut self, published: Arc<Published>) {
        if let Some((draft, number)) = &mut self.draft
            && frame::absorb(draft, &published)
        {
            *number = published.number();
            return;
        }
        self.end_draft();
        if self.together && frame::is_draft(&published) {
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
        let way = way(self.of, &published);
        self.bytes += way.size();
        self.published.push((published, way));
    }
}

/// Does it for everyone, and lets others run between.
async fn all(seats: &Mutex<Seats>, tell: impl Fn(&Subscriber)) {
    let mut from = 0;
    loop {
        {
            let seats = lock(seats);
            let to = seats.places.len().min(from + limits::STREAM_TURN);
            seats.places.get(from..to).into_iter().flatten().flatten().for_each(|seat| tell(seat));
            if to == seats.places.len() {
                return;
            }
            from = to;
        }
        tokio::task::yield_now().await;
    }
}

/// How the update reaches those who watch.
fn way(subject: Subject, published: &Arc<Published>) -> DeliveryMode {
    let update: &Update = published;
    if matches!(update, Update::Member { .. }) {
        // It means something else to whom it is about.
        return DeliveryMode::Apart;
    }
    let id = subject.id_of(update);
    let bytes = |operator| -> Option<Bytes> {
        match visible(update, subject.shows_thoughts(), operator) {
            Shown::Not => None,
            Shown::AsItIs => Some(Frame::shared(published, id).into_bytes()),
            Shown::As(other) => Some(Frame::new(other.name(), id, &other, false).into_bytes()),
        }
    };
    DeliveryMode::Straight { id, operators: bytes(true), members: bytes(false) }
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

    /// A bus whose listeners break.
    #[derive(Default)]
    struct BrokenBus(AtomicU64);

    struct Breaks;

    impl Listener for Breaks {
        fn next(&mut self) -> BoxFuture<'_, Option<Delivered>> {
            Box::pin(async { panic!("a relay breaks") })
        }
    }

    impl Bus for BrokenBus {
        fn publish(&self, _: &[Topic], _: Arc<Update>) {}
        fn published(&self) -> u64 {
            0
        }
        fn subscribe(&self, _: Topic) -> Box<dyn Listener> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::new(Breaks)
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
    async fn nobody_waits_at_a_relay_that_broke_and_the_next_one_gets_another() {
        let (relays, bus) = (Arc::<Relays>::default(), BrokenBus::default());
        let clock: Arc<dyn Clock> = Arc::new(NoTime);
        let subject = Subject::Space(SpaceId(Uuid::nil()));
        let join = || relays.join(&bus, &clock, subject, true);
        let place = join();
        let over = std::future::poll_fn(|cx| place.poll_delivered(cx)).await;
        assert!(over.is_none());
        while !lock(&relays.0)[&subject.topic()].task.is_finished() {
            tokio::task::yield_now().await;
        }
        let [next, other] = [join(), join()];
        assert_eq!(bus.0.load(Ordering::Relaxed), 2);
        drop(place);
        assert!(next.poll_delivered(&Context::from_waker(Waker::noop())).is_pending());
        drop((next, other));
        assert!(lock(&relays.0).is_empty(), "nobody is left");
    }

    #[test]
    fn a_seat_stays_where_it_is_until_it_is_given_up() {
        let mut seats = Seats::default();
        let seat = || Arc::new(Subscriber::new(true));
        assert_eq!([seats.take(seat()), seats.take(seat()), seats.take(seat())], [0, 1, 2]);
        assert!(!seats.give_up(1));
        assert_eq!((seats.len(), seats.take(seat())), (2, 1));
        assert!(!seats.give_up(1) && !seats.give_up(2));
        assert_eq!((seats.len(), seats.places.len()), (1, 1), "empty places at the end are given back");
        assert!(seats.give_up(0));
    }
}
