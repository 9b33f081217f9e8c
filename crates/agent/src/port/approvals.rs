//! What waits for people, and their answers. Each answer is a compare-and-set on the call row, by the rules of
//! [`crate::approval`]; outcomes enter the consciousness only by `commit`.

use jiff::Timestamp;

use super::{BoxFuture, Page, PageRequest, StoreError};
use crate::approval::{AnswerRefused, Answerer, ApprovalRule, PersonVerdict};
use crate::call::CallRow;
use crate::changes::Notifications;
use crate::id::{AgentId, CallId, EntityId, SpaceId};

/// An answer of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonAnswer {
    /// The call.
    pub id: CallId,
    /// What is said.
    pub verdict: PersonVerdict,
    /// What the agent reads about it.
    pub reason: Option<String>,
    /// Who answers.
    pub by: Answerer,
    /// When.
    pub at: Timestamp,
    /// The hash of what was shown, if it is known: another call is not answered.
    pub seen: Option<String>,
}

/// A call that waits, or has waited, for a person, with the agent that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedCall {
    /// The agent.
    pub agent: AgentId,
    /// Its row.
    pub row: CallRow,
}

/// The result of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum PersonAnswered {
    /// It counts. The caller signals the agent.
    Taken(Box<AskedCall>, Notifications),
    /// It does not count; nothing was written.
    Refused(AnswerRefused),
    /// There is no such call.
    Unknown,
}

/// A call whose people were reminded, or whose time is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Lapsed {
    /// The agent.
    pub agent: AgentId,
    /// The call.
    pub call: CallId,
    /// Whether its time is over; otherwise people were reminded.
    pub expired: bool,
    /// The notifications to publish.
    pub notifications: Notifications,
}

/// Which calls are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// Only those whose card is in this space.
    pub space: Option<SpaceId>,
    /// Only those whose card is in a space of this person, or of agents whose config names the person as one who may approve.
    pub member: Option<EntityId>,
    /// Also those that are over.
    pub all: bool,
}

/// Which rules are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleFilter {
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// Only those that this person gave.
    pub person: Option<EntityId>,
}

/// Calls that wait for people.
pub trait Approvals: Send + Sync {
    /// Answers a call. Only the first answer counts; later ones are told who gave it. An approved call runs in its cycle or,
    /// if that went on, as a detached one.
    fn answer(&self, answer: PersonAnswer) -> BoxFuture<'_, Result<PersonAnswered, StoreError>>;
    /// Reminds people, once per call, and ends what nobody answered in time: at most `limit` calls, found by index.
    fn lapse(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Lapsed>, StoreError>>;
    /// When the next call lapses.
    fn next_lapse(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>>;
    /// The call with that id, if it waits or has waited for a person.
    fn asked(&self, call: CallId) -> BoxFuture<'_, Result<Option<AskedCall>, StoreError>>;
    /// Calls that wait for people, the newest first.
    fn approvals(
        &self,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<AskedCall>, StoreError>>;
    /// The rules whose time is not over at `now`, in the order in which they were given.
    fn rules(
        &self,
        filter: RuleFilter,
        now: Timestamp,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<ApprovalRule>, StoreError>>;
    /// Deletes the rules for a tool, or only those that this person gave; returns them.
    fn forget_rules(
        &self,
        agent: AgentId,
        tool: String,
        person: Option<EntityId>,
    ) -> BoxFuture<'_, Result<Vec<ApprovalRule>, StoreError>>;
}
