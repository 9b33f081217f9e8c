//! Local servers that speak the vendors' wire formats. A test scripts each answer. The stubs are as strict
//! as the vendors: a request that breaks their rules gets their 400.
//!
//! The rules are pure functions over the JSON of a request ([`rules`]), so a test can also check a request
//! without a server.

mod answer;
mod anthropic;
mod gemini;
mod openai;
mod responses;
mod server;

pub mod rules;

pub use answer::{Answer, ReplyPiece};
pub use server::{Recorded, Stub, Vendor, bytes_of, refusal_of};
