//! Why agents with work are not running, as far as only this node's memory knows. The API shows the reason, and
//! until when.

use std::collections::HashMap;

use agent::id::AgentId;
use agent::limits;
use jiff::Timestamp;

/// What an agent waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A free slot: that many agents are awake, and no more may be.
    Slot(usize),
    /// A permit: that many requests are in flight at its provider.
    Requests(String, usize),
    /// Its turn among the agents that may have crashed the process.
    Crash,
    /// The store, which refuses commits.
    Store(String, Option<Timestamp>),
    /// The end of its pause: its last activation panicked.
    Panicked(Timestamp),
}

impl Wait {
    /// Its class in one word, as the API shows it.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Slot(_) => "place",
            Self::Requests(..) => "requests",
            Self::Crash => "crash",
            Self::Store(..) => "store",
            Self::Panicked(_) => "broke",
        }
    }

    /// Until when, if that is known.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Store(_, until) => *until,
            Self::Panicked(until) => Some(*until),
            Self::Slot(_) | Self::Requests(..) | Self::Crash => None,
        }
    }

    /// A sentence for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Slot(awake) => format!("waiting for a free slot: {awake} agents are awake"),
            Self::Requests(provider, many) => {
                format!("waiting for {provider}: {many} requests are in flight there")
            }
            Self::Crash => {
                "the server crashed while this agent was awake: such agents resume a few at a time".to_owned()
            }
            Self::Store(why, None) => format!("waiting for the store, retried every second: {why}"),
            Self::Store(why, Some(_)) => format!("the store refused it: {why}"),
            Self::Panicked(_) => "its last activation panicked; see the server's log".to_owned(),
        }
    }
}

/// Which agent waits for what.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waits: HashMap<AgentId, Wait>,
    /// Why the store refuses commits, while it does: then every queued agent waits for the store.
    refusal: Option<String>,
}

impl Waiters {
    /// The agent waits. `false` if that is known, or if too many agents wait to keep it.
    pub(crate) fn begin(&mut self, agent: AgentId, wait: Wait) -> bool {
        let room = self.waits.len() < limits::SIGNALS_MAX || self.waits.contains_key(&agent);
        room && self.waits.insert(agent, wait.clone()).is_none_or(|before| before != wait)
    }

    /// The agent no longer waits.
    pub(crate) fn end(&mut self, agent: AgentId) {
        self.waits.remove(&agent);
    }

    /// The store refuses commits, for that reason; `None`: it accepts them again.
    pub(crate) fn refused(&mut self, why: Option<String>) {
        self.refusal = why;
    }

    /// What the agent waits for.
    pub(crate) fn of(&self, agent: AgentId) -> Option<Wait> {
        match (self.waits.get(&agent)?, &self.refusal) {
            (Wait::Slot(_), Some(why)) => Some(Wait::Store(why.clone(), None)),
            (wait, _) => Some(wait.clone()),
        }
    }
}
