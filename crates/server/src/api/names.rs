//! Names of the closed lists of `agent`, for the document only: the rules know no OpenAPI.

use std::borrow::Cow;

use agent::call::{CallState as Call, Effect as Does, OutcomeStatus as Came};
use agent::config::WakeOn as Wakes;
use agent::entity::EntityKind as Kind;
use agent::entry::EntryKind as Entry;
use agent::event::EventKind as Event;
use agent::event::EventProgress as Reached;
use agent::life::{IdleReason as Rest, Standing as Stand};
use agent::run::Ending as End;
use agent::space::MessageKind as Said;
use agent::update::AgentState as State;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: [$($value:expr),+ $(,)?];)+) => {$(
        $(#[$doc])*
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let names: Vec<&str> = vec![$($value),+];
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

names! {
    /// Human or agent.
    EntityKind: [Kind::Human.as_str(), Kind::Agent.as_str()];
    /// Words or a tool at work.
    MessageKind: [Said::Text.as_str(), Said::Tool.as_str()];
    /// What an agent is doing.
    AgentState: [
        State::Sleeping.as_str(), State::Thinking.as_str(), State::Processing.as_str(),
        State::Paused.as_str(), State::Retired.as_str(),
    ];
    /// Whether an agent may live.
    Standing: [Stand::Active.as_str(), Stand::Suspended.as_str(), Stand::Retired.as_str()];
    /// Which agents' messages wake agents: all of them, or only those that name them.
    WakeOn: [Wakes::All.as_str(), Wakes::Mention.as_str()];
    /// What happened.
    EventKind: [
        Event::SpaceMessage.as_str(), Event::Mention.as_str(), Event::Service.as_str(),
        Event::Plan.as_str(), Event::Timer.as_str(), Event::ToolResult.as_str(), Event::Heartbeat.as_str(),
    ];
    /// The one state of an accepted event.
    FateState: ["waiting", "held", "processed", "skipped", "canceled", "dead", "dropped"];
    /// How far an event has come.
    EventProgress: [
        Reached::Waiting.as_str(), Reached::Taken.as_str(), Reached::Held.as_str(), Reached::Shown.as_str(),
        Reached::Addressed.as_str(), Reached::Read.as_str(), Reached::Skipped.as_str(),
        Reached::Canceled.as_str(), Reached::Dead.as_str(), Reached::Dropped.as_str(),
    ];
    /// What an entry is.
    EntryKind: [
        Entry::Inbox.as_str(), Entry::Injection.as_str(), Entry::Assistant.as_str(),
        Entry::Outcomes.as_str(), Entry::Notice.as_str(),
    ];
    /// Why a cycle ended.
    Ending: [
        End::Completed.as_str(), End::Skipped.as_str(), End::Exhausted.as_str(), End::Canceled.as_str(),
        End::Failed.as_str(),
    ];
    /// What repeating a call would do.
    Effect: [
        Does::Inward.as_str(), Does::ReadOnly.as_str(), Does::Idempotent.as_str(), Does::Unsafe.as_str(),
    ];
    /// Where a call stands.
    CallState: [
        Call::Planned.as_str(), Call::Started.as_str(), Call::Detached.as_str(), Call::Done.as_str(),
    ];
    /// How a call ended.
    OutcomeStatus: [
        Came::Ok.as_str(), Came::Error.as_str(), Came::Pending.as_str(), Came::Unknown.as_str(),
        Came::Canceled.as_str(),
    ];
    /// Why a sleeping agent does not do what waits.
    SleepReason: [
        Rest::Provider.as_str(), Rest::Backoff.as_str(), Rest::Debounce.as_str(), "suspended", "damaged", "place",
        "requests", "crash", "store", "broke",
    ];
}

/// The names that `state` of an inbox may have.
pub(crate) const EVENT_STATES: [&str; 7] =
    ["waiting", "held", "processed", "skipped", "canceled", "dead", "dropped"];
