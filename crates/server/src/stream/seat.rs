//! What the relay of a topic and the stream of one client share: what the client was not told yet, and a
//! door to its socket that stands open while nothing else is under way. Must not know how updates are
//! shown, nor who else watches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use agent::limits;
use agent::port::{Heard, Told};
use bytes::Bytes;
use tokio::net::TcpStream;

/// How an update reaches those who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
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
enum Door {
    /// The stream is at work, or has something to catch up with.
    #[default]
    Shut,
    /// The stream is up to date; what it put in may not be written yet.
    Ready,
    /// All of it is written.
    Open,
}

#[derive(Debug, Default)]
struct Inside {
    door: Door,
    /// The last durable change that the client was sent, while the door is not shut.
    last: u64,
    /// What the socket did not take of an update that went straight to it.
    left: Bytes,
    heard: VecDeque<Arc<Told>>,
    /// Updates that are gone, before those that were heard.
    missed: u64,
    /// The bus is closed.
    over: bool,
    stream: Option<Waker>,
}

/// One client's place at a relay.
#[derive(Debug, Default)]
pub(super) struct Seat {
    operator: bool,
    socket: OnceLock<Arc<TcpStream>>,
    inside: Mutex<Inside>,
}

impl Seat {
    /// With a door that is shut.
    pub(super) fn new(operator: bool) -> Self {
        Self { operator, ..Self::default() }
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
        (door != Door::Shut).then_some(inside.last)
    }

    /// By the stream, once it has nothing more to do: the client has everything up to `last`.
    pub(super) fn ready(&self, last: u64) {
        let mut inside = self.lock();
        (inside.door, inside.last) = (Door::Ready, last);
    }

    /// By whoever writes to the socket, once nothing is left to be written.
    pub(super) fn open(&self) {
        let mut inside = self.lock();
        if inside.door == Door::Ready && inside.left.is_empty() {
            inside.door = Door::Open;
        }
    }

    /// What the socket did not take: goes before everything else.
    pub(super) fn left(&self) -> Bytes {
        std::mem::take(&mut self.lock().left)
    }

    /// The next that was heard; `None` once the bus is closed.
    pub(super) fn poll_heard(&self, cx: &Context<'_>) -> Poll<Option<Heard>> {
        let mut inside = self.lock();
        if inside.missed > 0 {
            return Poll::Ready(Some(Heard::Missed(std::mem::take(&mut inside.missed))));
        }
        if let Some(told) = inside.heard.pop_front() {
            if inside.heard.is_empty() {
                // Most have nothing to hear most of the time: a thousand of them keep no room for it.
                inside.heard = VecDeque::new();
            }
            return Poll::Ready(Some(Heard::Update(told)));
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
    pub(super) fn pass(&self, told: &Arc<Told>, way: &Way) {
        let mut inside = self.lock();
        if !self.goes_straight(&mut inside, way) {
            inside.hear(told);
        } else if inside.left.is_empty() {
            return;
        }
        inside.wake();
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

    fn goes_straight(&self, inside: &mut Inside, way: &Way) -> bool {
        let (Way::Straight { id, operators, members }, Some(socket)) = (way, self.socket.get()) else {
            return false;
        };
        let quiet = inside.door == Door::Open && inside.heard.is_empty() && inside.missed == 0;
        if !quiet || id.is_some_and(|id| id != inside.last + 1) {
            return false;
        }
        inside.last = id.unwrap_or(inside.last);
        let Some(bytes) = (if self.operator { operators } else { members }) else { return true };
        // Whatever goes wrong with the socket, its stream finds out when it writes what is left.
        let written = socket.try_write(bytes).unwrap_or(0);
        if written < bytes.len() {
            inside.left = bytes.slice(written..);
            inside.door = Door::Ready;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn hear(&mut self, told: &Arc<Told>) {
        if self.heard.len() < limits::BUS_BUFFER {
            self.heard.push_back(Arc::clone(told));
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

    fn told() -> Arc<Told> {
        let (space, agent) = (SpaceId(Uuid::nil()), AgentId(Uuid::nil()));
        let message = agent::id::MessageId(Uuid::nil());
        let delta = String::new();
        Arc::new(Told::new(Arc::new(Update::Draft { space, message, agent, delta, chars: 0 })))
    }

    fn straight(id: Option<u64>, text: &'static str) -> Way {
        let operators = Some(Bytes::from_static(text.as_bytes()));
        Way::Straight { id, operators, members: None }
    }

    async fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        server.writable().await.unwrap();
        (Arc::new(server), client)
    }

    fn heard(seat: &Seat) -> Option<Option<Heard>> {
        match seat.poll_heard(&Context::from_waker(Waker::noop())) {
            Poll::Ready(heard) => Some(heard),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn an_open_door_lets_the_next_one_through_and_nothing_else() {
        let (server, mut client) = pair().await;
        let seat = Seat::new(true);
        seat.connect(server);
        seat.pass(&told(), &straight(Some(5), "shut"));
        assert!(matches!(heard(&seat), Some(Some(Heard::Update(_)))), "the stream is at work");
        seat.ready(4);
        seat.pass(&told(), &straight(Some(5), "not yet written"));
        assert!(heard(&seat).is_some(), "what was put in before goes first");
        seat.open();
        seat.pass(&told(), &straight(Some(5), "five"));
        seat.pass(&told(), &straight(None, "passing"));
        assert!(heard(&seat).is_none());
        seat.pass(&told(), &straight(Some(7), "seven"));
        seat.pass(&told(), &straight(None, "behind it"));
        assert!(heard(&seat).is_some() && heard(&seat).is_some(), "six is missing, and nothing overtakes");
        assert_eq!(seat.shut(), Some(5));
        assert_eq!(seat.shut(), None);
        let mut bytes = [0; 11];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"fivepassing");
    }

    #[tokio::test]
    async fn members_are_passed_by_what_only_operators_are_shown() {
        let (server, client) = pair().await;
        let seat = Seat::new(false);
        seat.connect(server);
        seat.ready(4);
        seat.open();
        seat.pass(&told(), &straight(Some(5), "secret"));
        assert!(heard(&seat).is_none());
        assert_eq!(seat.shut(), Some(5), "they have everything up to there all the same");
        assert!(client.try_read(&mut [0; 9]).is_err());
    }

    #[tokio::test]
    async fn what_a_socket_leaves_shuts_the_door_until_it_is_written() {
        let (server, _client) = pair().await;
        let seat = Seat::new(true);
        seat.connect(server);
        seat.ready(0);
        seat.open();
        let much = Bytes::from(vec![b'x'; 64 * 1024 * 1024]);
        seat.pass(&told(), &Way::Straight { id: None, operators: Some(much.clone()), members: None });
        seat.open();
        seat.pass(&told(), &straight(None, "next"));
        assert!(heard(&seat).is_some());
        let left = seat.left();
        assert!(!left.is_empty() && left.len() < much.len());
        assert!(seat.left().is_empty());
    }

    #[test]
    fn who_does_not_listen_loses_all_and_is_told_how_many() {
        let seat = Seat::new(true);
        for _ in 0..=limits::BUS_BUFFER {
            seat.pass(&told(), &Way::Apart);
        }
        seat.pass(&told(), &Way::Apart);
        let missed = limits::BUS_BUFFER as u64 + 1;
        assert!(matches!(heard(&seat), Some(Some(Heard::Missed(count))) if count == missed));
        assert!(matches!(heard(&seat), Some(Some(Heard::Update(_)))));
        seat.miss(3);
        assert!(matches!(heard(&seat), Some(Some(Heard::Missed(3)))));
        assert!(heard(&seat).is_none());
        seat.close();
        assert!(matches!(heard(&seat), Some(None)));
    }
}
