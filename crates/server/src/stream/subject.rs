//! The subject of a stream (a space, an agent or the whole server), and which parts of an update a caller may see.
//! Must not know where updates come from.

use agent::id::{AgentId, SpaceId};
use agent::update::{Topic, Update};

/// The subject of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// A space: its messages and the activity of its agents.
    Space(SpaceId),
    /// An agent: everything it does.
    Agent(AgentId),
    /// The whole server, for operators.
    Everything,
}

impl Subject {
    pub(super) fn topic(self) -> Topic {
        match self {
            Self::Space(space) => Topic::Space(space),
            Self::Agent(agent) => Topic::Agent(agent),
            Self::Everything => Topic::Server,
        }
    }

    /// Whether the stream contains the agent's private text and its commits.
    pub(super) fn shows_thoughts(self) -> bool {
        matches!(self, Self::Agent(_))
    }

    /// The id of the update in this stream; `None` if the update is not durable.
    pub(super) fn id_of(self, update: &Update) -> Option<u64> {
        match (self, update) {
            (Self::Space(_), Update::Message { message }) => Some(message.rev),
            (Self::Space(_), Update::Member { rev, .. }) => Some(*rev),
            (Self::Agent(_), Update::Commit { n, .. }) => Some(*n),
            _ => None,
        }
    }
}

/// The form in which a caller sees an update.
#[derive(Debug, PartialEq)]
pub(super) enum Shown {
    /// Not at all.
    Not,
    /// Unchanged.
    AsItIs,
    /// In this changed form.
    As(Box<Update>),
}

/// The form in which a caller may see the update.
pub(super) fn visible(update: &Update, thoughts: bool, operator: bool) -> Shown {
    match update {
        // An agent's private text is shown on its own stream only, even if it was published elsewhere.
        Update::Thought { .. } | Update::Commit { .. } if !thoughts => Shown::Not,
        Update::Compaction { .. } | Update::Alert { .. } if !operator => Shown::Not,
        // Only operators see reasons.
        Update::CycleEnded { agent, cycle, ending, .. } if !operator => {
            Shown::As(Box::new(Update::CycleEnded {
                agent: *agent,
                cycle: *cycle,
                ending: *ending,
                reason: None,
                spent: None,
            }))
        }
        Update::ToolError { agent, cycle, call, tool, ms, .. } if !operator => {
            Shown::As(Box::new(Update::ToolError {
                agent: *agent,
                cycle: *cycle,
                call: call.clone(),
                tool: tool.clone(),
                reason: None,
                ms: *ms,
            }))
        }
        Update::State { agent, state, cycle, idle, .. } if !operator => Shown::As(Box::new(Update::State {
            agent: *agent,
            state: *state,
            cycle: *cycle,
            reason: None,
            idle: *idle,
        })),
        _ => Shown::AsItIs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::alert::AlertKind;
    use agent::id::{CallId, CycleId};
    use agent::run::{Ending, Spent};
    use uuid::Uuid;

    #[test]
    fn members_see_neither_thoughts_nor_reasons() {
        let (agent, cycle) = (AgentId(Uuid::nil()), CycleId(Uuid::nil()));
        let thought = Update::Thought { agent, cycle, step: 0, reasoning: true, delta: "secret".to_owned() };
        assert_eq!(visible(&thought, false, true), Shown::Not);
        assert_eq!(visible(&thought, true, true), Shown::AsItIs);
        let reason = Some("not my business".to_owned());
        let spent = Some(Spent { steps: 1, ..Spent::default() });
        let ended = Update::CycleEnded { agent, cycle, ending: Ending::Skipped, reason, spent };
        let shown = Update::CycleEnded { agent, cycle, ending: Ending::Skipped, reason: None, spent: None };
        assert_eq!(visible(&ended, false, false), Shown::As(Box::new(shown)));
        assert_eq!(visible(&ended, false, true), Shown::AsItIs);
        let failed = |reason: Option<&str>| {
            let (call, tool, reason) = (CallId("c".to_owned()), "look".to_owned(), reason.map(str::to_owned));
            Update::ToolError { agent, cycle, call, tool, reason, ms: None }
        };
        assert_eq!(visible(&failed(Some("secret")), false, false), Shown::As(Box::new(failed(None))));
        assert_eq!(visible(&failed(Some("secret")), false, true), Shown::AsItIs);
        let text = "secret".to_owned();
        let alert = Update::Alert { agent, cycle, alert: AlertKind::PrefixBroken, text };
        assert_eq!(visible(&alert, false, false), Shown::Not);
        assert_eq!(visible(&alert, false, true), Shown::AsItIs);
    }
}
