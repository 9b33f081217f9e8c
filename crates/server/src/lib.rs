//! The API: REST and event streams over the ports of `agent`.
//!
//! An outer gate checks every request first. A guard per route then enforces the route's access policy before
//! the handler runs. Every error is a problem document with a stable code ([`problem`]). This crate must not
//! know SQL, any vendor, or how an agent thinks.

use std::sync::Arc;

use runtime::Ports;
use runtime::node::Node;

mod answer_page;
mod app_state;
mod auth;
mod connections;
mod extract;
pub mod frames;
mod gate;
mod handlers;
mod hook_pool;
mod json;
mod key_cache;
pub mod keys;
mod listing;
mod metrics;
mod once;
mod openapi;
pub mod problem;
mod public_url;
mod quota;
mod reads;
mod refusal;
mod routes;
mod running;
mod serve;
mod stream;

pub use app_state::{FileMistake, FileMistakes, KeySource, Options};
pub use public_url::PublicUrl;
pub use serve::serve;

/// All routes, behind the gate. Handlers signal `node` when an agent has something to do.
pub fn router(ports: Ports, node: Node, options: Options) -> axum::Router {
    let app = Arc::new(app_state::AppState::new(ports, node, options, document));
    let (router, probes) = handlers::all(routes::Routes::new(Arc::clone(&app))).finish();
    // Set once per `AppState`, here.
    let _ = app.probes.set(probes);
    gate::wrap(router, app)
}

/// The OpenAPI document. It takes as much memory as everything else that an idle server has, and most servers are never asked for
/// it: so it is built when it is.
fn document(app: &Arc<app_state::AppState>) -> bytes::Bytes {
    handlers::all(routes::Routes::documented(Arc::clone(app))).document()
}
