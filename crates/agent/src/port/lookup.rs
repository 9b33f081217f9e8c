//! What an agent's tools may read. Each query is scoped to the agent: it returns no rows of another agent or of a
//! space that the agent is not a member of.

use super::{BoxFuture, Recall, StoreError};
use crate::call::CallRow;
use crate::event::NamedMessage;
use crate::id::{AgentId, CallId, SpaceId};
use crate::life::SpaceFacts;
use crate::run::Run;

/// Messages of a space, oldest first, and how many there are in all.
pub type Messages = (Vec<NamedMessage>, u64);

/// Reading on an agent's behalf; its archive is searched by [`Recall`].
pub trait Lookup: Recall {
    /// The newest messages of a space before `before` (exclusive seq), oldest first, and how many there are in all;
    /// `None` if the agent is not a member.
    fn messages(
        &self,
        agent: AgentId,
        space: SpaceId,
        before: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Option<Messages>, StoreError>>;
    /// A space of the agent by id or handle, with all of its members; `None` if the agent is not a member.
    fn space(
        &self,
        agent: AgentId,
        id_or_name: String,
    ) -> BoxFuture<'_, Result<Option<SpaceFacts>, StoreError>>;
    /// A call of the agent, with its outcome.
    fn call(&self, agent: AgentId, call: CallId) -> BoxFuture<'_, Result<Option<CallRow>, StoreError>>;
    /// The agent's newest runs, newest first.
    fn runs(&self, agent: AgentId, limit: u32) -> BoxFuture<'_, Result<Vec<Run>, StoreError>>;
}
