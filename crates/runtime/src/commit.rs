//! ToolContext commits to the store, and tells watchers and sleepers what came of them. Knows nothing of what is
//! in a commit but what it shows of it.

use std::sync::Arc;

use agent::changes::{Changes, CommitKind, CommitOutcome, EventMoved, Notifications};
use agent::cycle::ActivationEnd;
use agent::id::{AgentId, SpaceId};
use agent::life::{IdleUntil, Lease};
use agent::port::StoreError;
use agent::run::{Ending, Spent};
use agent::update::{AgentState, Topic, Update};
use tokio::task::{JoinError, JoinHandle};

use crate::Ports;
use crate::failure;
use crate::health::Health;
use crate::live::Live;

/// What came of a commit, and what else it caused.
pub(crate) type Committed = (CommitOutcome, Notifications);
/// A commit on its way.
pub(crate) type Submitted = JoinHandle<Result<Committed, StoreError>>;

/// ToolContext a commit to the store. It is never dropped half-way: it runs in a task of its own.
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
                    health.took();
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

/// What came of it.
pub(crate) fn joined(
    ended: Result<Result<Committed, StoreError>, JoinError>,
) -> Result<Committed, StoreError> {
    ended.unwrap_or_else(|error| Err(StoreError::Broken(format!("the commit's task ended: {error}"))))
}

/// Shows watchers what commit `n` of an agent has changed.
pub(crate) fn publish(live: &Live, agent: AgentId, n: u64, changes: &Changes, echo: Notifications) {
    for message in echo.messages {
        live.drop_draft(message.id);
        let spoken_in = message.space;
        if changes.kind == CommitKind::Decide {
            live.enter(agent, changes.cycle, AgentState::Processing, &[spoken_in]);
        }
        live.bus().publish(&[Topic::Space(spoken_in)], Arc::new(Update::Message { message }));
    }
    if changes.kind == CommitKind::Decide {
        // What the decision did not say after all is no draft any more.
        live.reset_drafts(agent);
    }
    for EventMoved { event, progress, cycle, step } in echo.stages {
        let update = Update::EventProgress { agent, event, progress, cycle, step };
        live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
    }
    let Changes { cycle, step, kind, .. } = *changes;
    live.bus().publish(&[Topic::Agent(agent)], Arc::new(Update::Commit { agent, n, cycle, step, kind }));
}

/// Shows watchers that an activation is over, and how.
pub(crate) fn publish_idle(
    live: &Live,
    agent: AgentId,
    rested: &Result<ActivationEnd, StoreError>,
    spaces: &[SpaceId],
    spent: Option<Spent>,
) {
    match rested {
        Ok(ActivationEnd::Ended { cycle, ending, reason }) => {
            let mut topics = vec![Topic::Agent(agent)];
            topics.extend(spaces.iter().filter(|_| *ending != Ending::Skipped).copied().map(Topic::Space));
            let (cycle, ending, reason) = (*cycle, *ending, reason.clone());
            let update = Update::CycleEnded { agent, cycle, ending, reason, spent };
            live.idle(agent, None);
            live.bus().publish(&topics, Arc::new(update));
        }
        Ok(ActivationEnd::Parked { until: Some(until), rest: Some(why), reason, .. }) => {
            let rest = IdleUntil { reason: *why, until: *until };
            live.keep_back(agent, reason.clone(), rest, spaces);
        }
        Ok(ActivationEnd::Parked { reason, .. }) => live.idle(agent, Some(reason.clone())),
        Ok(ActivationEnd::Idle | ActivationEnd::Lost) | Err(_) => live.idle(agent, None),
    }
}
