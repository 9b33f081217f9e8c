//! The port of the living: each verb is one command or one question.

use agent::changes::{Changes, CommitOutcome, Glance};
use agent::id::AgentId;
use agent::life::{Lease, Waking};
use agent::port::{Accept, Accepted, BoxFuture, Due, RequestKey, Store, StoreError, Waken};
use jiff::Timestamp;
use rusqlite::Connection;

use super::fault::{Fault, of};
use super::{Session, Sqlite, accept, commit, due, wake};

impl Store for Sqlite {
    fn accept(
        &self,
        what: Accept,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<Accepted, StoreError>> {
        let done = self.write(move |db, session| accept::accept(db, session, &what, request.as_ref()));
        Box::pin(async move {
            match done.await {
                Err(Fault::Denied(denial)) => Ok(Accepted::Denied(denial)),
                other => Ok(other?),
            }
        })
    }

    fn due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        let done = self.read(move |db, _| due::due(db, now, limit));
        Box::pin(async move { Ok(done.await?) })
    }

    fn next_due(&self, now: Timestamp) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        let done = self.read(move |db, _| due::next_due(db, now));
        Box::pin(async move { Ok(done.await?) })
    }

    fn wake(
        &self,
        agent: AgentId,
        now: Timestamp,
        known: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<Waking>, StoreError>> {
        let work = move |db: &Connection, session: &Session| {
            wake::wake(db, session, agent, now, known).map_err(of(agent))
        };
        // Who is warm needs no window: a few rows.
        let done = if known.is_some() { self.look(work) } else { self.read(work) };
        Box::pin(async move { Ok(done.await?) })
    }

    fn commit(&self, lease: Lease, changes: Changes) -> BoxFuture<'_, Result<CommitOutcome, StoreError>> {
        let done = self
            .write(move |db, session| commit::commit(db, session, lease, &changes).map_err(of(lease.agent)));
        Box::pin(async move {
            match done.await {
                Err(Fault::Refused(refusals)) => Ok(CommitOutcome::Refused(refusals)),
                Err(Fault::Lost) => Ok(CommitOutcome::Lost),
                Err(Fault::Canceled) => Ok(CommitOutcome::Canceled),
                Err(Fault::Barred) => Ok(CommitOutcome::Barred),
                Err(Fault::Answered(answers)) => Ok(CommitOutcome::Answered(answers)),
                other => Ok(other?),
            }
        })
    }

    fn glance(&self, lease: Lease) -> BoxFuture<'_, Result<Option<Glance>, StoreError>> {
        let done = self.look(move |db, _| commit::glance(db, lease));
        Box::pin(async move { Ok(done.await?) })
    }

    fn fire_due(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Waken>, StoreError>> {
        let done = self.write(move |db, session| due::fire_due(db, session, now, limit));
        Box::pin(async move { Ok(done.await?) })
    }
}
