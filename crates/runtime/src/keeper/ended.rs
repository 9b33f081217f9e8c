//! How activations end, and what the keeper does about it.

use std::time::Duration;

use agent::cycle::ActivationEnd;
use agent::id::AgentId;
use jiff::Timestamp;
use tokio::task::JoinError;

use super::KeeperLoop;
use crate::activation::{Activated, StoreFailure};
use crate::waits::Wait;

impl KeeperLoop {
    pub(super) fn finished(&mut self, agent: AgentId, result: Result<Activated, StoreFailure>) {
        let again = self.awake.remove(&agent).is_some_and(|awake| awake.again);
        let now = self.clock_ms();
        self.node_context.node.activation_ended(agent);
        if matches!(result, Ok(Activated::Ended(_) | Activated::Panicked) | Err(_)) && !again {
            self.node_context.breakers.revoke(agent);
        }
        if !matches!(result, Ok(Activated::Full)) {
            self.node_context.permits.release(agent);
        }
        match result {
            Ok(Activated::Suspect { deaths }) => {
                self.turns.suspect(agent, deaths, now);
                self.node_context.ports.live.begin_wait(agent, Wait::Crash);
            }
            Ok(Activated::Full) => self.turns.ended(agent, now),
            Ok(Activated::Panicked) => {
                let until = self.turns.panicked(agent, now, &*self.node_context.ports.ids);
                self.idle_until(agent, until, Wait::Panicked(self.time_of(until)));
            }
            Ok(Activated::Ended(end)) => {
                self.turns.succeeded(agent, now);
                self.node_context.ports.live.end_wait(agent);
                // The agent was due, and nothing was found: the clock may have been set back a little meanwhile.
                if matches!(end, ActivationEnd::Idle) {
                    self.sweep_soon();
                }
                if let ActivationEnd::Parked { until: Some(at), reason, .. } = end {
                    tracing::info!(agent = self.name(agent), until = %at, reason, "an agent backs off");
                    // An earlier alarm would find nothing to do.
                    self.alarms.clear(agent);
                    self.due(agent, at);
                }
            }
            Err(StoreFailure { error, opened }) => {
                tracing::error!(agent = self.name(agent), %error, "the store failed: the activation ended");
                self.node_context.health.refused();
                self.node_context.ports.live.store_refuses(Some(error.to_string()));
                match self.turns.refused(agent, opened, now, &*self.node_context.ports.ids) {
                    Some(until) => {
                        let wait = Wait::Store(error.to_string(), Some(self.time_of(until)));
                        self.idle_until(agent, until, wait);
                    }
                    None => self.publish_queued(agent),
                }
            }
        }
        if again {
            self.enqueue(agent);
        }
        self.admit();
    }

    /// The task of an activation has panicked beside the activation itself.
    pub(super) fn panicked(&mut self, task: tokio::task::Id, error: &JoinError) {
        let agent = self.awake.iter().find(|(_, awake)| awake.task.id() == task).map(|(agent, _)| *agent);
        let Some(agent) = agent else { return };
        tracing::error!(agent = self.name(agent), %error, "the end of an activation could not be handled");
        self.finished(agent, Ok(Activated::Panicked));
    }

    /// The agent's last activation failed: it is checked at that time, not earlier.
    fn idle_until(&mut self, agent: AgentId, until: u64, wait: Wait) {
        self.alarms.clear(agent);
        self.alarms.set(agent, until);
        self.node_context.ports.live.begin_wait(agent, wait);
    }

    /// What the log calls an agent.
    fn name(&self, agent: AgentId) -> String {
        self.node_context.ports.live.name(agent)
    }

    /// The wall-clock time of a monotonic time.
    fn time_of(&self, at: u64) -> Timestamp {
        let ahead = Duration::from_millis(at.saturating_sub(self.clock_ms()));
        let now = self.node_context.ports.clock.now();
        now.checked_add(ahead).unwrap_or(now)
    }
}
