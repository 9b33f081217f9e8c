//! Agents that lived a moment ago: their window and encoded fragments, bounded in bytes, least
//! recently used out first. Only a saving: an agent that is not here is read from the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use agent::entry::Entry;
use agent::id::AgentId;
use agent::message::Part;
use agent::port::Memo;

/// What is kept of one agent.
pub(crate) struct Kept {
    /// `commit_n` up to which the window is true.
    pub(crate) commit_n: u64,
    /// The entries that its view shows.
    pub(crate) window: Vec<Arc<Entry>>,
    /// The voice's fragments.
    pub(crate) memo: Memo,
    /// The model that the fragments are for.
    pub(crate) model: String,
}

struct Slot {
    kept: Kept,
    bytes: usize,
    used: u64,
}

#[derive(Default)]
struct Cache {
    slots: HashMap<AgentId, Slot>,
    bytes: usize,
    turn: u64,
}

/// The warm cache of one node.
pub(crate) struct Warm {
    cache: Mutex<Cache>,
    bound: usize,
}

impl Warm {
    /// A cache of at most `bound` bytes.
    pub(crate) fn new(bound: usize) -> Self {
        Self { cache: Mutex::default(), bound }
    }

    /// Takes what is kept of an agent; while it is awake nothing is kept.
    pub(crate) fn take(&self, agent: AgentId) -> Option<Kept> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = cache.slots.remove(&agent)?;
        cache.bytes -= slot.bytes;
        Some(slot.kept)
    }

    /// Keeps an agent, and lets go of those not used for longest.
    pub(crate) fn keep(&self, agent: AgentId, kept: Kept) {
        let bytes = size(&kept);
        if bytes > self.bound {
            return;
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.turn += 1;
        let used = cache.turn;
        if let Some(old) = cache.slots.insert(agent, Slot { kept, bytes, used }) {
            cache.bytes -= old.bytes;
        }
        cache.bytes += bytes;
        while cache.bytes > self.bound {
            let oldest = cache.slots.iter().min_by_key(|(_, slot)| slot.used).map(|(agent, _)| *agent);
            let Some(slot) = oldest.and_then(|agent| cache.slots.remove(&agent)) else { break };
            cache.bytes -= slot.bytes;
        }
    }
}

/// About what an agent takes: entries once, and once more as encoded fragments.
fn size(kept: &Kept) -> usize {
    let of_part = |part: &Part| match part {
        Part::Text { text } | Part::Reasoning { text } | Part::ToolResult { text, .. } => text.len(),
        Part::ToolCall { arguments, .. } => arguments.len(),
        Part::Image { .. } | Part::File { .. } => 64,
    };
    let of_entry = |entry: &Arc<Entry>| {
        let parts: usize = entry.message.parts.iter().map(of_part).sum();
        let native = entry.message.native.as_ref().map_or(0, |native| native.body.len());
        256 + parts + native
    };
    512 + 2 * kept.window.iter().map(of_entry).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn kept() -> Kept {
        Kept { commit_n: 1, window: Vec::new(), memo: Memo::default(), model: String::new() }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let warm = Warm::new(1_100);
        let agent = |n| AgentId(Uuid::from_u128(n));
        warm.keep(agent(1), kept());
        warm.keep(agent(2), kept());
        let one = warm.take(agent(1)).unwrap();
        warm.keep(agent(1), one);
        warm.keep(agent(3), kept());
        assert!(warm.take(agent(2)).is_none());
        assert!(warm.take(agent(1)).is_some() && warm.take(agent(3)).is_some());
    }
}
