//! Targets: servers outside that are told what happens, and what waits to be sent to them. Must not know how it is sent.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{BoxFuture, StoreError};
use crate::id::{AgentId, SpaceId};

names! {
    /// What a target can be told.
    #[derive(PartialOrd, Ord)]
    pub enum NewsKind {
        /// A message was posted.
        Message,
        /// A cycle of the agent ended and has a run.
        #[serde(rename = "cycle.ended")]
        #[strum(serialize = "cycle.ended")]
        CycleEnded,
        /// The agent needs an operator: one of its events failed for good.
        Alert,
        /// A call of the agent waits for a person.
        #[serde(rename = "approval.wanted")]
        #[strum(serialize = "approval.wanted")]
        ApprovalWanted,
    }
}

/// Whose news a target is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewsOf {
    /// Messages in a space.
    Space(SpaceId),
    /// Messages, cycles and alerts of an agent.
    Agent(AgentId),
}

impl NewsOf {
    /// The agent, if it is an agent's news.
    pub fn agent(self) -> Option<AgentId> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Space(_) => None,
        }
    }
}

/// A target as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTarget {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
    /// Names of the secrets, each of which signs.
    pub secrets: Vec<String>,
    /// Addresses inside that it may have.
    pub allow: Vec<String>,
    /// What it is told, in order.
    pub on: Vec<NewsKind>,
    /// Whose news.
    pub of: NewsOf,
    /// An expression, valid by [`Courier::check`]: news with which it is not true are not sent.
    pub only_if: Option<String>,
    /// What is sent in place of the news: JSON whose texts are templates.
    pub body: Option<Value>,
    /// Why nothing is sent any more; `None` while it is on.
    pub off: Option<String>,
    /// When it was added or changed.
    pub at: Timestamp,
}

/// A target with what waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetState {
    /// The target.
    pub target: StoredTarget,
    /// Deliveries that wait.
    pub waiting: u64,
    /// Deliveries that were given up.
    pub dead: u64,
    /// Why the last attempt of the first one that waits failed.
    pub why: Option<String>,
    /// When the first one that waits is tried next.
    pub next_at: Option<Timestamp>,
    /// Failed attempts of the first one that waits.
    pub attempts: u32,
    /// When attempts began to fail, if the last one failed.
    pub failed_at: Option<Timestamp>,
    /// When the last delivery arrived.
    pub arrived_at: Option<Timestamp>,
}

/// Something that happened, as it is sent to a target: each time with the same id and the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDelivery {
    /// Its id, `webhook-id`.
    pub id: String,
    /// The body, JSON.
    pub body: String,
    /// When it happened.
    pub at: Timestamp,
    /// Attempts that failed.
    pub attempts: u32,
    /// Why the last one failed.
    pub why: Option<String>,
}

/// What becomes of a delivery after a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is tried again then.
    Retry(Timestamp),
    /// It is given up, and the next one is tried.
    Dead,
    /// Nothing is sent to the target any more.
    Off,
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Why.
    pub why: String,
    /// What becomes of the delivery.
    pub then: AfterFailure,
    /// When.
    pub at: Timestamp,
}

/// What a failed attempt has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureNoted {
    /// Nothing: the target has been put again since, or the delivery waits no more.
    Nothing,
    /// The attempt before at the target had succeeded, or there was none.
    Began,
    /// The attempt before had failed, too.
    Continued,
}

/// Keeps targets, and what waits for them. What a target is told is written in the commit in which it happens.
pub trait TargetBook: Send + Sync {
    /// All targets, by name, with what waits for them.
    fn targets(&self) -> BoxFuture<'_, Result<Vec<TargetState>, StoreError>>;
    /// Keeps a target, instead of the one of its name, whose deliveries it takes over.
    fn put_target(&self, target: StoredTarget) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Forgets a target and all its deliveries; `false` if there is none.
    fn delete_target(&self, name: String) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Targets that are on and whose first waiting delivery is due, at most `limit`, most overdue first: one delivery of
    /// each.
    fn deliveries_due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(StoredTarget, TargetDelivery)>, StoreError>>;
    /// When the next target that is on has a delivery due, after `now`.
    fn next_delivery_at(&self, now: Timestamp) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>>;
    /// Ends once something was committed since it last ended: deliveries may be due. For one listener.
    fn committed(&self) -> BoxFuture<'_, ()>;
    /// The delivery has arrived: it is forgotten. `true` if an attempt at its target had failed before, and none has succeeded since.
    fn delivery_arrived(&self, id: String, at: Timestamp) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// An attempt at the target as it was then failed. What operators should know of is kept with it ([`Alert::of_target`]).
    ///
    /// [`Alert::of_target`]: crate::alert::Alert::of_target
    fn delivery_failed(
        &self,
        tried: StoredTarget,
        id: String,
        failed: FailedAttempt,
    ) -> BoxFuture<'_, Result<FailureNoted, StoreError>>;
    /// The deliveries to a target that were given up, oldest first.
    fn dead_deliveries(&self, name: String) -> BoxFuture<'_, Result<Vec<TargetDelivery>, StoreError>>;
    /// Tries dead deliveries again, all or that one, before everything that happened later. Returns how many.
    fn retry_deliveries(
        &self,
        name: String,
        id: Option<String>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, StoreError>>;
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    /// The target says that it is gone for good.
    #[error("it answered 410 Gone")]
    Gone,
    /// It says how long it wants no further attempt.
    #[error("{why}; it wants no attempt for {} s", .wait.as_secs())]
    Busy {
        /// What it answered.
        why: String,
        /// How long.
        wait: Duration,
    },
    /// Anything else: another attempt may help. The text has no secret.
    #[error("{0}")]
    Failed(String),
}

/// Sends deliveries, signed as in Standard Webhooks.
pub trait Courier: Send + Sync {
    /// Checks the address of a target and what it may reach; the error says what is wrong.
    fn check(&self, target: &StoredTarget) -> Result<(), String>;
    /// Why nothing sent to the target's address would leave, as far as the address alone shows it.
    fn refused(&self, _target: &StoredTarget) -> Option<String> {
        None
    }
    /// Why the secret with that name cannot sign.
    fn unusable_secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<String>>;
    /// Makes one attempt, which ends within [`crate::limits::TARGET_MS`].
    fn send<'a>(
        &'a self,
        target: &'a StoredTarget,
        delivery: &'a TargetDelivery,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), SendFailure>>;
}

/// For a server that tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCourier;

impl Courier for NoCourier {
    fn check(&self, _target: &StoredTarget) -> Result<(), String> {
        Err("this server tells nobody what happens".to_owned())
    }

    fn unusable_secret<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    fn send<'a>(
        &'a self,
        _target: &'a StoredTarget,
        _delivery: &'a TargetDelivery,
        _now: Timestamp,
    ) -> BoxFuture<'a, Result<(), SendFailure>> {
        let failure = SendFailure::Failed("this server tells nobody what happens".to_owned());
        Box::pin(std::future::ready(Err(failure)))
    }
}
