//! The state shared by all handlers: the ports, the node, and state of the API itself.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use runtime::Ports;
use runtime::node::Node;
use tokio_util::sync::CancellationToken;

use crate::hook_pool::{HookPool, Refusals};
use crate::key_cache::KeyCache;
use crate::quota::Quotas;
use crate::reads::Reads;
use crate::running::Running;
use crate::stream::ends::StreamEnds;
use crate::stream::relay::Relays;

/// Where the 32 random bytes of a new key come from.
pub type KeySource = fn() -> [u8; 32];

/// A mistake in a file of an agent or a tool, which keeps the file from being used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMistake {
    /// The file.
    pub file: String,
    /// Where in it, and what is wrong.
    pub text: String,
}

/// Reads the mistakes in files of agents and tools, as they are now. It may read files.
#[derive(Clone)]
pub struct FileMistakes(Arc<dyn Fn() -> Vec<FileMistake> + Send + Sync>);

impl FileMistakes {
    /// What reads them with `read`.
    pub fn new(read: impl Fn() -> Vec<FileMistake> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(crate) async fn read(&self) -> Vec<FileMistake> {
        let read = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || read()).await.unwrap_or_default()
    }
}

impl fmt::Debug for FileMistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileMistakes")
    }
}

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
    /// The settings file that the server reads, for operators; `None` if there is none.
    pub settings: Option<String>,
    /// The source of random bytes for new keys.
    pub key_source: KeySource,
    /// The mistakes in files of agents and tools, for `/v1/ready`.
    pub mistakes: FileMistakes,
}

impl Options {
    /// Options for an API that is reachable from this machine only.
    pub fn new(key_source: KeySource) -> Self {
        Self {
            hosts: Vec::new(),
            connections: agent::limits::CONNECTIONS_MAX,
            shutdown: CancellationToken::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: None,
            key_source,
            mistakes: FileMistakes::new(Vec::new),
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
    pub(crate) running: Arc<Running>,
    pub(crate) refusals: Refusals,
    pub(crate) hook_pool: Arc<HookPool>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) reads: Arc<Reads>,
    pub(crate) relays: Arc<Relays>,
    pub(crate) stream_ends: StreamEnds,
    /// When the server started.
    pub(crate) started_at: Timestamp,
    /// Builds the OpenAPI document of all routes.
    build_document: fn(&Arc<Self>) -> Bytes,
    document: OnceLock<Bytes>,
    /// The paths that answer whatever the host is called; set once all routes are added.
    pub(crate) probes: OnceLock<Vec<String>>,
}

impl AppState {
    /// A state with empty caches, and what builds the OpenAPI document.
    pub(crate) fn new(
        ports: Ports,
        node: Node,
        options: Options,
        build_document: fn(&Arc<Self>) -> Bytes,
    ) -> Self {
        let quotas = Arc::new(Quotas::new(options.connections));
        let started_at = ports.clock.now();
        Self {
            ports,
            node,
            options,
            keys: KeyCache::default(),
            running: Arc::default(),
            refusals: Refusals::default(),
            hook_pool: Arc::default(),
            quotas,
            reads: Arc::default(),
            relays: Arc::default(),
            stream_ends: StreamEnds::default(),
            started_at,
            build_document,
            document: OnceLock::new(),
            probes: OnceLock::new(),
        }
    }

    /// The OpenAPI document, built when it is first asked for.
    pub(crate) fn document(self: &Arc<Self>) -> Bytes {
        self.document.get_or_init(|| (self.build_document)(self)).clone()
    }
}
