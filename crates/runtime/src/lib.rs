//! Runs agents: drives the rules of `agent` against the ports. Activation, the loop, model calls,
//! tool execution, hibernation and shutdown.
//!
//! This crate must not know SQL, HTTP or any vendor: it imports `agent` and nothing else of ours.

pub mod answer_links;
pub mod approvals;
pub mod bus;
pub mod clock;
pub mod counters;
pub mod live;
pub mod node;
pub mod trace;
pub mod waits;

mod activation;
mod answered;
mod breaker;
mod calibration;
mod commit;
mod declared;
mod detached_calls;
mod draft_stream;
mod failure;
mod health;
mod keeper;
mod last_look;
mod left_out;
mod model_set;
mod node_context;
mod permits;
mod ready_queue;
pub mod sender;
mod sent_requests;
mod think;
mod tool_runner;
mod turn;
mod unstored;
mod warm;
pub mod workers;

pub use declared::{ApproveError, DeclareError, approve_tools, change_tools, reload_servers, use_tools};

use std::sync::Arc;

use agent::limits;
use agent::port::{
    Approvals, Calls, Clock, Courier, HookBook, Hooks, Ids, Lookup, Models, NoCourier, NoHooks, Reader,
    Registry, Store, TargetBook, ToolBook, Toolbox,
};

pub use keeper::{Keeper, start};

/// The ports of one process, put together once. The keeper, the API and a scenario's world share them.
#[derive(Clone)]
pub struct Ports {
    /// Durable state.
    pub store: Arc<dyn Store>,
    /// Outcomes of calls that outlive their cycle.
    pub calls: Arc<dyn Calls>,
    /// Calls that wait for people.
    pub approvals: Arc<dyn Approvals>,
    /// Reads on an agent's behalf.
    pub lookup: Arc<dyn Lookup>,
    /// Creates and changes agents, entities, spaces and keys: for the API, never for running agents.
    pub registry: Arc<dyn Registry>,
    /// Answers queries: for the API, never for running agents.
    pub reader: Arc<dyn Reader>,
    /// Where declared tools are kept.
    pub tool_book: Arc<dyn ToolBook>,
    /// Where hooks and their deliveries are kept.
    pub hook_book: Arc<dyn HookBook>,
    /// What verifies and reads deliveries.
    pub hooks: Arc<dyn Hooks>,
    /// Where targets are kept, with what waits to be sent to them.
    pub target_book: Arc<dyn TargetBook>,
    /// What sends it.
    pub courier: Arc<dyn Courier>,
    /// Links with which calls that wait for people are answered; `None` if the server has no public address.
    pub links: Option<Arc<answer_links::AnswerLinks>>,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The tools.
    pub toolbox: Arc<dyn Toolbox>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Entropy: ids and jitter.
    pub ids: Arc<dyn Ids>,
    /// The calls that wait for workers.
    pub workers: Arc<workers::Workers>,
    /// Held while declared tools, hooks or targets are changed.
    pub declaring: Arc<tokio::sync::Mutex<()>>,
    /// What watchers see, and the bus that carries it.
    pub live: Arc<live::Live>,
    /// How much runs at once.
    pub bounds: Bounds,
}

impl Ports {
    /// The ports over one store, with a new bus, the default bounds, no hooks, no courier and no links.
    pub fn new<S>(
        store: Arc<S>,
        models: Arc<dyn Models>,
        toolbox: Arc<dyn Toolbox>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self
    where
        S: Store
            + Approvals
            + Calls
            + Lookup
            + Registry
            + Reader
            + ToolBook
            + HookBook
            + TargetBook
            + 'static,
    {
        Self {
            approvals: Arc::<S>::clone(&store),
            calls: Arc::<S>::clone(&store),
            lookup: Arc::<S>::clone(&store),
            registry: Arc::<S>::clone(&store),
            reader: Arc::<S>::clone(&store),
            tool_book: Arc::<S>::clone(&store),
            hook_book: Arc::<S>::clone(&store),
            hooks: Arc::new(NoHooks),
            target_book: Arc::<S>::clone(&store),
            courier: Arc::new(NoCourier),
            links: None,
            store,
            models,
            toolbox,
            clock,
            ids,
            workers: Arc::default(),
            declaring: Arc::default(),
            live: Arc::default(),
            bounds: Bounds::default(),
        }
    }
}

/// How much runs at once on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Agents that may be awake at once.
    pub awake: usize,
    /// Requests that may be in flight at one provider.
    pub requests_per_provider: usize,
    /// Calls without their cycle that may wait here for workers and people.
    pub detached_outside: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            awake: limits::AWAKE_MAX,
            requests_per_provider: limits::REQUESTS_PER_PROVIDER,
            detached_outside: limits::DETACHED_OUTSIDE_PER_NODE,
        }
    }
}
