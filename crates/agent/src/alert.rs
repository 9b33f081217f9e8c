//! Alerts: what operators should know of although nothing stands still. Watchers see them live, and the newest ones are kept. Must
//! not know who reads them.

use jiff::Timestamp;

use crate::changes::EventMoved;
use crate::event::EventProgress;
use crate::id::{AgentId, CycleId, EventId};
use crate::limits;
use crate::port::AfterFailure;

names! {
    /// What an alert is about.
    pub enum AlertKind {
        /// A request did not extend the one before, so the provider's cache was of no use.
        PrefixBroken,
        /// A request does not show a pinned memory.
        PinMissing,
        /// The model that was to write a summary failed, and a digest by rule was used instead.
        SummaryRefused,
        /// What every request has leaves no room for an exchange in the model's window.
        WindowOverfull,
        /// The model's server cuts what it is sent: its window is smaller than the one that was known.
        WindowCut,
        /// The history fills more of its room than a view may, although it was cut.
        HistoryLarge,
        /// The agent's memories, goals and plans have more than the room of the workspace.
        WorkspaceFull,
        /// An event failed for good.
        EventDead,
        /// A record of the agent cannot be read, so it is quarantined.
        AgentDamaged,
        /// Deliveries to a target have begun to fail.
        TargetFailing,
        /// A delivery to a target was given up.
        DeliveryDead,
        /// Nothing is sent to a target any more.
        TargetOff,
    }
}

/// What an activation raises; the next commit keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    /// What kind.
    pub alert: AlertKind,
    /// What happened and what it costs.
    pub text: String,
}

/// An alert as it is kept: at most [`limits::ALERTS_KEPT`] of each agent, and as many of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// When it happened.
    pub at: Timestamp,
    /// What kind.
    pub alert: AlertKind,
    /// What happened and what it costs, at most [`limits::ALERT_TEXT_MAX_CHARS`].
    pub text: String,
    /// Whose; `None` if it is the server's.
    pub agent: Option<AgentId>,
    /// The cycle in which it happened.
    pub cycle: Option<CycleId>,
    /// The event.
    pub event: Option<EventId>,
    /// The name of the target.
    pub target: Option<String>,
}

impl Alert {
    fn new(at: Timestamp, alert: AlertKind, text: &str) -> Self {
        let text = text.chars().take(limits::ALERT_TEXT_MAX_CHARS).collect();
        Self { at, alert, text, agent: None, cycle: None, event: None, target: None }
    }

    /// What a cycle of an agent has raised.
    pub fn of_cycle(raised: &Raised, agent: AgentId, cycle: CycleId, at: Timestamp) -> Self {
        Self { agent: Some(agent), cycle: Some(cycle), ..Self::new(at, raised.alert, &raised.text) }
    }

    /// That an event has failed for good, if this move says so.
    pub fn of_event(moved: &EventMoved, agent: AgentId, at: Timestamp) -> Option<Self> {
        let why = moved.reason.as_deref().unwrap_or("it failed too often");
        let alert = Self::new(at, AlertKind::EventDead, &format!("an event failed for good: {why}"));
        let (agent, event) = (Some(agent), Some(moved.event.clone()));
        (moved.progress == EventProgress::Dead).then_some(Self { agent, event, cycle: moved.cycle, ..alert })
    }

    /// That an agent is quarantined.
    pub fn of_damage(agent: AgentId, why: &str, at: Timestamp) -> Self {
        Self { agent: Some(agent), ..Self::new(at, AlertKind::AgentDamaged, why) }
    }

    /// What a failed attempt at a target (of that agent) is to operators: that its deliveries have begun to fail, that one was given up or that
    /// nothing is sent any more. A further failure is none.
    pub fn of_target(
        target: &str,
        agent: Option<AgentId>,
        then: &AfterFailure,
        began: bool,
        why: &str,
        at: Timestamp,
    ) -> Option<Self> {
        let (alert, what) = match then {
            AfterFailure::Off => (AlertKind::TargetOff, "nothing is sent any more"),
            AfterFailure::Dead => (AlertKind::DeliveryDead, "a delivery was given up"),
            AfterFailure::Retry(_) if began => {
                (AlertKind::TargetFailing, "deliveries fail and are tried again")
            }
            AfterFailure::Retry(_) => return None,
        };
        let alert = Self::new(at, alert, &format!("{what}: {why}"));
        Some(Self { agent, target: Some(target.to_owned()), ..alert })
    }
}
