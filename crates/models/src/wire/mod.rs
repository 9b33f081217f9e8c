//! The seam between prompts and vendors: for each wire format a pure encoder of one entry, a pure
//! streaming decoder, and one table of error classes.
//!
//! Nothing here opens a connection or reads a clock.

pub mod anthropic;
pub mod failure;
pub mod gemini;
pub mod openai_chat;
pub mod openai_responses;

mod body;
mod chain;
mod feed;
mod form;
mod ids;
mod json;
mod text;
mod transcript;

use agent::entry::Entry;
use agent::message::Origin;
use agent::port::{ModelError, Piece, ReasoningReplay, Reply};
use agent::prompt::{Item, Prompt};
use bytes::Bytes;

pub use body::Body;
pub use chain::Encoded;
pub(crate) use chain::Kept;
pub use feed::Feed;

use crate::sse::SseEvent;

/// Who wire_format, as far as the frame around a fragment depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The world.
    User,
    /// The agent.
    Assistant,
    /// Outcomes of calls.
    Outcomes,
}

/// What the encoding of an entry depends on besides the entry itself.
#[derive(Clone, Copy, Debug)]
pub struct Modes<'a> {
    /// Whether its reasoning is sent.
    pub reasoning: bool,
    /// The assistant entry whose calls an outcomes entry answers.
    pub asked: Option<&'a Entry>,
}

/// The frame between two neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    /// Who spoke before; `None` at the beginning.
    pub before: Option<Lane>,
    /// Who wire_format next; `None` at the end.
    pub after: Option<Lane>,
    /// Whether a word of the assistant must stand between outcomes and what follows.
    pub bridge: bool,
}

/// What varies from request to request without touching the transcript.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// Ask the vendor to drop reasoning that it thinks belongs elsewhere.
    pub drop_block: bool,
    /// The last turn lacks the reasoning that a manual-thinking model would demand.
    pub no_thinking: bool,
}

/// How a call is written into a header of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `NAME: KEY`.
    Named(&'static str),
}

/// One wire format, set up for one model.
pub trait Wire: Send + Sync {
    /// What native blocks are marked with.
    fn origin(&self) -> &Origin;
    /// Appended to the base URL.
    fn path(&self) -> &str;
    /// Where the key goes.
    fn key_header(&self) -> KeyHeader;
    /// Headers of every request: name and value.
    fn headers(&self, opening: Opening) -> Vec<(&'static str, &'static str)>;
    /// The beginning of the body: everything that may differ between two requests of one view.
    fn opening(&self, prompt: &Prompt, opening: Opening) -> Bytes;
    /// Behind the opening: system layer and tools, up to where the messages begin.
    fn head(&self, prompt: &Prompt) -> Bytes;
    /// One entry or layer, pure; `None` where nothing of it is sent.
    fn fragment(&self, item: &Item, live: Modes<'_>) -> Option<(Lane, Bytes)>;
    /// The frame between two fragments.
    fn glue(&self, between: Between) -> &'static str;
    /// The end of the body.
    fn tail(&self) -> &'static str;
    /// Indices of the items behind which the vendor's cache should remember the prefix.
    fn breakpoints(&self, _items: &[Item], _prompt: &Prompt) -> Vec<usize> {
        Vec::new()
    }
    /// What marks a breakpoint: inserted before the last byte of the fragment.
    fn breakpoint(&self) -> &'static str {
        ""
    }
    /// Which reasoning is sent back.
    fn replay(&self) -> ReasoningReplay;
    /// Whether the vendor may refuse reasoning as bound to another conversation.
    fn binds_reasoning(&self) -> bool {
        false
    }
    /// Whether the answer says that the vendor cannot open the reasoning that was sent back. From then
    /// on the conversation goes without.
    fn refuses_reasoning(&self, _status: u16, _said: &str) -> bool {
        false
    }
    /// Whether the turn before the cycle keeps its reasoning too (manual-thinking models).
    fn keeps_last_turn(&self) -> bool {
        false
    }
    /// Whether an entry, as it would be sent with its reasoning, holds any.
    fn reasons(&self, _entry: &Entry) -> bool {
        false
    }
    /// A decoder for one answer.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// Turns one answer's events into pieces. Pure: whoever drives it does the waiting.
pub trait Decoder: Send {
    /// One event. Pieces that can be shown are appended; an error ends the answer.
    fn event(&mut self, event: &SseEvent, out: &mut Vec<Piece>) -> Result<(), ModelError>;
    /// Whether the vendor said why it stopped: from here on a cut loses nothing that counts.
    fn finished(&self) -> bool;
    /// Whether nothing more is to come.
    fn closed(&self) -> bool;
    /// The reply. Without a finish there is none: [`ModelError::Cut`].
    fn reply(self: Box<Self>) -> Result<Reply, ModelError>;
}
