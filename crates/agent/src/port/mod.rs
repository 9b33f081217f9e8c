//! The seams: what the rules and the runtime ask of the outside world. One trait per file, `dyn`
//! with boxed futures: a model call takes seconds, a virtual call is free.

mod bus;
mod calls;
mod clock;
mod lookup;
mod model;
mod reader;
mod registry;
mod store;
mod tool;

pub use bus::{Bus, Delivered, Listener, Published};
pub use calls::{CallError, Calls, Detached, Finish, FinishedCall};
pub use clock::{Clock, Ids};
pub use futures_core::future::BoxFuture;
pub use futures_core::stream::BoxStream;
pub use lookup::{Lookup, Messages};
pub use model::{
    Fault, Memo, Model, ModelError, ModelInfo, ModelRequest, Models, PartKind, Piece, Price, ReasoningReplay,
    Reply, ReplyPart, StopReason, TimeoutKind,
};
pub use reader::{AgentCard, CommitRow, InboxRow, LastRun, Page, PageRequest, Reader, RecentItem, Totals};
pub use registry::{
    CanceledCall, Credential, CredentialKind, Denial, Founding, NewAgent, NewCredential, NewHuman, NewSpace,
    Registry, RegistryError, SentAgain, SpaceChange,
};
pub use store::{Accept, Accepted, Due, RequestKey, Store, StoreError, Wakeup};
pub use tool::{Done, Tool, ToolContext, ToolError, ToolSpec, Toolbox, specs};
