//! What administrators and people do, apart from posting messages: make, change and end agents, spaces,
//! members and keys. (Speaking is [`super::Store::accept`].)

use jiff::Timestamp;
use serde_json::Value;

use super::{BoxFuture, RequestKey, StoreError, Wakeup};
use crate::call::CallRow;
use crate::changes::Notifications;
use crate::config::{AgentConfig, BadConfig, WakeOn};
use crate::entity::{Entity, Space};
use crate::id::{AgentId, CallId, CredentialId, CycleId, EntityId, EventId, SpaceId};
use crate::life::Standing;

/// Why something may not be done. Each has one stable code (see `server/problem.rs`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Nothing has that id or handle.
    #[error("no {what} is called `{name}`")]
    NotFound {
        /// `agent`, `space`, `entity`, ….
        what: &'static str,
        /// What was asked for.
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
    /// The speaker is not a member of the space.
    #[error("`{entity}` is not a member of `{space}`")]
    NotMember {
        /// Who.
        entity: EntityId,
        /// Where.
        space: SpaceId,
    },
    /// The space takes no more messages.
    #[error("the space `{0}` is closed")]
    SpaceClosed(SpaceId),
    /// The space is full.
    #[error("the space `{0}` has as many members as it may")]
    SpaceFull(SpaceId),
    /// The agent is over.
    #[error("the agent `{0}` is retired")]
    Retired(AgentId),
    /// As many events wait as may.
    #[error("the inbox of `{0}` is full")]
    InboxFull(AgentId),
    /// The message id is used by another message.
    #[error("the message id is taken by another message")]
    MessageIdTaken,
    /// The agent runs no cycle.
    #[error("the agent `{0}` runs no cycle now")]
    NoOpenCycle(AgentId),
    /// The agent does not run that cycle.
    #[error("the agent `{0}` does not live that cycle (any more)")]
    OtherCycle(AgentId),
    /// The event is in another state than this needs.
    #[error("wanted an event that is {wanted}, but `{event}` is {state}")]
    EventState {
        /// The event.
        event: EventId,
        /// Its state.
        state: &'static str,
        /// The states that would do.
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
    /// The call has its outcome.
    #[error("wanted a call that is open, but `{call}` is over ({ended})")]
    CallOver {
        /// The call.
        call: CallId,
        /// How it ended.
        ended: &'static str,
    },
}

/// A call that was taken back.
#[derive(Clone, Debug, PartialEq)]
pub struct CanceledCall {
    /// Its row, with the outcome that its agent reads.
    pub call: CallRow,
    /// What to tell on.
    pub echo: Notifications,
}

/// What came of sending an event again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentAgain {
    /// It was dead or held and waits (again), its attempts begin anew.
    Waits(Option<Wakeup>),
    /// It was processed or skipped: this new event, which cites it, waits.
    Anew(EventId, Option<Wakeup>),
    /// The request's key was answered before; nothing was written.
    Before(EventId),
    /// The request's key was used for another body.
    Conflict,
}

/// What went wrong with the registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// It may not be done.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The config is invalid.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A person to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHuman {
    /// Identity.
    pub id: EntityId,
    /// Handle, valid by [`crate::entity::handle`].
    pub name: String,
    /// For people.
    pub display_name: String,
    /// Id in the client's own auth.
    pub external_id: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl NewHuman {
    /// One who is shown by the handle.
    pub fn new(id: EntityId, name: impl Into<String>, at: Timestamp) -> Self {
        let name = name.into();
        Self { id, display_name: name.clone(), name, external_id: None, at }
    }
}

/// An agent to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAgent {
    /// Identity, and its entity's.
    pub id: AgentId,
    /// Handle.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// Its first config.
    pub config: AgentConfig,
    /// When.
    pub at: Timestamp,
}

impl NewAgent {
    /// One that is shown by its handle.
    pub fn new(id: AgentId, name: impl Into<String>, config: AgentConfig, at: Timestamp) -> Self {
        let name = name.into();
        Self { id, display_name: name.clone(), name, config, at }
    }
}

/// A space to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSpace {
    /// Identity.
    pub id: SpaceId,
    /// Handle.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// What it is for.
    pub description: String,
    /// Which agents' messages wake its agents.
    pub wake_on: WakeOn,
    /// First members.
    pub members: Vec<EntityId>,
    /// When.
    pub at: Timestamp,
}

impl NewSpace {
    /// One that is shown by its handle, in which everybody hears everybody.
    pub fn new(id: SpaceId, name: impl Into<String>, members: Vec<EntityId>, at: Timestamp) -> Self {
        let name = name.into();
        let (display_name, description) = (name.clone(), String::new());
        Self { id, display_name, name, description, wake_on: WakeOn::All, members, at }
    }
}

/// What is to be changed of a space; what is not named stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceChange {
    /// For people.
    pub display_name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Which agents' messages wake its agents, from the next message on.
    pub wake_on: Option<WakeOn>,
}

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// Everything; names a `sender` to speak.
    Admin,
    /// What one entity may.
    Entity(EntityId),
}

/// A key as it is kept: the secret only as a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Identity.
    pub id: CredentialId,
    /// What it may do.
    pub kind: CredentialKind,
    /// For people.
    pub label: String,
}

/// A key to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCredential {
    /// The key.
    pub credential: Credential,
    /// SHA-256 of the secret, lower-case hex.
    pub secret_hash: String,
    /// When.
    pub at: Timestamp,
    /// Replaces every credential of this label and the same holder (the CLI's key of each start).
    pub replace_label: bool,
}

/// The world of a first start: written together, once per store.
#[derive(Clone, Debug, PartialEq)]
pub struct Founding {
    /// The human `you`.
    pub human: NewHuman,
    /// The first agent; none where agents are brought as files.
    pub agent: Option<NewAgent>,
    /// The first space, with them in it.
    pub space: NewSpace,
    /// The admin key.
    pub admin: NewCredential,
}

/// What administrators and people do.
pub trait Registry: Send + Sync {
    /// Writes the first world; `false` where the store has been founded before (nothing written).
    fn found(&self, founding: Founding) -> BoxFuture<'_, Result<bool, RegistryError>>;
    /// Makes a person.
    fn create_human(&self, new: NewHuman) -> BoxFuture<'_, Result<Entity, RegistryError>>;
    /// Makes an agent with its entity and config revision 1.
    fn create_agent(&self, new: NewAgent) -> BoxFuture<'_, Result<Entity, RegistryError>>;
    /// Changes an agent's names and config (the patch merges into the newest revision); returns the
    /// revision now in force. A patch that changes nothing makes no revision.
    fn amend_agent(
        &self,
        agent: AgentId,
        display_name: Option<String>,
        config: Option<Value>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<u64, RegistryError>>;
    /// Suspends, resumes or retires. Retiring is final and cancels pending plans. Resuming ends a rest, also
    /// that of an agent which was not suspended: what the provider or a failure made it wait for is tried now.
    fn set_standing(
        &self,
        agent: AgentId,
        standing: Standing,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<(), RegistryError>>;
    /// Asks that the open cycle (that one, where named) be canceled; returns it. Seen at the next
    /// commit or glance; the caller signals.
    fn cancel(&self, agent: AgentId, cycle: Option<CycleId>)
    -> BoxFuture<'_, Result<CycleId, RegistryError>>;
    /// Takes back an event that waits or is held. One that the open cycle has taken is not its to
    /// take back any more.
    fn cancel_event(&self, agent: AgentId, event: EventId) -> BoxFuture<'_, Result<(), RegistryError>>;
    /// Answers an open call as canceled, at once: for the cycle that waits for it, or by an event where
    /// none does. The caller signals.
    fn cancel_call(&self, agent: AgentId, call: CallId)
    -> BoxFuture<'_, Result<CanceledCall, RegistryError>>;
    /// Sends a dead event again, or a processed or skipped one as the new event `fresh` that cites it; a
    /// held one is let go, with all that is held of its space.
    /// `request` makes it idempotent by the client's key. The caller signals.
    fn send_again(
        &self,
        agent: AgentId,
        event: EventId,
        fresh: EventId,
        request: Option<RequestKey>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<SentAgain, RegistryError>>;
    /// Gives a dead event up for good. Its ledger row stays.
    fn drop_event(&self, agent: AgentId, event: EventId) -> BoxFuture<'_, Result<(), RegistryError>>;
    /// Opens a space.
    fn open_space(&self, new: NewSpace) -> BoxFuture<'_, Result<Space, RegistryError>>;
    /// Changes a space's names and rules; its `rev` is raised only where something changes.
    fn amend_space(&self, space: SpaceId, change: SpaceChange)
    -> BoxFuture<'_, Result<Space, RegistryError>>;
    /// Closes a space to further messages.
    fn close_space(&self, space: SpaceId) -> BoxFuture<'_, Result<Space, RegistryError>>;
    /// Adds a member; adding one again changes its role. Returns the space's `rev`.
    fn add_member(
        &self,
        space: SpaceId,
        entity: EntityId,
        role: String,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<u64, RegistryError>>;
    /// Removes a member; what waits in its inbox stays. Returns the space's `rev`.
    fn remove_member(&self, space: SpaceId, entity: EntityId) -> BoxFuture<'_, Result<u64, RegistryError>>;
    /// Keeps a key.
    fn add_credential(&self, new: NewCredential) -> BoxFuture<'_, Result<(), RegistryError>>;
    /// The key with that hash, if it is known and not revoked.
    fn credential(&self, secret_hash: String) -> BoxFuture<'_, Result<Option<Credential>, RegistryError>>;
}
