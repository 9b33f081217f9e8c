//! What administrators and people do, apart from posting messages ([`super::Store::accept`]): create, change and
//! end agents, spaces, members and keys.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::{BoxFuture, RequestKey, StoreError, Wakeup};
use crate::call::CallRow;
use crate::changes::{GoalEdit, MemoryChange, Notifications, PlanChange};
use crate::config::{AgentConfig, BadConfig, WakeOn};
use crate::entity::{Entity, Space};
use crate::goals::BadGoals;
use crate::id::{AgentId, CallId, CredentialId, CycleId, EntityId, EventId, SpaceId};
use crate::life::{Goal, Standing};
use crate::memory::Memory;
use crate::plan::Plan;

/// Why a request is denied. Each reason has one stable code (see `server/problem.rs`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Nothing has that id or handle.
    #[error("no {what} is called `{name}`")]
    NotFound {
        /// `agent`, `space`, `entity`, ….
        what: &'static str,
        /// The requested id or handle.
        name: String,
    },
    /// The handle is taken.
    #[error("{} {what} called `{name}` exists already", if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" })]
    NameTaken {
        /// `entity`, `space`, ….
        what: &'static str,
        /// The handle.
        name: String,
    },
    /// The sender is not a member of the space.
    #[error("`{entity}` is not a member of `{space}`")]
    NotMember {
        /// The sender.
        entity: EntityId,
        /// The space.
        space: SpaceId,
    },
    /// The space accepts no more messages.
    #[error("the space `{0}` is closed")]
    SpaceClosed(SpaceId),
    /// The space is full.
    #[error("the space `{0}` has the maximum number of members")]
    SpaceFull(SpaceId),
    /// The agent is retired.
    #[error("the agent `{0}` is retired")]
    Retired(AgentId),
    /// The maximum number of events is waiting.
    #[error("the inbox of `{0}` is full")]
    InboxFull(AgentId),
    /// The agent keeps the maximum number of memories.
    #[error("the agent `{0}` has the maximum number of memories")]
    MemoriesFull(AgentId),
    /// The pinned memories of the agent would be too many or too long.
    #[error("the memory cannot be pinned for the agent `{agent}`: {why}")]
    PinnedFull {
        /// The agent.
        agent: AgentId,
        /// The limit, and what to do.
        why: String,
    },
    /// The agent's goals would be too many or too deep.
    #[error("the goals of the agent `{agent}`: {why}")]
    BadGoals {
        /// The agent.
        agent: AgentId,
        /// What is wrong.
        why: BadGoals,
    },
    /// The agent has the maximum number of plans.
    #[error("the agent `{0}` has the maximum number of plans")]
    PlansFull(AgentId),
    /// The plan is one of the agent's config.
    #[error("the plan `{0}` is in the agent's config")]
    PlanOfConfig(String),
    /// The message id is used by another message.
    #[error("the message id is taken by another message")]
    MessageIdTaken,
    /// The agent runs no cycle.
    #[error("the agent `{0}` runs no cycle now")]
    NoOpenCycle(AgentId),
    /// The agent does not run that cycle.
    #[error("the agent `{0}` does not run that cycle now")]
    OtherCycle(AgentId),
    /// The event is in a state that does not allow this.
    #[error("wanted an event that is {wanted}, but `{event}` is {state}")]
    EventState {
        /// The event.
        event: EventId,
        /// Its state.
        state: &'static str,
        /// The states that allow it.
        wanted: &'static str,
    },
    /// The open cycle has taken the event.
    #[error("the event `{event}` is taken by the open cycle `{cycle}`")]
    EventTaken {
        /// The event.
        event: EventId,
        /// The cycle.
        cycle: CycleId,
    },
    /// The key is not valid any more.
    #[error("the key `{0}` is revoked or expired")]
    KeyOver(CredentialId),
    /// The call already has an outcome.
    #[error("wanted an open call, but `{call}` has ended ({ended})")]
    CallOver {
        /// The call.
        call: CallId,
        /// How it ended.
        ended: &'static str,
    },
}

/// A call that was canceled.
#[derive(Clone, Debug, PartialEq)]
pub struct CanceledCall {
    /// Its row, with the outcome that its agent reads.
    pub call: CallRow,
    /// The notifications to publish.
    pub notifications: Notifications,
}

/// The result of sending an event again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentAgain {
    /// It was dead or held and now waits; its attempts start again from 0.
    Waits(Option<Wakeup>),
    /// It was processed or skipped. A new event with this id, which cites it, now waits.
    AsNew(EventId, Option<Wakeup>),
    /// The request's key was used before for this request; nothing was written. The event of the first answer.
    Repeated(EventId),
    /// The request's key was used before for another body.
    Conflict,
}

/// What is known of a request with a client's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownRequest {
    /// The key is new.
    New,
    /// The same request was noted before, with this subject: the id of what it creates, or of what it changed. Nil if it has
    /// changed nothing yet: it was refused, or cut off.
    Repeated(Uuid),
    /// The same request was answered before with this.
    Answered(String),
    /// The key was used before for another request.
    Conflict,
}

/// What went wrong with the registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The request is denied.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The config is invalid.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A person to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHuman {
    /// Identity.
    pub id: EntityId,
    /// Handle, valid by [`crate::entity::handle`].
    pub name: String,
    /// Name for people.
    pub display_name: String,
    /// Id in the client's own auth.
    pub external_id: Option<String>,
    /// Creation time.
    pub at: Timestamp,
}

impl NewHuman {
    /// A person whose display name is the handle.
    pub fn new(id: EntityId, name: impl Into<String>, at: Timestamp) -> Self {
        let name = name.into();
        Self { id, display_name: name.clone(), name, external_id: None, at }
    }
}

/// An agent to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAgent {
    /// Its id, and that of its entity.
    pub id: AgentId,
    /// Handle.
    pub name: String,
    /// Name for people.
    pub display_name: String,
    /// Its first config.
    pub config: AgentConfig,
    /// Creation time.
    pub at: Timestamp,
}

impl NewAgent {
    /// An agent whose display name is the handle.
    pub fn new(id: AgentId, name: impl Into<String>, config: AgentConfig, at: Timestamp) -> Self {
        let name = name.into();
        Self { id, display_name: name.clone(), name, config, at }
    }
}

/// A space to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSpace {
    /// Identity.
    pub id: SpaceId,
    /// Handle.
    pub name: String,
    /// Name for people.
    pub display_name: String,
    /// What it is for.
    pub description: String,
    /// Which agents' messages wake its agents.
    pub wake_on: WakeOn,
    /// First members.
    pub members: Vec<EntityId>,
    /// Creation time.
    pub at: Timestamp,
}

impl NewSpace {
    /// A space whose display name is the handle and in which every message wakes all agents.
    pub fn new(id: SpaceId, name: impl Into<String>, members: Vec<EntityId>, at: Timestamp) -> Self {
        let name = name.into();
        let (display_name, description) = (name.clone(), String::new());
        Self { id, display_name, name, description, wake_on: WakeOn::All, members, at }
    }
}

/// Changes of a space; `None` keeps a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceChange {
    /// Name for people.
    pub display_name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Which agents' messages wake its agents, from the next message on.
    pub wake_on: Option<WakeOn>,
}

/// What a key may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything. Must name a `sender` to post.
    Admin,
    /// Read everything that an admin key may read, and change nothing.
    Read,
    /// Whatever this person may do.
    Person(EntityId),
    /// Send events as the service of this name, and nothing else.
    Service(String),
    /// Run calls of the worker tools with these names, a name or a pattern with `*`, and nothing else.
    Worker(String),
}

/// As it is written in the API: `admin`, `operator:read`, `person`, `service:NAME`, `worker:TOOL`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin => f.write_str("admin"),
            Self::Read => f.write_str("operator:read"),
            Self::Person(_) => f.write_str("person"),
            Self::Service(name) => write!(f, "service:{name}"),
            Self::Worker(tools) => write!(f, "worker:{tools}"),
        }
    }
}

/// A stored key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Identity.
    pub id: CredentialId,
    /// What it may do.
    pub scope: Scope,
    /// Name for people.
    pub label: String,
    /// When it stops being valid; `None`: never.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, as [`Registry::credential_used`] was last told.
    pub used_at: Option<Timestamp>,
}

impl Credential {
    /// A key that never expires and was never used.
    pub fn new(id: CredentialId, scope: Scope, label: impl Into<String>) -> Self {
        Self { id, scope, label: label.into(), expires_at: None, used_at: None }
    }

    /// Whether it is not valid any more at this time.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// A stored key as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialRow {
    /// The key.
    pub credential: Credential,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was revoked; it is valid if it was not.
    pub revoked_at: Option<Timestamp>,
}

/// A key to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCredential {
    /// The key.
    pub credential: Credential,
    /// SHA-256 of the secret, lower-case hex.
    pub secret_hash: String,
    /// Creation time.
    pub at: Timestamp,
    /// Whether it replaces all keys of the same scope with this label (the CLI creates a key at each start).
    pub replace_label: bool,
}

/// A key that replaces another one of the same scope and label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The key to replace; it must be valid.
    pub old: CredentialId,
    /// When the old key expires, unless it expires earlier.
    pub old_until: Timestamp,
    /// The new key.
    pub new: CredentialId,
    /// SHA-256 of the new secret, lower-case hex.
    pub secret_hash: String,
    /// The time now.
    pub at: Timestamp,
    /// When the new key expires. `None`: it lives as long as the old one was made for.
    pub expires_at: Option<Timestamp>,
}

/// What became of a request for a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAdded {
    /// It is stored.
    Added(CredentialRow),
    /// The same request was made before: the key that it created, as it is now.
    Repeated(CredentialRow),
    /// The idempotency key was used for another request.
    Conflict,
}

/// The data of a first start, written in one transaction, once per store.
#[derive(Clone, Debug, PartialEq)]
pub struct Founding {
    /// The human `you`.
    pub human: NewHuman,
    /// The first agent; `None` if agents come from files.
    pub agent: Option<NewAgent>,
    /// The first space, with both as members; `None` if agent files say which spaces there are.
    pub space: Option<NewSpace>,
    /// The admin key.
    pub admin: NewCredential,
}

/// What administrators and people do.
pub trait Registry: Send + Sync {
    /// Writes the data of a first start. Returns `false` and writes nothing if the store has such data already.
    fn found(&self, founding: Founding) -> BoxFuture<'_, Result<bool, RegistryError>>;
    /// Creates a person. The handle of a retired agent is free: that agent keeps a
    /// [`crate::registry::former_name`].
    fn create_human(&self, new: NewHuman) -> BoxFuture<'_, Result<Entity, RegistryError>>;
    /// Creates an agent with its entity, config revision 1 and the plans of its config. The handle of a retired agent is free, as for a person.
    fn create_agent(&self, new: NewAgent) -> BoxFuture<'_, Result<Entity, RegistryError>>;
    /// Changes an agent's display name and config (the patch is merged into the newest revision). Returns the
    /// revision now in force. The plans of the config follow it. A patch that changes nothing creates no revision. A retired agent is not changed.
    fn amend_agent(
        &self,
        agent: AgentId,
        display_name: Option<String>,
        config: Option<Value>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<u64, RegistryError>>;
    /// Sets or deletes a memory, as of the agent's newest commit. An open cycle stays valid and sees the change with its
    /// next facts; of two changes of one key the later one wins, no matter who made it. Returns the
    /// memory as it is now.
    fn change_memory(
        &self,
        agent: AgentId,
        change: MemoryChange,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Memory>, RegistryError>>;
    /// Sets, changes or deletes a goal for an operator, as of the agent's newest commit. Returns the goal as it is now.
    fn change_goal(
        &self,
        agent: AgentId,
        edit: GoalEdit,
    ) -> BoxFuture<'_, Result<Option<Goal>, RegistryError>>;
    /// Sets or deletes a plan for an operator, as of the agent's newest commit. Those of the agent's config follow that. One that
    /// is set replaces the operators' plan of its name.
    /// Returns the plan as it is now.
    fn change_plan(
        &self,
        agent: AgentId,
        change: PlanChange,
    ) -> BoxFuture<'_, Result<Option<Plan>, RegistryError>>;
    /// Suspends, resumes or retires an agent. Retiring is final and cancels pending plans. Resuming also ends a
    /// backoff, even of an agent that was not suspended: it runs now.
    fn set_standing(
        &self,
        agent: AgentId,
        standing: Standing,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<(), RegistryError>>;
    /// Requests the cancel of the open cycle (which must be `cycle`, if given) and returns its id. The cycle sees it
    /// at its next commit or glance. The caller signals the agent.
    fn cancel(&self, agent: AgentId, cycle: Option<CycleId>)
    -> BoxFuture<'_, Result<CycleId, RegistryError>>;
    /// Cancels an event that is waiting or held. An event that the open cycle has taken cannot be canceled.
    fn cancel_event(&self, agent: AgentId, event: EventId) -> BoxFuture<'_, Result<(), RegistryError>>;
    /// Gives an open call the outcome `canceled` at once: for the cycle that waits for it, or as an event if no cycle
    /// does. The caller signals the agent.
    fn cancel_call(&self, agent: AgentId, call: CallId)
    -> BoxFuture<'_, Result<CanceledCall, RegistryError>>;
    /// Sends an event again: a dead one waits again, a processed or skipped one is sent as the new event `fresh` that
    /// cites it, a held one is released with all held events of its space. `request` makes this idempotent by the
    /// client's key. The caller signals the agent.
    fn send_again(
        &self,
        agent: AgentId,
        event: EventId,
        fresh: EventId,
        request: Option<RequestKey>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<SentAgain, RegistryError>>;
    /// Drops a dead event for good. Its ledger row stays.
    fn drop_event(&self, agent: AgentId, event: EventId) -> BoxFuture<'_, Result<(), RegistryError>>;
    /// Opens a space. The handle of a closed one is free: that space keeps a [`crate::registry::former_name`].
    fn open_space(&self, new: NewSpace) -> BoxFuture<'_, Result<Space, RegistryError>>;
    /// Changes a space's names and rules. Its `rev` increases only if something changes.
    fn amend_space(&self, space: SpaceId, change: SpaceChange)
    -> BoxFuture<'_, Result<Space, RegistryError>>;
    /// Closes a space to further messages, or opens it again with its history, its members and its handle, which no
    /// open space may have taken. Its `rev` increases only if something changes.
    fn set_space_closed(&self, space: SpaceId, closed: bool) -> BoxFuture<'_, Result<Space, RegistryError>>;
    /// Adds a member, or changes the role of one. Returns the space's `rev`.
    fn add_member(
        &self,
        space: SpaceId,
        entity: EntityId,
        role: String,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<u64, RegistryError>>;
    /// Removes a member. Events that wait in its inbox stay. Returns the space's `rev`.
    fn remove_member(&self, space: SpaceId, entity: EntityId) -> BoxFuture<'_, Result<u64, RegistryError>>;
    /// What is known of this request.
    fn known_request(&self, request: RequestKey) -> BoxFuture<'_, Result<KnownRequest, RegistryError>>;
    /// Notes the subject of a request, unless its key is known. A nil subject reserves the key for this request until its
    /// subject is noted. Returns what was known before. A few keys that are too old are forgotten with each new one.
    fn note_request(
        &self,
        request: RequestKey,
        subject: Uuid,
    ) -> BoxFuture<'_, Result<KnownRequest, RegistryError>>;
    /// Notes the answer to a request whose subject was noted.
    fn answer_request(&self, request: RequestKey, answer: String)
    -> BoxFuture<'_, Result<(), RegistryError>>;
    /// Stores a key. `request` makes this idempotent by the client's key.
    fn add_credential(
        &self,
        new: NewCredential,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<KeyAdded, RegistryError>>;
    /// Gives a key a successor with a new secret. `request` makes this idempotent by the client's key.
    fn rotate_credential(
        &self,
        rotation: Rotation,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<KeyAdded, RegistryError>>;
    /// Notes when a key was used; the latest time is kept.
    fn credential_used(&self, id: CredentialId, at: Timestamp) -> BoxFuture<'_, Result<(), RegistryError>>;
    /// The key with that hash, if it exists and is not revoked. It may be expired.
    fn credential(&self, secret_hash: String) -> BoxFuture<'_, Result<Option<Credential>, RegistryError>>;
    /// Revokes a key: it is no longer valid, and stays listed. Revoking it again changes nothing.
    fn revoke_credential(
        &self,
        id: CredentialId,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<CredentialRow, RegistryError>>;
}
