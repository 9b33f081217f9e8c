//! Submits commits to the store and publishes what they changed. Knows of a commit's content only what it
//! publishes.

use std::sync::Arc;

use agent::alert::{AlertKind, Raised};
use agent::changes::{Changes, CommitKind, CommitOutcome, EventMoved, Notifications};
use agent::cycle::ActivationEnd;
use agent::entry::Compaction;
use agent::id::{AgentId, CycleId, SpaceId};
use agent::life::{IdleReason, IdleUntil, Lease};
use agent::port::StoreError;
use agent::run::{Ending, Spent};
use agent::update::{AgentState, Topic, Update};
use tokio::task::{JoinError, JoinHandle};

use crate::Ports;
use crate::failure;
use crate::health::Health;
use crate::live::Live;

/// The outcome of a commit, and what else it caused.
pub(crate) type Committed = (CommitOutcome, Notifications);
/// A submitted commit.
pub(crate) type Submitted = JoinHandle<Result<Committed, StoreError>>;

/// Submits a commit to the store, in its own task so that it is never dropped half-way.
pub(crate) fn submit(ports: &Ports, health: &Arc<Health>, lease: Lease, changes: Changes) -> Submitted {
    let (store, clock, ids) = (Arc::clone(&ports.store), Arc::clone(&ports.clock), Arc::clone(&ports.ids));
    let health = Arc::clone(health);
    tokio::spawn(async move {
        let mut attempt = 1;
        loop {
            let error = match store.commit(lease, changes.clone()).await {
                Ok(_) if attempt == 1 && failpoint::on!("answers-lost") && ids.jitter(3) == 0 => {
                    StoreError::Busy("the answer was lost".into())
                }
                Ok(outcome) => {
                    health.accepted();
                    failpoint::hit!(changes.kind.points().1);
                    return Ok(outcome);
                }
                Err(error) => error,
            };
            let Some(pause) = failure::retry_store(&error, attempt, &*ids) else { return Err(error) };
            clock.sleep(pause).await;
            attempt += 1;
        }
    })
}

/// The outcome of a submitted commit.
pub(crate) fn joined(
    ended: Result<Result<Committed, StoreError>, JoinError>,
) -> Result<Committed, StoreError> {
    ended.unwrap_or_else(|error| Err(StoreError::Bug(format!("the commit's task ended: {error}"))))
}

/// Publishes what commit `n` of an agent has changed. `known` is the compaction of the view before.
pub(crate) fn publish(
    live: &Live,
    agent: AgentId,
    n: u64,
    changes: &Changes,
    known: Option<&Compaction>,
    notifications: Notifications,
) {
    for message in notifications.messages {
        live.drop_draft(message.id);
        let space = message.space;
        if changes.kind == CommitKind::Decide {
            live.enter(agent, changes.cycle, AgentState::Processing, &[space]);
        }
        live.bus().publish(&[Topic::Space(space)], Arc::new(Update::Message { message }));
    }
    if changes.kind == CommitKind::Decide {
        // Drafts of messages that the decision does not contain are withdrawn.
        live.reset_drafts(agent);
    }
    for EventMoved { event, progress, cycle, step, reason } in notifications.progress {
        let update = Update::EventProgress { agent, event, progress, cycle, step, reason };
        live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
    }
    let Changes { cycle, step, kind, .. } = *changes;
    let compaction = changes.view.as_ref().and_then(|view| view.compaction.as_ref());
    if let Some(compaction) = compaction.filter(|compaction| known != Some(*compaction)) {
        publish_compaction(live, agent, cycle, compaction.clone());
    }
    live.bus().publish(&[Topic::Agent(agent)], Arc::new(Update::Commit { agent, n, cycle, step, kind }));
}

/// Logs and publishes a compaction, with an alert if a model was to write the summary and failed.
fn publish_compaction(live: &Live, agent: AgentId, cycle: CycleId, compaction: Compaction) {
    let Compaction { method, ref refused, .. } = compaction;
    tracing::info!(agent = live.name(agent), %cycle, method = method.as_str(), refused, "{}", compaction.line());
    if let Some(Raised { alert, text }) = refused_summary(&compaction) {
        live.bus().publish(&[Topic::Agent(agent)], Arc::new(Update::Alert { agent, cycle, alert, text }));
    }
    let update = Update::Compaction { agent, cycle, compaction };
    live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
}

/// That the model which was to write the summary has failed.
fn refused_summary(compaction: &Compaction) -> Option<Raised> {
    let (round, why) = (compaction.round, compaction.failure()?);
    let text = format!("summary {round} was written by rule instead of by the model: {why}");
    Some(Raised { alert: AlertKind::SummaryRefused, text })
}

/// What operators should know of that has happened before this commit and with it. `known` is the compaction of the view before.
pub(crate) fn alerts(
    live: &Live,
    agent: AgentId,
    changes: &Changes,
    known: Option<&Compaction>,
) -> Vec<Raised> {
    let compaction = changes.view.as_ref().and_then(|view| view.compaction.as_ref());
    let refused = compaction.filter(|compaction| known != Some(*compaction)).and_then(refused_summary);
    live.take_raised(agent).into_iter().chain(refused).collect()
}

/// Publishes an alert; the agent's next commit keeps it.
pub(crate) fn raise(live: &Live, agent: AgentId, cycle: CycleId, alert: AlertKind, text: String) {
    live.raise(agent, Raised { alert, text: text.clone() });
    live.bus().publish(&[Topic::Agent(agent)], Arc::new(Update::Alert { agent, cycle, alert, text }));
}

/// Publishes that an activation ended, and how.
pub(crate) fn publish_idle(
    live: &Live,
    agent: AgentId,
    end: &Result<ActivationEnd, StoreError>,
    spaces: &[SpaceId],
    spent: Option<Spent>,
) {
    match end {
        Ok(ActivationEnd::Ended { cycle, ending, reason }) => {
            let mut topics = vec![Topic::Agent(agent)];
            topics.extend(spaces.iter().filter(|_| *ending != Ending::Skipped).copied().map(Topic::Space));
            let (cycle, ending, reason) = (*cycle, *ending, reason.clone());
            let (steps, ms) = spent.as_ref().map_or((0, 0), |spent| (spent.steps, spent.ms));
            tracing::info!(agent = live.name(agent), %cycle, ending = ending.as_str(), reason, steps, ms, "a cycle ended");
            let update = Update::CycleEnded { agent, cycle, ending, reason, spent };
            live.idle(agent, None);
            live.bus().publish(&topics, Arc::new(update));
        }
        Ok(ActivationEnd::Parked { idle_reason: Some(IdleReason::Person), reason, .. }) => {
            live.pause(agent, reason.clone(), spaces);
        }
        Ok(ActivationEnd::Parked { until: Some(until), idle_reason: Some(why), reason, .. }) => {
            let idle = IdleUntil { reason: *why, until: *until };
            live.back_off(agent, reason.clone(), idle, spaces);
        }
        Ok(ActivationEnd::Parked { reason, .. }) => live.idle(agent, Some(reason.clone())),
        Ok(ActivationEnd::Idle | ActivationEnd::Lost) | Err(_) => live.idle(agent, None),
    }
}
