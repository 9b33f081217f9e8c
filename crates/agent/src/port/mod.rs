//! The ports: what the rules and the runtime need from the outside world. One trait per file. They are `dyn` traits
//! with boxed futures: next to model calls that take seconds, virtual calls cost nothing.

mod approvals;
mod bus;
mod calls;
mod clock;
mod hooks;
mod lookup;
mod model;
mod reader;
mod recall;
mod registry;
mod store;
mod targets;
mod tool;
mod tool_book;

pub use approvals::{ApprovalFilter, Approvals, AskedCall, Lapsed, PersonAnswer, PersonAnswered, RuleFilter};
pub use bus::{Bus, Delivered, Listener, Published};
pub use calls::{Beginning, CallError, Calls, Claimed, DetachedCall, Finish, FinishedCall, WorkerCall};
pub use clock::{Clock, Ids};
pub use futures_core::future::BoxFuture;
pub use futures_core::stream::BoxStream;
pub use hooks::{
    DeclaredHook, DeliveryHead, DeliveryId, HookAccepted, HookBook, HookDelivery, HookEvent, HookKind,
    HookOutcome, HookReading, HookRefusal, Hooks, NewHookDelivery, NoHooks, RawDelivery, StoredHook,
};
pub use lookup::{Lookup, Messages};
pub use model::{
    Fault, Memo, Model, ModelError, ModelInfo, ModelRequest, Models, PartKind, Piece, Price, ReasoningReplay,
    Reply, ReplyPart, StopReason, TimeoutKind,
};
pub use reader::{
    AgentCard, AlertFilter, CommitRow, DeadEvents, InboxFilter, InboxRow, LastRun, MessageFilter, Page,
    PageRequest, Reader, RecentItem, RunFilter, ShownLog, StoreFigures, Totals,
};
pub use recall::{CycleRef, Excerpt, Recall, RecallError, RecallKind, RecallQuery, Recalled, time_limit};
pub use registry::{
    CanceledCall, Credential, CredentialRow, Denial, Founding, KeyAdded, KnownRequest, NewAgent,
    NewCredential, NewHuman, NewSpace, Registry, RegistryError, Rotation, Scope, SentAgain, SpaceChange,
};
pub use store::{Accept, Accepted, Due, DueFired, LatePlan, NextDue, RequestKey, Store, StoreError, Wakeup};
pub use targets::{
    AfterFailure, Courier, FailedAttempt, FailureNoted, NewsKind, NewsOf, NoCourier, SendFailure,
    StoredTarget, TargetBook, TargetDelivery, TargetState,
};
pub use tool::{
    AgentTools, CallGate, DeclaredTool, Done, NoGate, OfferedTools, Tool, ToolContext, ToolError, ToolSpec,
    Toolbox, Toolset, has_tool,
};
pub use tool_book::{StoredTool, ToolBook};
