//! What the relay of a topic and the stream of one client share: what the client was not told yet, and a
//! door to its socket that stands open while nothing else is under way. Must not know how updates are
//! shown, nor who else watches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use agent::limits;
use agent::port::{Delivered, Published};
use bytes::Bytes;
use tokio::net::TcpStream;

/// How an update reaches those who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveryMode {
    /// Each stream looks at it for itself.
    Apart,
    /// These bytes go to each socket whose door is open; none where it is not shown.
    Straight {
        /// The id that it has in this stream.
        id: Option<u64>,
        /// For operators.
        operators: Option<Bytes>,
        /// For members.
        members: Option<Bytes>,
    },
}

/// Whether the relay may write to the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gate {
    /// The stream is at work, or has something to catch up with.
    #[default]
    Shut,
    /// The stream is up to date; what it put in may not be written yet.
    Ready,
    /// All of it is written.
    Open,
}

/// Updates that follow on each other, as they reach those who watch.
#[derive(Debug)]
pub(super) struct Batch {
    published: Vec<(Arc<Published>, DeliveryMode)>,
    /// All of them as one, where none is apart and no id is left out.
    whole: Option<Whole>,
}

#[derive(Debug)]
struct Whole {
    /// The first durable change, and the last.
    ids: Option<(u64, u64)>,
    operators: Bytes,
    members: Bytes,
}

impl Batch {
    /// Of these, in this order.
    pub(super) fn new(published: Vec<(Arc<Published>, DeliveryMode)>) -> Self {
        let whole = Whole::of(&published);
        Self { published, whole }
    }
}

impl Whole {
    fn of(published: &[(Arc<Published>, DeliveryMode)]) -> Option<Self> {
        let mut ids: Option<(u64, u64)> = None;
        for (_, way) in published {
            let DeliveryMode::Straight { id, .. } = way else { return None };
            ids = match (ids, *id) {
                (ids, None) => ids,
                (None, Some(id)) => Some((id, id)),
                (Some((first, last)), Some(id)) if id == last + 1 => Some((first, id)),
                _ => return None,
            };
        }
        let all = |pick: fn(&DeliveryMode) -> Option<&Bytes>| {
            let mut parts = published.iter().filter_map(|(_, way)| pick(way));
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
        Some(Self { ids, operators: all(|way| way.bytes(true)), members: all(|way| way.bytes(false)) })
    }
}

impl DeliveryMode {
    fn bytes(&self, operator: bool) -> Option<&Bytes> {
        match self {
            Self::Apart => None,
            Self::Straight { operators, members, .. } => {
                (if operator { operators } else { members }).as_ref()
            }
        }
    }

    /// Bytes of the larger of its two forms.
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
    /// The number of the last update that was told before the client came.
    from: u64,
    door: Gate,
    /// The last durable change that the client was sent, while the door is not shut.
    last: u64,
    /// What the socket did not take of an update that went straight to it.
    left: Bytes,
    heard: VecDeque<Arc<Published>>,
    /// Updates that are gone, before those that were heard.
    missed: u64,
    /// The bus is closed.
    over: bool,
    stream: Option<Waker>,
}

/// One client's place at a relay.
#[derive(Debug, Default)]
pub(super) struct Subscriber {
    operator: bool,
    socket: OnceLock<Arc<TcpStream>>,
    inside: Mutex<SubscriberState>,
}

impl Subscriber {
    /// With a door that is shut.
    pub(super) fn new(operator: bool) -> Self {
        Self { operator, ..Self::default() }
    }

    /// Hears nothing up to that number: it was told before the client came, and its snapshot has what came
    /// of it.
    pub(super) fn begin(&self, from: u64) {
        self.lock().from = from;
    }

    /// The socket behind the door; without one it never opens.
    pub(super) fn connect(&self, socket: Arc<TcpStream>) {
        // A stream has one socket.
        let _ = self.socket.set(socket);
    }

    /// By the stream, before it does anything: nothing goes past it from now on. The last durable change
    /// that the client was sent, where the relay may have sent some.
    pub(super) fn shut(&self) -> Option<u64> {
        let mut inside = self.lock();
        let door = std::mem::take(&mut inside.door);
        (door != Gate::Shut).then_some(inside.last)
    }

    /// By the stream, once it has nothing more to do: the client has everything up to `last`.
    pub(super) fn ready(&self, last: u64) {
        let mut inside = self.lock();
        (inside.door, inside.last) = (Gate::Ready, last);
    }

    /// By whoever writes to the socket, once nothing is left to be written.
    pub(super) fn open(&self) {
        let mut inside = self.lock();
        if inside.door == Gate::Ready && inside.left.is_empty() {
            inside.door = Gate::Open;
        }
    }

    /// What the socket did not take: goes before everything else.
    pub(super) fn left(&self) -> Bytes {
        std::mem::take(&mut self.lock().left)
    }

    /// The next that was heard; `None` once the bus is closed.
    pub(super) fn poll_delivered(&self, cx: &Context<'_>) -> Poll<Option<Delivered>> {
        let mut inside = self.lock();
        if inside.missed > 0 {
            return Poll::Ready(Some(Delivered::Missed(std::mem::take(&mut inside.missed))));
        }
        if let Some(published) = inside.heard.pop_front() {
            if inside.heard.is_empty() {
                // Most have nothing to hear most of the time: a thousand of them keep no room for it.
                inside.heard = VecDeque::new();
            }
            return Poll::Ready(Some(Delivered::Update(published)));
        }
        if inside.over {
            return Poll::Ready(None);
        }
        if !inside.stream.as_ref().is_some_and(|stream| stream.will_wake(cx.waker())) {
            inside.stream = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Straight to the socket, where that goes; else the stream hears it.
    pub(super) fn pass(&self, batch: &Batch) {
        let mut inside = self.lock();
        let new = batch.published.partition_point(|(published, _)| published.number() <= inside.from);
        if let (0, Some(whole)) = (new, &batch.whole)
            && inside.is_next(whole.ids.map(|(first, _)| first))
            && let Some(socket) = self.socket.get()
        {
            inside.last = whole.ids.map_or(inside.last, |(_, last)| last);
            return inside.write(socket, if self.operator { &whole.operators } else { &whole.members });
        }
        for (published, way) in &batch.published[new..] {
            match (way, self.socket.get()) {
                (DeliveryMode::Straight { id, .. }, Some(socket)) if inside.is_next(*id) => {
                    inside.last = id.unwrap_or(inside.last);
                    inside.write(socket, way.bytes(self.operator).unwrap_or(&Bytes::new()));
                }
                _ => {
                    inside.hear(published);
                    inside.wake();
                }
            }
        }
    }

    /// So many updates are gone.
    pub(super) fn miss(&self, count: u64) {
        let mut inside = self.lock();
        inside.lose(count);
        inside.wake();
    }

    /// Nothing is told any more.
    pub(super) fn close(&self) {
        let mut inside = self.lock();
        inside.over = true;
        inside.wake();
    }

    fn lock(&self) -> MutexGuard<'_, SubscriberState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscriberState {
    /// Whether nothing is under way, and this durable change is the next one.
    fn is_next(&self, id: Option<u64>) -> bool {
        let quiet = self.door == Gate::Open && self.heard.is_empty() && self.missed == 0;
        quiet && id.is_none_or(|id| id == self.last + 1)
    }

    fn write(&mut self, socket: &TcpStream, bytes: &Bytes) {
        if bytes.is_empty() {
            return;
        }
        // Whatever goes wrong with the socket, its stream finds out when it writes what is left.
        let written = socket.try_write(bytes).unwrap_or(0);
        if written < bytes.len() {
            self.left = bytes.slice(written..);
            self.door = Gate::Ready;
            self.wake();
        }
    }

    fn hear(&mut self, published: &Arc<Published>) {
        if self.heard.len() < limits::BUS_BUFFER {
            self.heard.push_back(Arc::clone(published));
        } else {
            self.lose(1);
        }
    }

    /// What was lost makes what was heard before of no use: the client needs a snapshot.
    fn lose(&mut self, count: u64) {
        self.missed += count + self.heard.len() as u64;
        self.heard = VecDeque::new();
    }

    fn wake(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.wake();
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

    fn straight(id: Option<u64>, text: &'static str) -> DeliveryMode {
        let operators = Some(Bytes::from_static(text.as_bytes()));
        DeliveryMode::Straight { id, operators, members: None }
    }

    fn one(way: DeliveryMode) -> Batch {
        Batch::new(vec![(published(), way)])
    }

    async fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        server.writable().await.unwrap();
        (Arc::new(server), client)
    }

    fn heard(seat: &Subscriber) -> Option<Option<Delivered>> {
        match seat.poll_delivered(&Context::from_waker(Waker::noop())) {
            Poll::Ready(heard) => Some(heard),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn an_open_door_lets_the_next_one_through_and_nothing_else() {
        let (server, mut client) = pair().await;
        let seat = Subscriber::new(true);
        seat.connect(server);
        seat.pass(&one(straight(Some(5), "shut")));
        assert!(matches!(heard(&seat), Some(Some(Delivered::Update(_)))), "the stream is at work");
        seat.ready(4);
        seat.pass(&one(straight(Some(5), "not yet written")));
        assert!(heard(&seat).is_some(), "what was put in before goes first");
        seat.open();
        seat.pass(&one(straight(Some(5), "five")));
        seat.pass(&one(straight(None, "passing")));
        assert!(heard(&seat).is_none());
        seat.pass(&one(straight(Some(7), "seven")));
        seat.pass(&one(straight(None, "behind it")));
        assert!(heard(&seat).is_some() && heard(&seat).is_some(), "six is missing, and nothing overtakes");
        assert_eq!(seat.shut(), Some(5));
        assert_eq!(seat.shut(), None);
        let mut bytes = [0; 11];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"fivepassing");
    }

    #[tokio::test]
    async fn a_batch_is_one_write_or_as_much_of_it_as_is_next() {
        let (server, mut client) = pair().await;
        let seat = Subscriber::new(true);
        seat.connect(server);
        let batch = |ids: &[u64]| {
            let all = ids
                .iter()
                .map(|id| (published(), straight(Some(*id), ["", "1", "2", "3", "4"][*id as usize])));
            Batch::new(all.collect())
        };
        assert!(batch(&[1, 2, 3]).whole.is_some() && batch(&[1, 3]).whole.is_none());
        seat.ready(0);
        seat.open();
        seat.pass(&batch(&[1, 2]));
        seat.pass(&batch(&[3, 1, 4]));
        assert_eq!(seat.shut(), Some(3));
        assert!(heard(&seat).is_some() && heard(&seat).is_some() && heard(&seat).is_none(), "1 and 4");
        seat.begin(7);
        seat.pass(&batch(&[4]));
        assert!(heard(&seat).is_none(), "it was published before the client came");
        let mut bytes = [0; 3];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"123");
    }

    #[tokio::test]
    async fn members_are_passed_by_what_only_operators_are_shown() {
        let (server, client) = pair().await;
        let seat = Subscriber::new(false);
        seat.connect(server);
        seat.ready(4);
        seat.open();
        seat.pass(&one(straight(Some(5), "secret")));
        assert!(heard(&seat).is_none());
        assert_eq!(seat.shut(), Some(5), "they have everything up to there all the same");
        assert!(client.try_read(&mut [0; 9]).is_err());
    }

    #[tokio::test]
    async fn what_a_socket_leaves_shuts_the_door_until_it_is_written() {
        let (server, _client) = pair().await;
        let seat = Subscriber::new(true);
        seat.connect(server);
        seat.ready(0);
        seat.open();
        let much = Bytes::from(vec![b'x'; 64 * 1024 * 1024]);
        seat.pass(&one(DeliveryMode::Straight { id: None, operators: Some(much.clone()), members: None }));
        seat.open();
        seat.pass(&one(straight(None, "next")));
        assert!(heard(&seat).is_some());
        let left = seat.left();
        assert!(!left.is_empty() && left.len() < much.len());
        assert!(seat.left().is_empty());
    }

    #[test]
    fn who_does_not_listen_loses_all_and_is_told_how_many() {
        let seat = Subscriber::new(true);
        for _ in 0..=limits::BUS_BUFFER {
            seat.pass(&one(DeliveryMode::Apart));
        }
        seat.pass(&one(DeliveryMode::Apart));
        let missed = limits::BUS_BUFFER as u64 + 1;
        assert!(matches!(heard(&seat), Some(Some(Delivered::Missed(count))) if count == missed));
        assert!(matches!(heard(&seat), Some(Some(Delivered::Update(_)))));
        seat.miss(3);
        assert!(matches!(heard(&seat), Some(Some(Delivered::Missed(3)))));
        assert!(heard(&seat).is_none());
        seat.close();
        assert!(matches!(heard(&seat), Some(None)));
    }
}
