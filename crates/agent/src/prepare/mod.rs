//! What is decided before each step: which further events the model is shown, which tools may be called, which
//! model answers, and which part of the log it is sent.
//!
//! [`prepare`] is a pure function of config, cycle, step and waiting events. It runs one policy per question. No
//! policy knows how a step is generated, committed or retried.

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
use crate::layer::LayerKind;
use crate::life::{Previewed, Requester};
use crate::prompt::ToolChoice;
use crate::view::Budget;

pub use inject::is_news;

/// Waiting events that are not in progress, as last seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unread {
    /// How many.
    pub count: u32,
    /// The oldest, at most [`crate::limits::PEEK_MAX`].
    pub oldest: Vec<Waiting>,
    /// The urgent ones, each with the earlier events of its sender, oldest first. Of a sender with very many
    /// events only the oldest.
    pub urgent: Vec<Waiting>,
}

impl Unread {
    /// The unread events of this news.
    pub fn of(news: &News) -> Self {
        Self { count: news.glance.waiting, oldest: news.oldest.clone(), urgent: news.urgent.clone() }
    }
}

/// All inputs of the policies.
pub struct Situation<'a> {
    /// The agent's config, as pinned when the cycle opened.
    pub config: &'a AgentConfig,
    /// The step to prepare, from 0.
    pub step: u32,
    /// Whether the cycle has made a decision.
    pub decided: bool,
    /// Whether an urgent event must be shown whatever the config says, because a call was held back for it.
    pub held_back: bool,
    /// Whether a generation of this step was aborted because of news.
    pub interrupted: bool,
    /// Whether no new events may be shown, except those that a call was held back for.
    pub suspect: bool,
    /// Number of events that the agent asked to see (`peek_inbox`).
    pub peek: u32,
    /// What the last preview showed.
    pub previewed: Previewed,
    /// The fallback model, if the provider of the model before it cannot serve.
    pub fallback: Option<&'a str>,
    /// Waiting events.
    pub waits: &'a Unread,
    /// Seqs of events in progress: taken or shown, and not settled.
    pub in_progress: &'a [u64],
    /// Who requested the cycle's work.
    pub requesters: &'a [Requester],
    /// How many further events may be shown in this cycle.
    pub room: u32,
    /// How many bytes they may have.
    pub max_bytes: usize,
    /// Whether the request shows a view of which nothing was shown in this cycle before.
    pub anew: bool,
    /// The current view of the log.
    pub view: &'a View,
    /// The entries that the view shows.
    pub window: &'a [Arc<Entry>],
    /// The open cycle, if it has made a decision.
    pub cycle: Option<CycleId>,
    /// The model that answered last in this cycle (inner `None`: the agent's own).
    pub last_model: Option<&'a Option<String>>,
    /// The budget of the window with a model (`None`: the agent's own).
    pub budget: &'a dyn Fn(Option<&str>) -> Budget,
    /// The current time.
    pub now: Timestamp,
}

impl Situation<'_> {
    fn tokens(&self) -> u64 {
        self.window.iter().map(|entry| u64::from(entry.tokens)).sum()
    }

    fn is_in_progress(&self, seq: u64) -> bool {
        self.in_progress.contains(&seq)
    }
}

/// How the step is prepared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// Events to show in full, oldest first. The step's decision processes them and keeps them in the log.
    pub inject: Vec<Waiting>,
    /// Texts to show at the end of the prompt, not kept in the log.
    pub layers: Vec<(LayerKind, String)>,
    /// What the last preview showed, this step's included.
    pub previewed: Previewed,
    /// Which tools may be called; `None` is all.
    pub gate: Option<Gate>,
    /// Whether the model must call a tool.
    pub choice: ToolChoice,
    /// The model that answers; `None` is the agent's own.
    pub model: Option<String>,
    /// A new view of the log, to be committed before anything is shown.
    pub view: Option<View>,
}

type Policy = fn(&Situation<'_>, &mut Prepared);

/// The policies in order. Each sees what those before it decided.
const POLICIES: [Policy; 5] = [inject::urgent, preview::preview, gates::gate, routing::choose, window::fit];

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
        let budget = |_: Option<&str>| Budget { tokens: 100_000, entries: 400, summary: 0 };
        let mut situation = Situation {
            config: &config,
            step: 1,
            decided: true,
            held_back: false,
            interrupted: false,
            suspect: false,
            peek: 0,
            previewed: Previewed::default(),
            fallback: None,
            waits,
            in_progress: &[],
            requesters: &[],
            room: 100,
            max_bytes: 10_000,
            anew: false,
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
    fn a_step_without_waiting_events_and_config_is_unchanged() {
        let prepared = check(&serde_json::json!({}), |_| {}, &Unread::default());
        assert_eq!(prepared, Prepared::default());
    }
}
