//! What is decided before each step: what else the model is shown,
//! which tools may be called, whose model answers, and what of the log it is sent.
//!
//! One pure function of config, cycle, step and what waits, over policies that each know one thing.
//! None of them knows how a step is thought, committed or retried.

mod gates;
mod inject;
mod preview;
mod routing;
mod window;

use std::sync::Arc;

use jiff::Timestamp;

use crate::changes::News;
use crate::config::{AgentConfig, Gate};
use crate::entry::{Entry, View};
use crate::event::Waiting;
use crate::id::CycleId;
use crate::life::{Glimpse, Requester};
use crate::prompt::ToolChoice;
use crate::view::Budget;

pub use inject::is_news;

/// What waits beside the events that are in progress, as last seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unread {
    /// How many.
    pub count: u32,
    /// The oldest of them, at most [`crate::limits::PEEK_MAX`].
    pub oldest: Vec<Waiting>,
    /// The urgent ones, each with all that its sender said before, oldest first; of a sender with very much to
    /// say only the oldest.
    pub urgent: Vec<Waiting>,
}

impl Unread {
    /// What is news of it.
    pub fn of(news: &News) -> Self {
        Self { count: news.glance.waiting, oldest: news.oldest.clone(), urgent: news.urgent.clone() }
    }
}

/// Everything that the policies may look at.
pub struct Situation<'a> {
    /// The agent's config, as pinned at the cycle's opening.
    pub config: &'a AgentConfig,
    /// The step to prepare, from 0.
    pub step: u32,
    /// Whether something of the cycle is processed already.
    pub decided: bool,
    /// Whether an urgent event is to be shown whatever the config says: a call was held back for it.
    pub held_back: bool,
    /// Whether the generation of this very step was aborted for news.
    pub interrupted: bool,
    /// Whether nothing new is to be let in, but for what a call was held back for.
    pub suspect: bool,
    /// Events that the agent asked to see (`peek_inbox`).
    pub peek: u32,
    /// What the last preview has shown.
    pub previewed: Glimpse,
    /// The model that is asked because the provider of the one before cannot serve.
    pub fallback: Option<&'a str>,
    /// What waits.
    pub waits: &'a Unread,
    /// Seqs of events in progress: taken or shown, and not settled yet.
    pub in_hand: &'a [u64],
    /// Who asked for what the cycle does.
    pub requesters: &'a [Requester],
    /// Further events that may still be shown in this cycle.
    pub room: u32,
    /// Bytes that they may fill.
    pub max_bytes: usize,
    /// The present view of the log.
    pub view: &'a View,
    /// Entries that it shows.
    pub window: &'a [Arc<Entry>],
    /// The cycle in progress, where something of it is processed.
    pub cycle: Option<CycleId>,
    /// Which model answered last in this cycle (`None` inside: the agent's own).
    pub last_model: Option<&'a Option<String>>,
    /// Room for the window with that model (`None`: the agent's own).
    pub budget: &'a dyn Fn(Option<&str>) -> Budget,
    /// Now.
    pub now: Timestamp,
}

impl Situation<'_> {
    fn tokens(&self) -> u64 {
        self.window.iter().map(|entry| u64::from(entry.tokens)).sum()
    }

    fn is_in_hand(&self, seq: u64) -> bool {
        self.in_hand.contains(&seq)
    }
}

/// How the step is prepared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// Events to show in full, oldest first: processed by the step's decision, kept in the log.
    pub inject: Vec<Waiting>,
    /// Texts to show at the end and not to keep.
    pub layers: Vec<String>,
    /// What the last preview has shown now.
    pub previewed: Glimpse,
    /// Which tools may be called.
    pub gate: Option<Gate>,
    /// Whether the model is made to call one.
    pub choice: ToolChoice,
    /// Who answers; `None` is the agent's own model.
    pub model: Option<String>,
    /// Another view of the log, to be committed before anything is shown.
    pub view: Option<View>,
}

type Policy = fn(&Situation<'_>, &mut Prepared);

/// In this order: each sees what those before it decided.
const POLICIES: [Policy; 5] = [inject::urgent, preview::glimpse, gates::gate, routing::choose, window::fit];

/// Prepares a step.
pub fn prepare(situation: &Situation<'_>) -> Prepared {
    let mut prepared = Prepared { previewed: situation.previewed, ..Prepared::default() };
    for policy in POLICIES {
        policy(situation, &mut prepared);
    }
    prepared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentConfig;
    use crate::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
    use crate::id::{EventId, RootId};

    pub(super) fn service(seq: u64, name: &str, urgent: bool) -> Waiting {
        Waiting {
            seq,
            attempts: 0,
            deaths: 0,
            event: Event {
                id: EventId(format!("e{seq}")),
                kind: EventKind::Service,
                urgent,
                at: Timestamp::UNIX_EPOCH,
                envelope: Envelope {
                    principal: Principal::Webhook(name.into()),
                    channel: Channel::Webhook,
                    trust: Trust::Outside,
                    root: RootId(format!("e{seq}")),
                    hop: 0,
                },
                data: EventData::Service { name: name.into(), payload: serde_json::json!({"n": seq}) },
                cites: None,
            },
            message: None,
        }
    }

    pub(super) fn waits(events: Vec<Waiting>) -> Unread {
        let urgent = events.iter().filter(|waiting| waiting.event.urgent).cloned().collect();
        Unread { count: u32::try_from(events.len()).unwrap(), oldest: events, urgent }
    }

    pub(super) fn check(
        config: &serde_json::Value,
        change: impl FnOnce(&mut Situation<'_>),
        waits: &Unread,
    ) -> Prepared {
        let config = AgentConfig::from_json(config).unwrap();
        let view = View::whole();
        let budget = |_: Option<&str>| Budget { tokens: 100_000 };
        let mut situation = Situation {
            config: &config,
            step: 1,
            decided: true,
            held_back: false,
            interrupted: false,
            suspect: false,
            peek: 0,
            previewed: Glimpse::default(),
            fallback: None,
            waits,
            in_hand: &[],
            requesters: &[],
            room: 100,
            max_bytes: 10_000,
            view: &view,
            window: &[],
            cycle: None,
            last_model: None,
            budget: &budget,
            now: Timestamp::UNIX_EPOCH,
        };
        change(&mut situation);
        prepare(&situation)
    }

    #[test]
    fn with_nothing_waiting_and_nothing_configured_a_step_is_left_as_it_is() {
        let prepared = check(&serde_json::json!({}), |_| {}, &Unread::default());
        assert_eq!(prepared, Prepared::default());
    }
}
