//! Updates between parts and watchers. Lossy, bounded, carries no truth: delete every update and
//! the system is slower, not wrong.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::BoxFuture;
use crate::update::{Topic, Update};

/// An update on its way to its listeners, with what the first of them made of it for all.
#[derive(Debug)]
pub struct Published {
    update: Arc<Update>,
    number: u64,
    encoded: OnceLock<Bytes>,
}

impl Published {
    /// Nobody has encoded it yet. `number` is its place among all that the bus was told.
    pub fn new(update: Arc<Update>, number: u64) -> Self {
        Self { update, number, encoded: OnceLock::new() }
    }

    /// Its place among all that the bus was told.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The update as bytes; all listeners must want the same encoding.
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

/// What a listener gets.
#[derive(Clone, Debug)]
pub enum Delivered {
    /// An update, in the order of publishing.
    Update(Arc<Published>),
    /// The listener was too slow: this many updates are gone.
    Missed(u64),
}

/// One subscription; dropping it ends it.
pub trait Listener: Send {
    /// The next update; `None` once the bus is closed.
    fn next(&mut self) -> BoxFuture<'_, Option<Delivered>>;
}

/// Publishes and subscribes. A slow listener loses, never blocks.
pub trait Bus: Send + Sync {
    /// Publishes to everyone who watches one of `topics` or [`Topic::Server`]; returns at once.
    fn publish(&self, topics: &[Topic], update: Arc<Update>);
    /// How many updates it was told so far: the number of the last one.
    fn published(&self) -> u64;
    /// Watches a topic from now on.
    fn subscribe(&self, topic: Topic) -> Box<dyn Listener>;
    /// How many watch it.
    fn listeners(&self, topic: Topic) -> usize;
    /// Whether anyone watches it; lets a publisher save the work.
    fn watched(&self, topic: Topic) -> bool {
        self.listeners(topic) > 0
    }
}
