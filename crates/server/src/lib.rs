//! The doors: REST and event streams over the ports of `agent`.
//!
//! One outer gate checks every request before anything else, one guard per route checks its access
//! policy before the handler, and every refusal is a problem document with a stable code
//! ([`problem`]). This crate must not know SQL, any vendor, or how an agent thinks.

use std::sync::{Arc, OnceLock};

use agent::port::{Bus, Clock, Ids, Reader, Registry, Store, Toolbox, Voices};
use bytes::Bytes;
use runtime::node::Node;
use tokio_util::sync::CancellationToken;

pub mod api;
mod auth;
mod extract;
mod gate;
mod handlers;
mod json;
pub mod keys;
mod openapi;
pub mod problem;
mod routes;
mod serve;
mod stream;

pub use serve::serve;

/// Where the 32 random bytes of a new key come from.
pub type KeySource = Box<dyn Fn() -> [u8; 32] + Send + Sync>;

/// What the doors open to: the ports and the node.
pub struct Doors {
    /// Accepts what is said and what happens.
    pub store: Arc<dyn Store>,
    /// Makes and changes agents, entities, spaces and keys.
    pub registry: Arc<dyn Registry>,
    /// Answers questions.
    pub reader: Arc<dyn Reader>,
    /// Carries updates to streams.
    pub bus: Arc<dyn Bus>,
    /// Is told who has something to do, and tells what is live.
    pub node: Node,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids of what is made here.
    pub ids: Arc<dyn Ids>,
    /// Which models exist.
    pub voices: Arc<dyn Voices>,
    /// Which tools exist.
    pub toolbox: Arc<dyn Toolbox>,
    /// Randomness of new keys.
    pub key_source: KeySource,
}

/// How the doors are hung.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host names and addresses, without port, that a request may be addressed to besides
    /// `localhost`, `127.0.0.1` and `::1`: those that the server was told to listen on.
    pub hosts: Vec<String>,
    /// Ends all event streams.
    pub shutdown: CancellationToken,
    /// What `health` says.
    pub version: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            shutdown: CancellationToken::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// What every handler is given.
pub(crate) struct Hall {
    pub(crate) doors: Arc<Doors>,
    pub(crate) options: Options,
    pub(crate) keys: auth::KeyCache,
    pub(crate) relays: Arc<stream::Relays>,
    /// The OpenAPI document, once all routes are added.
    pub(crate) document: OnceLock<Bytes>,
}

/// All routes, behind the gate.
pub fn router(doors: Arc<Doors>, options: Options) -> axum::Router {
    let (keys, relays) = (auth::KeyCache::default(), Arc::default());
    let hall = Arc::new(Hall { doors, options, keys, relays, document: OnceLock::new() });
    let (router, document) = handlers::all(routes::Routes::new(Arc::clone(&hall))).finish();
    // Empty until this line, which runs once for each hall.
    let _ = hall.document.set(document);
    gate::around(router, hall)
}
