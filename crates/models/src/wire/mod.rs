//! Wire formats: for each one a pure encoder of single entries and a pure streaming decoder, and one
//! table of error classes for all.
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
use net::sse::SseEvent;

pub use body::Body;
pub(crate) use chain::CachedTranscript;
pub use chain::Encoded;
pub use feed::EventFeed;

/// Whose turn a fragment belongs to. The JSON between two fragments depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Input to the agent: inbox entries, layers.
    User,
    /// The agent's own reply.
    Assistant,
    /// Outcomes of the agent's calls.
    Outcomes,
}

/// What the encoding of an entry depends on in addition to the entry.
#[derive(Clone, Copy, Debug)]
pub struct EncodeContext<'a> {
    /// Whether the entry's reasoning is sent.
    pub reasoning: bool,
    /// The assistant entry whose calls an entry of outcomes answers.
    pub caller: Option<&'a Entry>,
}

/// The position between two neighboring fragments.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    /// The turn before; `None` at the beginning.
    pub before: Option<Turn>,
    /// The turn after; `None` at the end.
    pub after: Option<Turn>,
    /// Whether a short assistant message must separate outcomes from the next fragment.
    pub bridge: bool,
}

/// What varies from request to request without changing the transcript.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// Ask the vendor to drop reasoning that it takes for another conversation's.
    pub drop_block: bool,
    /// The last turn lacks the reasoning that a manual-thinking model would require.
    pub no_thinking: bool,
}

/// The header that carries the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `NAME: KEY`.
    Named(&'static str),
}

/// One wire format, configured for one model.
pub trait Wire: Send + Sync {
    /// The mark of this wire and model in native blocks.
    fn origin(&self) -> &Origin;
    /// The path that is appended to the base URL.
    fn path(&self) -> &str;
    /// The header for the key.
    fn key_header(&self) -> KeyHeader;
    /// Additional headers: name and value.
    fn headers(&self, opening: Opening) -> Vec<(&'static str, &'static str)>;
    /// The beginning of the body: all that may differ between two requests with the same view.
    fn opening(&self, prompt: &Prompt, opening: Opening) -> Bytes;
    /// The part after the opening: system layer and tools, up to the first message.
    fn head(&self, prompt: &Prompt) -> Bytes;
    /// Encodes one entry or layer; a pure function. `None` if nothing of it is sent.
    fn fragment(&self, item: &Item, context: EncodeContext<'_>) -> Option<(Turn, Bytes)>;
    /// The JSON between two fragments.
    fn glue(&self, between: Between) -> &'static str;
    /// The end of the body.
    fn tail(&self) -> &'static str;
    /// Indices of the items after which the vendor should cache the prefix.
    fn breakpoints(&self, _items: &[Item], _prompt: &Prompt) -> Vec<usize> {
        Vec::new()
    }
    /// The JSON of a cache breakpoint, which is inserted before the last byte of the fragment.
    fn breakpoint(&self) -> &'static str {
        ""
    }
    /// Which reasoning is sent back.
    fn replay(&self) -> ReasoningReplay;
    /// Whether the vendor may refuse reasoning as bound to another conversation.
    fn binds_reasoning(&self) -> bool {
        false
    }
    /// Whether the answer says that the vendor cannot decrypt the reasoning that was sent back. After that
    /// the conversation's reasoning is no longer sent.
    fn refuses_reasoning(&self, _status: u16, _text: &str) -> bool {
        false
    }
    /// Whether the last turn before the cycle keeps its reasoning too (manual-thinking models).
    fn keeps_last_turn(&self) -> bool {
        false
    }
    /// Whether the entry has reasoning that can be sent.
    fn reasons(&self, _entry: &Entry) -> bool {
        false
    }
    /// A decoder for one answer.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// Turns the events of one answer into pieces. Pure: the caller does the waiting.
pub trait Decoder: Send {
    /// Reads one event and appends its pieces to `out`. An error ends the answer.
    fn event(&mut self, event: &SseEvent, out: &mut Vec<Piece>) -> Result<(), ModelError>;
    /// Whether the stop reason has arrived: from now on the reply is complete, even if the stream is cut.
    fn finished(&self) -> bool;
    /// Whether the stream has ended properly.
    fn closed(&self) -> bool;
    /// The reply; [`ModelError::Cut`] if no stop reason arrived.
    fn reply(self: Box<Self>) -> Result<Reply, ModelError>;
}
