//! Local servers that speak the vendors' wire formats, scripted answer by answer, and as strict as
//! the vendors are: a request that breaks their rules gets their 400.
//!
//! The rules themselves are pure functions over a request's JSON ([`rules`]); any test may hold a
//! request against them without a server.

mod answer;
mod anthropic;
mod gemini;
mod openai;
mod responses;
mod server;

pub mod rules;

pub use answer::{Answer, ReplyPiece};
pub use server::{Recorded, Stub, Vendor, bytes_of, refusal_of};
