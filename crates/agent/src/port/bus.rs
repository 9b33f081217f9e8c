//! Updates between parts and watchers. Lossy, bounded, carries no truth: delete every update and
//! the system is slower, not wrong.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::BoxFuture;
use crate::update::{Topic, Update};

/// An update on its way to its listeners, with what the first of them made of it for all.
#[derive(Debug)]
pub struct Told {
    update: Arc<Update>,
    encoded: OnceLock<Bytes>,
}

impl Told {
    /// Nobody has encoded it yet.
    pub fn new(update: Arc<Update>) -> Self {
        Self { update, encoded: OnceLock::new() }
    }

    /// The update as bytes; all listeners must want the same encoding.
    pub fn encoded(&self, encode: impl FnOnce(&Update) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(&self.update)).clone()
    }
}

impl Deref for Told {
    type Target = Update;

    fn deref(&self) -> &Update {
        &self.update
    }
}

/// What a listener gets.
#[derive(Clone, Debug)]
pub enum Heard {
    /// An update, in the order of publishing.
    Update(Arc<Told>),
    /// The listener was too slow: this many updates are gone.
    Missed(u64),
}

/// One subscription; dropping it ends it.
pub trait Listener: Send {
    /// The next update; `None` once the bus is closed.
    fn next(&mut self) -> BoxFuture<'_, Option<Heard>>;
}

/// Publishes and subscribes. A slow listener loses, never blocks.
pub trait Bus: Send + Sync {
    /// Tells everyone who watches one of `topics`, and whoever watches [`Topic::House`]; returns at once.
    fn publish(&self, topics: &[Topic], update: Arc<Update>);
    /// Watches a topic from now on.
    fn subscribe(&self, topic: Topic) -> Box<dyn Listener>;
    /// How many watch it.
    fn listeners(&self, topic: Topic) -> usize;
    /// Whether anyone watches it; lets a publisher save the work.
    fn watched(&self, topic: Topic) -> bool {
        self.listeners(topic) > 0
    }
}
