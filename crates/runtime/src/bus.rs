//! The bus of one process: bounded broadcast channels, created at the first subscription.
//!
//! Carries no durable state: a slow listener misses updates and learns how many.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::limits;
use agent::port::{BoxFuture, Bus, Delivered, Listener, Published};
use agent::update::{Topic, Update};
use tokio::sync::broadcast::{self, error::RecvError};

/// Updates within this process.
#[derive(Debug, Default)]
pub struct LocalBus {
    inside: Mutex<Channels>,
}

#[derive(Debug, Default)]
struct Channels {
    topics: HashMap<Topic, broadcast::Sender<Arc<Published>>>,
    /// Number of updates so far.
    published: u64,
}

impl LocalBus {
    /// A bus without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bus for LocalBus {
    fn publish(&self, topics: &[Topic], update: Arc<Update>) {
        let mut inside = self.lock();
        inside.published += 1;
        let update = Arc::new(Published::new(update, inside.published));
        let channels = &mut inside.topics;
        for topic in topics.iter().chain([&Topic::Server]) {
            let Some(channel) = channels.get(topic) else { continue };
            if channel.send(Arc::clone(&update)).is_err() {
                // The last listener is gone; a topic without listeners costs nothing.
                channels.remove(topic);
            }
        }
    }

    fn published(&self) -> u64 {
        self.lock().published
    }

    fn subscribe(&self, topic: Topic) -> Box<dyn Listener> {
        let mut inside = self.lock();
        let channel = inside.topics.entry(topic).or_insert_with(|| broadcast::channel(limits::BUS_BUFFER).0);
        Box::new(LocalListener(channel.subscribe()))
    }

    fn listeners(&self, topic: Topic) -> usize {
        self.lock().topics.get(&topic).map_or(0, broadcast::Sender::receiver_count)
    }
}

struct LocalListener(broadcast::Receiver<Arc<Published>>);

impl Listener for LocalListener {
    fn next(&mut self) -> BoxFuture<'_, Option<Delivered>> {
        Box::pin(async {
            match self.0.recv().await {
                Ok(update) => Some(Delivered::Update(update)),
                Err(RecvError::Lagged(missed)) => Some(Delivered::Missed(missed)),
                Err(RecvError::Closed) => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::id::{AgentId, SpaceId};
    use agent::update::AgentState;
    use uuid::Uuid;

    fn update() -> Arc<Update> {
        let agent = AgentId(Uuid::from_u128(7));
        Arc::new(Update::State { agent, state: AgentState::Sleeping, cycle: None, reason: None, idle: None })
    }

    #[tokio::test]
    async fn a_slow_listener_misses_updates_and_learns_how_many() {
        let bus = LocalBus::new();
        let topic = Topic::Space(SpaceId(Uuid::from_u128(1)));
        let mut listener = bus.subscribe(topic);
        for _ in 0..limits::BUS_BUFFER + 3 {
            bus.publish(&[topic], update());
        }
        assert!(matches!(listener.next().await, Some(Delivered::Missed(3))));
        assert!(matches!(listener.next().await, Some(Delivered::Update(_))));
    }

    #[tokio::test]
    async fn a_server_listener_receives_each_update_once() {
        let bus = LocalBus::new();
        let topics = [1, 2].map(|n| Topic::Space(SpaceId(Uuid::from_u128(n))));
        let mut listener = bus.subscribe(Topic::Server);
        bus.publish(&topics, update());
        bus.publish(&[], update());
        for _ in 0..2 {
            assert!(matches!(listener.next().await, Some(Delivered::Update(_))));
        }
        drop(bus);
        assert!(listener.next().await.is_none());
    }

    #[tokio::test]
    async fn a_topic_without_listeners_is_forgotten() {
        let bus = LocalBus::new();
        let topic = Topic::Space(SpaceId(Uuid::from_u128(1)));
        drop(bus.subscribe(topic));
        bus.publish(&[topic], update());
        assert!(!bus.watched(topic));
        assert!(bus.lock().topics.is_empty());
    }
}
