//! A cache of agents that were awake recently: their window, what their last request showed and, if the history is long
//! enough, encoded fragments.
//! Bounded in bytes; the least recently used is dropped first. An agent that is not here is read from the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use agent::entry::Entry;
use agent::id::AgentId;
use agent::limits;
use agent::message::Part;
use agent::port::Memo;

use crate::sent_requests::SentRequests;

/// What is kept of one agent.
pub(crate) struct Kept {
    /// The `commit_n` that the window is valid for.
    pub(crate) commit_n: u64,
    /// The entries that its view shows.
    pub(crate) window: Vec<Arc<Entry>>,
    /// The model's fragments.
    pub(crate) memo: Memo,
    /// The model that the fragments are for.
    pub(crate) model: String,
    /// What its last request showed.
    pub(crate) requests: SentRequests,
}

struct Slot {
    kept: Kept,
    bytes: usize,
    used: u64,
}

#[derive(Default)]
struct Cache {
    slots: HashMap<AgentId, Slot>,
    /// Agents by last use, so that dropping the oldest is cheap however many are kept.
    by_use: BTreeMap<u64, AgentId>,
    bytes: usize,
    uses: u64,
}

impl Cache {
    fn remove(&mut self, agent: AgentId) -> Option<Kept> {
        let slot = self.slots.remove(&agent)?;
        self.by_use.remove(&slot.used);
        self.bytes -= slot.bytes;
        Some(slot.kept)
    }
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

    /// Takes what is kept of an agent; nothing is kept while it is awake.
    pub(crate) fn take(&self, agent: AgentId) -> Option<Kept> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).remove(agent)
    }

    /// Keeps an agent, and drops those that were not used for longest.
    pub(crate) fn keep(&self, agent: AgentId, mut kept: Kept) {
        let history = kept.window.iter().map(entry_bytes).sum::<usize>();
        if history < limits::WARM_FRAGMENTS_MIN_BYTES {
            kept.memo = Memo::default();
        }
        let fragments = if kept.memo.0.is_some() { limits::WARM_HEAD_BYTES + history } else { 0 };
        let bytes = 512 + history + fragments + kept.requests.bytes();
        if bytes > self.bound {
            return;
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.remove(agent);
        cache.uses += 1;
        let used = cache.uses;
        cache.slots.insert(agent, Slot { kept, bytes, used });
        cache.by_use.insert(used, agent);
        cache.bytes += bytes;
        while cache.bytes > self.bound {
            let Some((_, oldest)) = cache.by_use.pop_first() else { break };
            cache.remove(oldest);
        }
    }
}

/// About how many bytes an entry takes.
fn entry_bytes(entry: &Arc<Entry>) -> usize {
    let part_bytes = |part: &Part| match part {
        Part::Text { text } | Part::Reasoning { text } | Part::ToolResult { text, .. } => text.len(),
        Part::ToolCall { arguments, .. } => arguments.len(),
        Part::Image { .. } | Part::File { .. } => 64,
    };
    let parts: usize = entry.message.parts.iter().map(part_bytes).sum();
    let native = entry.message.native.as_ref().map_or(0, |native| native.body.len());
    256 + parts + native
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::entry::EntryKind;
    use agent::id::CycleId;
    use agent::message::ModelMessage;
    use uuid::Uuid;

    fn kept() -> Kept {
        let (window, memo, requests) = (Vec::new(), Memo::default(), SentRequests::default());
        Kept { commit_n: 1, window, memo, model: String::new(), requests }
    }

    #[test]
    fn fragments_of_a_short_history_are_not_kept_and_those_of_a_long_one_are_counted() {
        let agent = AgentId(Uuid::from_u128(1));
        let with = |bytes: usize| {
            let entry = Entry {
                seq: 1,
                cycle: CycleId(Uuid::nil()),
                step: 0,
                kind: EntryKind::Inbox,
                message: ModelMessage::user("x".repeat(bytes)),
                tokens: 1,
                at: jiff::Timestamp::UNIX_EPOCH,
                trust: agent::event::Trust::Member,
            };
            Kept { window: vec![Arc::new(entry)], memo: Memo(Some(Box::new(()))), ..kept() }
        };
        let warm = Warm::new(limits::WARM_HEAD_BYTES + 3 * limits::WARM_FRAGMENTS_MIN_BYTES);
        warm.keep(agent, with(100));
        assert!(warm.take(agent).is_some_and(|kept| kept.memo.0.is_none() && kept.window.len() == 1));
        warm.keep(agent, with(limits::WARM_FRAGMENTS_MIN_BYTES));
        assert!(warm.take(agent).is_some_and(|kept| kept.memo.0.is_some()));
        warm.keep(agent, with(2 * limits::WARM_FRAGMENTS_MIN_BYTES));
        assert!(warm.take(agent).is_none(), "twice its history and the head exceed the bound");
    }

    #[test]
    fn an_agent_that_is_kept_again_replaces_what_was_kept() {
        let warm = Warm::new(1_100);
        let agent = |n| AgentId(Uuid::from_u128(n));
        for n in [1, 2, 1, 1, 1] {
            warm.keep(agent(n), kept());
        }
        assert!(warm.take(agent(1)).is_some() && warm.take(agent(2)).is_some());
        let cache = warm.cache.lock().unwrap();
        assert!(cache.by_use.is_empty() && cache.slots.is_empty() && cache.bytes == 0);
    }

    #[test]
    fn the_least_recently_used_agent_is_dropped_first() {
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
