//! Warns of agents that name more tools than their models accept: once per agent and number of tools, not with every
//! activation.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use agent::id::AgentId;
use agent::limits;

use crate::live::Live;

/// How many tools of which agents were reported as left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(Mutex<HashMap<AgentId, usize>>);

impl LeftOut {
    /// The agent's model is not offered these tools. Writes it to the log if that is news.
    pub(crate) fn report(&self, live: &Live, agent: AgentId, tools: &[String]) {
        if self.is_news(agent, tools.len()) {
            let (count, tools) = (tools.len(), tools.join("`, `"));
            tracing::warn!(
                agent = live.name(agent),
                "{count} of the agent's tools are more than its model accepts and are left out: `{tools}`"
            );
        }
    }

    fn is_news(&self, agent: AgentId, count: usize) -> bool {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if count == 0 {
            reported.remove(&agent);
            return false;
        }
        let has_room = reported.len() < limits::LEFT_OUT_REPORTS_MAX || reported.contains_key(&agent);
        has_room && reported.insert(agent, count) != Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_changed_number_is_news() {
        let (left_out, agent) = (LeftOut::default(), AgentId(uuid::Uuid::from_u128(7)));
        let news = [0, 3, 3, 2, 0, 2].map(|count| left_out.is_news(agent, count));
        assert_eq!(news, [false, true, false, true, false, true]);
    }
}
