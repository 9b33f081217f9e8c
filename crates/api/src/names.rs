//! OpenAPI schemas of the enums of the crate `agent`, which itself does not depend on OpenAPI.

use std::borrow::Cow;

use agent::life::IdleReason as Idle;
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

/// The names of the variants of an enum: of all, or it does not compile.
macro_rules! of {
    ($enum:ty: $($variant:ident)+) => {{
        const _: fn($enum) = |one| match one {
            $(<$enum>::$variant => (),)+
        };
        [$(<$enum>::$variant.as_str()),+]
    }};
}

names! {
    /// A person or an agent.
    EntityKind = of!(agent::entity::EntityKind: Human Agent);
    /// Text, or a call of a visible tool.
    MessageKind = of!(agent::space::MessageKind: Text Tool);
    /// What an agent is doing.
    AgentState = of!(agent::update::AgentState: Sleeping Thinking Processing Paused Retired);
    /// Whether an agent may run.
    Standing = of!(agent::life::Standing: Active Suspended Retired);
    /// Which messages of agents wake another agent: all, or only those that mention it.
    WakeOn = agent::config::WakeOn::NAMES;
    /// The kind of an event.
    EventKind = of!(
        agent::event::EventKind: SpaceMessage Mention Service Plan Timer ToolResult Heartbeat
    );
    /// The state of an event.
    EventState = EVENT_STATES;
    /// The progress of an event.
    EventProgress = of!(
        agent::event::EventProgress: Waiting Taken Held Shown Addressed Read Skipped Canceled Dead Dropped
    );
    /// The kind of an entry.
    EntryKind = of!(agent::entry::EntryKind: Inbox Injection Assistant Outcomes Notice);
    /// How far a content can be trusted.
    Trust = ["outside", "agent", "member", "operator"];
    /// How important a memory is.
    Importance = of!(agent::memory::Importance: Low Normal High);
    /// Whether a goal is pursued, was reached, or was given up.
    GoalStatus = of!(agent::life::GoalStatus: Active Completed Abandoned);
    /// What becomes of times at which a plan could not fire.
    Missed = of!(agent::plan::Missed: Once Skip All);
    /// What verifies the deliveries of a hook.
    HookKind = of!(agent::port::HookKind: Standard Github Stripe Slack SharedSecret Key);
    /// What became of a delivery.
    HookOutcome = of!(agent::port::HookOutcome: Accepted Duplicate Answered Refused Unverified Ignored);
    /// What a target can be told.
    NewsKind = of!(agent::port::NewsKind: Message CycleEnded Alert ApprovalWanted);
    /// Who has set a plan.
    PlanSource = of!(agent::plan::PlanSource: Agent Operator Config Heartbeat);
    /// Where a text of an archive was found.
    RecallKind = of!(agent::port::RecallKind: Inbox Assistant Outcomes Memory Message);
    /// What an alert is about.
    AlertKind = of!(
        agent::update::AlertKind:
            PrefixBroken PinMissing SummaryRefused WindowOverfull WindowCut HistoryLarge WorkspaceFull
    );
    /// How a cycle ended.
    Ending = of!(agent::run::Ending: Completed Skipped Exhausted Canceled Failed);
    /// Whether a call may be repeated after a crash.
    Effect = of!(agent::call::Effect: Inward ReadOnly Idempotent Unsafe);
    /// The state of a call.
    CallState = of!(agent::call::CallState: Planned Started Detached Done);
    /// Who runs a call.
    Runner = of!(agent::call::Runner: Node Worker Person);
    /// What a person is asked for.
    AskKind = of!(agent::approval::AskKind: Approval Choice Form Text);
    /// What became of a call that waits for a person.
    ApprovalState = of!(agent::approval::ApprovalState: Wanted Granted Answered Refused Expired Canceled);
    /// What a person says about a call.
    AnswerVerdict = ["approve", "refuse"];
    /// How a call ended.
    OutcomeStatus = of!(agent::call::OutcomeStatus: Ok Error Pending Unknown Canceled);
    /// Why an agent sleeps although events may be waiting.
    SleepReason = [
        Idle::Provider.as_str(), Idle::Backoff.as_str(), Idle::Debounce.as_str(), Idle::Person.as_str(), "suspended", "damaged", "place",
        "requests", "crash", "store", "broke", "retrying", "summary",
    ];
}

/// The values that the query parameter `state` of an inbox may have.
pub const EVENT_STATES: [&str; 7] =
    ["waiting", "held", "processed", "skipped", "canceled", "dead", "dropped"];
