//! What every handler is given: the ports, the node, and what only the API has.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use runtime::Ports;
use runtime::node::Node;
use tokio_util::sync::CancellationToken;

use crate::key_cache::KeyCache;
use crate::stream::relay::Relays;

/// Where the 32 random bytes of a new key come from.
pub type KeySource = fn() -> [u8; 32];

/// Options of the API.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host names and addresses, without port, that a request may be addressed to besides
    /// `localhost`, `127.0.0.1` and `::1`: those that the server was told to listen on.
    pub hosts: Vec<String>,
    /// Ends all event streams.
    pub shutdown: CancellationToken,
    /// What `health` says.
    pub version: String,
    /// Randomness of new keys.
    pub key_source: KeySource,
}

impl Options {
    /// An API for this machine only, whose keys come from `key_source`.
    pub fn new(key_source: KeySource) -> Self {
        Self {
            hosts: Vec::new(),
            shutdown: CancellationToken::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key_source,
        }
    }
}

/// The state of every handler.
pub(crate) type HallState = axum::extract::State<Arc<AppState>>;

/// What every handler is given.
pub(crate) struct AppState {
    pub(crate) ports: Ports,
    pub(crate) node: Node,
    pub(crate) options: Options,
    pub(crate) keys: KeyCache,
    pub(crate) relays: Arc<Relays>,
    /// The OpenAPI document, once all routes are added.
    pub(crate) document: OnceLock<Bytes>,
}

impl AppState {
    /// A hall that nobody has entered yet.
    pub(crate) fn new(ports: Ports, node: Node, options: Options) -> Self {
        Self {
            ports,
            node,
            options,
            keys: KeyCache::default(),
            relays: Arc::default(),
            document: OnceLock::new(),
        }
    }
}
