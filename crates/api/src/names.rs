//! OpenAPI schemas of the enums of the crate `agent`, which itself does not depend on OpenAPI.

use std::borrow::Cow;

use agent::{call, config, entity, entry, event, life, run, space, update};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: [$($value:expr),+ $(,)?];)+) => {$(
        $(#[$doc])*
        pub enum $name {}

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
    /// A person or an agent.
    EntityKind: [entity::EntityKind::Human.as_str(), entity::EntityKind::Agent.as_str()];
    /// Text, or a call of a visible tool.
    MessageKind: [space::MessageKind::Text.as_str(), space::MessageKind::Tool.as_str()];
    /// What an agent is doing.
    AgentState: [
        update::AgentState::Sleeping.as_str(), update::AgentState::Thinking.as_str(),
        update::AgentState::Processing.as_str(),
        update::AgentState::Paused.as_str(), update::AgentState::Retired.as_str(),
    ];
    /// Whether an agent may run.
    Standing: [
        life::Standing::Active.as_str(), life::Standing::Suspended.as_str(),
        life::Standing::Retired.as_str(),
    ];
    /// Which messages of agents wake another agent: all, or only those that mention it.
    WakeOn: [config::WakeOn::All.as_str(), config::WakeOn::Mention.as_str()];
    /// The kind of an event.
    EventKind: [
        event::EventKind::SpaceMessage.as_str(), event::EventKind::Mention.as_str(),
        event::EventKind::Service.as_str(),
        event::EventKind::Plan.as_str(), event::EventKind::Timer.as_str(),
        event::EventKind::ToolResult.as_str(), event::EventKind::Heartbeat.as_str(),
    ];
    /// The state of an event.
    EventState: ["waiting", "held", "processed", "skipped", "canceled", "dead", "dropped"];
    /// The progress of an event.
    EventProgress: [
        event::EventProgress::Waiting.as_str(), event::EventProgress::Taken.as_str(),
        event::EventProgress::Held.as_str(), event::EventProgress::Shown.as_str(),
        event::EventProgress::Addressed.as_str(), event::EventProgress::Read.as_str(),
        event::EventProgress::Skipped.as_str(),
        event::EventProgress::Canceled.as_str(), event::EventProgress::Dead.as_str(),
        event::EventProgress::Dropped.as_str(),
    ];
    /// The kind of an entry.
    EntryKind: [
        entry::EntryKind::Inbox.as_str(), entry::EntryKind::Injection.as_str(),
        entry::EntryKind::Assistant.as_str(),
        entry::EntryKind::Outcomes.as_str(), entry::EntryKind::Notice.as_str(),
    ];
    /// How a cycle ended.
    Ending: [
        run::Ending::Completed.as_str(), run::Ending::Skipped.as_str(), run::Ending::Exhausted.as_str(),
        run::Ending::Canceled.as_str(),
        run::Ending::Failed.as_str(),
    ];
    /// Whether a call may be repeated after a crash.
    Effect: [
        call::Effect::Inward.as_str(), call::Effect::ReadOnly.as_str(),
        call::Effect::Idempotent.as_str(), call::Effect::Unsafe.as_str(),
    ];
    /// The state of a call.
    CallState: [
        call::CallState::Planned.as_str(), call::CallState::Started.as_str(),
        call::CallState::Detached.as_str(), call::CallState::Done.as_str(),
    ];
    /// How a call ended.
    OutcomeStatus: [
        call::OutcomeStatus::Ok.as_str(), call::OutcomeStatus::Error.as_str(),
        call::OutcomeStatus::Pending.as_str(), call::OutcomeStatus::Unknown.as_str(),
        call::OutcomeStatus::Canceled.as_str(),
    ];
    /// Why an agent sleeps although events may be waiting.
    SleepReason: [
        life::IdleReason::Provider.as_str(), life::IdleReason::Backoff.as_str(),
        life::IdleReason::Debounce.as_str(), "suspended", "damaged", "place",
        "requests", "crash", "store", "broke", "retrying",
    ];
}

/// The values that the query parameter `state` of an inbox may have.
pub const EVENT_STATES: [&str; 7] =
    ["waiting", "held", "processed", "skipped", "canceled", "dead", "dropped"];
