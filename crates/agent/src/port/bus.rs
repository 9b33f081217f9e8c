//! Updates between components and watchers. The bus is bounded and may lose updates. Nothing depends on them:
//! without updates the system is slower, not wrong.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::BoxFuture;
use crate::update::{Topic, Update};

/// A published update, with the encoding that its first listener made for all.
#[derive(Debug)]
pub struct Published {
    update: Arc<Update>,
    number: u64,
    encoded: OnceLock<Bytes>,
}

impl Published {
    /// An update that is not encoded yet. `number` counts all updates published on the bus.
    pub fn new(update: Arc<Update>, number: u64) -> Self {
        Self { update, number, encoded: OnceLock::new() }
    }

    /// Its number among all updates published on the bus.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The update as bytes. All listeners must use the same encoding.
    pub fn encoded(&self, encode: impl FnOnce(&Update) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(&self.update)).clone()
    }
}

impl Deref for Published {
    type Target = Update;

    fn deref(&self) -> &Update {
        &self.update
    }
}

/// What a listener receives.
#[derive(Clone, Debug)]
pub enum Delivered {
    /// An update, in the order of publishing.
    Update(Arc<Published>),
    /// The listener was too slow and missed this many updates.
    Missed(u64),
}

/// One subscription; dropping it ends it.
pub trait Listener: Send {
    /// The next update; `None` once the bus is closed.
    fn next(&mut self) -> BoxFuture<'_, Option<Delivered>>;
}

/// Publishes updates to subscribers. A slow listener misses updates and never blocks a publisher.
pub trait Bus: Send + Sync {
    /// Publishes to all subscribers of one of `topics` or of [`Topic::Server`]. Returns at once.
    fn publish(&self, topics: &[Topic], update: Arc<Update>);
    /// The number of the last published update.
    fn published(&self) -> u64;
    /// Subscribes to a topic from now on.
    fn subscribe(&self, topic: Topic) -> Box<dyn Listener>;
    /// The number of subscribers of a topic.
    fn listeners(&self, topic: Topic) -> usize;
    /// Whether a topic has subscribers; if not, a publisher can skip the work.
    fn watched(&self, topic: Topic) -> bool {
        self.listeners(topic) > 0
    }
}
