//! What administrators and people do: the first setup is here, the rest is in `registry/`.

mod agents;
mod events;
mod keys;
mod spaces;

use std::sync::Arc;

use agent::changes::{GoalEdit, MemoryChange, PlanChange};
use agent::entity::{Entity, Space};
use agent::id::{AgentId, CallId, CredentialId, CycleId, EntityId, EventId, SpaceId};
use agent::life::{Goal, Standing};
use agent::memory::Memory;
use agent::plan::Plan;
use agent::port::{
    BoxFuture, CanceledCall, Credential, CredentialRow, Founding, KeyAdded, KnownRequest, NewAgent,
    NewCredential, NewHuman, NewSpace, Registry, RegistryError, RequestKey, Rotation, SentAgain, SpaceChange,
};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::Value;
use uuid::Uuid;

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::schema::{meta, set_meta};
use crate::sqlite::ports::{Caller, Sqlite, calls};
use crate::sqlite::tables::credentials::credential_by_hash;
use crate::sqlite::tables::requests;
use crate::sqlite::tables::rows::ms;

fn is_founded(db: &Connection) -> Outcome<bool> {
    Ok(meta(db, "founded_at")?.is_some())
}

fn found(db: &Connection, founding: Founding) -> Outcome<bool> {
    if is_founded(db)? {
        return Ok(false);
    }
    set_meta(db, "founded_at", ms(founding.human.at))?;
    agents::create_human(db, founding.human)?;
    if let Some(agent) = founding.agent {
        agents::create_agent(db, agent)?;
    }
    if let Some(space) = founding.space {
        spaces::open(db, space)?;
    }
    keys::add(db, &founding.admin, None)?;
    Ok(true)
}

impl Registry for Sqlite {
    fn found(&self, founding: Founding) -> BoxFuture<'_, Result<bool, RegistryError>> {
        Box::pin(async move {
            // Every start calls this, even on a full disk: so look before writing.
            if self.read_inline(Caller::Api, |db, _| is_founded(db)).await? {
                return Ok(false);
            }
            self.administer(move |db| found(db, founding.clone())).await
        })
    }

    fn create_human(&self, new: NewHuman) -> BoxFuture<'_, Result<Entity, RegistryError>> {
        self.administer(move |db| agents::create_human(db, new.clone()))
    }

    fn create_agent(&self, new: NewAgent) -> BoxFuture<'_, Result<Entity, RegistryError>> {
        self.administer(move |db| agents::create_agent(db, new.clone()))
    }

    fn amend_agent(
        &self,
        agent: AgentId,
        display_name: Option<String>,
        config: Option<Value>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<u64, RegistryError>> {
        let session = Arc::clone(&self.inner.session);
        self.administer(move |db| {
            let now = at.min(session.now());
            agents::amend_agent(db, &session, agent, display_name.as_deref(), config.as_ref(), now)
        })
    }

    fn change_memory(
        &self,
        agent: AgentId,
        change: MemoryChange,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Memory>, RegistryError>> {
        let session = Arc::clone(&self.inner.session);
        self.administer(move |db| agents::change_memory(db, agent, &change, at.min(session.now())))
    }

    fn change_goal(
        &self,
        agent: AgentId,
        edit: GoalEdit,
    ) -> BoxFuture<'_, Result<Option<Goal>, RegistryError>> {
        self.administer(move |db| agents::change_goal(db, agent, &edit))
    }

    fn change_plan(
        &self,
        agent: AgentId,
        change: PlanChange,
    ) -> BoxFuture<'_, Result<Option<Plan>, RegistryError>> {
        self.administer(move |db| agents::change_plan(db, agent, &change))
    }

    fn set_standing(
        &self,
        agent: AgentId,
        standing: Standing,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<(), RegistryError>> {
        let session = Arc::clone(&self.inner.session);
        self.administer(move |db| agents::set_standing(db, &session, agent, standing, at.min(session.now())))
    }

    fn cancel(
        &self,
        agent: AgentId,
        cycle: Option<CycleId>,
    ) -> BoxFuture<'_, Result<CycleId, RegistryError>> {
        let session = Arc::clone(&self.inner.session);
        self.administer(move |db| agents::cancel(db, &session, agent, cycle))
    }

    fn cancel_event(&self, agent: AgentId, event: EventId) -> BoxFuture<'_, Result<(), RegistryError>> {
        let done = self.write(move |db, session| events::cancel(db, session, agent, &event));
        Box::pin(async move { Ok(done.await?) })
    }

    fn cancel_call(
        &self,
        agent: AgentId,
        call: CallId,
    ) -> BoxFuture<'_, Result<CanceledCall, RegistryError>> {
        let now = self.inner.session.clock.now();
        let done = self.write(move |db, session| calls::cancel(db, session, agent, &call, now));
        Box::pin(async move { Ok(done.await?) })
    }

    fn send_again(
        &self,
        agent: AgentId,
        event: EventId,
        fresh: EventId,
        request: Option<RequestKey>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<SentAgain, RegistryError>> {
        let done = self.write(move |db, session| {
            events::send_again(db, session, agent, &event, fresh.clone(), request.as_ref(), at)
        });
        Box::pin(async move { Ok(done.await?) })
    }

    fn drop_event(&self, agent: AgentId, event: EventId) -> BoxFuture<'_, Result<(), RegistryError>> {
        self.administer(move |db| events::drop_event(db, agent, &event))
    }

    fn open_space(&self, new: NewSpace) -> BoxFuture<'_, Result<Space, RegistryError>> {
        self.administer(move |db| spaces::open(db, new.clone()))
    }

    fn amend_space(
        &self,
        space: SpaceId,
        change: SpaceChange,
    ) -> BoxFuture<'_, Result<Space, RegistryError>> {
        self.administer(move |db| spaces::amend(db, space, &change))
    }

    fn set_space_closed(&self, space: SpaceId, closed: bool) -> BoxFuture<'_, Result<Space, RegistryError>> {
        self.administer(move |db| spaces::set_closed(db, space, closed))
    }

    fn add_member(
        &self,
        space: SpaceId,
        entity: EntityId,
        role: String,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<u64, RegistryError>> {
        self.administer(move |db| spaces::add_member(db, space, entity, &role, at))
    }

    fn remove_member(&self, space: SpaceId, entity: EntityId) -> BoxFuture<'_, Result<u64, RegistryError>> {
        self.administer(move |db| spaces::remove_member(db, space, entity))
    }

    fn known_request(&self, request: RequestKey) -> BoxFuture<'_, Result<KnownRequest, RegistryError>> {
        let done = self.read_inline(Caller::Api, move |db, _| requests::known(db, &request));
        Box::pin(async move { Ok(done.await?) })
    }

    fn note_request(
        &self,
        request: RequestKey,
        subject: Uuid,
    ) -> BoxFuture<'_, Result<KnownRequest, RegistryError>> {
        self.administer(move |db| requests::note(db, &request, subject))
    }

    fn answer_request(
        &self,
        request: RequestKey,
        answer: String,
    ) -> BoxFuture<'_, Result<(), RegistryError>> {
        self.administer(move |db| requests::answer(db, &request, &answer))
    }

    fn add_credential(
        &self,
        new: NewCredential,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<KeyAdded, RegistryError>> {
        self.administer(move |db| keys::add(db, &new, request.as_ref()))
    }

    fn rotate_credential(
        &self,
        rotation: Rotation,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<KeyAdded, RegistryError>> {
        self.administer(move |db| keys::rotate(db, &rotation, request.as_ref()))
    }

    fn credential_used(&self, id: CredentialId, at: Timestamp) -> BoxFuture<'_, Result<(), RegistryError>> {
        self.administer(move |db| keys::used(db, id, at))
    }

    fn revoke_credential(
        &self,
        id: CredentialId,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<CredentialRow, RegistryError>> {
        self.administer(move |db| keys::revoke(db, id, at))
    }

    fn credential(&self, secret_hash: String) -> BoxFuture<'_, Result<Option<Credential>, RegistryError>> {
        let done = self.read_inline(Caller::Api, move |db, _| credential_by_hash(db, &secret_hash));
        Box::pin(async move { Ok(done.await?) })
    }
}

impl Sqlite {
    fn administer<T: Send + 'static>(
        &self,
        work: impl Fn(&Connection) -> Outcome<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, RegistryError>> {
        let done = self.write(move |db, _| work(db));
        Box::pin(async move { Ok(done.await?) })
    }
}
