//! Models: wire formats, the HTTP client that uses them, the catalog of providers, the scripted
//! model and the built-in demo model.
//!
//! Only this crate knows vendors (invariant 2). It does not depend on the store, the runtime or the
//! API: it turns an [`agent::prompt::Prompt`] into bytes, and bytes into [`agent::port::Piece`]s.

pub mod bounds;
pub mod catalog;
pub mod client;
pub mod conformance;
pub mod default_model;
pub mod demo;
pub mod listing;
pub mod local;
pub mod model_book;
pub mod scripted;
pub mod secret;
pub mod wire;
