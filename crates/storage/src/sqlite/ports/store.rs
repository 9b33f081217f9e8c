//! The port with which agents run: each method is one command or one query.

pub(crate) mod accept;
mod commit;
pub(crate) mod due;
pub(crate) mod post;
pub(crate) mod wake;

use agent::changes::{Changes, CommitOutcome, News, Notifications};
use agent::id::AgentId;
use agent::life::{Activation, Lease};
use agent::port::{Accept, Accepted, BoxFuture, Due, DueFired, NextDue, RequestKey, Store, StoreError};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::sqlite::engine::fault::{Fault, name_agent};
use crate::sqlite::ports::quarantine::Access;
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::agents::{known_agent, quarantine};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::{life, shift};

impl Store for Sqlite {
    fn accept(
        &self,
        what: Accept,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<Accepted, StoreError>> {
        let done = self.for_several(Access::Write, move |db, session| {
            accept::accept(db, session, &what, request.as_ref())
        });
        Box::pin(async move {
            match done.await {
                Err(Fault::Denied(denial)) => Ok(Accepted::Denied(denial)),
                other => Ok(other?),
            }
        })
    }

    fn due(
        &self,
        now: Timestamp,
        after: Option<Due>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        let done =
            self.for_several(Access::Read(Caller::Agents), move |db, _| due::due(db, now, after, limit));
        Box::pin(async move { Ok(done.await?) })
    }

    fn next_due(&self, now: Timestamp) -> BoxFuture<'_, Result<NextDue, StoreError>> {
        let done = self.read(Caller::Agents, move |db, _| due::next_due(db, now));
        Box::pin(async move { Ok(done.await?) })
    }

    fn wake(
        &self,
        agent: AgentId,
        now: Timestamp,
        known: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<Activation>, StoreError>> {
        let work = move |db: &Connection, session: &Session| {
            wake::wake(db, session, agent, now, known).map_err(name_agent(agent))
        };
        // An agent whose window is in memory needs only a few rows.
        let done = if known.is_some() {
            self.read_inline(Caller::Agents, work)
        } else {
            self.read(Caller::Agents, work)
        };
        Box::pin(async move { Ok(done.await?) })
    }

    fn commit(
        &self,
        lease: Lease,
        changes: Changes,
    ) -> BoxFuture<'_, Result<(CommitOutcome, Notifications), StoreError>> {
        let done = self.for_several(Access::Write, move |db, session| {
            commit::commit(db, session, lease, &changes).map_err(name_agent(lease.agent))
        });
        Box::pin(async move {
            let refused = match done.await {
                Err(Fault::Refused(refusals)) => CommitOutcome::Refused(refusals),
                Err(Fault::Lost) => CommitOutcome::Lost,
                Err(Fault::Canceled) => CommitOutcome::Canceled,
                Err(Fault::Barred) => CommitOutcome::Barred,
                Err(Fault::Answered(answers)) => CommitOutcome::Answered(answers),
                Err(Fault::Gone(gone)) => CommitOutcome::Gone(gone),
                done => return Ok(done?),
            };
            Ok((refused, Notifications::default()))
        })
    }

    fn glance(
        &self,
        lease: Lease,
        known_facts: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<News>, StoreError>> {
        let read_news =
            move |db: &Connection| commit::glance(db, lease, known_facts).map_err(name_agent(lease.agent));
        let done = self.read_inline(Caller::Agents, move |db, _| read_news(db));
        Box::pin(async move { Ok(done.await?) })
    }

    fn quarantine(&self, agent: AgentId, why: String) -> BoxFuture<'_, Result<(), StoreError>> {
        let done = self.write(move |db, session| quarantine(db, agent, &why, session.now()));
        Box::pin(async move { Ok(done.await?) })
    }

    fn panicked(&self, agent: AgentId) -> BoxFuture<'_, Result<(), StoreError>> {
        let done = self.write(move |db, _| life::panicked(db, known_agent(db, agent)?));
        Box::pin(async move { Ok(done.await?) })
    }

    fn fire_due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<DueFired, StoreError>> {
        let done = self.for_several(Access::Write, move |db, session| {
            let more = shift::next(db, session, shift::PIECE)?;
            Ok(DueFired { shifting: more, ..due::fire_due(db, session, now, limit)? })
        });
        Box::pin(async move { Ok(done.await?) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent::config::AgentConfig;
    use agent::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
    use agent::id::{EventId, RootId};
    use agent::port::{NewAgent, Reader, Registry};
    use uuid::Uuid;

    use super::*;

    const ADA: AgentId = AgentId(Uuid::from_u128(1));

    fn big(id: usize) -> Accept {
        let id = format!("event-{id}");
        let envelope = Envelope {
            principal: Principal::Own,
            channel: Channel::Api,
            trust: Trust::Outside,
            root: RootId(id.clone()),
            hop: 0,
        };
        let payload = serde_json::json!("x".repeat(50_000));
        let event = Event {
            id: EventId(id),
            kind: EventKind::Service,
            urgent: false,
            at: Timestamp::UNIX_EPOCH,
            envelope,
            data: EventData::Service { name: "load".into(), payload },
            cites: None,
        };
        Accept::Event(ADA, event)
    }

    #[tokio::test]
    async fn a_full_store_accepts_nothing_answers_queries_and_recovers_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(dir.path(), Arc::new(runtime::clock::SystemClock::new())).unwrap();
        let (config, at) = (AgentConfig::default(), Timestamp::UNIX_EPOCH);
        let new = NewAgent { id: ADA, name: "ada".into(), display_name: "Ada".into(), config, at };
        store.create_agent(new).await.unwrap();
        let room =
            |pages: i64| store.write(move |db, _| Ok(db.pragma_update(None, "max_page_count", pages)?));
        room(200).await.unwrap();
        let mut accepted = 0;
        let error = loop {
            match store.accept(big(accepted), None).await {
                Ok(done) => assert!(matches!(done, Accepted::Fresh { .. })),
                Err(error) => break error,
            }
            accepted += 1;
            assert!(accepted < 1_000, "the store never runs out of room");
        };
        assert!(accepted > 0 && matches!(error, StoreError::Full(_)), "{error}");
        assert!(matches!(store.accept(big(accepted), None).await, Err(StoreError::Full(_))));
        // Every accepted event can be read, and no other.
        let waiting = store.agent(ADA).await.unwrap().unwrap().waiting;
        assert_eq!(waiting as usize, accepted);
        assert!(store.wake(ADA, Timestamp::UNIX_EPOCH, None).await.unwrap().is_some());
        room(1_000_000).await.unwrap();
        assert!(matches!(store.accept(big(accepted), None).await, Ok(Accepted::Fresh { .. })));
        assert_eq!(store.verify().await.unwrap().flaws, []);
        store.close().await.unwrap();
    }
}
