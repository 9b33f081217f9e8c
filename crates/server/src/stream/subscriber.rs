//! The state that the relay of a topic and the task of one client share: the updates that the client was not sent
//! yet, and a gate to the client's socket. While the gate is open, the relay may write to the socket directly. Must
//! not know the form of updates, nor other subscribers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use agent::limits;
use agent::port::Published;
use bytes::Bytes;
use tokio::net::TcpStream;

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
    /// The relay writes these bytes to each socket whose gate is open; `None` if the update is not visible.
    Direct {
        /// The id of the update in this stream.
        id: Option<u64>,
        /// The bytes for operators.
        operators: Option<Bytes>,
        /// The bytes for members.
        members: Option<Bytes>,
    },
}

/// Whether the relay may write to the socket directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WriteGate {
    /// No: the client's task is working or must catch up.
    #[default]
    Shut,
    /// Not yet: the task is up to date, but its bytes may not be written yet.
    Ready,
    /// Yes: all bytes of the task are written.
    Open,
}

/// Consecutive updates, with their delivery modes.
#[derive(Debug)]
pub(super) struct Batch {
    published: Vec<(Arc<Published>, DeliveryMode)>,
    /// All of them in one piece, if all are direct and their ids have no gaps.
    combined: Option<Combined>,
}

#[derive(Debug)]
struct Combined {
    /// The ids of the first and the last durable update.
    ids: Option<(u64, u64)>,
    operators: Bytes,
    members: Bytes,
}

impl Batch {
    /// A batch of these updates, in this order.
    pub(super) fn new(published: Vec<(Arc<Published>, DeliveryMode)>) -> Self {
        let combined = Combined::of(&published);
        Self { published, combined }
    }
}

impl Combined {
    fn of(published: &[(Arc<Published>, DeliveryMode)]) -> Option<Self> {
        let mut ids: Option<(u64, u64)> = None;
        for (_, mode) in published {
            let DeliveryMode::Direct { id, .. } = mode else { return None };
            ids = match (ids, *id) {
                (ids, None) => ids,
                (None, Some(id)) => Some((id, id)),
                (Some((first, last)), Some(id)) if id == last + 1 => Some((first, id)),
                _ => return None,
            };
        }
        let all = |pick: fn(&DeliveryMode) -> Option<&Bytes>| {
            let mut parts = published.iter().filter_map(|(_, mode)| pick(mode));
            match (parts.next(), parts.next()) {
                (None, _) => Bytes::new(),
                (Some(only), None) => only.clone(),
                (Some(first), Some(next)) => [&first[..], next]
                    .into_iter()
                    .chain(parts.map(|part| &part[..]))
                    .collect::<Vec<_>>()
                    .concat()
                    .into(),
            }
        };
        Some(Self { ids, operators: all(|mode| mode.bytes(true)), members: all(|mode| mode.bytes(false)) })
    }
}

impl DeliveryMode {
    /// The shared bytes for operators or members, if they may see the update.
    pub(super) fn bytes(&self, operator: bool) -> Option<&Bytes> {
        match self {
            Self::PerClient => None,
            Self::Direct { operators, members, .. } => (if operator { operators } else { members }).as_ref(),
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
    gate: WriteGate,
    /// The id of the last durable update that the client was sent; valid unless the gate is shut.
    last: u64,
    /// The rest of a direct write that the socket did not take.
    unwritten: Bytes,
    queued: VecDeque<(Arc<Published>, DeliveryMode)>,
    /// Number of updates that were lost before those in `queued`.
    missed: u64,
    /// The bus is closed.
    bus_closed: bool,
    task: Option<Waker>,
}

/// The slot of one client at a relay.
#[derive(Debug, Default)]
pub(super) struct Subscriber {
    operator: bool,
    socket: OnceLock<Arc<TcpStream>>,
    state: Mutex<SubscriberState>,
}

impl Subscriber {
    /// A subscriber whose gate is shut.
    pub(super) fn new(operator: bool) -> Self {
        Self { operator, ..Self::default() }
    }

    /// Ignores updates up to that number: they were published before the client subscribed, so its snapshot contains
    /// them.
    pub(super) fn skip_until(&self, number: u64) {
        self.lock().skip_until = number;
    }

    /// Sets the socket behind the gate; without a socket nothing is written directly.
    pub(super) fn connect(&self, socket: Arc<TcpStream>) {
        // Set at most once: a stream has one socket.
        let _ = self.socket.set(socket);
    }

    /// Called by the client's task before it does anything: from now on the relay writes nothing. Returns the id of
    /// the last durable update that the client was sent, if the relay may have written any.
    pub(super) fn shut_gate(&self) -> Option<u64> {
        let mut state = self.lock();
        let gate = std::mem::take(&mut state.gate);
        (gate != WriteGate::Shut).then_some(state.last)
    }

    /// Called by the client's task when it has nothing more to do: the client has everything up to `last`.
    pub(super) fn caught_up(&self, last: u64) {
        let mut state = self.lock();
        (state.gate, state.last) = (WriteGate::Ready, last);
    }

    /// Called by the writer of the socket when nothing is left to write.
    pub(super) fn open_gate(&self) {
        let mut state = self.lock();
        if state.gate == WriteGate::Ready && state.unwritten.is_empty() {
            state.gate = WriteGate::Open;
        }
    }

    /// Takes the rest of a direct write; it must be written before everything else.
    pub(super) fn take_unwritten(&self) -> Bytes {
        std::mem::take(&mut self.lock().unwritten)
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

    /// Writes the updates to the socket directly if possible, else queues them for the client's task.
    pub(super) fn deliver(&self, batch: &Batch) {
        let mut state = self.lock();
        let new = batch.published.partition_point(|(published, _)| published.number() <= state.skip_until);
        if let (0, Some(combined)) = (new, &batch.combined)
            && state.is_next(combined.ids.map(|(first, _)| first))
            && let Some(socket) = self.socket.get()
        {
            state.last = combined.ids.map_or(state.last, |(_, last)| last);
            return state.write(socket, if self.operator { &combined.operators } else { &combined.members });
        }
        for (published, mode) in &batch.published[new..] {
            match (mode, self.socket.get()) {
                (DeliveryMode::Direct { id, .. }, Some(socket)) if state.is_next(*id) => {
                    state.last = id.unwrap_or(state.last);
                    state.write(socket, mode.bytes(self.operator).unwrap_or(&Bytes::new()));
                }
                _ => {
                    state.enqueue(published, mode);
                    state.wake();
                }
            }
        }
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscriberState {
    /// Whether the gate is open, nothing is queued, and this id is the next one.
    fn is_next(&self, id: Option<u64>) -> bool {
        let quiet = self.gate == WriteGate::Open && self.queued.is_empty() && self.missed == 0;
        quiet && id.is_none_or(|id| id == self.last + 1)
    }

    fn write(&mut self, socket: &TcpStream, bytes: &Bytes) {
        if bytes.is_empty() {
            return;
        }
        // If the socket fails, the client's task notices it when it writes the rest.
        let written = socket.try_write(bytes).unwrap_or(0);
        if written < bytes.len() {
            self.unwritten = bytes.slice(written..);
            self.gate = WriteGate::Ready;
            self.wake();
        }
    }

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
    use agent::id::{AgentId, SpaceId};
    use agent::update::Update;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use uuid::Uuid;

    fn published() -> Arc<Published> {
        let (space, agent) = (SpaceId(Uuid::nil()), AgentId(Uuid::nil()));
        let message = agent::id::MessageId(Uuid::nil());
        let delta = String::new();
        Arc::new(Published::new(Arc::new(Update::Draft { space, message, agent, delta, chars: 0 }), 7))
    }

    fn direct(id: Option<u64>, text: &'static str) -> DeliveryMode {
        let operators = Some(Bytes::from_static(text.as_bytes()));
        DeliveryMode::Direct { id, operators, members: None }
    }

    fn one(mode: DeliveryMode) -> Batch {
        Batch::new(vec![(published(), mode)])
    }

    async fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        server.writable().await.unwrap();
        (Arc::new(server), client)
    }

    fn next(subscriber: &Subscriber) -> Option<Option<Delivery>> {
        match subscriber.poll_delivered(&Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn an_open_gate_passes_only_the_next_update() {
        let (server, mut client) = pair().await;
        let subscriber = Subscriber::new(true);
        subscriber.connect(server);
        subscriber.deliver(&one(direct(Some(5), "shut")));
        assert!(matches!(next(&subscriber), Some(Some(Delivery::Update(..)))), "the task is working");
        subscriber.caught_up(4);
        subscriber.deliver(&one(direct(Some(5), "not yet written")));
        assert!(next(&subscriber).is_some(), "buffered frames go first");
        subscriber.open_gate();
        subscriber.deliver(&one(direct(Some(5), "five")));
        subscriber.deliver(&one(direct(None, "passing")));
        assert!(next(&subscriber).is_none());
        subscriber.deliver(&one(direct(Some(7), "seven")));
        subscriber.deliver(&one(direct(None, "behind it")));
        assert!(
            next(&subscriber).is_some() && next(&subscriber).is_some(),
            "six is missing, and nothing overtakes"
        );
        assert_eq!(subscriber.shut_gate(), Some(5));
        assert_eq!(subscriber.shut_gate(), None);
        let mut bytes = [0; 11];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"fivepassing");
    }

    #[tokio::test]
    async fn a_batch_is_written_at_once_or_up_to_a_gap_in_its_ids() {
        let (server, mut client) = pair().await;
        let subscriber = Subscriber::new(true);
        subscriber.connect(server);
        let batch = |ids: &[u64]| {
            let all =
                ids.iter().map(|id| (published(), direct(Some(*id), ["", "1", "2", "3", "4"][*id as usize])));
            Batch::new(all.collect())
        };
        assert!(batch(&[1, 2, 3]).combined.is_some() && batch(&[1, 3]).combined.is_none());
        subscriber.caught_up(0);
        subscriber.open_gate();
        subscriber.deliver(&batch(&[1, 2]));
        subscriber.deliver(&batch(&[3, 1, 4]));
        assert_eq!(subscriber.shut_gate(), Some(3));
        assert!(
            next(&subscriber).is_some() && next(&subscriber).is_some() && next(&subscriber).is_none(),
            "1 and 4"
        );
        subscriber.skip_until(7);
        subscriber.deliver(&batch(&[4]));
        assert!(next(&subscriber).is_none(), "it was published before the client subscribed");
        let mut bytes = [0; 3];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"123");
    }

    #[tokio::test]
    async fn members_are_not_sent_updates_for_operators_only() {
        let (server, client) = pair().await;
        let subscriber = Subscriber::new(false);
        subscriber.connect(server);
        subscriber.caught_up(4);
        subscriber.open_gate();
        subscriber.deliver(&one(direct(Some(5), "secret")));
        assert!(next(&subscriber).is_none());
        assert_eq!(subscriber.shut_gate(), Some(5), "the update still counts as sent");
        assert!(client.try_read(&mut [0; 9]).is_err());
    }

    #[tokio::test]
    async fn an_incomplete_write_shuts_the_gate_until_the_rest_is_written() {
        let (server, _client) = pair().await;
        let subscriber = Subscriber::new(true);
        subscriber.connect(server);
        subscriber.caught_up(0);
        subscriber.open_gate();
        let much = Bytes::from(vec![b'x'; 64 * 1024 * 1024]);
        subscriber.deliver(&one(DeliveryMode::Direct {
            id: None,
            operators: Some(much.clone()),
            members: None,
        }));
        subscriber.open_gate();
        subscriber.deliver(&one(direct(None, "next")));
        assert!(next(&subscriber).is_some());
        let unwritten = subscriber.take_unwritten();
        assert!(!unwritten.is_empty() && unwritten.len() < much.len());
        assert!(subscriber.take_unwritten().is_empty());
    }

    #[test]
    fn a_full_queue_is_dropped_and_the_number_of_lost_updates_is_reported() {
        let subscriber = Subscriber::new(true);
        for _ in 0..=limits::BUS_BUFFER {
            subscriber.deliver(&one(DeliveryMode::PerClient));
        }
        subscriber.deliver(&one(DeliveryMode::PerClient));
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
