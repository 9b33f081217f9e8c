//! Outcomes of calls that must not be repeated, from their arrival until they are stored. If the store refuses the
//! commit that has one, or the activation panics, the agent's next activation still knows whether the call happened.
//!
//! In memory only, and bounded: an agent runs one such call at a time, and none begins while the store refuses commits.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use agent::call::{Outcome, head_and_tail};
use agent::changes::CallChange;
use agent::id::{AgentId, CallId};
use agent::limits;

/// The outcomes of one node.
#[derive(Default)]
pub(crate) struct Unstored(Mutex<HashMap<AgentId, Vec<(CallId, Outcome)>>>);

impl Unstored {
    /// A call has ended. If much is kept already, only the beginning and the end of its text are.
    pub(crate) fn note(&self, agent: AgentId, call: &CallId, outcome: &Outcome) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.values().map(Vec::len).sum::<usize>() >= limits::UNSTORED_OUTCOMES_MAX {
            return tracing::error!(%call, "too many outcomes wait for the store: this one is not kept");
        }
        let bytes: usize = kept.values().flatten().map(|(_, outcome)| outcome.text.len()).sum();
        let fits = bytes + outcome.text.len() <= limits::UNSTORED_OUTCOMES_MAX_BYTES;
        let text = match fits {
            true => outcome.text.clone(),
            false => head_and_tail(&outcome.text, limits::OUTCOME_SHOWN_MAX_BYTES),
        };
        let outcome =
            Outcome { text, status: outcome.status, detail: outcome.detail.clone(), trust: outcome.trust };
        kept.entry(agent).or_default().push((call.clone(), outcome));
    }

    /// What is kept for an agent.
    pub(crate) fn of(&self, agent: AgentId) -> Vec<(CallId, Outcome)> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&agent).cloned().unwrap_or_default()
    }

    /// A commit of the agent has stored these.
    pub(crate) fn stored(&self, agent: AgentId, changes: &[CallChange]) {
        let stored = |call: &CallId| changes.iter().any(|it| it.outcome.is_some() && it.id == *call);
        if !changes.is_empty() {
            self.retain(agent, |call| !stored(call));
        }
    }

    /// The agent's cycle has ended: none of its calls is open.
    pub(crate) fn forget(&self, agent: AgentId) {
        self.retain(agent, |_| false);
    }

    fn retain(&self, agent: AgentId, wanted: impl Fn(&CallId) -> bool) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outcomes) = kept.get_mut(&agent) else { return };
        outcomes.retain(|(call, _)| wanted(call));
        if outcomes.is_empty() {
            kept.remove(&agent);
        }
    }
}

#[cfg(test)]
mod tests {
    use agent::call::CallState;
    use uuid::Uuid;

    use super::*;

    fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    fn call(n: usize) -> CallId {
        CallId(format!("c{n}"))
    }

    #[test]
    fn an_outcome_is_kept_until_a_commit_has_stored_it_or_its_cycle_has_ended() {
        let unstored = Unstored::default();
        for n in 0..3 {
            unstored.note(agent(1), &call(n), &Outcome::ok(n.to_string()));
        }
        let change = |n, outcome| CallChange { id: call(n), state: CallState::Done, outcome };
        unstored.stored(agent(1), &[change(0, Some(Outcome::ok("0"))), change(1, None)]);
        unstored.stored(agent(2), &[change(2, Some(Outcome::ok("2")))]);
        let left: Vec<_> = unstored.of(agent(1)).into_iter().map(|(call, _)| call).collect();
        assert_eq!(left, [call(1), call(2)]);
        unstored.forget(agent(1));
        assert!(unstored.0.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded_in_number_and_in_bytes() {
        let unstored = Unstored::default();
        let long = Outcome::ok("x".repeat(limits::UNSTORED_OUTCOMES_MAX_BYTES / 2));
        for n in 0..limits::UNSTORED_OUTCOMES_MAX + 3 {
            unstored.note(agent(n as u128), &call(n), &long);
        }
        let kept = unstored.0.lock().unwrap();
        assert_eq!(kept.len(), limits::UNSTORED_OUTCOMES_MAX);
        let cut = kept.values().flatten().filter(|(_, outcome)| outcome.text.len() < long.text.len()).count();
        assert_eq!(cut, limits::UNSTORED_OUTCOMES_MAX - 2);
    }
}
