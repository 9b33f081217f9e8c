//! What agents that have something to do wait for, where it is this node's memory alone that knows: whoever
//! asks is told why and until when.

use std::collections::HashMap;

use agent::id::AgentId;
use agent::limits;
use jiff::Timestamp;

/// What an agent waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A place: so many agents are awake, and that is as many as may be.
    Place(usize),
    /// A permit: so many requests are under way at its provider.
    Requests(String, usize),
    /// Its turn among those that may have been the death of the process before.
    Crash,
    /// The store, which refused it.
    Store(String, Option<Timestamp>),
    /// The end of its pause: its last activation broke.
    Broke(Timestamp),
}

impl Wait {
    /// Its class in one word.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Place(_) => "place",
            Self::Requests(..) => "requests",
            Self::Crash => "crash",
            Self::Store(..) => "store",
            Self::Broke(_) => "broke",
        }
    }

    /// Until when, where that is known.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Store(_, until) => *until,
            Self::Broke(until) => Some(*until),
            Self::Place(_) | Self::Requests(..) | Self::Crash => None,
        }
    }

    /// For people.
    pub fn words(&self) -> String {
        match self {
            Self::Place(awake) => format!("it waits for a place: {awake} agents are awake"),
            Self::Requests(provider, many) => {
                format!("it waits for {provider}: {many} requests are under way there")
            }
            Self::Crash => "the server died while it was awake: such agents go on a few at a time".to_owned(),
            Self::Store(why, None) => format!("it waits for the store, which is tried each second: {why}"),
            Self::Store(why, Some(_)) => format!("the store refused it: {why}"),
            Self::Broke(_) => "its last activation broke; the server's log says how".to_owned(),
        }
    }
}

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    of: HashMap<AgentId, Wait>,
    /// Why the store refuses, while it does: that is what everybody in line waits for.
    refusal: Option<String>,
}

impl Waiters {
    /// The agent waits for that; `false` where that is known, or too many wait to keep it.
    pub(crate) fn begin(&mut self, agent: AgentId, wait: Wait) -> bool {
        let room = self.of.len() < limits::SIGNALS_MAX || self.of.contains_key(&agent);
        room && self.of.insert(agent, wait.clone()).is_none_or(|before| before != wait)
    }

    /// The agent waits no more.
    pub(crate) fn end(&mut self, agent: AgentId) {
        self.of.remove(&agent);
    }

    /// The store refuses, or does not any more.
    pub(crate) fn refused(&mut self, why: Option<String>) {
        self.refusal = why;
    }

    /// What the agent waits for.
    pub(crate) fn of(&self, agent: AgentId) -> Option<Wait> {
        match (self.of.get(&agent)?, &self.refusal) {
            (Wait::Place(_), Some(why)) => Some(Wait::Store(why.clone(), None)),
            (wait, _) => Some(wait.clone()),
        }
    }
}
