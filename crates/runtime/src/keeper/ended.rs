//! How activations end, and what the keeper does about it.

use std::time::Duration;

use agent::cycle::ActivationEnd;
use agent::id::AgentId;
use jiff::Timestamp;
use tokio::task::JoinError;

use super::Keeping;
use crate::activation::{Activated, Unwritten};
use crate::waits::Wait;

impl Keeping {
    pub(super) fn finished(&mut self, agent: AgentId, result: Result<Activated, Unwritten>) {
        let again = self.awake.remove(&agent).is_some_and(|awake| awake.again);
        let now = self.clock_ms();
        self.node_context.node.over(agent);
        if matches!(result, Ok(Activated::Ended(_)) | Err(_)) && !again {
            self.node_context.breakers.revoke(agent);
        }
        if !matches!(result, Ok(Activated::Full)) {
            self.node_context.permits.leave(agent);
        }
        match result {
            Ok(Activated::Suspect { deaths }) => {
                self.turns.suspect(agent, deaths, now);
                self.node_context.ports.live.wait(agent, Wait::Crash);
            }
            Ok(Activated::Full) => self.turns.left(agent, now),
            Ok(Activated::Ended(rested)) => {
                self.turns.ended(agent, now);
                self.node_context.ports.live.go_on(agent);
                // Something was due, and nothing was found: the clock may have been set back a little meanwhile.
                if matches!(rested, ActivationEnd::Idle) {
                    self.sweep_soon();
                }
                if let ActivationEnd::Parked { until: Some(at), reason, .. } = rested {
                    tracing::info!(%agent, until = %at, reason, "an agent rests for a while");
                    // Whatever rang earlier would find nothing to do.
                    self.alarms.clear(agent);
                    self.due(agent, at);
                }
            }
            Err(Unwritten { error, opened }) => {
                tracing::error!(%agent, %error, "a activation ended by the store");
                self.node_context.health.refused();
                self.node_context.ports.live.store_refuses(Some(error.to_string()));
                match self.turns.refused(agent, opened, now, &*self.node_context.ports.ids) {
                    Some(until) => {
                        let told = Wait::Store(error.to_string(), Some(self.time_of(until)));
                        self.idle_until(agent, until, told);
                    }
                    None => self.publish_queued(agent),
                }
            }
        }
        if again {
            self.activate(agent);
        }
        self.admit();
    }

    /// A panic ends one activation, never the node. The cycle is resumed from its last commit, and its
    /// attempts bound how often.
    pub(super) fn broke(&mut self, task: tokio::task::Id, error: &JoinError) {
        let agent = self.awake.iter().find(|(_, awake)| awake.task.id() == task).map(|(agent, _)| *agent);
        let Some(agent) = agent else { return };
        tracing::error!(%agent, %error, "a activation broke");
        self.awake.remove(&agent);
        self.node_context.permits.leave(agent);
        self.node_context.node.over(agent);
        self.node_context.ports.live.reset_drafts(agent);
        self.node_context.ports.live.idle(agent, Some("a activation broke".into()));
        let until = self.turns.broke(agent, self.clock_ms(), &*self.node_context.ports.ids);
        self.idle_until(agent, until, Wait::Broke(self.time_of(until)));
        self.admit();
    }

    /// The agent's last activation failed: it is looked at then, whatever comes for it before.
    fn idle_until(&mut self, agent: AgentId, until: u64, told: Wait) {
        self.alarms.clear(agent);
        self.alarms.set(agent, until);
        self.node_context.ports.live.wait(agent, told);
    }

    /// What people call a time of the clock that never jumps.
    fn time_of(&self, at: u64) -> Timestamp {
        let ahead = Duration::from_millis(at.saturating_sub(self.clock_ms()));
        let now = self.node_context.ports.clock.now();
        now.checked_add(ahead).unwrap_or(now)
    }
}
