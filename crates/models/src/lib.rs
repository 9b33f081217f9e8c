//! The models: wire formats, the client that wire_format them, the catalog of providers, the token
//! estimator, the scripted model and the built-in demo model.
//!
//! Vendors are known here and nowhere else (invariant 2). This crate must not know the store, the
//! runtime or the doors: it turns an [`agent::prompt::Prompt`] into bytes and bytes into
//! [`agent::port::Piece`]s.

pub mod bounds;
pub mod catalog;
pub mod client;
pub mod conformance;
pub mod demo;
pub mod listing;
pub mod local;
pub mod model_book;
pub mod scripted;
pub mod secret;
pub mod sse;
pub mod wire;
