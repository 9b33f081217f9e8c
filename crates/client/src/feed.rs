//! What is happening now: reduces the events of a stream to drafts, agents at work, and agents that back off. A
//! screen renders it and never has to interpret updates a second time. Pure; must not know how anything is shown.

use std::collections::{BTreeMap, VecDeque};

use agent::id::{AgentId, CycleId, MessageId, SpaceId};
use agent::life::IdleUntil;
use agent::update::{AgentState, Update};

use crate::stream::Snapshot;

/// Maximum number of drafts. More are ignored: their messages still arrive.
const DRAFTS_MAX: usize = 4_096;
/// Number of committed messages that are remembered, so that a late piece of a draft is ignored.
const COMMITTED_MAX: usize = 1_024;

/// A message that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedDraft {
    /// The agent that writes it.
    pub agent: AgentId,
    /// The space that it will be posted in.
    pub space: SpaceId,
    /// The text so far, as generated.
    pub text: String,
    /// Pieces were lost: the text stays as it is, and the committed message has the rest.
    pub incomplete: bool,
    /// Characters of the text: counting them anew for each piece would make a long draft quadratic.
    chars: u64,
}

/// An agent at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentWork {
    /// What it does.
    pub state: AgentState,
    /// Its cycle, if known.
    pub cycle: Option<CycleId>,
    /// The tool that runs, if one does.
    pub tool: Option<String>,
}

/// What an update changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedChange {
    /// A draft was discarded.
    pub discarded: bool,
    /// The agent began another cycle.
    pub new_cycle: bool,
    /// The agent backs off, and did not before.
    pub backs_off: bool,
}

/// What is happening now.
#[derive(Debug, Default)]
pub struct Feed {
    drafts: BTreeMap<MessageId, FeedDraft>,
    working: BTreeMap<AgentId, AgentWork>,
    backing_off: BTreeMap<AgentId, IdleUntil>,
    committed: VecDeque<MessageId>,
    no_drafts: bool,
}

impl Feed {
    /// A feed that keeps no drafts, for a screen that shows none.
    pub fn without_drafts() -> Self {
        Self { no_drafts: true, ..Self::default() }
    }

    /// Messages that are being written, in the order of their ids.
    pub fn drafts(&self) -> &BTreeMap<MessageId, FeedDraft> {
        &self.drafts
    }

    /// Agents at work.
    pub fn working(&self) -> &BTreeMap<AgentId, AgentWork> {
        &self.working
    }

    /// Handles the snapshot of a new connection. Returns the agents that back off and did not before.
    pub fn snapshot(&mut self, snapshot: &Snapshot) -> Vec<AgentId> {
        let busy = snapshot.agents.iter().filter(|now| now.state != AgentState::Sleeping);
        let work = |state, cycle| AgentWork { state, cycle: Some(cycle), tool: None };
        self.working = busy.map(|now| (now.agent, work(now.state, now.cycle))).collect();
        let shown = snapshot.drafts.iter().filter(|draft| draft.tool.is_none() && !self.no_drafts);
        let new = shown.take(DRAFTS_MAX).map(|draft| {
            let (agent, space, text) = (draft.agent, draft.space, draft.text.clone());
            let chars = text.chars().count() as u64;
            (draft.message, FeedDraft { agent, space, text, incomplete: false, chars })
        });
        self.drafts = new.collect();
        let mut begun = Vec::new();
        for now in &snapshot.idle {
            let until = IdleUntil { reason: now.reason, until: now.until };
            if self.backing_off.insert(now.agent, until).is_none() {
                begun.push(now.agent);
            }
        }
        begun
    }

    /// Handles the loss of the connection: nobody is known to work.
    pub fn lost(&mut self) {
        self.working.clear();
    }

    /// Handles an update.
    pub fn update(&mut self, update: &Update) -> FeedChange {
        let mut change = FeedChange::default();
        match update {
            Update::Message { message } => {
                self.backing_off.remove(&message.sender.agent());
                self.committed.push_back(message.id);
                if self.committed.len() > COMMITTED_MAX {
                    self.committed.pop_front();
                }
                self.drafts.remove(&message.id);
            }
            Update::Draft { space, message, agent, delta, chars } => {
                self.backing_off.remove(agent);
                self.draft(*space, *message, *agent, delta, *chars);
            }
            Update::DraftReset { message, .. } => change.discarded = self.drafts.remove(message).is_some(),
            Update::State { agent, idle: Some(until), .. } => {
                self.rest(*agent);
                change.backs_off = self.backing_off.insert(*agent, *until).is_none();
            }
            Update::State { agent, state: AgentState::Sleeping | AgentState::Retired, .. } => {
                self.rest(*agent)
            }
            Update::State { agent, state, cycle, .. } => {
                let before = self.working.get(agent).and_then(|work| work.cycle);
                change.new_cycle = !self.working.contains_key(agent) || before != *cycle;
                let new = || AgentWork { state: *state, cycle: *cycle, tool: None };
                let work = self.working.entry(*agent).or_insert_with(new);
                (work.state, work.cycle) = (*state, cycle.or(work.cycle));
            }
            Update::ToolStarted { agent, tool, .. } => self.tool(*agent, Some(tool)),
            Update::ToolDone { agent, .. } | Update::ToolError { agent, .. } => self.tool(*agent, None),
            Update::CycleEnded { agent, .. } => {
                self.rest(*agent);
                self.backing_off.remove(agent);
            }
            Update::Thought { agent, .. } => drop(self.backing_off.remove(agent)),
            Update::Member { .. }
            | Update::ToolInput { .. }
            | Update::Commit { .. }
            | Update::Compaction { .. }
            | Update::Alert { .. }
            | Update::EventProgress { .. } => {}
        }
        change
    }

    /// The agent's cycle is over. In a stream its messages come before its end, so a draft that is left was discarded
    /// by an update that was lost.
    fn rest(&mut self, agent: AgentId) {
        self.working.remove(&agent);
        self.drafts.retain(|_, draft| draft.agent != agent);
    }

    fn tool(&mut self, agent: AgentId, tool: Option<&String>) {
        self.backing_off.remove(&agent);
        if let Some(work) = self.working.get_mut(&agent) {
            work.tool = tool.cloned();
        }
    }

    fn draft(&mut self, space: SpaceId, message: MessageId, agent: AgentId, delta: &str, chars: u64) {
        let full = self.drafts.len() >= DRAFTS_MAX && !self.drafts.contains_key(&message);
        if full || self.no_drafts || self.committed.contains(&message) {
            return;
        }
        let new = || FeedDraft { agent, space, text: String::new(), incomplete: false, chars: 0 };
        let draft = self.drafts.entry(message).or_insert_with(new);
        let after = draft.chars + delta.chars().count() as u64;
        draft.incomplete |= after != chars;
        if !draft.incomplete {
            draft.chars = after;
            draft.text.push_str(delta);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::life::IdleReason;
    use serde_json::{Value, json};

    const ADA: &str = "00000000-0000-0000-0000-000000000001";
    const HOME: &str = "00000000-0000-0000-0000-000000000009";

    fn id<T: serde::de::DeserializeOwned>(text: &str) -> T {
        serde_json::from_value(Value::from(text)).unwrap()
    }

    fn message(n: u8) -> MessageId {
        id(&format!("00000000-0000-0000-0000-0000000000{n:02}"))
    }

    fn draft(n: u8, delta: &str, chars: u64) -> Update {
        Update::Draft { space: id(HOME), message: message(n), agent: id(ADA), delta: delta.to_owned(), chars }
    }

    fn state(state: AgentState, cycle: u8, idle: Option<IdleUntil>) -> Update {
        let cycle = (cycle > 0).then(|| id(&format!("00000000-0000-0000-0001-0000000000{cycle:02}")));
        Update::State { agent: id(ADA), state, cycle, reason: None, idle }
    }

    #[test]
    fn a_draft_grows_until_a_piece_is_lost_and_its_message_ends_it() {
        let mut feed = Feed::default();
        feed.update(&draft(1, "Good ", 5));
        feed.update(&draft(1, "morning", 12));
        assert_eq!(feed.drafts()[&message(1)].text, "Good morning");
        feed.update(&draft(1, "!!", 20));
        feed.update(&draft(1, "more", 24));
        assert_eq!(
            (&*feed.drafts()[&message(1)].text, feed.drafts()[&message(1)].incomplete),
            ("Good morning", true)
        );
        let posted = json!({"type": "message", "message": {
            "id": message(1), "space": HOME, "seq": 1, "rev": 1, "sender": ADA, "sender_display_name": "Ada",
            "sender_kind": "agent", "kind": "text", "text": "Good morning, all!!more", "mentions": [], "urgent": false,
            "at": "2026-01-01T00:00:00Z", "cycle": null, "call": null, "data": null, "root": "r", "hop": 0,
            "principal": {"entity": ADA}, "trust": "agent"}});
        let posted: Update = serde_json::from_value(posted).unwrap();
        feed.update(&posted);
        assert!(feed.drafts().is_empty(), "its message ends it");
        feed.update(&draft(1, "late", 4));
        assert!(feed.drafts().is_empty(), "a late piece begins no new draft");
    }

    #[test]
    fn a_draft_ends_with_its_cycle_even_if_the_update_that_discards_it_is_lost() {
        let mut feed = Feed::default();
        feed.update(&draft(1, "void", 4));
        let ended = json!({"type": "cycle.ended", "agent": ADA, "cycle": message(7), "ending": "failed", "reason": null});
        feed.update(&serde_json::from_value(ended).unwrap());
        assert!(feed.drafts().is_empty());
        feed.update(&draft(2, "void", 4));
        feed.update(&state(AgentState::Sleeping, 0, None));
        assert!(feed.drafts().is_empty());
    }

    #[test]
    fn a_feed_for_a_screen_without_drafts_keeps_none() {
        let mut feed = Feed::without_drafts();
        feed.update(&draft(1, "Hello", 5));
        feed.update(&state(AgentState::Thinking, 1, None));
        assert_eq!((feed.drafts().len(), feed.working().len()), (0, 1));
    }

    #[test]
    fn an_agent_works_in_a_cycle_until_it_sleeps() {
        let mut feed = Feed::default();
        assert!(feed.update(&state(AgentState::Thinking, 1, None)).new_cycle);
        assert!(!feed.update(&state(AgentState::Processing, 1, None)).new_cycle);
        assert!(feed.update(&state(AgentState::Thinking, 2, None)).new_cycle);
        assert_eq!(feed.working().len(), 1);
        feed.update(&state(AgentState::Sleeping, 0, None));
        assert!(feed.working().is_empty());
    }

    #[test]
    fn backing_off_is_reported_once_until_the_agent_does_something() {
        let until = IdleUntil { reason: IdleReason::Provider, until: jiff::Timestamp::UNIX_EPOCH };
        let mut feed = Feed::default();
        let backs_off = state(AgentState::Sleeping, 0, Some(until));
        assert!(feed.update(&backs_off).backs_off);
        feed.update(&state(AgentState::Thinking, 1, None));
        assert!(!feed.update(&backs_off).backs_off, "an attempt is not yet something");
        feed.update(&draft(1, "Hello", 5));
        assert!(feed.update(&backs_off).backs_off);
    }

    #[test]
    fn a_snapshot_replaces_drafts_and_work() {
        let mut feed = Feed::default();
        feed.update(&draft(1, "old", 3));
        feed.update(&state(AgentState::Thinking, 1, None));
        let snapshot: Snapshot = serde_json::from_value(json!({"drafts": [
            {"space": HOME, "message": message(2), "agent": ADA, "text": "new"},
            {"space": HOME, "message": message(3), "agent": ADA, "tool": "fetch", "text": "{"}]}))
        .unwrap();
        assert!(feed.snapshot(&snapshot).is_empty());
        assert_eq!(feed.drafts().keys().collect::<Vec<_>>(), [&message(2)], "a tool's input is not a draft");
        assert!(feed.working().is_empty());
    }
}
