//! What administrators and people do: keys and the first setup are here, the rest is in `registry/`.

mod agents;
mod events;
mod spaces;

use std::sync::Arc;

use agent::entity::{Entity, Space};
use agent::id::{AgentId, CallId, CredentialId, CycleId, EntityId, EventId, SpaceId};
use agent::life::Standing;
use agent::port::{
    BoxFuture, CanceledCall, Credential, CredentialKind, CredentialRow, Denial, Founding, KnownRequest,
    NewAgent, NewCredential, NewHuman, NewSpace, Registry, RegistryError, RequestKey, SentAgain, SpaceChange,
};
use jiff::Timestamp;
use rusqlite::{Connection, params};
use serde_json::Value;
use uuid::Uuid;

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::schema::{meta, set_meta};
use crate::sqlite::ports::{Caller, Sqlite, calls};
use crate::sqlite::tables::credentials::{CREDENTIALS, credential_row};
use crate::sqlite::tables::requests;
use crate::sqlite::tables::rows::{bytes, entity_row, first, ms, run};

fn add_credential(db: &Connection, new: &NewCredential) -> Outcome<()> {
    let NewCredential { credential, secret_hash, at, replace_label } = new;
    let entity = match credential.kind {
        CredentialKind::Admin => None,
        CredentialKind::Entity(entity) => {
            let denial = || Denial::NotFound { what: "entity", name: entity.to_string() };
            Some(entity_row(db, entity.0)?.ok_or_else(denial)?)
        }
    };
    if *replace_label {
        let sql = "DELETE FROM credential WHERE label = ? AND entity IS ?";
        run(db, sql, params![credential.label, entity])?;
    }
    let sql = "INSERT INTO credential (id, entity, label, secret_hash, created_at) VALUES (?, ?, ?, ?, ?)";
    run(db, sql, params![bytes(credential.id.0), entity, credential.label, secret_hash, ms(*at)]).map(drop)
}

fn credential(db: &Connection, secret_hash: &str) -> Outcome<Option<Credential>> {
    let sql = format!("{CREDENTIALS} WHERE c.secret_hash = ? AND c.revoked_at IS NULL");
    Ok(first(db, &sql, [secret_hash], credential_row)?.map(|row| row.credential))
}

fn revoke_credential(db: &Connection, id: CredentialId, at: Timestamp) -> Outcome<CredentialRow> {
    let sql = "UPDATE credential SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL";
    run(db, sql, params![ms(at), bytes(id.0)])?;
    let found = first(db, &format!("{CREDENTIALS} WHERE c.id = ?"), [bytes(id.0)], credential_row)?;
    found.ok_or_else(|| Denial::NotFound { what: "key", name: id.to_string() }.into())
}

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
    spaces::open(db, founding.space)?;
    add_credential(db, &founding.admin)?;
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
            agents::amend_agent(db, agent, display_name.as_deref(), config.as_ref(), now)
        })
    }

    fn set_standing(
        &self,
        agent: AgentId,
        standing: Standing,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<(), RegistryError>> {
        let session = Arc::clone(&self.inner.session);
        self.administer(move |db| agents::set_standing(db, agent, standing, at.min(session.now())))
    }

    fn cancel(
        &self,
        agent: AgentId,
        cycle: Option<CycleId>,
    ) -> BoxFuture<'_, Result<CycleId, RegistryError>> {
        let session = Arc::clone(&self.inner.session);
        self.administer(move |db| agents::cancel(db, agent, cycle, session.now()))
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

    fn close_space(&self, space: SpaceId) -> BoxFuture<'_, Result<Space, RegistryError>> {
        self.administer(move |db| spaces::close(db, space))
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

    fn add_credential(&self, new: NewCredential) -> BoxFuture<'_, Result<(), RegistryError>> {
        self.administer(move |db| add_credential(db, &new))
    }

    fn revoke_credential(
        &self,
        id: CredentialId,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<CredentialRow, RegistryError>> {
        self.administer(move |db| revoke_credential(db, id, at))
    }

    fn credential(&self, secret_hash: String) -> BoxFuture<'_, Result<Option<Credential>, RegistryError>> {
        let done = self.read_inline(Caller::Api, move |db, _| credential(db, &secret_hash));
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
