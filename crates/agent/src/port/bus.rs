//! Updates between parts and watchers. Lossy, bounded, carries no truth: delete every update and
//! the system is slower, not wrong.

use std::sync::Arc;

use super::BoxFuture;
use crate::update::{Topic, Update};

/// What a listener gets.
#[derive(Clone, Debug)]
pub enum Heard {
    /// An update, in the order of publishing.
    Update(Arc<Update>),
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
    /// Whether anyone watches it; lets a publisher save the work.
    fn watched(&self, topic: Topic) -> bool;
}
