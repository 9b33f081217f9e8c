//! Hooks: where they are kept with their deliveries, and what verifies and reads a delivery. Must not know how a request
//! arrives, or how a signature is made.

use jiff::Timestamp;
use serde_json::Value;

use super::{BoxFuture, Denial, RequestKey, StoreError, Wakeup};
use crate::event::Event;
use crate::guard::{Vouched, trust_of_delivery};
use crate::id::{AgentId, EventId, hashed_uuid};

names! {
    /// What verifies the deliveries of a hook. There is no kind that verifies nothing.
    pub enum HookKind {
        /// A signature as in Standard Webhooks.
        Standard,
        /// A signature as GitHub makes it.
        Github,
        /// A signature as Stripe makes it.
        Stripe,
        /// A signature as Slack makes it.
        Slack,
        /// A secret in a header.
        SharedSecret,
        /// A key of this server.
        Key,
    }
}

/// A hook as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredHook {
    /// Its name.
    pub name: String,
    /// Its declaration, valid by [`Hooks::check`].
    pub declaration: Value,
    /// Who gets its events.
    pub agents: Vec<AgentId>,
    /// When it was declared or changed.
    pub at: Timestamp,
}

names! {
    /// What became of a delivery.
    pub enum HookOutcome {
        /// It became events.
        Accepted,
        /// It was accepted before.
        Duplicate,
        /// It only asked whether the hook is there.
        Answered,
        /// It was verified and refused.
        Refused,
        /// It was refused before it was verified: anybody may have sent it.
        Unverified,
        /// It was verified, and the hook's template made nothing of it.
        Ignored,
    }
}

/// A delivery in the log of a hook.
#[derive(Clone, Debug, PartialEq)]
pub struct HookDelivery {
    /// When it arrived.
    pub at: Timestamp,
    /// The sender's id of it.
    pub delivery: Option<String>,
    /// What became of it.
    pub outcome: HookOutcome,
    /// Why, if it was refused; of one that was accepted, why it is not trusted although its hook is.
    pub detail: Option<String>,
    /// The event, the same for all agents.
    pub event: Option<EventId>,
    /// Who got it.
    pub agents: Vec<AgentId>,
}

/// A verified delivery that becomes an event of several agents.
#[derive(Clone, Debug, PartialEq)]
pub struct NewHookDelivery {
    /// The hook.
    pub hook: String,
    /// The sender's id of it.
    pub delivery: Option<String>,
    /// Who gets the event.
    pub agents: Vec<AgentId>,
    /// The event.
    pub event: Event,
    /// The sender's `Idempotency-Key`, if that is the id.
    pub request: Option<RequestKey>,
    /// Why it is not trusted although its hook is.
    pub detail: Option<String>,
}

impl NewHookDelivery {
    /// What a verified delivery becomes. Its event has the id `fresh` if nothing names the delivery.
    pub fn of(
        hook: StoredHook,
        event: HookEvent,
        fresh: EventId,
        request: Option<RequestKey>,
        at: Timestamp,
    ) -> Self {
        let StoredHook { name, agents, .. } = hook;
        let HookEvent { delivery, payload, urgent, vouched } = event;
        let delivery = match delivery {
            DeliveryId::OfService(id) | DeliveryId::OfSender(id) => Some(id),
            DeliveryId::None => None,
        };
        // Hashed: the id is in paths, and it is the `root` of messages that others read.
        let named = |id: &String| EventId(format!("hook:{}", hashed_uuid(&["hook", &name, id])));
        let id = delivery.as_ref().map_or(fresh, named);
        let event = Event::of_hook(id, &name, (payload, trust_of_delivery(&vouched)), urgent, at);
        let detail = match vouched {
            Vouched::Beyond(why) => Some(why),
            Vouched::No | Vouched::Fields => None,
        };
        Self { hook: name, delivery, agents, event, request, detail }
    }
}

/// The result of an accepted or refused delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum HookAccepted {
    /// It is durable now.
    Fresh {
        /// Who got the event now.
        agents: Vec<AgentId>,
        /// Agents that have work; the caller signals them.
        wake: Vec<Wakeup>,
    },
    /// Every agent had it before.
    Duplicate,
    /// The idempotency key was used for another body.
    Conflict,
    /// No agent may get it, or one has no room; nothing was written.
    Denied(Denial),
}

/// Keeps hooks, and the last deliveries of each, at most [`crate::limits::HOOK_LOG_MAX`] of each outcome.
pub trait HookBook: Send + Sync {
    /// All hooks, by name.
    fn hooks(&self) -> BoxFuture<'_, Result<Vec<StoredHook>, StoreError>>;
    /// The hook with that name.
    fn hook(&self, name: String) -> BoxFuture<'_, Result<Option<StoredHook>, StoreError>>;
    /// Keeps a hook, instead of the one of its name.
    fn put_hook(&self, hook: StoredHook) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Forgets a hook and its log; `false` if there is none. What it has delivered stays known.
    fn delete_hook(&self, name: String) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Accepts a delivery: an event for each agent and the line of the log in one commit, or nothing. Agents that are
    /// retired get none; with one whose inbox is full, nobody gets it.
    fn deliver(&self, new: NewHookDelivery) -> BoxFuture<'_, Result<HookAccepted, StoreError>>;
    /// Adds a delivery without events to the log.
    fn note_delivery(&self, hook: String, delivery: HookDelivery) -> BoxFuture<'_, Result<(), StoreError>>;
    /// The last deliveries of a hook, newest first.
    fn deliveries(&self, hook: String) -> BoxFuture<'_, Result<Vec<HookDelivery>, StoreError>>;
}

/// What arrives of a delivery before its body.
#[derive(Clone, Copy)]
pub struct DeliveryHead<'a> {
    /// Names in lower case, and values.
    pub headers: &'a [(String, String)],
    /// When.
    pub now: Timestamp,
    /// Whether it came with a key of this server that may send events of this hook.
    pub by_key: bool,
}

/// A delivery as it arrived.
#[derive(Clone, Copy)]
pub struct RawDelivery<'a> {
    /// All but its body.
    pub head: DeliveryHead<'a>,
    /// The body, byte for byte.
    pub body: &'a [u8],
}

/// What names a delivery, so that it is accepted once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryId {
    /// The service names each delivery.
    OfService(String),
    /// The sender's `Idempotency-Key`.
    OfSender(String),
    /// Nothing: each delivery is a new one.
    None,
}

impl DeliveryId {
    /// The name, whoever gave it.
    pub fn name(self) -> Option<String> {
        match self {
            Self::OfService(name) | Self::OfSender(name) => Some(name),
            Self::None => None,
        }
    }
}

/// What a hook's template makes of a verified delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// What names the delivery.
    pub delivery: DeliveryId,
    /// What the agents read.
    pub payload: Value,
    /// Whether it may interrupt a running cycle.
    pub urgent: bool,
    /// Whether the operator answers for the payload.
    pub vouched: Vouched,
}

/// A verified delivery, read.
#[derive(Clone, Debug, PartialEq)]
pub enum HookReading {
    /// It becomes an event.
    Event(HookEvent),
    /// It only asks whether the hook is there; the text that it wants back, if any.
    Question(Option<String>),
    /// The hook's template makes nothing of it: nobody is woken.
    Nothing {
        /// What names it.
        delivery: Option<String>,
    },
    /// It is refused although it is verified.
    Refused {
        /// What names it, as far as that can be read.
        delivery: Option<String>,
        /// Why.
        why: HookRefusal,
    },
}

/// Why a delivery is refused. The texts are for its sender: they name no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookRefusal {
    /// Its body is of another type than this hook reads.
    #[error("{0}")]
    Type(String),
    /// The hook has no secret to verify it with.
    #[error("{0}")]
    Unready(String),
    /// The hook wants a key of this server.
    #[error("this hook wants a key of this server")]
    KeyWanted,
    /// It carries no signature, or one that cannot be read.
    #[error("{0}")]
    Unsigned(String),
    /// Its signature or secret is wrong.
    #[error("{0}")]
    Forged(String),
    /// It was signed too long ago, or in the future.
    #[error("{0}")]
    Old(String),
    /// It was verified and cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The hook's template cannot be written with it.
    #[error("{0}")]
    Unmapped(String),
}

/// A declaration that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredHook {
    /// The declaration with all its keys.
    pub declaration: Value,
    /// Names of the secrets that it uses.
    pub secrets: Vec<String>,
}

/// What knows how deliveries are verified and read.
pub trait Hooks: Send + Sync {
    /// Checks the declaration of a hook; the error lists every mistake.
    fn check(&self, declaration: &Value) -> Result<DeclaredHook, Vec<String>>;
    /// Names of the hook's secrets that are not set, or cannot be used, each with the reason.
    fn missing_secrets<'a>(&'a self, declaration: &'a Value) -> BoxFuture<'a, Vec<(String, String)>>;
    /// Refuses what its head alone shows not to be a delivery of this hook, so that no body of it is waited for.
    fn admit<'a>(
        &'a self,
        declaration: &'a Value,
        head: DeliveryHead<'a>,
    ) -> BoxFuture<'a, Result<(), HookRefusal>>;
    /// Verifies a delivery, and reads it only then. The error says why it is not verified.
    fn read<'a>(
        &'a self,
        declaration: &'a Value,
        delivery: RawDelivery<'a>,
    ) -> BoxFuture<'a, Result<HookReading, HookRefusal>>;
}

/// For a server without hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn check(&self, _declaration: &Value) -> Result<DeclaredHook, Vec<String>> {
        Err(vec!["this server has no hooks".to_owned()])
    }

    fn missing_secrets<'a>(&'a self, _declaration: &'a Value) -> BoxFuture<'a, Vec<(String, String)>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn admit<'a>(
        &'a self,
        _declaration: &'a Value,
        _head: DeliveryHead<'a>,
    ) -> BoxFuture<'a, Result<(), HookRefusal>> {
        Box::pin(std::future::ready(Err(no_hooks())))
    }

    fn read<'a>(
        &'a self,
        _declaration: &'a Value,
        _delivery: RawDelivery<'a>,
    ) -> BoxFuture<'a, Result<HookReading, HookRefusal>> {
        Box::pin(std::future::ready(Err(no_hooks())))
    }
}

fn no_hooks() -> HookRefusal {
    HookRefusal::Unready("this server has no hooks".to_owned())
}
