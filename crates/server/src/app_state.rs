//! The state shared by all handlers: the ports, the node, and state of the API itself.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use runtime::Ports;
use runtime::node::Node;
use tokio_util::sync::CancellationToken;

use crate::handlers::hooks::Refusals;
use crate::hook_pool::HookPool;
use crate::key_cache::KeyCache;
use crate::once::Running;
use crate::quota::Quotas;
use crate::reads::Reads;
use crate::stream::ends::StreamEnds;
use crate::stream::relay::Relays;

/// Where the 32 random bytes of a new key come from.
pub type KeySource = fn() -> [u8; 32];

/// Options of the API.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host names and addresses, without port, that a request may be addressed to in addition to
    /// `localhost`, `127.0.0.1` and `::1`: those that the server is configured to listen on.
    pub hosts: Vec<String>,
    /// How many connections are accepted at once.
    pub connections: usize,
    /// Ends all event streams.
    pub shutdown: CancellationToken,
    /// The version that `/v1/health` reports.
    pub version: String,
    /// The source of random bytes for new keys.
    pub key_source: KeySource,
}

impl Options {
    /// Options for an API that is reachable from this machine only.
    pub fn new(key_source: KeySource) -> Self {
        Self {
            hosts: Vec::new(),
            connections: agent::limits::CONNECTIONS_MAX,
            shutdown: CancellationToken::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key_source,
        }
    }
}

/// The axum extractor of [`AppState`].
pub(crate) type SharedState = axum::extract::State<Arc<AppState>>;

/// The state shared by all handlers.
pub(crate) struct AppState {
    pub(crate) ports: Ports,
    pub(crate) node: Node,
    pub(crate) options: Options,
    pub(crate) keys: KeyCache,
    pub(crate) running: Running,
    pub(crate) refusals: Refusals,
    pub(crate) hook_pool: Arc<HookPool>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) reads: Arc<Reads>,
    pub(crate) relays: Arc<Relays>,
    pub(crate) stream_ends: StreamEnds,
    /// The OpenAPI document; set once all routes are added.
    pub(crate) document: OnceLock<Bytes>,
}

impl AppState {
    /// A state with empty caches and no document.
    pub(crate) fn new(ports: Ports, node: Node, options: Options) -> Self {
        let quotas = Arc::new(Quotas::new(options.connections));
        Self {
            ports,
            node,
            options,
            keys: KeyCache::default(),
            running: Running::default(),
            refusals: Refusals::default(),
            hook_pool: Arc::default(),
            quotas,
            reads: Arc::default(),
            relays: Arc::default(),
            stream_ends: StreamEnds::default(),
            document: OnceLock::new(),
        }
    }
}
