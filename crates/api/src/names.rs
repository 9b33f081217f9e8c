//! OpenAPI schemas of the enums of the crate `agent`, which itself does not depend on OpenAPI.

use std::borrow::Cow;

use agent::life::IdleReason;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $values:expr;)+) => {$(
        $(#[$doc])*
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some($values)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

/// The names of an enum's values.
macro_rules! of {
    ($enum:ty) => {
        <$enum>::ALL.map(<$enum>::as_str)
    };
}

names! {
    /// A person or an agent.
    EntityKind = of!(agent::entity::EntityKind);
    /// Text, or a call of a visible tool.
    MessageKind = of!(agent::space::MessageKind);
    /// What an agent is doing.
    AgentState = of!(agent::update::AgentState);
    /// Whether an agent may run.
    Standing = of!(agent::life::Standing);
    /// Which messages of agents wake another agent: all, or only those that mention it.
    WakeOn = of!(agent::config::WakeOn);
    /// The kind of an event.
    EventKind = of!(agent::event::EventKind);
    /// The state of an event.
    EventState = EVENT_STATES;
    /// The progress of an event.
    EventProgress = of!(agent::event::EventProgress);
    /// The kind of an entry.
    EntryKind = of!(agent::entry::EntryKind);
    /// How far a content can be trusted.
    Trust = of!(agent::event::Trust);
    /// How important a memory is.
    Importance = of!(agent::memory::Importance);
    /// Whether a goal is pursued, was reached, or was given up.
    GoalStatus = of!(agent::life::GoalStatus);
    /// What becomes of times at which a plan could not fire.
    Missed = of!(agent::plan::Missed);
    /// What verifies the deliveries of a hook.
    HookKind = of!(agent::port::HookKind);
    /// What became of a delivery.
    HookOutcome = of!(agent::port::HookOutcome);
    /// What a target can be told.
    NewsKind = of!(agent::port::NewsKind);
    /// Who has set a plan.
    PlanSource = of!(agent::plan::PlanSource);
    /// Where a text of an archive was found.
    RecallKind = of!(agent::port::RecallKind);
    /// What an alert is about.
    AlertKind = of!(agent::alert::AlertKind);
    /// How a cycle ended.
    Ending = of!(agent::run::Ending);
    /// Whether a call may be repeated after a crash.
    Effect = of!(agent::call::Effect);
    /// The state of a call.
    CallState = of!(agent::call::CallState);
    /// Who runs a call.
    Runner = of!(agent::call::Runner);
    /// What a person is asked for.
    AskKind = of!(agent::approval::AskKind);
    /// What became of a call that waits for a person.
    ApprovalState = of!(agent::approval::ApprovalState);
    /// What a person says about a call.
    AnswerVerdict = ["approve", "refuse"];
    /// How a call ended.
    OutcomeStatus = of!(agent::call::OutcomeStatus);
    /// Why an agent sleeps although events may be waiting.
    SleepReason = of!(IdleReason).into_iter().chain([
        "suspended", "damaged", "place", "requests", "crash", "store", "broke", "retrying", "summary",
    ]);
}

/// The values that the query parameter `state` of an inbox may have.
pub const EVENT_STATES: [&str; 7] =
    ["waiting", "held", "processed", "skipped", "canceled", "dead", "dropped"];
